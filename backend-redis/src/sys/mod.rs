//! What this backend asks of the operating system: sockets that are files.
//!
//! | | Unix | Windows |
//! |---|---|---|
//! | `unix:PATH`, `RedisBuilder::unix` | a connection that does not leave the machine | refused, as `Unsupported`; use `redis://127.0.0.1` |

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

pub(crate) use system::{check_socket, connect_socket};
