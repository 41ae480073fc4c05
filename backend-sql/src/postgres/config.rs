//! How a store is described: by a builder or a URL.

use std::{str::FromStr as _, sync::Arc, time::Duration};

use lock_core::{Backend, Error, ErrorKind, StoreSettings};
use sqlx::{
    ConnectOptions as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use url::Url;

use super::{backend::Postgres, statements};
use crate::{Strategy, backend::SqlBackend, tables::Tables};

/// Describes a store in a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresBuilder {
    server: Server,
    strategy: Strategy,
    prefix: String,
    longest_lease: Option<Duration>,
    timeout: Duration,
}

#[derive(Clone, Debug)]
enum Server {
    Pool(PgPool),
    Options(Box<PgConnectOptions>),
}

/// What sqlx understands behind the `?` of a URL.
const DRIVERS: [&str; 7] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "host",
    "statement-cache-capacity",
];

impl PostgresBuilder {
    /// The shortest lease.
    pub(super) const SHORTEST_LEASE: Duration = Duration::from_millis(100);
    /// The longest `longest_lease`.
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The database of a pool that you have. A statement of ours takes one of its connections for
    /// less than a millisecond; a waiter keeps none. Unless the pool was made with
    /// `test_before_acquire(false)`, each statement costs a second round trip.
    #[must_use]
    pub fn with_pool(pool: PgPool) -> Self {
        Self::new(Server::Pool(pool))
    }

    /// A database by its connection's options, with a pool of our own of up to 4 connections.
    #[must_use]
    pub fn with_options(options: PgConnectOptions) -> Self {
        Self::new(Server::Options(Box::new(options)))
    }

    fn new(server: Server) -> Self {
        Self {
            server,
            strategy: Strategy::default(),
            prefix: Tables::DEFAULT_PREFIX.to_owned(),
            longest_lease: None,
            timeout: Duration::from_secs(5),
        }
    }

    /// How a lock is taken. Default: [`Strategy::PrimaryKey`].
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// What the names of the tables begin with. Default: `leasehold`, for `leasehold_locks` and so on.
    #[must_use]
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The longest lease that this client believes the store to have; a store that has another is
    /// refused. Default: what the store has, or 30 s for a new one.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.longest_lease = Some(longest);
        self
    }

    /// How long a call may take. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects, and compares settings if the tables are there. It makes no tables:
    /// [`Backend::init`] does, and so does the SQL of [`schema`].
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Unavailable`, `Auth` or `Config` for a
    /// server that cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        self.open().await.map_err(|error| error.at("postgres", "connect"))
    }

    async fn open(self) -> Result<Arc<dyn Backend>, Error> {
        let tables = Tables::new(&self.prefix)?;
        if let Some(longest) = self.longest_lease {
            check_longest(longest)?;
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > Duration::from_secs(3600) {
            let shown = humantime::format_duration(self.timeout);
            let message = format!("timeout {shown} is not allowed; allowed are 1ms to 1h");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let (pool, given) = match self.server {
            Server::Pool(pool) => (pool, true),
            Server::Options(options) => {
                let pool = PgPoolOptions::new()
                    .max_connections(Postgres::CONNECTIONS)
                    .acquire_timeout(self.timeout)
                    // A test would cost each statement a second round trip. One that meets a broken
                    // connection is repeated on another, where that is harmless.
                    .test_before_acquire(false)
                    .connect_lazy_with(options.disable_statement_logging());
                (pool, false)
            }
        };
        let store = Postgres::new(pool, given, tables, self.longest_lease, self.timeout).await?;
        Ok(Arc::new(SqlBackend::new(store, self.strategy)))
    }
}

pub(super) fn check_longest(longest: Duration) -> Result<(), Error> {
    let (least, most) = (PostgresBuilder::SHORTEST_LEASE, PostgresBuilder::LONGEST);
    if longest < least || longest > most {
        let show = humantime::format_duration;
        let message = format!(
            "longest lease {} is not allowed; allowed are {} to {}",
            show(longest),
            show(least),
            show(most)
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Opens the store that a URL describes:
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?strategy=optimistic&table_prefix=leasehold&\
/// longest_lease=30s&timeout=5s`, where all after the host may be left out. Of the driver's own
/// options `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `application_name`, `host` and
/// `statement-cache-capacity` are passed on.
///
/// # Errors
/// As [`PostgresBuilder::build`]; `InvalidInput` for a URL that is not of this form. No message
/// shows the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url).map_err(|error| error.at("postgres", "connect"))?.build().await
}

