//! What etcd promises through this backend.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use crate::{backend::LONGEST_POLL, settings::LAG};

/// For a cluster whose smallest lease is `shortest`.
pub(crate) fn promises(shortest: Duration, longest: Duration) -> Guarantees {
    let mut promised = Guarantees::new(shortest, longest);
    promised.exclusion = Promise::Holds {
        assuming: vec![
            Assumption::new(
                "no-restore",
                "no snapshot of etcd is restored while a lock that it lacks is held",
            ),
            Assumption::new(
                "no-deletion-by-hand",
                "nobody deletes a lock's key but by its lease, as `force-release` does",
            ),
        ],
    };
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "client-clocks",
            "after the restore of a snapshot the clients' clocks are past the tokens granted before",
        )],
    };
    promised.lease_step = Duration::from_secs(1);
    promised.quarantine = QuarantineUse::Unavailable;
    promised.push = true;
    promised.fair = true;
    promised.raise = true;
    promised.longest_poll = LONGEST_POLL;
    // etcd looks for expired leases twice a second; a new leader starts all of them anew.
    promised.expiry_slack = longest + Duration::from_secs(2);
    // A dead place ends with its lease.
    promised.dead_place_delay = promised.expiry_slack + longest;
    promised.token_lead = longest + LAG;
    promised
}
