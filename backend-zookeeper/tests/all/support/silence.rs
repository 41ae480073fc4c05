//! A way to a server on which a client's requests wait, and the client does not notice.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
    sync::{mpsc, watch},
};

/// The number of a ping, and of its answer.
const PING: i32 = -2;

/// Such a way.
pub(crate) struct Silence {
    address: SocketAddr,
    is_held: watch::Sender<bool>,
}

impl Silence {
    /// A way to a server, on which nothing waits so far.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_held = watch::Sender::new(false);
        let held = is_held.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                tokio::spawn(pass(client, server, held.clone()));
            }
        });
        Self { address, is_held }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, requests wait, and pings are answered here.
    pub(crate) fn hold(&self) {
        self.is_held.send_replace(true);
    }

    /// What waits goes on.
    pub(crate) fn pass(&self) {
        self.is_held.send_replace(false);
    }
}

async fn pass(
    client: TcpStream,
    server: TcpStream,
    mut is_held: watch::Receiver<bool>,
) -> io::Result<()> {
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (read, mut requests) = mpsc::unbounded_channel();
    tokio::spawn(read_requests(from_client, read));
    let (mut waiting, mut answer) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(request) = request else { return Ok(()) };
                let is_held = *is_held.borrow();
                match is_held && request[4..].starts_with(&PING.to_be_bytes()) {
                    true => to_client.write_all(&answer_to_a_ping()).await?,
                    false => waiting.extend(request),
                }
            }
            read = from_server.read(&mut answer) => match read? {
                0 => return Ok(()),
                read => to_client.write_all(&answer[..read]).await?,
            },
            changed = is_held.changed() => changed.map_err(io::Error::other)?,
        }
        let is_held = *is_held.borrow();
        if !is_held {
            to_server.write_all(&std::mem::take(&mut waiting)).await?;
        }
    }
}

/// Each has its length first, and then its number.
async fn read_requests(
    mut from: tcp::OwnedReadHalf,
    requests: mpsc::UnboundedSender<Vec<u8>>,
) -> io::Result<()> {
    loop {
        let length = from.read_i32().await?;
        let mut request = length.to_be_bytes().to_vec();
        request.resize(4 + usize::try_from(length).unwrap_or(0), 0);
        from.read_exact(&mut request[4..]).await?;
        requests.send(request).map_err(io::Error::other)?;
    }
}

/// The length of the rest, the number, a transaction, and no error.
fn answer_to_a_ping() -> Vec<u8> {
    [&16_i32.to_be_bytes()[..], &PING.to_be_bytes(), &[0; 8], &[0; 4]].concat()
}
