//! Each mode of the proxy, seen from both ends and in its counters.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use servers::{Mode, Proxy, ports::Port};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(30);
/// Long enough to see that nothing arrives; a slow machine makes such a test weaker, never red.
const A_WHILE: Duration = Duration::from_millis(50);

/// A client and the server's end of its connection, with the proxy between them.
struct Wire {
    proxy: Proxy,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

async fn wire() -> Wire {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let mut wire = Wire { proxy, listener, client, server };
    wire.round_trip().await;
    wire
}

impl Wire {
    async fn round_trip(&mut self) {
        self.client.write_all(b"ping").await.unwrap();
        expect(&mut self.server, b"ping").await;
        self.server.write_all(b"pong!").await.unwrap();
        expect(&mut self.client, b"pong!").await;
    }
}

async fn expect(stream: &mut TcpStream, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    timeout(SOON, stream.read_exact(&mut read)).await.expect("in time").unwrap();
    assert_eq!(read, bytes);
}

async fn expect_nothing(stream: &mut TcpStream) {
    let read = timeout(A_WHILE, stream.read_u8()).await;
    assert!(read.is_err(), "something arrived: {read:?}");
}

async fn expect_reset(stream: &mut TcpStream) {
    let error = timeout(SOON, stream.read_u8()).await.expect("in time").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn pass_and_end_of_stream() {
    let mut wire = wire().await;
    let counters = wire.proxy.counters();
    assert_eq!((counters.accepted, counters.open), (1, 1));
    // The client is done, the server still answers: a half-closed connection works.
    wire.client.shutdown().await.unwrap();
    assert_eq!(wire.server.read(&mut [0; 8]).await.unwrap(), 0);
    wire.server.write_all(b"last").await.unwrap();
    expect(&mut wire.client, b"last").await;
    drop(wire.server);
    assert_eq!(wire.client.read(&mut [0; 8]).await.unwrap(), 0);
    let counters = wire.proxy.until("the end", SOON, |now| now.open == 0).await.unwrap();
    assert_eq!((counters.to_server.passed, counters.to_client.passed), (4, 9));
    assert_eq!((counters.cut, counters.reset), (0, 0));
}

#[tokio::test]
async fn cut_closes_and_refuses() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::Cut).await.unwrap();
    assert_eq!(wire.proxy.counters().cut, 1);
    assert_eq!(wire.client.read(&mut [0; 8]).await.unwrap(), 0);
    assert_eq!(wire.server.read(&mut [0; 8]).await.unwrap(), 0);
    let error = TcpStream::connect(wire.proxy.address()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

    wire.proxy.set(Mode::Pass).await.unwrap();
    wire.client = TcpStream::connect(wire.proxy.address()).await.unwrap();
    wire.server = wire.listener.accept().await.unwrap().0;
    wire.round_trip().await;
    assert_eq!(wire.proxy.counters().accepted, 2);
}

#[tokio::test]
async fn its_port_is_waited_for_after_a_cut() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::Cut).await.unwrap();
    let other = TcpListener::bind(wire.proxy.address()).await.unwrap();
    let freed = async {
        tokio::time::sleep(A_WHILE).await;
        drop(other);
    };
    let (again, ()) = tokio::join!(wire.proxy.set(Mode::Pass), freed);
    again.unwrap();
    wire.client = TcpStream::connect(wire.proxy.address()).await.unwrap();
    wire.server = wire.listener.accept().await.unwrap().0;
    wire.round_trip().await;
}

#[tokio::test]
async fn reset_ends_old_and_new_connections() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::Reset).await.unwrap();
    expect_reset(&mut wire.client).await;
    expect_reset(&mut wire.server).await;
    let mut late = TcpStream::connect(wire.proxy.address()).await.unwrap();
    expect_reset(&mut late).await;
    let counters = wire.proxy.until("the end", SOON, |now| now.reset == 2).await.unwrap();
    assert_eq!((counters.open, counters.cut), (0, 0));
}

#[tokio::test]
async fn a_black_hole_accepts_and_swallows() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::BlackHole).await.unwrap();
    wire.client.write_all(b"request").await.unwrap();
    wire.server.write_all(b"push").await.unwrap();
    let lost =
        |now: &servers::Counters| now.to_server.swallowed == 7 && now.to_client.swallowed == 4;
    wire.proxy.until("the loss", SOON, lost).await.unwrap();
    expect_nothing(&mut wire.server).await;
    expect_nothing(&mut wire.client).await;
    let mut late = TcpStream::connect(wire.proxy.address()).await.unwrap();
    late.write_all(b"more").await.unwrap();
    wire.proxy.until("more loss", SOON, |now| now.to_server.swallowed == 11).await.unwrap();

    // Its stream has a hole: it may not go on.
    wire.proxy.set(Mode::Pass).await.unwrap();
    expect_reset(&mut wire.client).await;
    expect_reset(&mut late).await;
}