/// The SQL that makes the tables of the store that a URL describes. Does not connect.
///
/// # Errors
/// `InvalidInput` as [`connect`].
pub fn schema(url: &str) -> Result<String, Error> {
    let schema = || {
        let builder = parse(url)?;
        let tables = Tables::new(&builder.prefix)?;
        let longest = builder.longest_lease.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        check_longest(longest)?;
        let locks = statements::schema(&tables, longest.as_micros() as i64);
        Ok(format!("{locks}\n{}", statements::fence_schema(&tables)))
    };
    schema().map_err(|error: Error| error.at("postgres", "schema"))
}

fn parse(url: &str) -> Result<PostgresBuilder, Error> {
    let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let form = "the URL of a PostgreSQL store is postgres://USER@HOST:PORT/DATABASE?options";
    let mut url = Url::parse(url).map_err(|_| refuse(form.to_owned()))?;
    if !["postgres", "postgresql"].contains(&url.scheme()) || url.cannot_be_a_base() {
        return Err(refuse(form.to_owned()));
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let drivers = pairs.iter().filter(|(key, _)| DRIVERS.contains(&key.as_str()));
    let drivers: Vec<_> = drivers.cloned().collect();
    url.set_query(None);
    if !drivers.is_empty() {
        url.query_pairs_mut().extend_pairs(&drivers);
    }
    // The driver's message may repeat a value, and a value may be a password.
    let options = PgConnectOptions::from_str(url.as_str())
        .map_err(|_| refuse("an option of the PostgreSQL URL is not understood".to_owned()))?;
    let mut builder = PostgresBuilder::with_options(options);
    for (key, value) in pairs {
        let duration = || {
            humantime::parse_duration(&value).map_err(|_| {
                refuse(format!("{key}={value} in the URL is no duration; allowed is such as 30s"))
            })
        };
        builder = match key.as_str() {
            "strategy" => builder.strategy(value.parse()?),
            "table_prefix" => builder.table_prefix(value),
            "longest_lease" => {
                let longest = duration()?;
                builder.longest_lease(longest)
            }
            "timeout" => {
                let timeout = duration()?;
                builder.timeout(timeout)
            }
            driver if DRIVERS.contains(&driver) => builder,
            other => {
                return Err(refuse(format!(
                    "{other} in the URL of a PostgreSQL store is not known; allowed are strategy, \
                     table_prefix, longest_lease, timeout, {}",
                    DRIVERS.join(", ")
                )));
            }
        };
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_what_a_builder_can() {
        let url = "postgres://me:secret@db:5433/app?sslmode=disable&strategy=optimistic&timeout=2s";
        let builder = parse(url).unwrap();
        assert_eq!(builder.strategy, Strategy::Optimistic);
        assert_eq!(builder.timeout, Duration::from_secs(2));
        let Server::Options(options) = builder.server else { panic!("no options") };
        assert_eq!((options.get_host(), options.get_port()), ("db", 5433));
        assert_eq!(options.get_database(), Some("app"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_and_no_password_is() {
        for (url, part) in [
            ("postgres:", "postgres://USER@HOST"),
            ("postgres://me:secret@db/a?mode=rw", "mode"),
            ("postgres://me:secret@db/a?sslmode=secret", "not understood"),
            ("postgres://me:secret@db/a?strategy=x", "allowed are primary-key and optimistic"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let (shown, debug) = (error.to_string(), format!("{error:?}"));
            assert!(shown.contains(part), "{url}: {error}");
            assert!(!shown.contains("secret") && !debug.contains("secret"), "{debug}");
        }
    }

    #[test]
    fn the_schema_names_the_tables() {
        let sql = schema("postgres://db/a?table_prefix=app&longest_lease=1m").unwrap();
        assert!(sql.contains("\"app_locks\"") && sql.contains("\"app_fence\""), "{sql}");
        assert!(sql.contains("60000000, 60000000") && !sql.contains('{'), "{sql}");
    }
}
