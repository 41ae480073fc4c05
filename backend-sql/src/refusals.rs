//! Errors of a database that are not known here, such as those of a proxy or a trigger.
//!
//! Such an error may pass, or stay for ever. So the client tries again for one longest lease, and
//! then takes it for final.

use std::{collections::HashMap, error::Error as StdError, fmt, time::Duration};

use lock_core::{Error, ErrorKind, Instant, Mutex};

use crate::tunables::REFUSALS_APART;

/// An error of the database that no rule covers, as the source of one of ours.
#[derive(Debug)]
pub(crate) struct UnknownRefusal(pub(crate) sqlx::Error);

impl fmt::Display for UnknownRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for UnknownRefusal {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// Which operations the database refuses with unknown errors, and since when.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<&'static str, Refused>>);

#[derive(Clone, Copy, Debug)]
struct Refused {
    first: Instant,
    last: Instant,
}

impl Refusals {
    /// The error of an operation: final if the database has refused all such operations for
    /// `limit`.
    pub(crate) fn judge(
        &self,
        operation: &'static str,
        error: Error,
        now: Instant,
        limit: Duration,
    ) -> Error {
        // If an earlier try may have been carried out, the caller must go on to find that out.
        if error.is_ambiguous() {
            return error;
        }
        let Some(refusal) = refusal_in(&error) else { return error };
        let mut refused = self.0.lock();
        let known = refused.entry(operation).or_insert(Refused { first: now, last: now });
        if now.since(known.last) > limit.max(REFUSALS_APART) {
            known.first = now;
        }
        known.last = now;
        if now.since(known.first) < limit {
            return error;
        }
        let message = format!(
            "the database has refused this for {} with an error that is not known here: {refusal}",
            humantime::format_duration(limit)
        );
        Error::new(ErrorKind::Config, message).with_source(error)
    }

    /// The database has carried out such an operation.
    pub(crate) fn forget(&self, operation: &'static str) {
        self.0.lock().remove(operation);
    }
}

fn refusal_in(error: &Error) -> Option<&UnknownRefusal> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(refusal) = cause.downcast_ref() {
            return Some(refusal);
        }
        source = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn an_unknown_error_is_final_once_it_has_lasted_for_one_lease() {
        let refusals = Refusals::default();
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let refusal = || UnknownRefusal(sqlx::Error::Protocol("no upstream".into()));
        let unknown = || Error::new(ErrorKind::Unavailable, "refused").with_source(refusal());
        let judge = |operation, seconds| refusals.judge(operation, unknown(), at(seconds), LIMIT);
        assert!(judge("acquire", 0).is_retryable());
        assert!(judge("acquire", 29).is_retryable());
        assert!(judge("release", 30).is_retryable(), "another operation");
        let last = judge("acquire", 30);
        assert_eq!(last.kind(), ErrorKind::Config);
        assert!(last.to_string().contains("no upstream"), "{last}");
        let doubt = Error::new(ErrorKind::OutcomeUnknown, "in doubt").with_source(refusal());
        assert!(refusals.judge("acquire", doubt, at(31), LIMIT).is_ambiguous());
        refusals.forget("acquire");
        assert!(judge("acquire", 31).is_retryable(), "it has passed");
        assert!(judge("acquire", 90).is_retryable(), "nobody asked for a minute");
        let known = Error::new(ErrorKind::Unavailable, "full");
        assert!(refusals.judge("release", known, at(90), LIMIT).is_retryable());
    }
}
