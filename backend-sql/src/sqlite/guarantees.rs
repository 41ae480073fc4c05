//! The guarantees of a SQLite store.

use std::{path::Path, time::Duration};

use lock_core::{Assumption, ConnectionSecurity, Guarantees, Promise};

use super::sys;
use crate::{
    settings::RECORD_VERSION,
    tunables::{
        CLAIM_WINDOW, ENTRY_LIFE, FAR_HEARTBEAT, FAR_POLL, LONGEST_POLL, sqlite::SHORTEST_LEASE,
    },
};

/// `push` says whether other clients can wake this one.
pub(super) fn guarantees(longest_lease: Duration, path: &Path, push: bool) -> Guarantees {
    let mut promised = Guarantees::new(SHORTEST_LEASE, longest_lease);
    promised.record_version = Some(RECORD_VERSION.cast_unsigned());
    let mut assuming = vec![
        Assumption::new("one-machine", "all clients run on one machine"),
        Assumption::new(
            "local-file",
            "the file is on a local file system, and neither it nor its -wal and -shm are deleted, moved, replaced or restored \
                 while locks are held",
        ),
    ];
    assuming.extend(sys::assumptions());
    promised.exclusion = Promise::Holds { assuming };
    if let Some(why) = sys::shared(path) {
        let why = format!("{why}; use a local disk, or a store with a server");
        promised.exclusion = Promise::Withheld { why };
    } else {
        promised.connection = ConnectionSecurity::Local;
    }
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "clock-after-loss",
            "if the file or its last writes are lost, the wall clock is not set back to before the last grant",
        )],
    };
    promised.record = match &promised.exclusion {
        Promise::Withheld { why } => Promise::Withheld { why: why.clone() },
        Promise::Holds { .. } => Promise::Holds {
            assuming: vec![Assumption::new(
                "file-is-kept",
                "neither the file nor its -wal is deleted or replaced by an older copy, and the disk keeps what was flushed",
            )],
        },
    };
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.one_token_for_readers = true;
    promised.push = push;
    promised.fair = true;
    promised.raise = true;
    promised.hand_over = true;
    promised.longest_poll = FAR_POLL;
    promised.expiry_slack = LONGEST_POLL;
    promised.dead_waiter_delay = ENTRY_LIFE + CLAIM_WINDOW + LONGEST_POLL;
    promised.longest_stall = ENTRY_LIFE.saturating_sub(FAR_HEARTBEAT);
    promised.token_lead = longest_lease;
    promised
}
