//! A connection that reports when it has ended, and sends a request in one piece.
//!
//! HTTP/2 writes a request in pieces: its head at once, its body when another task runs, and the
//! end of a longer body separately. Each piece would be a system call and a packet that wakes the
//! server. So a flush first lets the other tasks run, and then sends everything together.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::tunables::BUFFERED_BYTES;

/// The state that a connection and its member share.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    established: AtomicBool,
    ended: AtomicBool,
}

impl ConnectionState {
    /// Call this when HTTP/2 is established. Before that, writes are not buffered: during its
    /// handshake, TLS might not flush again.
    pub(crate) fn set_established(&self) {
        self.established.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// A TCP stream that sets a flag when its user drops it. The user drops it as soon as it breaks.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    state: Arc<ConnectionState>,
    buffered: Vec<u8>,
    /// Whether other tasks have run since the first flush of the buffered bytes.
    yielded: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, state: Arc<ConnectionState>) -> Self {
        Self { stream, state, buffered: Vec::new(), yielded: false }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffered.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.buffered))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.buffered.drain(..sent);
        }
        self.yielded = false;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Release);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let buffers = self.state.established.load(Ordering::Acquire);
        if buffers && self.buffered.len() + buf.len() <= BUFFERED_BYTES {
            self.buffered.extend_from_slice(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.buffered.is_empty() && !self.yielded {
            self.yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    // No vectored writes: with them, HTTP/2 would write a longer body and its end separately.
    // Without them it copies both into one buffer.
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::{io::ErrorKind, task::Waker, time::Duration};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };

    use super::*;

    async fn pair() -> (Arc<ConnectionState>, Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let state = Arc::<ConnectionState>::default();
        (Arc::clone(&state), Connection::new(near, state), far)
    }

    fn flush(connection: &mut Connection) -> Poll<io::Result<()>> {
        Pin::new(connection).poll_flush(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn consecutive_writes_are_sent_together() {
        let (state, mut connection, mut far) = pair().await;
        state.set_established();
        connection.write_all(b"head").await.unwrap();
        assert!(flush(&mut connection).is_pending());
        let mut read = [0; 64];
        let nothing = far.try_read(&mut read).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        connection.write_all(b" and body").await.unwrap();
        assert!(flush(&mut connection).is_ready());
        assert_eq!(far.read(&mut read).await.unwrap(), 13);
        assert_eq!(&read[..13], b"head and body");
    }

    #[tokio::test]
    async fn a_delayed_flush_wakes_its_task() {
        let (state, mut connection, mut far) = pair().await;
        state.set_established();
        // In its own task, which nothing else wakes.
        let sends = tokio::spawn(async move {
            for _ in 0..2 {
                connection.write_all(b"more").await.unwrap();
                connection.flush().await.unwrap();
            }
        });
        timeout(Duration::from_secs(20), sends).await.expect("it is woken").unwrap();
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"moremore");
    }

    #[tokio::test]
    async fn writes_that_are_too_long_to_buffer_stay_in_order_and_a_shutdown_sends_all() {
        let (state, mut connection, mut far) = pair().await;
        state.set_established();
        let all: Vec<u8> = (0..3 * BUFFERED_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let (few, rest) = all.split_at(7);
        let (most, last) = rest.split_at(2 * BUFFERED_BYTES);
        let send = async {
            connection.write_all(few).await.unwrap();
            connection.write_all(most).await.unwrap();
            connection.write_all(last).await.unwrap();
            connection.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        let (sent, all_read) = tokio::join!(send, far.read_to_end(&mut read));
        let ((), _) = (sent, all_read.unwrap());
        assert_eq!(read, all);
    }

    #[tokio::test]
    async fn nothing_is_buffered_during_the_handshake() {
        let (_state, mut connection, mut far) = pair().await;
        connection.write_all(b"hello").await.unwrap();
        assert!(flush(&mut connection).is_ready());
        let mut read = [0; 64];
        assert_eq!(far.read(&mut read).await.unwrap(), 5);
    }
}
