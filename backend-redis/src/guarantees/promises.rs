//! The guarantees in each topology.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use crate::tunables::{
    DEAD_ENTRY_DELAY, ENTRY_LIFE, EXPIRY_SLACK, FAR_HEARTBEAT, LONGEST_POLL, SHORTEST_LEASE,
};
use crate::{
    connection::identity::Identity,
    guarantees::failover::Failover,
    settings::{AgreedSettings, RECORD_VERSION, Settings},
};

pub(crate) fn of(agreed: AgreedSettings, settings: &Settings, servers: &[&Identity]) -> Guarantees {
    let mut promised = Guarantees::new(SHORTEST_LEASE, agreed.longest_lease);
    promised.exclusion = exclusion(agreed, settings, servers);
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "clocks-differ-little",
            "after a loss of data or a failover the server's clock is past the last token: it differs \
             from the one before by less than the time between the last grant and the next",
        )],
    };
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.record = record(settings, servers);
    promised.one_token_for_readers = true;
    promised.quarantine = if agreed.quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = true;
    promised.fair = true;
    promised.raise = true;
    promised.hand_over = true;
    promised.expiry_slack = EXPIRY_SLACK;
    promised.longest_poll = LONGEST_POLL;
    promised.dead_waiter_delay = DEAD_ENTRY_DELAY;
    promised.longest_stall = ENTRY_LIFE.saturating_sub(FAR_HEARTBEAT);
    promised.token_lead = agreed.longest_lease;
    promised.connection = settings.topology.security();
    promised.record_version = Some(RECORD_VERSION);
    promised.first_use = first_use(agreed, settings, servers);
    if let (Promise::Holds { assuming }, Some(Promise::Holds { assuming: more })) =
        (&mut promised.exclusion, &promised.first_use)
    {
        assuming.extend(more.iter().cloned());
    }
    promised
}

/// Whether no record is lost that was written.
fn record(settings: &Settings, servers: &[&Identity]) -> Promise {
    let withheld = |why: String| Promise::Withheld { why };
    if let Some(why) = why_records_vanish(servers) {
        return withheld(why);
    }
    if settings.topology.fails_over() || servers.iter().any(|server| server.is_replicated()) {
        let why = "a replica that is promoted may lack the last records; reads then say that some may have been lost";
        return withheld(why.to_owned());
    }
    let flushes: Vec<_> = servers.iter().map(|server| server.limits.flushes).collect();
    match flushes[..] {
        [Some(true)] => {}
        [Some(false)] => {
            let why = "a crash may lose the records of the last seconds, and after each restart reads say so; set \
                       appendonly yes, appendfsync always and no-appendfsync-on-rewrite no";
            return withheld(why.to_owned());
        }
        _ => {
            let why = "whether the server flushes what it answers is not known; permit CONFIG GET";
            return withheld(why.to_owned());
        }
    }
    Promise::Holds {
        assuming: vec![
            Assumption::new(
                "flushed",
                "appendonly, appendfsync and no-appendfsync-on-rewrite stay as they were read, and the disk keeps \
                 what was flushed",
            ),
            Assumption::new(
                "one-server",
                "no replica of the server is promoted, the server does not start from an older copy of its files, \
                 and nobody removes its keys but all of them (FLUSHALL)",
            ),
        ],
    }
}

/// Why records may vanish without anybody noticing, if so.
pub(crate) fn why_records_vanish(servers: &[&Identity]) -> Option<String> {
    if let Some(policy) = servers.iter().find_map(|server| server.evicting.as_deref()) {
        return Some(format!(
            "the server's maxmemory-policy is {policy}, which may remove records; set noeviction"
        ));
    }
    servers.iter().find_map(|server| server.doubt.clone())
}

/// Whether a store that nobody has used since its server's start grants at once.
fn first_use(
    agreed: AgreedSettings,
    settings: &Settings,
    servers: &[&Identity],
) -> Option<Promise> {
    let server = servers.first().filter(|_| settings.witness && agreed.quarantine)?;
    if let Some(why) = wait_of_first_use(server, agreed) {
        let longest = humantime::format_duration(agreed.longest_lease);
        let why = format!(
            "the first client after the server's start waits for {longest}, since {why}; if nobody can hold a lock, \
             `leasehold init --first-use` ends the wait"
        );
        return Some(Promise::Withheld { why });
    }
    Some(Promise::Holds {
        assuming: vec![
            Assumption::new(
                "witness-is-kept",
                "nobody removes the script cache (SCRIPT FLUSH) and the data within one longest lease and 3 s, and the \
                 users of all clients may call SCRIPT EXISTS, SCRIPT LOAD and CONFIG GET",
            ),
            Assumption::new(
                "address-stays",
                "the address does not go over to another running server while a lock is held at the old one",
            ),
            Assumption::new(
                "clock-does-not-step-after-start",
                "the server's clock is not stepped forward in the first longest lease after the server's start",
            ),
        ],
    })
}

