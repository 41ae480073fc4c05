//! What this backend guarantees.

use std::{sync::Arc, time::Duration};

use lock_core::{Assumption, ConnectionSecurity, Guarantees, Promise, QuarantineUse, RwLock};

use crate::{
    keys::settings::{RECORD_VERSION, Record},
    tunables::{
        EXPIRIES_PER_SECOND, EXPIRY_DELAY, KEEPALIVES_PER_LEASE, LONGEST_POLL, TOKEN_MARGIN,
    },
};

/// The guarantees that follow from the settings as they were last read.
#[derive(Debug)]
pub(crate) struct GuaranteeTracker(RwLock<Arc<Guarantees>>);

impl GuaranteeTracker {
    /// For use before the first read of the store: its shortest lease is not known yet.
    pub(crate) fn new(record: &Record, connection: ConnectionSecurity) -> Self {
        Self(RwLock::new(Arc::new(guarantees(Duration::ZERO, record, connection))))
    }

    pub(crate) fn now(&self) -> Arc<Guarantees> {
        Arc::clone(&self.0.read())
    }

    /// Records the shortest lease that etcd grants.
    pub(crate) fn set_shortest_lease(&self, shortest: Duration, record: &Record) {
        let connection = self.now().connection;
        self.set(guarantees(shortest, record, connection));
    }

    /// Records settings that were read.
    pub(crate) fn update(&self, record: &Record) {
        let now = self.now();
        let is_same = now.longest_lease == record.longest_lease()
            && (now.quarantine == QuarantineUse::On) == record.quarantine;
        if !is_same {
            self.set(guarantees(now.shortest_lease, record, now.connection));
        }
    }

    fn set(&self, guarantees: Guarantees) {
        *self.0.write() = Arc::new(guarantees);
    }
}

/// For a cluster whose shortest lease is `shortest`.
fn guarantees(shortest: Duration, record: &Record, connection: ConnectionSecurity) -> Guarantees {
    let longest = record.longest_lease();
    let mut promised = Guarantees::new(shortest, longest);
    let restores = Assumption::new(
        "restores-are-reported",
        "after a snapshot was restored, data was lost, or one member was made a cluster of its own, an \
         operator runs `leasehold init --restored` before clients go on (with `--longest-lease`, if the store \
         no longer knows the longest); without it, clients notice a restored snapshot when they connect, \
         unless as many requests were sent to the new cluster as to the lost one, or a proxy hides the new one",
    );
    let restores_of_records = restores.clone();
    promised.exclusion = if record.quarantine {
        Promise::Holds {
            assuming: vec![
                Assumption::new(
                    "no-deletion-by-hand",
                    "no client deletes a lock's key except by its lease, as `force-release` does",
                ),
                restores.clone(),
                // etcd issue 15247. To a client it looks like a lease that expired or was revoked
                // by its holder.
                Assumption::new(
                    "no-leader-comes-back",
                    "no etcd leader that was paused, or waited for its disk, resumes after a new election: etcd lets \
                     it revoke leases that the new leader has renewed, before 3.4.31 and 3.5.13 most often",
                ),
            ],
        }
    } else {
        Promise::Withheld {
            why: "the quarantine is off: after the restore of a snapshot a second holder may be \
                  admitted while the first still relies on its lock; turn it on with init"
                .into(),
        }
    };
    promised.tokens = Promise::Holds {
        assuming: vec![
            restores,
            Assumption::new(
                "client-clocks",
                "after the restore of a snapshot the clients' clocks are not behind those before it",
            ),
            Assumption::new(
                "revisions-are-slow",
                "between the making of a queue entry and its grant, and the raise of its token, etcd writes \
                 fewer revisions than the longest lease has microseconds",
            ),
        ],
    };
    promised.record = Promise::Holds {
        assuming: vec![
            restores_of_records,
            Assumption::new(
                "client-clocks-agree",
                "the clocks of the clients differ by little, compared with the time for which a record counts: they \
                 stand in for the clock of etcd, which it does not show",
            ),
            Assumption::new(
                "flushed",
                "a majority of the members keeps what it has flushed (and has no `--unsafe-no-fsync`), and nobody \
                 deletes the keys or leases of records",
            ),
        ],
    };
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.most_readers = None;
    promised.lease_step = Duration::from_secs(1);
    promised.quarantine = if record.quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = true;
    promised.fair = true;
    promised.raise = true;
    promised.hand_over = true;
    promised.longest_poll = LONGEST_POLL;
    // A new leader restarts the time of all leases.
    promised.expiry_slack = longest + EXPIRY_DELAY;
    promised.expiries_per_second = Some(EXPIRIES_PER_SECOND);
    // The entry of a dead waiter disappears with its lease.
    promised.dead_waiter_delay = promised.expiry_slack + longest;
    promised.longest_stall = shortest - shortest / KEEPALIVES_PER_LEASE;
    promised.token_lead = longest + TOKEN_MARGIN;
    promised.connection = connection;
    promised.record_version = Some(RECORD_VERSION);
    promised
}
