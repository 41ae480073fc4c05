//! Errors of a server that are not known here, such as those of a proxy.
//!
//! Such an error may pass, or stay for ever. So the client tries again for one longest lease, and
//! then takes it for final.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lock_core::{Error, ErrorKind, Instant, Mutex};

use crate::{
    connection::error::{is_unknown_refusal, refusal_in},
    tunables::REFUSALS_APART,
};

/// What the server refuses with unknown errors: scripts by their hash, and other requests by a
/// word.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    any: AtomicBool,
    refused: Mutex<HashMap<String, RefusalTimes>>,
}

#[derive(Clone, Copy, Debug)]
struct RefusalTimes {
    first: Instant,
    last: Instant,
}

impl Refusals {
    /// The error of a request of this kind: final if the server has refused all such requests for
    /// `limit`.
    pub(crate) fn judge(&self, what: &str, error: Error, now: Instant, limit: Duration) -> Error {
        let Some(refusal) = refusal_in(&error).filter(|refusal| is_unknown_refusal(refusal)) else {
            return error;
        };
        self.any.store(true, Ordering::SeqCst);
        let mut refused = self.refused.lock();
        let known =
            refused.entry(what.to_owned()).or_insert(RefusalTimes { first: now, last: now });
        if now.since(known.last) > limit.max(REFUSALS_APART) {
            known.first = now;
        }
        known.last = now;
        if now.since(known.first) < limit {
            return error;
        }
        let message = format!(
            "the server has refused this for {} with an error that is not known here: {refusal}",
            humantime::format_duration(limit)
        );
        Error::new(ErrorKind::Config, message).with_source(refusal.clone())
    }

    /// The server has carried out a request of this kind.
    pub(crate) fn forget(&self, what: &str) {
        if self.any.load(Ordering::Relaxed) {
            let mut refused = self.refused.lock();
            refused.remove(what);
            self.any.store(!refused.is_empty(), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::{RedisError, Value};

    use super::*;
    use crate::connection::error::of_command;

    const LIMIT: Duration = Duration::from_secs(30);

    fn of(text: &str) -> Error {
        let answer = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
        let refusal: RedisError = answer.and_then(Value::extract_error).unwrap_err();
        of_command(&refusal)
    }

    #[test]
    fn an_unknown_error_is_final_once_it_has_lasted_for_one_lease() {
        let refusals = Refusals::default();
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let kind =
            |what, seconds| refusals.judge(what, of("ERR no upstream"), at(seconds), LIMIT).kind();
        for text in ["ERR no upstream", "upstream failure"] {
            assert!(refusals.judge("a", of(text), at(0), LIMIT).is_retryable(), "{text}");
        }
        assert_eq!(kind("a", 29), ErrorKind::OutcomeUnknown);
        assert_eq!(kind("b", 30), ErrorKind::OutcomeUnknown, "another kind of request");
        let last = refusals.judge("a", of("ERR no upstream"), at(30), LIMIT);
        assert_eq!(last.kind(), ErrorKind::Config);
        assert!(last.to_string().contains("no upstream"), "{last}");
        refusals.forget("a");
        assert_eq!(kind("a", 31), ErrorKind::OutcomeUnknown, "it has passed");
        assert_eq!(kind("a", 90), ErrorKind::OutcomeUnknown, "nobody asked for a minute");
        assert_eq!(kind("b", 59), ErrorKind::OutcomeUnknown);
        assert_eq!(kind("b", 60), ErrorKind::Config, "only `a` has passed");
    }

    #[test]
    fn what_passes_is_retried_and_what_stays_is_not() {
        let refusals = Refusals::default();
        for (text, passes) in [
            ("ERR max number of clients reached", true),
            ("ERR max number of clients + cluster connections reached", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("BUSY Redis is busy running a script.", true),
            ("MASTERDOWN Link with MASTER is down", true),
            ("TRYAGAIN Multiple keys request during rehashing of slot", true),
            ("CLUSTERDOWN The cluster is down", true),
            ("READONLY You can't write against a read only replica.", true),
            ("OOM command not allowed when used memory > 'maxmemory'.", true),
            ("MISCONF Redis is configured to save RDB snapshots", true),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("UNBLOCKED force unblock from blocking operation", true),
            ("ERR Script killed by user with SCRIPT KILL.", true),
            ("NOAUTH Authentication required.", false),
            ("WRONGPASS invalid username-password pair", false),
            ("ERR AUTH <password> called without any password configured", false),
            ("NOPERM this user has no permissions", false),
            ("DENIED Redis is running in protected mode", false),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", false),
            ("ERR unknown command 'EVALSHA'", false),
            ("ERR This Redis command is not allowed from script", false),
            ("NOPROTO unsupported protocol version", false),
        ] {
            let error = refusals.judge("a", of(text), Instant::default(), Duration::ZERO);
            assert_eq!(error.is_retryable(), passes, "{text}: {error}");
            let gives_none = error.to_string().contains("demands a password");
            assert_eq!(gives_none, text.starts_with("NOAUTH"), "{text}: {error}");
        }
    }
}
