//! Errors of a store that are not known here, such as those of a proxy.
//!
//! Such an error may pass, or stay for ever. So the client tries again for one longest lease, and
//! then takes it for final.

use std::{
    collections::HashMap,
    error::Error as StdError,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{Error, ErrorKind, Instant, sync::Mutex, tunables::UNKNOWN_ERRORS_APART};

/// Which requests a store refuses with unknown errors, and since when: each kind of request by a
/// word.
#[derive(Debug, Default)]
pub struct UnknownErrors {
    any: AtomicBool,
    refused: Mutex<HashMap<String, Refused>>,
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    first: Instant,
    last: Instant,
}

impl UnknownErrors {
    /// The error of a request of this kind: final if the store has refused all such requests for
    /// `limit`, the longest lease, with an error for which `is_unknown` is true.
    pub fn judge<R: StdError + 'static>(
        &self,
        what: &str,
        error: Error,
        is_unknown: impl Fn(&R) -> bool,
        now: Instant,
        limit: Duration,
    ) -> Error {
        let refusal = cause(&error).filter(|refusal| is_unknown(refusal));
        let Some(refusal) = refusal else { return error };
        self.any.store(true, Ordering::SeqCst);
        let mut refused = self.refused.lock();
        let known = refused.entry(what.to_owned()).or_insert(Refused { first: now, last: now });
        if now.since(known.last) > limit.max(UNKNOWN_ERRORS_APART) {
            known.first = now;
        }
        known.last = now;
        if now.since(known.first) < limit {
            return error;
        }
        let message = format!(
            "the store has refused this for {} with an error that is not known here: {refusal}",
            humantime::format_duration(limit)
        );
        Error::new(ErrorKind::Config, message).with_source(error)
    }

    /// The store has carried out a request of this kind.
    pub fn forget(&self, what: &str) {
        if self.any.load(Ordering::Relaxed) {
            let mut refused = self.refused.lock();
            refused.remove(what);
            self.any.store(!refused.is_empty(), Ordering::SeqCst);
        }
    }
}

/// The error of the store in one of ours.
fn cause<R: StdError + 'static>(error: &Error) -> Option<&R> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::num::ParseIntError;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Refused, with an error of the store as its source.
    fn refused() -> Error {
        let refusal = "no number".parse::<u8>().unwrap_err();
        Error::new(ErrorKind::Unavailable, "refused").with_source(refusal)
    }

    #[test]
    fn an_unknown_error_is_final_once_it_has_lasted_for_one_lease() {
        let errors = UnknownErrors::default();
        let judge = |what, seconds| {
            let now = Instant::default() + Duration::from_secs(seconds);
            errors.judge(what, refused(), |_: &ParseIntError| true, now, LIMIT)
        };
        assert!(judge("acquire", 0).is_retryable());
        assert!(judge("acquire", 29).is_retryable());
        assert!(judge("release", 30).is_retryable(), "another kind of request");
        let last = judge("acquire", 30);
        assert_eq!(last.kind(), ErrorKind::Config);
        assert!(last.to_string().contains("invalid digit"), "{last}");
        errors.forget("acquire");
        assert!(judge("acquire", 31).is_retryable(), "it has passed");
        assert!(judge("acquire", 90).is_retryable(), "nobody asked for a minute");
        assert!(judge("release", 59).is_retryable());
        assert_eq!(judge("release", 60).kind(), ErrorKind::Config, "only `acquire` has passed");
    }

    #[test]
    fn a_known_error_stays_as_it_is() {
        let errors = UnknownErrors::default();
        let known = |_: &ParseIntError| false;
        let error = errors.judge("acquire", refused(), known, Instant::default(), Duration::ZERO);
        assert!(error.is_retryable(), "{error}");
        let other = Error::new(ErrorKind::Unavailable, "full");
        let unknown = |_: &ParseIntError| true;
        let error = errors.judge("acquire", other, unknown, Instant::default(), Duration::ZERO);
        assert!(error.is_retryable(), "{error}");
    }
}
