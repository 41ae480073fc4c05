//! The options that all stores of this crate have, in a builder and in a URL.

use std::time::Duration;

#[cfg(any(feature = "mysql", feature = "postgres"))]
use lock_core::ConnectionSecurity;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
use lock_core::check_record_version;
use lock_core::{Error, ErrorKind, StoreSettings};

use crate::{
    Strategy,
    tables::Tables,
    tunables::{LONGEST_LEASE, TIMEOUT, TIMEOUTS},
};

/// The version of SQLite's and MySQL's tables, their contents and the statements; PostgreSQL has
/// its own. A new version renames the column `expires` of the locks, which every statement of an
/// older client names: see
/// [`Dialect::check_version`](crate::dialect::Dialect::check_version).
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const RECORD_VERSION: i64 = 1;

/// Refuses tables of another version.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn check_version(stored: i64) -> Result<(), Error> {
    check_record_version(&stored.to_string(), RECORD_VERSION.cast_unsigned())
}

/// The options that all databases share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) strategy: Strategy,
    pub(crate) prefix: String,
    pub(crate) longest_lease: Option<Duration>,
    pub(crate) timeout: Duration,
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    /// Whether a password may go over a network unencrypted.
    pub(crate) plaintext: bool,
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    /// How the connection is protected.
    pub(crate) connection: ConnectionSecurity,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            prefix: Tables::DEFAULT_PREFIX.to_owned(),
            longest_lease: None,
            timeout: TIMEOUT,
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            plaintext: false,
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            connection: ConnectionSecurity::Plain,
        }
    }
}

impl Settings {
    /// The names of the options in a URL.
    pub(crate) const KEYS: &str = "strategy, table_prefix, longest_lease, timeout";

    /// Sets one option of a URL; `false` if it is none of these.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<bool, Error> {
        let duration = || {
            humantime::parse_duration(value).map_err(|_| {
                refusal(format!("{key}={value} in the URL is no duration; it must be such as 30s"))
            })
        };
        match key {
            "strategy" => self.strategy = value.parse()?,
            "table_prefix" => value.clone_into(&mut self.prefix),
            "longest_lease" => self.longest_lease = Some(duration()?),
            "timeout" => self.timeout = duration()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks all options for a store whose shortest lease is `shortest`. Returns the names of the
    /// tables.
    pub(crate) fn check(&self, shortest: Duration) -> Result<Tables, Error> {
        let tables = Tables::new(&self.prefix)?;
        check_longest(self.longest_lease.unwrap_or(shortest), shortest)?;
        check_range("timeout", self.timeout, TIMEOUTS)?;
        Ok(tables)
    }

    /// The longest lease of a new store with these options.
    pub(crate) fn longest_lease_of_new(&self) -> Duration {
        self.longest_lease.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE)
    }
}

/// Checks the longest lease of a store whose shortest lease is `shortest`.
///
/// # Errors
/// `InvalidInput`, with the range.
pub fn check_longest(longest: Duration, shortest: Duration) -> Result<(), Error> {
    check_range("longest lease", longest, [shortest, LONGEST_LEASE])
}

fn check_range(what: &str, value: Duration, [least, most]: [Duration; 2]) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let [value, least, most] = [value, least, most].map(humantime::format_duration);
    Err(refusal(format!("{what} {value} is not allowed; it must be between {least} and {most}")))
}

/// Refuses a store whose longest lease is not the one that this client expects.
///
/// # Errors
/// `Config`, with both values.
pub fn agree(expected: Option<Duration>, found: Duration) -> Result<(), Error> {
    let Some(expected) = expected.filter(|expected| *expected != found) else { return Ok(()) };
    let show = humantime::format_duration;
    let message = format!(
        "this client expects a longest lease of {}, but the store's is {}; \
         change one of them (leasehold init sets the store's)",
        show(expected),
        show(found)
    );
    Err(Error::new(ErrorKind::Config, message))
}

