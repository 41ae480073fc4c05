//! What etcd promises through this backend.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Link, Promise, QuarantineUse};

use crate::{backend::LONGEST_POLL, settings::Record};

/// For a cluster whose smallest lease is `shortest`.
pub(crate) fn promises(shortest: Duration, record: &Record, link: Link) -> Guarantees {
    let longest = record.longest_lease();
    let mut promised = Guarantees::new(shortest, longest);
    let restores = Assumption::new(
        "restores-are-told",
        "after a snapshot was restored, data was lost, or one member was made a cluster of its own, an \
         operator runs `leasehold init --restored` before clients go on (with `--longest-lease`, if the store \
         no longer knows the longest); without it, clients notice a restored snapshot when they connect, \
         unless as many requests were sent to the new cluster as to the lost one, or a proxy hides the new one",
    );
    promised.exclusion = if record.quarantine {
        Promise::Holds {
            assuming: vec![
                Assumption::new(
                    "no-deletion-by-hand",
                    "nobody deletes a lock's key but by its lease, as `force-release` does",
                ),
                restores.clone(),
                // etcd's issue 15247. What a client can see of it is no different from a lease that has
                // ended, or was revoked by its holder.
                Assumption::new(
                    "no-leader-comes-back",
                    "no leader that stood still (paused, or waiting for its disk) while another was elected \
                     goes on: etcd lets it revoke leases that were renewed without it, before 3.4.31 and \
                     3.5.13 most often",
                ),
            ],
        }
    } else {
        Promise::Withheld {
            why: "the quarantine is off: after the restore of a snapshot a second holder may be \
                  admitted while the first still believes; turn it on with init"
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
                "from when a place is made until it is granted, and its token raised, fewer revisions \
                 are written to etcd than the longest lease has microseconds",
            ),
        ],
    };
    promised.lease_step = Duration::from_secs(1);
    promised.quarantine = if record.quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = true;
    promised.fair = true;
    promised.raise = true;
    promised.longest_poll = LONGEST_POLL;
    // etcd looks for expired leases twice a second; a new leader starts all of them anew.
    promised.expiry_slack = longest + Duration::from_secs(2);
    // A dead place ends with its lease.
    promised.dead_place_delay = promised.expiry_slack + longest;
    promised.token_lead = longest + Duration::from_secs(1);
    promised.link = link;
    promised
}

/// Whether the settings are those that these promises were made of.
pub(crate) fn is_promised(promised: &Guarantees, record: &Record) -> bool {
    promised.longest_lease == record.longest_lease()
        && (promised.quarantine == QuarantineUse::On) == record.quarantine
}