/// Why the first client after the server's start waits in any case; `None` if it may open the store
/// at once, which `first_use.lua` decides.
pub(crate) fn wait_of_first_use(server: &Identity, agreed: AgreedSettings) -> Option<String> {
    let show = humantime::format_duration;
    let limit = agreed.longest_lease;
    match (server.witness, server.limits.backlog_ttl) {
        (Some(true), Some(_)) if server.is_replicated() => {
            Some("the server has replicas, had one lately, or wants some".to_owned())
        }
        (Some(true), Some(ttl)) if !ttl.is_zero() && ttl <= limit => Some(format!(
            "the server's repl-backlog-ttl is {}; must be 0 or above {}",
            show(ttl),
            show(limit)
        )),
        (Some(true), Some(_)) => None,
        _ => Some(
            "the user may not call all of SCRIPT EXISTS, SCRIPT LOAD and CONFIG GET".to_owned(),
        ),
    }
}

fn exclusion(agreed: AgreedSettings, settings: &Settings, servers: &[&Identity]) -> Promise {
    let withheld = |why: &str| Promise::Withheld { why: why.into() };
    if !agreed.quarantine {
        return withheld(
            "the quarantine is off: after a restart or a loss of data a second holder may be admitted \
             while the first still relies on its lock; turn it on with init",
        );
    }
    if let Some(policy) = servers.iter().find_map(|server| server.evicting.as_deref()) {
        return withheld(&format!(
            "the server's maxmemory-policy is {policy}, which may remove held locks; set noeviction"
        ));
    }
    if let Some(why) = servers.iter().find_map(|server| server.doubt.as_deref()) {
        return withheld(why);
    }
    if let Some(why) =
        longest_lease_not_in_url(agreed.longest_lease, settings.first_agreed().longest_lease)
    {
        return Promise::Withheld { why };
    }
    let mut assuming = vec![
        Assumption::new(
            "clock-does-not-step",
            "the server's clock is not stepped by more than the drift margin while a lock is held",
        ),
        Assumption::new(
            "clients-agree-on-settings",
            "all clients have the store's longest lease and quarantine in their URLs, unless they are 30s and on, \
             and no data are lost while a changed one is waited out",
        ),
    ];
    let unknown = Identity::default();
    // The server with the greatest risk decides.
    let worst = servers.iter().copied().max_by_key(|server| Failover::of(settings, server));
    let worst = worst.unwrap_or(&unknown);
    match Failover::of(settings, worst) {
        Failover::None => return Promise::Holds { assuming },
        Failover::Acknowledged => assuming.push(Assumption::new(
            "old-master-is-not-acknowledged",
            format!(
                "a failover leaves the old master fewer than {} replicas, so that no grant or renewal \
                 there is acknowledged; all clients wait for as many",
                settings.wait_replicas
            ),
        )),
        Failover::Bounded(margin) => assuming.push(old_master_stops(settings, worst, margin)),
        Failover::Unbounded if settings.topology.is_cluster() => {
            return withheld(
                "how long an old master accepts writes after a failover cannot be read from the \
                 nodes; permit CONFIG GET for cluster-node-timeout, or set failover_margin or wait_replicas",
            );
        }
        Failover::Unbounded if worst.good_replicas.is_some() => {
            return withheld(
                "how long an old master accepts writes after a failover cannot be read from the \
                 server; permit CONFIG GET, or set failover_margin",
            );
        }
        Failover::Unbounded => {
            return withheld(
                "the server keeps accepting writes without its replicas, so that after a failover an old \
                 master may grant; set min-replicas-to-write and min-replicas-max-lag, or wait_replicas",
            );
        }
    }
    if settings.topology.is_cluster() {
        assuming.push(Assumption::new(
            "slots-move-whole",
            "no node that a slot leaves or reaches is replaced or loses data while it moves, or before \
             it comes back; otherwise HDEL of `run` in its epoch record begins a quarantine",
        ));
    }
    Promise::Holds { assuming }
}

/// Why nothing is promised: the store's longest lease is above the one that this client would give
/// to a store that has lost its settings. So `clients-agree-on-settings` is not met.
pub(crate) fn longest_lease_not_in_url(stored: Duration, configured: Duration) -> Option<String> {
    let show = humantime::format_duration;
    (stored > configured).then(|| {
        format!(
            "the store's longest lease is {}, but this client does not have that setting: after a loss of data \
             it would wait for only {}, while a lock may be held for longer (clients-agree-on-settings is not met); \
             set longest_lease={} in every client's URL",
            show(stored),
            show(configured),
            show(stored).to_string().replace(' ', "+"),
        )
    })
}

fn old_master_stops(settings: &Settings, server: &Identity, margin: Duration) -> Assumption {
    let margin = humantime::format_duration(margin);
    let waits = format!(
        "it has stopped writing {margin} after it, and the quarantine is longer by that; a master that \
         hung learns of its replacement before it grants anything"
    );
    let text = if settings.topology.is_cluster() {
        format!(
            "all nodes have one cluster-node-timeout; a master that is replaced in a failover is cut \
             off from the majority of masters or knows of it, and nobody uses CLUSTER FAILOVER \
             TAKEOVER: so {waits}"
        )
    } else {
        let fewer = match server.limits.to_write {
            Some(replicas) if replicas > 0 => {
                format!("fewer than {replicas} replicas (its min-replicas-to-write)")
            }
            _ => "fewer replicas than its min-replicas-to-write".to_owned(),
        };
        format!(
            "all servers have the same settings, and a failover leaves the old master {fewer}: so {waits}"
        )
    };
    Assumption::new("old-master-stops", text)
}
