//! A system with sockets that are files.

use std::{io, os::unix::net::SocketAddr, path::Path};

use lock_core::{Error, ErrorKind};
use tokio::net::UnixStream;

/// Refuses a path that cannot be one of a socket.
pub(crate) fn check_socket(path: &Path) -> Result<(), Error> {
    if SocketAddr::from_pathname(path).is_ok() && !path.as_os_str().is_empty() {
        return Ok(());
    }
    let message = "the path of the socket is empty or too long; must have 1 to about 100 bytes";
    Err(Error::new(ErrorKind::InvalidInput, message))
}

pub(crate) async fn connect_socket(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}