#[tokio::test]
async fn a_black_hole_in_which_nothing_was_said_heals() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::BlackHole).await.unwrap();
    wire.proxy.set(Mode::Pass).await.unwrap();
    wire.round_trip().await;
}

#[tokio::test]
async fn half_cut_loses_replies_only() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::HalfCut).await.unwrap();
    wire.client.write_all(b"request").await.unwrap();
    expect(&mut wire.server, b"request").await;
    wire.server.write_all(b"reply").await.unwrap();
    let counters =
        wire.proxy.until("the loss", SOON, |now| now.to_client.swallowed == 5).await.unwrap();
    assert_eq!((counters.to_server.passed, counters.to_server.swallowed), (11, 0));
    expect_nothing(&mut wire.client).await;
}

#[tokio::test]
async fn what_is_held_arrives_after_its_sender_has_gone() {
    let mut wire = wire().await;
    wire.proxy.set(Mode::Hold).await.unwrap();
    wire.client.write_all(b"later").await.unwrap();
    wire.proxy.until("the late request", SOON, |now| now.to_server.waiting == 5).await.unwrap();
    drop(wire.client);
    expect_nothing(&mut wire.server).await;
    wire.proxy.set(Mode::Pass).await.unwrap();
    expect(&mut wire.server, b"later").await;
    assert_eq!(wire.server.read(&mut [0; 8]).await.unwrap(), 0);
    assert_eq!(wire.proxy.counters().to_server.waiting, 0);
}

#[tokio::test]
async fn delay_each_way_keeps_order_and_ends_at_once() {
    let mut wire = wire().await;
    let (there, back) = (Duration::from_millis(60), Duration::from_millis(40));
    wire.proxy.set(Mode::Delay { to_server: there, to_client: back }).await.unwrap();
    let start = Instant::now();
    wire.client.write_all(b"a").await.unwrap();
    wire.client.write_all(b"b").await.unwrap();
    expect(&mut wire.server, b"ab").await;
    assert!(start.elapsed() >= there);
    wire.server.write_all(b"c").await.unwrap();
    expect(&mut wire.client, b"c").await;
    assert!(start.elapsed() >= there + back);

    // Bytes on their way are delivered when the delay ends, not when they were due.
    let hour = Duration::from_secs(3600);
    wire.proxy.set(Mode::Delay { to_server: hour, to_client: hour }).await.unwrap();
    wire.client.write_all(b"d").await.unwrap();
    wire.proxy.until("the byte", SOON, |now| now.to_server.waiting == 1).await.unwrap();
    wire.proxy.set(Mode::Pass).await.unwrap();
    expect(&mut wire.server, b"d").await;
}

#[tokio::test]
async fn much_data_passes_unchanged() {
    let Wire { proxy, client, server, .. } = wire().await;
    let sent: Vec<u8> =
        (0..8_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (_client_read, mut client_write) = client.into_split();
    let (mut server_read, _server_write) = server.into_split();
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        client_write.write_all(&copy).await.unwrap();
        client_write
    });
    let mut received = vec![0; sent.len()];
    timeout(SOON, server_read.read_exact(&mut received)).await.expect("in time").unwrap();
    assert!(received == sent);
    writer.await.unwrap();
    assert_eq!(proxy.counters().to_server.passed, 4 + sent.len() as u64);
}

#[tokio::test]
async fn a_server_that_is_not_there_resets() {
    let gone = Port::reserve().unwrap();
    let proxy = Proxy::start(gone.address()).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    expect_reset(&mut client).await;
    assert_eq!(proxy.until("the end", SOON, |now| now.open == 0).await.unwrap().reset, 1);
}

#[tokio::test]
async fn answers_are_altered_and_requests_are_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    proxy.alter_answers(&[("at 127.0.0.1:20000", "at 127.0.0.1:30000")]).unwrap();
    assert!(proxy.alter_answers(&[("short", "longer than that")]).is_err());
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"at 127.0.0.1:20000?").await.unwrap();
    expect(&mut server, b"at 127.0.0.1:20000?").await;
    server.write_all(b"is at 127.0.0.1:20000!").await.unwrap();
    expect(&mut client, b"is at 127.0.0.1:30000!").await;
    assert_eq!(proxy.counters().altered, 1);
}
