//! Ports on 127.0.0.1 that stay reserved for this process, also while their server is down.

use std::{
    fs::File,
    future::Future,
    hash::{BuildHasher as _, RandomState},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Doing as _, KitError, Result};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that
/// no connection of a test takes a port in the moment between our check and the server's bind.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// A port reserved for as long as this value lives.
///
/// Test processes run side by side, so each port has a file with an advisory lock (`flock`): the
/// kernel frees it when the process ends, however it ends. A program that knows nothing of these
/// files may still take the port; then the kit's servers are started again on another.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port without a listener.
    ///
    /// # Errors
    ///
    /// [`KitError::NoPort`] when all are taken.
    pub fn reserve() -> Result<Self> {
        Self::take().map(|(port, _)| port)
    }

    /// Reserves a port and listens on it.
    ///
    /// Reserving first and listening later could fail: a child that was forked meanwhile has the
    /// socket of our check until it runs its program.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve), and [`KitError::Io`].
    pub(crate) fn listen() -> Result<(Self, tokio::net::TcpListener)> {
        let (port, listener) = Self::take()?;
        let listen = || format!("listen on {}", port.address());
        listener.set_nonblocking(true).doing(listen)?;
        let listener = tokio::net::TcpListener::from_std(listener).doing(listen)?;
        Ok((port, listener))
    }

    fn take() -> Result<(Self, TcpListener)> {
        let uid = rustix::process::getuid().as_raw();
        // The same for all processes, whatever their TMPDIR is.
        let folder = PathBuf::from(format!("/tmp/leasehold-kit-ports-{uid}"));
        std::fs::create_dir_all(&folder).doing(|| format!("create {}", folder.display()))?;

        let span = u64::from(LAST - FIRST) + 1;
        let start = RandomState::new().hash_one(std::process::id()) % span;
        for step in 0..span {
            let number = FIRST + ((start + step) % span) as u16;
            let path = folder.join(number.to_string());
            let lock = File::options().create(true).truncate(false).write(true).open(&path);
            let lock = lock.doing(|| format!("open {}", path.display()))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, number)) {
                return Ok((Self { number, _lock: lock }, listener));
            }
        }
        Err(KitError::NoPort { first: FIRST, last: LAST })
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The port on 127.0.0.1.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Starts a server again, on other ports, if another process took one before it could bind.
pub(crate) async fn retry_taken<T, Fut>(mut start: impl FnMut() -> Fut) -> Result<T>
where
    Fut: Future<Output = Result<T>>,
{
    const TRIES: usize = 4;
    for _ in 1..TRIES {
        match start().await {
            Err(e) if e.is_port_taken() => {}
            done => return done,
        }
    }
    start().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_is_given_up_for_another() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = taken.local_addr().unwrap();
        let mut left = vec![(Ipv4Addr::LOCALHOST, 0).into(), address, address];
        let bind = || {
            let next: SocketAddr = left.pop().unwrap();
            async move { TcpListener::bind(next).doing(|| format!("listen on {next}")) }
        };
        let bound = retry_taken(bind).await.unwrap();
        assert_ne!(bound.local_addr().unwrap(), address);
        assert!(left.is_empty());
    }
}
