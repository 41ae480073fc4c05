//! What a PostgreSQL store promises.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use super::config::PostgresBuilder;
use crate::backend::LONGEST_POLL;

pub(super) fn promises(longest_lease: Duration) -> Guarantees {
    let mut promised = Guarantees::new(PostgresBuilder::SHORTEST_LEASE, longest_lease);
    promised.exclusion = Promise::Holds {
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
                "no-cold-copy",
                "no copy of the data folder made while the server was stopped is put back",
            ),
        ],
    };
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "clock-after-loss",
            "after a crash, a promotion or a restore the server's clock is past the tokens granted \
             before; the quarantine leaves it the longest lease for that",
        )],
    };
    promised.quarantine = QuarantineUse::On;
    promised.raise = true;
    promised.longest_poll = LONGEST_POLL;
    promised.expiry_slack = LONGEST_POLL;
    promised.token_lead = longest_lease;
    promised
}
