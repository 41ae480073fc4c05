//! What a store in Redis guarantees while foreign clients use it too.

use backend_redis::node::{Node, NodeSettings, RECORD_VERSION};
use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use super::layout::{Layout, TokenKey};
use crate::tunables::{BACKING_POLL, EXPIRY_SLACK, POLL, SHORTEST_LEASE};

pub(super) fn of(node: &Node, layout: &Layout) -> Guarantees {
    let NodeSettings { longest_lease, quarantine } = node.agreed_settings();
    let mut promised = Guarantees::new(SHORTEST_LEASE, longest_lease);
    promised.exclusion = exclusion(node, quarantine);
    promised.tokens = Promise::Holds { assuming: tokens(layout) };
    promised.quarantine = if quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = layout.pushes();
    promised.raise = true;
    promised.expiry_slack = EXPIRY_SLACK;
    promised.longest_poll = layout.rest + if layout.pushes() { BACKING_POLL } else { POLL };
    promised.token_lead = longest_lease;
    promised.connection = node.connection_security();
    promised.record_version = Some(RECORD_VERSION);
    promised
}

fn exclusion(node: &Node, quarantine: bool) -> Promise {
    let withheld = |why: String| Promise::Withheld { why };
    if !quarantine {
        return withheld(
            "the quarantine is off: after a restart or a loss of data a second holder may be admitted while the first \
             still relies on its lock; turn it on with init"
                .into(),
        );
    }
    if let Some(policy) = node.evicting() {
        return withheld(format!(
            "the server's maxmemory-policy is {policy}, which may remove held locks; set noeviction"
        ));
    }
    if let Some(why) = node.doubt().or_else(|| node.longest_lease_not_in_url()) {
        return withheld(why);
    }
    let assume = |id, text: &str| Assumption::new(id, text);
    Promise::Holds {
        assuming: vec![
            assume(
                "clock-does-not-step",
                "the server's clock is not stepped by more than the drift margin while a lock is held",
            ),
            assume(
                "clients-agree-on-settings",
                "all clients of this library have the store's longest lease and quarantine in their URLs, unless they \
                 are 30s and on, and no data are lost while a changed one is waited out",
            ),
            assume(
                "foreign-clients-compare",
                "clients of the other library compare the holder before they delete or extend a lock, and a holder \
                 among them stops when its own lease has ended",
            ),
            assume(
                "foreign-clients-wait-after-a-loss",
                "after a restart or a loss of data no client of the other library takes a lock until the leases given \
                 before are over: the quarantine holds back clients of this library only",
            ),
            assume("one-server", "the server is no master that a replica may replace"),
        ],
    }
}

fn tokens(layout: &Layout) -> Vec<Assumption> {
    let fenced = match layout.token {
        TokenKey::Redisson => {
            "a holder by Redisson has a token only if it uses its fenced lock, which continues our count; after a loss \
             of data its tokens begin at 1 until a client of this library has held the lock"
        }
        TokenKey::Ours => {
            "a holder by the other library has no token, so no fence refuses its late writes, unless it counts on from \
             the last token as the docs of the layout say"
        }
    };
    vec![
        Assumption::new(
            "clocks-differ-little",
            "after a loss of data the server's clock is past the last token: it differs from the one before by less \
             than the time between the last grant and the next",
        ),
        Assumption::new("foreign-holders-are-not-fenced", fenced),
    ]
}
