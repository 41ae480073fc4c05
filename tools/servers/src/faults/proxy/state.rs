//! What a proxy is set to, and what it counts: shared by its connections.

use std::{net::SocketAddr, sync::RwLock};

use tokio::sync::watch;

use super::{alter::Alteration, mode::Mode};

/// Counts of the proxy's work since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections closed by [`Mode::Cut`].
    pub cut: u64,
    /// Connections ended by RST: by [`Mode::Reset`], or because they had lost something, or because
    /// the server was not there.
    pub reset: u64,
    /// Texts replaced by `Proxy::altering` and `Proxy::alter_answers`.
    pub altered: u64,
    /// The way from the client to the server.
    pub to_server: Bytes,
    /// The way from the server to the client.
    pub to_client: Bytes,
}

/// Bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bytes {
    /// Delivered.
    pub passed: u64,
    /// Lost.
    pub swallowed: u64,
    /// In the proxy now, to be delivered later.
    pub waiting: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Cut,
    Reset,
}

pub(super) struct State {
    /// Under this lock a chunk is handed to the kernel: once the mode is set, nothing more moves
    /// under the old one.
    pub(super) mode: RwLock<Mode>,
    pub(super) upstream: RwLock<SocketAddr>,
    /// For the clients' bytes.
    pub(super) alterations: Vec<Alteration>,
    /// For the server's answers, on connections that come from now on.
    pub(super) of_answers: RwLock<Vec<Alteration>>,
    pub(super) changed: watch::Sender<u64>,
    pub(super) counters: watch::Sender<Counters>,
}

impl State {
    pub(super) fn mode(&self) -> Mode {
        *self.mode.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn of_answers(&self) -> Vec<Alteration> {
        self.of_answers.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        *self.upstream.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn count_altered(&self, altered: u64) {
        if altered > 0 {
            self.counters.send_modify(|counters| counters.altered += altered);
        }
    }

    pub(super) fn count(&self, direction: Direction, change: impl FnOnce(&mut Bytes)) {
        self.counters.send_modify(|counters| {
            change(match direction {
                Direction::ToServer => &mut counters.to_server,
                Direction::ToClient => &mut counters.to_client,
            });
        });
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("mode", &self.mode).finish_non_exhaustive()
    }
}
