//! What tests that use the proxy would not notice: its port, and what is on its way meanwhile.

use std::{io::ErrorKind, time::Duration};

use servers::{Mode, Proxy};
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
