//! Windows.

use std::io;

/// Whether processes can be paused here.
pub const PAUSES: bool = false;

/// A signal of Unix. None can be sent here.
#[derive(Clone, Copy, Debug)]
pub struct Signal;

#[expect(missing_docs, reason = "the names say it")]
impl Signal {
    pub const CONT: Self = Self;
    pub const STOP: Self = Self;
}

/// Fails.
pub(crate) fn signal(_: u32, _: Signal) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
