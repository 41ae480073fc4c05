//! What a store in SQL guarantees while clients of ShedLock use it too.

use std::time::Duration;

use lock_core::{Assumption, ConnectionSecurity, Guarantees, Promise, QuarantineUse};

use super::statements::RECORD_VERSION;
use crate::tunables::SQL_LONGEST_POLL;

pub(super) fn of(
    shortest: Duration,
    longest: Duration,
    doubt: Option<String>,
    connection: ConnectionSecurity,
) -> Guarantees {
    let mut promised = Guarantees::new(shortest, longest);
    let assume = Assumption::new;
    promised.exclusion = match doubt {
        Some(why) => Promise::Withheld { why },
        None => Promise::Holds {
            assuming: vec![
                assume(
                    "server-clock",
                    "the server's clock is not stepped forward while locks are held",
                ),
                assume(
                    "foreign-clients-use-the-servers-clock",
                    "clients of ShedLock have usingDbTime(), and a holder among them stops when its lockAtMostFor is over",
                ),
                assume(
                    "foreign-clients-keep-the-rows",
                    "nobody deletes rows of ShedLock's table, or changes one that is held by another",
                ),
                assume(
                    "one-server",
                    "no replica is promoted, and no backup restored, while locks are held",
                ),
                assume(
                    "flushed",
                    "its settings of flushing stay as they were read, and its disk keeps what was flushed",
                ),
            ],
        },
    };
    promised.tokens = Promise::Holds {
        assuming: vec![
            assume(
                "clock-after-loss",
                "after a failover, a restore or another loss of data the server's clock is past the tokens granted before",
            ),
            assume(
                "foreign-holders-are-not-fenced",
                "a holder by ShedLock has no token, so no fence refuses its late writes",
            ),
        ],
    };
    promised.quarantine = QuarantineUse::Unavailable;
    promised.raise = true;
    promised.longest_poll = SQL_LONGEST_POLL;
    promised.expiry_slack = SQL_LONGEST_POLL;
    promised.token_lead = longest;
    promised.connection = connection;
    promised.record_version = Some(RECORD_VERSION);
    promised
}
