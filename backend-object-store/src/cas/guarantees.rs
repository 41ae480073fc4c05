//! What a store that compares and swaps promises.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise};

use super::{backend::CasOptions, settings::RECORD_VERSION};
use crate::tunables::{CLOCK_BOUND, LONGEST_POLL};

pub(super) fn of(options: &CasOptions, longest: Duration) -> Guarantees {
    let mut promised = Guarantees::new(options.shortest_lease, longest);
    let assume = |id, text: &str| Assumption::new(id, text);
    let kept = vec![
        assume(
            "conditional-writes",
            "the store writes an object only if its version is the expected one, and reads what \
             was last written",
        ),
        assume(
            "objects-stay",
            "nobody deletes an object of a lock, or brings an earlier version back: no lifecycle \
             rule, no restore, no other program",
        ),
    ];
    promised.exclusion = Promise::Holds { assuming: kept.clone() };
    promised.tokens = Promise::Holds { assuming: kept.clone() };
    let bound = humantime::format_duration(CLOCK_BOUND);
    let clocks = format!(
        "the clocks of clients are right: they give the times of records, and are compared with \
         the store's, to {bound}, at connect only"
    );
    let assuming = [kept, vec![assume("clients-clocks", &clocks)]].concat();
    promised.record = Promise::Holds { assuming };
    promised.most_readers = None;
    promised.raise = true;
    promised.hand_over = true;
    promised.longest_poll = LONGEST_POLL;
    promised.expiry_is_observed = true;
    // A client counts the lease of a dead holder from when it first looked, and adds a margin.
    promised.expiry_slack = longest + longest / 50 + LONGEST_POLL;
    promised.token_lead = longest + CLOCK_BOUND;
    promised.connection = options.connection;
    promised.record_version = Some(RECORD_VERSION);
    promised
}
