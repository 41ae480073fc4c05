//! What a MySQL store promises, which depends on the server's settings.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use crate::{
    settings::RECORD_VERSION,
    tunables::{
        CLAIM_WINDOW, ENTRY_LIFE, FAR_HEARTBEAT, LONGEST_POLL,
        mysql::{BELL_POLL, SHORTEST_LEASE},
    },
};

/// What decides on whether a crash may lose what was committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durability {
    /// Why locks may be lost, if so.
    pub doubt: Option<String>,
    /// Whether all clients hear a bell. In a group, each server has bells of its own.
    pub one_server: bool,
}

impl Durability {
    /// By the server's variables, of which some are not known to each version.
    pub fn read<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut doubt, mut log, mut sync_log, mut flush) = (None, false, false, false);
        let mut one_server = true;
        for (name, value) in variables {
            let value = value.to_ascii_lowercase();
            match (name.to_ascii_lowercase().as_str(), value.as_str()) {
                // 3 is MariaDB's: it flushes twice.
                ("innodb_flush_log_at_trx_commit", "1" | "3") => flush = true,
                ("innodb_flush_log_at_trx_commit", other) => {
                    flush = true;
                    let what = if other == "2" { "of the machine" } else { "of the server" };
                    doubt = Some(format!(
                        "innodb_flush_log_at_trx_commit is {other}: a crash {what} may lose locks that \
                         are still held; set it to 1"
                    ));
                }
                ("innodb_flush_method", "nosync" | "littlesync") => {
                    doubt = Some(format!(
                        "innodb_flush_method is {value}: a crash of the machine may lose locks that are \
                         still held; it must be one that flushes, such as O_DIRECT"
                    ));
                }
                ("log_bin", "on" | "1") => log = true,
                ("sync_binlog", "1") => sync_log = true,
                ("wsrep_on", "on" | "1") => {
                    one_server = false;
                    doubt = Some(
                        "the server is a node of a Galera cluster (wsrep_on), where this was not \
                         tried; use one server of its own"
                            .into(),
                    );
                }
                ("group_replication_group_name", name) if !name.is_empty() => {
                    one_server = false;
                    doubt = Some(
                        "the server is set up for Group Replication (group_replication_group_name), \
                         where this was not tried; use one server of its own"
                            .into(),
                    );
                }
                _ => {}
            }
        }
        if doubt.is_none() && !flush {
            doubt = Some(
                "the server, or a proxy before it, does not tell innodb_flush_log_at_trx_commit, so \
                 a crash may lose locks that are still held; let clients read it"
                    .into(),
            );
        }
        // Recovery rolls back what the binary log has lost.
        if doubt.is_none() && log && !sync_log {
            doubt = Some(
                "the binary log is on and sync_binlog is not 1: a crash of the machine may lose locks \
                 that are still held; set sync_binlog to 1"
                    .into(),
            );
        }
        Self { doubt, one_server }
    }
}

pub(super) fn guarantees(longest_lease: Duration, durability: &Durability) -> Guarantees {
    let mut promised = Guarantees::new(SHORTEST_LEASE, longest_lease);
    promised.record_version = Some(RECORD_VERSION.cast_unsigned());
    promised.exclusion = match &durability.doubt {
        Some(why) => Promise::Withheld { why: why.clone() },
        None => Promise::Holds {
            assuming: vec![
                Assumption::new(
                    "server-clock",
                    "the server's clock is not stepped forward while locks are held",
                ),
                Assumption::new(
                    "one-server",
                    "no replica is promoted, and no backup restored, while locks are held",
                ),
                Assumption::new(
                    "flushed",
                    "its settings of flushing stay as they were read, and its disk keeps what was \
                     flushed",
                ),
            ],
        },
    };
    promised.record = match &durability.doubt {
        Some(why) => Promise::Withheld { why: why.replace("locks that are still held", "records") },
        None => Promise::Holds {
            assuming: vec![
                Assumption::new("one-server", "no replica is promoted, and no backup restored"),
                Assumption::new(
                    "flushed",
                    "its settings of flushing stay as they were read, and its disk keeps what was \
                     flushed",
                ),
            ],
        },
    };
    promised.tokens = Promise::Holds {
        assuming: vec![Assumption::new(
            "clock-after-loss",
            "after a failover, a restore or another loss of data the server's clock is past the \
             tokens granted before",
        )],
    };
    promised.quarantine = QuarantineUse::Unavailable;
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.one_token_for_readers = true;
    promised.fair = true;
    promised.raise = true;
    promised.hand_over = true;
    promised.push = durability.one_server;
    promised.longest_poll = BELL_POLL;
    promised.expiry_slack = LONGEST_POLL;
    promised.dead_waiter_delay = ENTRY_LIFE + CLAIM_WINDOW + BELL_POLL;
    promised.longest_stall = ENTRY_LIFE.saturating_sub(FAR_HEARTBEAT);
    promised.token_lead = longest_lease;
    promised
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(variables: &[(&str, &str)]) -> Option<String> {
        Durability::read(variables.iter().copied()).doubt
    }

    #[test]
    fn what_a_crash_may_lose_is_stated() {
        let flush = "innodb_flush_log_at_trx_commit";
        for good in [
            &[(flush, "1"), ("log_bin", "OFF"), ("sync_binlog", "0"), ("wsrep_on", "OFF")][..],
            &[(flush, "1"), ("log_bin", "ON"), ("sync_binlog", "1")],
            &[(flush, "3"), ("innodb_flush_method", "fsync"), ("group_replication_group_name", "")],
        ] {
            assert_eq!(doubt(good), None, "{good:?}");
        }
        for (bad, word) in [
            (&[(flush, "2")][..], "of the machine"),
            (&[(flush, "0")], "of the server"),
            (&[(flush, "1"), ("log_bin", "ON"), ("sync_binlog", "0")], "sync_binlog"),
            (&[("innodb_flush_method", "nosync"), (flush, "1")], "innodb_flush_method"),
            (&[(flush, "1"), ("wsrep_on", "ON")], "Galera"),
            (&[(flush, "1"), ("group_replication_group_name", "aaaa-bb")], "Group Replication"),
            (&[(flush, "1"), ("log_bin", "ON")], "sync_binlog"),
            (&[], "does not tell"),
        ] {
            assert!(doubt(bad).unwrap().contains(word), "{bad:?}");
        }
        let withheld = guarantees(
            Duration::from_secs(1),
            &Durability { doubt: Some("x".into()), one_server: true },
        );
        assert!(!withheld.exclusion.holds() && withheld.tokens.holds());
        assert!(!withheld.record.holds());
    }
}
