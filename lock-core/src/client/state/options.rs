//! The options of a client, and of one acquire.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Guarantees, Mode, OwnerLabel, Promise,
    tunables::{DEFAULT_CALL_TIMEOUT, DEFAULT_LEASE},
};

/// The options of a client. A configuration file names only those that differ from the defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The label that operators see beside the owner id. Default: `host:pid`.
    pub label: OwnerLabel,
    /// The lease of a lock without a [`lease`](crate::Lock::lease) of its own. Default: 10 s.
    #[serde(with = "crate::human_duration")]
    pub lease: Duration,
    /// How long the caller waits for one answer of the store. Default: 5 s. It must be longer than
    /// 0 s. After that the client finishes the call in the background and cleans up. It gives a
    /// queue entry up only if a call for it has no answer for three times as long.
    #[serde(with = "crate::human_duration")]
    pub call_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            label: OwnerLabel::of_this_process(),
            lease: DEFAULT_LEASE,
            call_timeout: DEFAULT_CALL_TIMEOUT,
        }
    }
}

impl ClientOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`label`](Self::label).
    #[must_use]
    pub fn with_label(mut self, label: OwnerLabel) -> Self {
        self.label = label;
        self
    }

    /// Sets [`lease`](Self::lease).
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets [`call_timeout`](Self::call_timeout).
    #[must_use]
    pub const fn with_call_timeout(mut self, call_timeout: Duration) -> Self {
        self.call_timeout = call_timeout;
        self
    }

    /// Checks the options, as [`LockClient::with_options`](crate::LockClient::with_options) does,
    /// for callers that must know before they connect to a store.
    ///
    /// # Errors
    /// `InvalidInput`, naming the option, its value and what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        if self.call_timeout.is_zero() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "call_timeout 0s must be longer than 0s",
            ));
        }
        Ok(())
    }
}

/// The options of one acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) mode: Mode,
    pub(crate) lease: Duration,
    pub(crate) at_least: Option<Duration>,
    pub(crate) hold_at_most: Option<Duration>,
}

impl Wanted {
    /// Checks the options against the store's guarantees, before anything is sent to the store.
    pub(crate) fn check(&self, store: &Guarantees) -> Result<(), Error> {
        let show = humantime::format_duration;
        if self.mode == Mode::Shared {
            self.check_shared(&store.shared)?;
        }
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        let (shortest, longest) = (store.shortest_lease, store.longest_lease);
        if self.lease < shortest || self.lease > longest {
            return refuse(format!(
                "lease {}{} must be between {} and {}, this store's longest lease",
                show(self.lease),
                if self.lease == DEFAULT_LEASE { ", the default," } else { "" },
                show(shortest),
                show(longest)
            ));
        }
        if let Some(at_least) = self.at_least.filter(|span| *span > longest) {
            return refuse(format!(
                "at_least {} is longer than this store's longest lease, {}",
                show(at_least),
                show(longest)
            ));
        }
        match (self.at_least, self.hold_at_most) {
            (_, Some(Duration::ZERO)) => refuse("hold_at_most 0s must be longer than 0s".into()),
            (Some(least), Some(most)) if least > most => refuse(format!(
                "at_least {} is longer than hold_at_most {}",
                show(least),
                show(most)
            )),
            _ => Ok(()),
        }
    }

    fn check_shared(&self, promised: &Promise) -> Result<(), Error> {
        if let Some(at_least) = self.at_least {
            let at_least = humantime::format_duration(at_least);
            let message = format!("at_least {at_least} must not be given for a shared lock");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        match promised {
            Promise::Holds { .. } => Ok(()),
            Promise::Withheld { why } => {
                let message = format!("this store has no shared locks: {why}");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(lease: u64, at_least: Option<u64>, hold_at_most: Option<u64>) -> String {
        let seconds = |span: Option<u64>| span.map(Duration::from_secs);
        let wanted = Wanted {
            mode: Mode::Exclusive,
            lease: Duration::from_secs(lease),
            at_least: seconds(at_least),
            hold_at_most: seconds(hold_at_most),
        };
        let store = Guarantees::new(Duration::from_millis(10), Duration::from_secs(30));
        wanted.check(&store).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_file_names_only_what_differs_with_durations_as_people_write_them() {
        let options: ClientOptions = serde_json::from_str(r#"{"lease": "1min 30s"}"#).unwrap();
        assert_eq!(options, ClientOptions { lease: Duration::from_secs(90), ..options.clone() });
        assert_eq!(options.call_timeout, ClientOptions::default().call_timeout);
        let text = serde_json::to_string(&options).unwrap();
        assert!(text.contains(r#""lease":"1m 30s""#), "{text}");
        assert_eq!(serde_json::from_str::<ClientOptions>(&text).unwrap(), options);
        for bad in [r#"{"lease": "ten"}"#, r#"{"lease": 10}"#, r#"{"leese": "10s"}"#] {
            let error = serde_json::from_str::<ClientOptions>(bad).unwrap_err().to_string();
            assert!(error.contains("such as") || error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn shared_needs_the_stores_promise_and_no_minimum_hold() {
        let mut store = Guarantees::new(Duration::from_millis(10), Duration::from_secs(30));
        let lease = Duration::from_secs(10);
        let mut wanted = Wanted { mode: Mode::Shared, lease, at_least: None, hold_at_most: None };
        let error = wanted.check(&store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("exclusive locks only"), "{error}");
        store.shared = Promise::Holds { assuming: Vec::new() };
        wanted.check(&store).unwrap();
        wanted.at_least = Some(Duration::from_secs(5));
        let error = wanted.check(&store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("at_least 5s"), "{error}");
    }

    #[test]
    fn a_refusal_names_value_and_limit() {
        assert_eq!(refusal(10, Some(5), Some(60)), "");
        for text in [refusal(0, None, None), refusal(31, None, None)] {
            assert!(text.contains("between 10ms and 30s"), "{text}");
        }
        assert!(refusal(10, Some(31), None).contains("30s"));
        assert!(refusal(10, None, Some(0)).contains("0s"));
        let text = refusal(10, Some(20), Some(15));
        assert!(text.contains("20s") && text.contains("15s"), "{text}");
    }
}
