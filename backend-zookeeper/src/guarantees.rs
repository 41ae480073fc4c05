//! What this backend guarantees.

use lock_core::{Assumption, ConnectionSecurity, Guarantees, Promise, QuarantineUse};

use crate::{
    keys::settings::{RECORD_VERSION, Settings},
    session::Sessions,
    tunables::{LONGEST_POLL, SESSION_PART, TOKEN_LAG, TOUCH_PART},
};

/// The guarantees that follow from the settings.
pub(crate) fn guarantees(
    settings: &Settings,
    sessions: &Sessions,
    connection: ConnectionSecurity,
) -> Guarantees {
    let (shortest, longest) = (sessions.shortest(), settings.longest_lease());
    let mut promised = Guarantees::new(shortest, longest);
    // A token that leads the clock counts as recent for a moment longer.
    let age = humantime::format_duration(settings.longest_held() + TOKEN_LAG);
    let restores = Assumption::new(
        "old-states",
        format!(
            "the servers keep what they have confirmed. If an older state is restored, it was saved at least {age} \
             before the servers start with it. An operator runs `leasehold init --restored` before clients go on, if \
             all data are lost, there is only one server, or the servers are not restarted (the admin server's \
             command `restore`)"
        ),
    );
    promised.exclusion = if settings.quarantine {
        let tick = humantime::format_duration(sessions.tick());
        Promise::Holds {
            assuming: vec![
                Assumption::new(
                    "ticks",
                    format!(
                        "tickTime of the servers is at most {tick}, and the leader pings each follower at most one \
                         tick late"
                    ),
                ),
                Assumption::new(
                    "session-timeouts",
                    "all servers have the same maxSessionTimeout: a session that moves to a server which allows less \
                     becomes shorter",
                ),
                Assumption::new(
                    "no-deletion-by-hand",
                    "no client deletes the entry of a lock or the node of a session, except its own or as \
                     `force-release` does",
                ),
                Assumption::new(
                    "waits-by-clock",
                    "while the store waits after an election or a restore, and while a lock is kept without its \
                     client, the clock of ZooKeeper's leader is not set forward, and that of a later leader is not \
                     ahead of that of a leader before, or of the server that a restored state was copied from",
                ),
                restores.clone(),
            ],
        }
    } else {
        Promise::Withheld {
            why: "the quarantine is off: after the restore of a snapshot a second holder may be admitted while the \
                  first still relies on its lock; turn it on with init"
                .into(),
        }
    };
    let clocks = Assumption::new(
        "leader-clocks",
        "after the restore of a snapshot, or when a lock's directory is made anew, the clock of ZooKeeper's leader \
         was not set back, and is not behind that of a leader before",
    );
    promised.tokens = Promise::Holds { assuming: vec![restores.clone(), clocks] };
    promised.record = Promise::Holds {
        assuming: vec![
            restores,
            Assumption::new(
                "flushed",
                "a majority of the servers keeps what it has flushed, and nobody deletes the nodes of names",
            ),
        ],
    };
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.most_readers = None;
    promised.quarantine = if settings.quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = true;
    promised.fair = true;
    promised.raise = true;
    promised.longest_poll = LONGEST_POLL;
    // The session is longer than the lease, and the leader rounds up to a tick. An election just
    // before the end gives the session its whole time again.
    let session = longest + longest / SESSION_PART;
    promised.expiry_slack = session * 2 - longest + sessions.tick() * 2;
    // The entry of a dead waiter ends with its session.
    promised.dead_waiter_delay = session + promised.expiry_slack;
    promised.longest_stall = shortest - shortest / TOUCH_PART;
    promised.token_lead = longest;
    promised.connection = connection;
    promised.record_version = Some(RECORD_VERSION);
    promised
}
