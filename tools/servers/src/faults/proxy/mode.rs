//! The faults of a proxy.

use std::time::Duration;

/// How the proxy treats its connections, present and new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Lets everything through.
    #[default]
    Pass,
    /// Closes existing connections; new ones are refused, as by a machine with no server.
    Cut,
    /// Ends existing and new connections by RST.
    Reset,
    /// Accepts connections; all bytes of both sides are lost. A connection that lost something is
    /// reset when the mode changes back, since its stream has a hole.
    BlackHole,
    /// As [`Mode::BlackHole`], but connections that begin in this mode work: a firewall has dropped
    /// its table.
    Silent,
    /// The client's bytes arrive; the server's are lost, as in [`Mode::BlackHole`].
    HalfCut,
    /// The client's bytes are lost, as in [`Mode::BlackHole`]; the server's arrive.
    RequestsLost,
    /// Nothing arrives, but nothing is lost: it waits in the proxy and is delivered when the mode
    /// changes, also after its sender has gone. A partition that heals, and the source of late
    /// requests.
    Hold,
    /// Everything arrives later, in order.
    Delay {
        /// On the way to the server.
        to_server: Duration,
        /// On the way to the client.
        to_client: Duration,
    },
}
