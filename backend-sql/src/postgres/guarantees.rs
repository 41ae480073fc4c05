//! The guarantees of a PostgreSQL store.

use std::time::Duration;

use lock_core::{Assumption, ConnectionSecurity, Guarantees, Promise, QuarantineUse};

use super::statements::RECORD_VERSION;
use crate::tunables::{
    LONGEST_POLL,
    postgres::{ENTRY_LIFE, FAR_POLL, SHORTEST_LEASE, TURN},
};

/// The store's own settings, and how its clients wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) longest_lease: Duration,
    /// The longest that it ever was, as far as this client knows.
    pub(super) longest_ever: Duration,
    pub(super) quarantined: bool,
    /// Whether the server waits for the disk.
    pub(super) flushes: bool,
    /// Whether messages arrive at this client.
    pub(super) push: bool,
    pub(super) connection: ConnectionSecurity,
}

pub(super) fn guarantees(terms: Terms) -> Guarantees {
    let Terms { longest_lease, longest_ever: _, quarantined, flushes, push, connection } = terms;
    let mut promised = Guarantees::new(SHORTEST_LEASE, longest_lease);
    promised.exclusion = exclusion(quarantined);
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "clock-after-loss",
            "after a crash, a promotion or a restore the server's clock is past the tokens granted \
             before; the quarantine leaves it the longest lease for that",
        )],
    };
    promised.record = record(flushes);
    promised.quarantine = if quarantined { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = push;
    promised.record_version = Some(RECORD_VERSION.cast_unsigned());
    promised.connection = connection;
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.one_token_for_readers = true;
    promised.fair = true;
    promised.raise = true;
    promised.hand_over = true;
    promised.longest_poll = FAR_POLL;
    promised.expiry_slack = LONGEST_POLL;
    promised.dead_waiter_delay = TURN + LONGEST_POLL;
    promised.longest_stall = ENTRY_LIFE;
    promised.token_lead = longest_lease;
    promised
}

fn record(flushes: bool) -> Promise {
    if !flushes {
        let why = "fsync is off: a crash of the machine may lose records; set it on";
        return Promise::Withheld { why: why.into() };
    }
    Promise::Holds {
        assuming: vec![
            Assumption::new(
                "flushed",
                "fsync stays on, and the disk keeps what was flushed; after a crash, a promotion or a restore \
                 reads say that earlier records may have been lost",
            ),
            Assumption::new(
                "no-cold-copy",
                "no copy of the data folder made while the server was stopped is put back, and no old rows into \
                 the tables",
            ),
        ],
    }
}

fn exclusion(quarantined: bool) -> Promise {
    if !quarantined {
        let why = "the quarantine is off: after a crash, a promotion or a restore of the server a \
                   lock may be granted while its former holder still believes in it, for up to its \
                   lease; `init` with the quarantine on ends that";
        return Promise::Withheld { why: why.into() };
    }
    Promise::Holds {
        assuming: vec![
            Assumption::new(
                "server-clock",
                "the server's clock is not stepped forward while locks are held",
            ),
            Assumption::new(
                "one-primary",
                "an old primary that is cut off takes no writes after another was promoted",
            ),
            Assumption::new(
                "raise-outlives-loss",
                "after a promotion or a restore the server has the last raise of the longest lease, or \
                 the first client that asks it had heard of that raise, and an operator repeats it",
            ),
            Assumption::new(
                "no-cold-copy",
                "no copy of the data folder made while the server was stopped is put back, and no old \
                 rows into the tables of locks",
            ),
        ],
    }
}
