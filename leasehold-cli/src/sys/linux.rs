//! Linux.

pub(crate) use super::unix::*;
use crate::store::Convention;

/// The default stores, for `--help`.
pub(crate) const DEFAULT_STORES: &str = "\
    root         /var/lib/leasehold/locks.db
    other users  $XDG_STATE_HOME/leasehold/locks.db,
                 else ~/.local/state/leasehold/locks.db
";
/// What is weaker here than on Linux, for `--help`.
pub(crate) const WEAKER: &str = "";
/// Where programs keep their data.
pub(crate) const CONVENTION: Convention = Convention::Xdg;
/// The device numbers of `/dev/null`.
pub(super) const NULL: (u32, u32) = (1, 3);
