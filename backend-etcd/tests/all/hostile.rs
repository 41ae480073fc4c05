//! A hostile server instead of etcd. How much of an answer the client reads is bounded by the
//! client library's limit of 4 MiB per message and by the client's time limit.

use std::{
    future::poll_fn,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use lock_core::{Error, ErrorKind};
use tokio::net::TcpListener;

const MIB: u64 = 1024 * 1024;

/// Answers every request with `head` and then endless zeros, and counts the bytes.
async fn start(head: [u8; 5]) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, sent) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
    let count = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((_request, mut respond))) = connection.accept().await {
                    let answer =
                        http::Response::builder().header("content-type", "application/grpc");
                    let Ok(answer) = respond.send_response(answer.body(()).unwrap(), false) else {
                        continue;
                    };
                    tokio::spawn(zeros(answer, head, Arc::clone(&count)));
                }
            });
        }
    });
    (address, sent)
}

async fn zeros(mut answer: h2::SendStream<bytes::Bytes>, head: [u8; 5], count: Arc<AtomicU64>) {
    let mut next = bytes::Bytes::copy_from_slice(&head);
    loop {
        answer.reserve_capacity(next.len());
        while answer.capacity() < next.len() {
            let Some(Ok(_)) = poll_fn(|cx| answer.poll_capacity(cx)).await else { return };
        }
        count.fetch_add(next.len() as u64, Ordering::Relaxed);
        if answer.send_data(next, false).is_err() {
            return;
        }
        next = bytes::Bytes::from_static(&[0; 10_000]);
    }
}

async fn refused(address: SocketAddr) -> Error {
    backend_etcd::connect(&format!("etcd://{address}?timeout=2s")).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_above_the_limit_is_refused_by_its_announced_length() {
    for length in [4 * MIB as u32 + 1, u32::MAX] {
        let [a, b, c, d] = length.to_be_bytes();
        let (address, sent) = start([0, a, b, c, d]).await;
        let error = refused(address).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        // No more than the window that HTTP/2 opens before anything is read.
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < 8 * MIB, "the client took {sent} bytes");
    }
}

/// Zeros are empty messages. The client reads and drops each of them until its time limit.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_is_given_up_in_time() {
    let (address, sent) = start([0; 5]).await;
    let error = refused(address).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(sent.load(Ordering::Relaxed) > MIB, "it had an end");
}
