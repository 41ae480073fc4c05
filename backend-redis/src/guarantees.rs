//! What one Redis promises.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use crate::{identity::Identity, store::Agreed};

/// The shortest lease.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);

pub(crate) fn of(agreed: Agreed, identity: Option<&Identity>) -> Guarantees {
    let mut promised = Guarantees::new(SHORTEST_LEASE, agreed.longest);
    let clock = Assumption::new(
        "clock-does-not-step",
        "the server's clock is not stepped by more than the drift margin while a lock is held",
    );
    let agree = Assumption::new(
        "clients-agree-on-settings",
        "all clients agree on longest lease and quarantine, and a changed longest lease waits out the \
         old one",
    );
    let replicated = identity.is_some_and(|identity| identity.replicas > 0);
    let fenced = identity.and_then(|identity| identity.good_replicas).is_some();
    promised.exclusion = if !agreed.quarantine {
        Promise::Withheld {
            why: "the quarantine is off: after a restart or a loss of data a second holder may be \
                  admitted while the first still believes; turn it on with init"
                .into(),
        }
    } else if replicated && !fenced {
        Promise::Withheld {
            why: "the server has replicas and goes on writing without them, so that after a failover \
                  an old master may grant; set min-replicas-to-write and min-replicas-max-lag below \
                  the longest lease"
                .into(),
        }
    } else {
        let mut assuming = vec![clock, agree];
        if fenced {
            assuming.push(Assumption::new(
                "old-master-stops",
                "min-replicas-max-lag is below the longest lease, so that an old master stops \
                 writing before the new one grants",
            ));
        }
        Promise::Holds { assuming }
    };
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "clocks-differ-little",
            "after a loss of data or a failover the server's clock is past the last token: it differs \
             from the one before by less than the time between the last grant and the next",
        )],
    };
    promised.quarantine = if agreed.quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = true;
    promised.fair = true;
    promised.raise = true;
    // A lock that was handed over and not claimed lives for its claim window, whatever its lease.
    promised.expiry_slack = Duration::from_millis(2_100);
    promised.longest_poll = Duration::from_secs(1);
    // A place lives for 3 s after it was last heard of, and a claim window takes 2 s.
    promised.dead_place_delay = Duration::from_secs(5);
    promised.token_lead = agreed.longest;
    promised
}