pub(crate) fn refusal(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// The setters of [`Settings`], for a builder with a field `settings`.
macro_rules! setters {
    ($builder:ident) => {
        impl $builder {
            /// How a lock is taken. Default: [`Strategy::PrimaryKey`](crate::Strategy::PrimaryKey).
            #[must_use]
            pub fn strategy(mut self, strategy: crate::Strategy) -> Self {
                self.settings.strategy = strategy;
                self
            }

            /// What the names of the tables begin with. Default: `leasehold`, for `leasehold_locks`
            /// and so on.
            #[must_use]
            pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
                self.settings.prefix = prefix.into();
                self
            }

            /// The longest lease that this client expects of the store. `build` refuses a store
            /// with another one. Default: what the store has, or 30 s for a new one.
            #[must_use]
            pub fn longest_lease(mut self, longest: std::time::Duration) -> Self {
                self.settings.longest_lease = Some(longest);
                self
            }

            /// How long a call may take, including waits for other users of the database. Default:
            /// 5 s.
            #[must_use]
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.settings.timeout = timeout;
                self
            }
        }
    };
}
pub(crate) use setters;

/// What the builders of the databases that have a server share. `open` of the builder opens the
/// store.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! server_builder {
    ($kind:literal, $builder:ident, $pool:ty, $options:ty) => {
        impl $builder {
            /// Uses the database of your pool. A statement takes one of its connections, usually
            /// for less than a millisecond; if another transaction has locked the row, for up to
            /// the time limit. A waiter keeps no connection. If the pool has three connections or
            /// more, one is kept for releases and one for renewals. The driver tests a connection
            /// when it returns to the pool, which costs the server a second round trip for each
            /// statement. Before the statement it tests it too, unless the pool was made with
            /// `test_before_acquire(false)`. For PostgreSQL the client opens one more connection,
            /// with the pool's options, for messages to waiters.
            #[must_use]
            pub fn with_pool(pool: $pool) -> Self {
                Self::new(Reached::Pool(pool))
            }

            /// Connects by these options, with an own pool of up to 5 connections: three for
            /// attempts, one for releases and one for renewals.
            #[must_use]
            pub fn with_options(options: $options) -> Self {
                Self::new(Reached::Options(Box::new(options)))
            }

            /// Whether a password may go over a network unencrypted, to any server that answers for
            /// the host. Default: no. Then `build` refuses a password if TLS is not demanded and
            /// the host is not this machine.
            #[must_use]
            pub fn plaintext(mut self, allowed: bool) -> Self {
                self.settings.plaintext = allowed;
                self
            }

            /// Connects, and compares the settings if the tables exist. It makes no tables:
            /// [`Backend::init`] does, and so does the SQL of [`schema`].
            ///
            /// # Errors
            /// `InvalidInput` for a setting that is not allowed; `Unavailable`, `Auth` or `Config`
            /// for a server that cannot be used.
            pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
                self.open().await.map_err(|error| error.at($kind, "connect"))
            }
        }
    };
}
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) use server_builder;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_set_or_named() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("strategy", "optimistic"),
            ("table_prefix", "x"),
            ("longest_lease", "1m"),
            ("timeout", "2s"),
        ] {
            assert!(settings.set(key, value).unwrap() && Settings::KEYS.contains(key));
        }
        assert!(!settings.set("mode", "rw").unwrap());
        assert_eq!((settings.strategy, &*settings.prefix), (Strategy::Optimistic, "x"));
        assert_eq!(settings.longest_lease, Some(Duration::from_secs(60)));
        assert_eq!(settings.timeout, Duration::from_secs(2));
        for (key, value, part) in
            [("strategy", "x", "must be primary-key or optimistic"), ("timeout", "x", "timeout=x")]
        {
            let error = settings.set(key, value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_said_with_what_is() {
        let shortest = Duration::from_millis(10);
        for (settings, part) in [
            (Settings { timeout: Duration::ZERO, ..Settings::default() }, "between 1ms and 1h"),
            (Settings { prefix: String::new(), ..Settings::default() }, "1 to 40"),
            (
                Settings { longest_lease: Some(shortest / 2), ..Settings::default() },
                "between 10ms and 7days",
            ),
        ] {
            let error = settings.check(shortest).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(Settings::default().check(shortest).is_ok());
    }
}
