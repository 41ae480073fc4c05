//! A hostile server announces the longest message, or sends without end. The drivers do not limit
//! what they read, but the time limit of the call ends it.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use lock_core::{Backend, Error};
use tokio::time::timeout;

use crate::support::WAIT;

const LIMIT: Duration = Duration::from_millis(500);
/// The most memory that this process may use. The longest message of PostgreSQL would be 4 GiB.
const MOST: u64 = 1 << 30;

/// What follows the announcement.
#[derive(Clone, Copy, Debug)]
enum Then {
    Silence,
    /// One byte at a time.
    Trickle,
    /// More and more data, slowly enough for the machine's memory until the time limit.
    Stream,
}

/// Answers each client with `claim`, and then with `part` again and again. The receiver learns when
/// a client closes its connection.
fn serve(
    claim: Vec<u8>,
    part: Vec<u8>,
    speaks_first: bool,
    then: Then,
) -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, closed) = channel();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (claim, part, tell) = (claim.clone(), part.clone(), tell.clone());
            thread::spawn(move || {
                let _ = answer(client.unwrap(), &claim, &part, speaks_first, then);
                let _ = tell.send(());
            });
        }
    });
    (address, closed)
}

/// Fails when the client has closed the connection.
fn answer(
    mut client: TcpStream,
    claim: &[u8],
    part: &[u8],
    speaks_first: bool,
    then: Then,
) -> std::io::Result<()> {
    let mut asked = [0; 1024];
    if !speaks_first {
        let _ = client.read(&mut asked)?;
    }
    client.write_all(claim)?;
    match then {
        Then::Silence => while client.read(&mut asked)? > 0 {},
        Then::Trickle => loop {
            thread::sleep(Duration::from_millis(5));
            client.write_all(&[0])?;
        },
        Then::Stream => loop {
            thread::sleep(Duration::from_secs(1));
            client.write_all(part)?;
        },
    }
    Ok(())
}

/// The most memory that this process has had.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn ends_in_time(
    (claim, part, speaks_first): (Vec<u8>, Vec<u8>, bool),
    connect: impl AsyncFn(SocketAddr) -> Result<std::sync::Arc<dyn Backend>, Error>,
) {
    for then in [Then::Silence, Then::Trickle, Then::Stream] {
        let (address, closed) = serve(claim.clone(), part.clone(), speaks_first, then);
        let began = Instant::now();
        let error = timeout(WAIT, connect(address)).await.unwrap().unwrap_err();
        assert!(began.elapsed() >= LIMIT, "{then:?}: no limit was met: {error}");
        // The client has closed the connection, and with it freed what it read.
        tokio::task::spawn_blocking(move || closed.recv_timeout(WAIT)).await.unwrap().unwrap();
        assert!(peak() < MOST, "{then:?}: {} bytes", peak());
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_ends_in_time() {
    // An answer to the login. (Endless small notices are not tested: the driver never yields while
    // the server is faster.)
    let claim = [b"R".as_slice(), &[0xff; 4]].concat();
    ends_in_time((claim, vec![0; 1 << 20], false), async |address| {
        let url = format!("postgres://app@{address}/a?sslmode=disable&timeout=500ms");
        backend_sql::postgres::connect(&url).await
    })
    .await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn mysql_ends_in_time() {
    // A greeting of the longest packets. Each says that another one follows.
    let header = [0xff, 0xff, 0xff, 0];
    let part = [vec![0; 0xff_ff_ff], header.to_vec()].concat();
    ends_in_time((header.to_vec(), part, true), async |address| {
        let url = format!("mysql://app@{address}/a?ssl-mode=disabled&timeout=500ms");
        backend_sql::mysql::connect(&url).await
    })
    .await;
}
