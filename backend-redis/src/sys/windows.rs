//! A system without them.

use std::{io, path::Path};

use lock_core::{Error, ErrorKind};
use tokio::net::TcpStream;

/// Refuses every path.
pub(crate) fn check_socket(_: &Path) -> Result<(), Error> {
    let message = "this system has no Unix sockets; use a redis:// URL with 127.0.0.1";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Never connects: no settings with such an address pass the check.
pub(crate) async fn connect_socket(_: &Path) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}
