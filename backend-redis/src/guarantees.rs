//! What one Redis promises.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use crate::{config::Settings, failover::Failover, identity::Identity, store::Agreed};

/// The shortest lease.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);

pub(crate) fn of(agreed: Agreed, settings: &Settings, identity: Option<&Identity>) -> Guarantees {
    let mut promised = Guarantees::new(SHORTEST_LEASE, agreed.longest);
    promised.exclusion = exclusion(agreed, settings, identity);
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

fn exclusion(agreed: Agreed, settings: &Settings, identity: Option<&Identity>) -> Promise {
    let withheld = |why: &str| Promise::Withheld { why: why.into() };
    if !agreed.quarantine {
        return withheld(
            "the quarantine is off: after a restart or a loss of data a second holder may be admitted \
             while the first still believes; turn it on with init",
        );
    }
    let mut assuming = vec![
        Assumption::new(
            "clock-does-not-step",
            "the server's clock is not stepped by more than the drift margin while a lock is held",
        ),
        Assumption::new(
            "clients-agree-on-settings",
            "all clients agree on longest lease and quarantine, and a changed longest lease waits out \
             the old one",
        ),
    ];
    let identity = identity.cloned().unwrap_or_default();
    let failover = Failover::of(settings, &identity);
    let margin = match failover {
        Failover::None => return Promise::Holds { assuming },
        Failover::Bounded(margin) => humantime::format_duration(margin),
        Failover::Unbounded if identity.good_replicas.is_some() => {
            return withheld(
                "how long an old master goes on writing after a failover cannot be read from the \
                 server; permit CONFIG GET, or set failover_margin",
            );
        }
        Failover::Unbounded => {
            return withheld(
                "the server goes on writing without its replicas, so that after a failover an old \
                 master may grant; set min-replicas-to-write and min-replicas-max-lag",
            );
        }
    };
    let fewer = match identity.limits.to_write {
        Some(replicas) if replicas > 0 => {
            format!("fewer than {replicas} replicas (its min-replicas-to-write)")
        }
        _ => "fewer replicas than its min-replicas-to-write".to_owned(),
    };
    assuming.push(Assumption::new(
        "old-master-stops",
        format!(
            "a failover leaves the old master {fewer}, so that it has stopped writing {margin} after \
             it; the quarantine of the new one is longer by that"
        ),
    ));
    Promise::Holds { assuming }
}
