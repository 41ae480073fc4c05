//! A connection that tells when it has ended, and sends a request in one piece.
//!
//! A request leaves HTTP/2 in pieces: its head at once, its body in the next turn of another task, and the end of a
//! longer body by itself. Each piece would be a system call and a packet that wakes the server. So a flush first lets
//! the other tasks run, and then sends everything.

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

use crate::tunables::GATHERED_BYTES;

/// What a connection and its member know of it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    stands: AtomicBool,
    ended: AtomicBool,
}

impl ConnectionState {
    /// HTTP/2 speaks over it. Before that nothing is gathered: TLS need not flush again during its handshake.
    pub(crate) fn stand(&self) {
        self.stands.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// A stream that sets a flag when its user drops it, which the user does as soon as it breaks.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    state: Arc<ConnectionState>,
    gathered: Vec<u8>,
    /// The other tasks have run since the first flush of the gathered bytes.
    waited: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, state: Arc<ConnectionState>) -> Self {
        Self { stream, state, gathered: Vec::new(), waited: false }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.gathered.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.gathered))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.gathered.drain(..sent);
        }
        self.waited = false;
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
        let gathers = self.state.stands.load(Ordering::Acquire);
        if gathers && self.gathered.len() + buf.len() <= GATHERED_BYTES {
            self.gathered.extend_from_slice(buf);
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.gathered.is_empty() && !self.waited {
            self.waited = true;
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

    // Not vectored: HTTP/2 would set longer bodies apart from their ends, and copies them otherwise.
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
    async fn what_is_written_in_one_turn_is_sent_at_once() {
        let (state, mut connection, mut far) = pair().await;
        state.stand();
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
    async fn whoever_flushes_is_told_to_go_on() {
        let (state, mut connection, mut far) = pair().await;
        state.stand();
        // In a task of its own, which nothing else wakes.
        let sends = tokio::spawn(async move {
            for _ in 0..2 {
                connection.write_all(b"more").await.unwrap();
                connection.flush().await.unwrap();
            }
        });
        timeout(Duration::from_secs(20), sends).await.expect("its turn comes").unwrap();
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"moremore");
    }

    #[tokio::test]
    async fn what_is_too_long_to_gather_stays_in_order_and_all_is_sent_at_the_end() {
        let (state, mut connection, mut far) = pair().await;
        state.stand();
        let all: Vec<u8> = (0..3 * GATHERED_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let (few, rest) = all.split_at(7);
        let (most, last) = rest.split_at(2 * GATHERED_BYTES);
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
    async fn nothing_is_held_back_while_hands_are_shaken() {
        let (_line, mut connection, mut far) = pair().await;
        connection.write_all(b"hello").await.unwrap();
        assert!(flush(&mut connection).is_ready());
        let mut read = [0; 64];
        assert_eq!(far.read(&mut read).await.unwrap(), 5);
    }
}
