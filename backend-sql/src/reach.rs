//! Reaching a database server: by a pool that the user has, or by options; and one statement at a time on
//! a connection of it.

use std::{fmt, str::FromStr, time::Duration};

use lock_core::{Error, ErrorKind, Given, Link, PLAINTEXT, plaintext_refusal};
use sqlx::{ConnectOptions, Connection, Database, Pool, pool::PoolConnection, pool::PoolOptions};
use url::Url;

use crate::{
    error::{Failure, general},
    settings::{Settings, refusal},
    tls::{Named, Tls},
};

type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// A pool of the user's, or the options of a connection.
pub(crate) enum Reached<DB: Database> {
    Pool(Pool<DB>),
    Options(Box<Options<DB>>),
}

impl<DB: Database> Clone for Reached<DB> {
    fn clone(&self) -> Self {
        match self {
            Self::Pool(pool) => Self::Pool(pool.clone()),
            Self::Options(options) => Self::Options(options.clone()),
        }
    }
}

/// Without what may hold a password.
impl<DB: Database> fmt::Debug for Reached<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pool(_) => "Pool",
            Self::Options(_) => "Options",
        })
    }
}

impl<DB: Database> Reached<DB> {
    /// Of a pool of our own, at most: three for attempts, and one each for releases and renewals. See `gate.rs`.
    const CONNECTIONS: u32 = 5;

    /// What a connection is made by.
    pub(crate) fn options(&self) -> Options<DB> {
        match self {
            Self::Pool(pool) => (*pool.connect_options()).clone(),
            Self::Options(options) => (**options).clone(),
        }
    }

    /// The pool, and whether it is the user's and stays open.
    pub(crate) fn pool(self, timeout: Duration) -> (Pool<DB>, bool) {
        match self {
            Self::Pool(pool) => (pool, true),
            Self::Options(options) => {
                let pool = PoolOptions::new()
                    .max_connections(Self::CONNECTIONS)
                    .acquire_timeout(timeout)
                    // A test would cost each statement a second round trip. One that meets a broken
                    // connection is repeated on another, where that is harmless.
                    .test_before_acquire(false)
                    .connect_lazy_with(options.disable_statement_logging());
                (pool, false)
            }
        }
    }
}

/// The way to a server, as a driver's options describe it.
pub(crate) struct Way {
    pub(crate) link: Link,
    pub(crate) has_password: bool,
}

impl Way {
    /// Whether a password may go this way, where `tls` is what is better.
    pub(crate) fn check(&self, plaintext: bool, tls: &str) -> Result<(), Error> {
        if self.has_password && self.link == Link::Plain && !plaintext {
            return Err(plaintext_refusal(tls));
        }
        Ok(())
    }
}

/// An option of both drivers that is a number.
pub(crate) const CAPACITY: &str = "statement-cache-capacity";

/// What the URL of a kind of store looks like.
pub(crate) struct Form {
    /// What the store is called.
    pub(crate) whose: &'static str,
    pub(crate) schemes: [&'static str; 2],
    pub(crate) example: &'static str,
    /// What the driver understands behind the `?`.
    pub(crate) drivers: &'static [&'static str],
    /// Those of them that are about TLS.
    pub(crate) tls: Tls,
    /// What this kind of store understands besides [`Settings::KEYS`].
    pub(crate) own: &'static [&'static str],
}

/// What a URL says.
pub(crate) struct Described<DB: Database> {
    pub(crate) reached: Reached<DB>,
    pub(crate) settings: Settings,
    /// Files for TLS.
    pub(crate) files: Vec<Named>,
    /// Those of [`Form::own`], in their order in the URL.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only it has any"))]
    pub(crate) own: Vec<(String, bool)>,
}

/// Reads a URL.
pub(crate) fn described<DB>(url: &str, form: &Form) -> Result<Described<DB>, Error>
where
    DB: Database,
    Options<DB>: FromStr,
{
    let Form { whose, schemes, example, drivers, tls, own } = form;
    let wrong = || refusal(format!("the URL of a {whose} store is {example}"));
    let mut url = Url::parse(url).map_err(|_| wrong())?;
    if !schemes.contains(&url.scheme()) || url.cannot_be_a_base() {
        return Err(wrong());
    }
    // A password that was not encoded may end up here.
    let secret = url.query().is_some_and(|query| query.contains('@'));
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(key, _)| drivers.contains(&key.as_str()));
    let mut given = Given::default();
    theirs.iter().try_for_each(|(key, _)| given.once(key))?;
    let files = tls.check(&theirs)?;
    for (key, value) in &theirs {
        if key == CAPACITY && value.parse::<usize>().is_err() {
            return Err(refusal(format!("{key} in the URL of a {whose} store is no number")));
        }
    }
    url.set_query(None);
    if !theirs.is_empty() {
        url.query_pairs_mut().extend_pairs(&theirs);
    }
    // The driver's message may repeat a value, and a value may be a password.
    let options = Options::<DB>::from_str(url.as_str()).map_err(|_| {
        refusal(format!("the user, password, host or database of the {whose} URL is no UTF-8"))
    })?;
    let (mut settings, mut switches) = (Settings::default(), Vec::new());
    for (key, value) in ours {
        given.once(&key)?;
        if key == PLAINTEXT || own.contains(&key.as_str()) {
            let on = match value.as_str() {
                "on" => true,
                "off" => false,
                _ => {
                    let message =
                        format!("{key} in the URL is not understood; allowed are on and off");
                    return Err(refusal(message));
                }
            };
            if key == PLAINTEXT {
                settings.plaintext = on;
            } else {
                switches.push((key, on));
            }
        } else if !settings.set(&key, &value).map_err(|error| {
            // The value may be the rest of the password.
            if secret { refusal(format!("{key} in the URL is not allowed")) } else { error }
        })? {
            let known: Vec<_> =
                [Settings::KEYS, PLAINTEXT].iter().chain(*own).chain(*drivers).copied().collect();
            // Not repeated: it may be a part of a password.
            return Err(refusal(format!(
                "an option in the URL of a {whose} store is not known; allowed are {}",
                known.join(", ")
            )));
        }
    }
    Ok(Described { reached: Reached::Options(Box::new(options)), settings, files, own: switches })
}

/// A connection for the length of one statement.
///
/// It goes back to the pool only when the statement has come to its end. One that is given up half-way,
/// by a time limit or since its future was dropped, takes its connection with it: the answer may never
/// come, and whoever had the connection next would wait for it.
pub(crate) struct Lent<DB: Database>(Option<PoolConnection<DB>>);

impl<DB: Database> Lent<DB> {
    pub(crate) async fn of(
        pool: &Pool<DB>,
        judge: impl FnOnce(sqlx::Error) -> Failure,
    ) -> Result<Self, Failure> {
        match pool.acquire().await {
            Ok(connection) => Ok(Self(Some(connection))),
            // Nothing has been sent. What is invalid is a handshake for TLS.
            Err(sqlx::Error::Io(error)) if error.kind() != std::io::ErrorKind::InvalidData => {
                let unreachable = Error::new(ErrorKind::Unavailable, "the server is not reached");
                Err(Failure::Error(unreachable.with_source(sqlx::Error::Io(error))))
            }
            Err(error) => Err(judge(error)),
        }
    }

    pub(crate) fn connection(&mut self) -> Result<&mut DB::Connection, Failure> {
        let connection = self.0.as_deref_mut();
        connection.ok_or_else(|| Failure::Error(general(sqlx::Error::PoolClosed)))
    }

    /// After an answer of the server's, also a refusal, the connection is as good as before.
    pub(crate) fn settle<T>(mut self, answer: &Result<T, sqlx::Error>) {
        if matches!(answer, Ok(_) | Err(sqlx::Error::Database(_))) {
            drop(self.0.take());
        }
    }
}

impl<DB: Database> Drop for Lent<DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

/// Microseconds, rounded up.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Whether each of these URLs is refused by naming what is wrong, and no password.
#[cfg(test)]
pub(crate) fn assert_refused<T: fmt::Debug>(
    parse: impl Fn(&str) -> Result<T, Error>,
    refused: &[(&str, &str)],
) {
    for (url, part) in refused {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let (shown, debug) = (error.to_string(), format!("{error:?}"));
        assert!(shown.contains(part), "{url}: {error}");
        assert!(!shown.contains("secret") && !debug.contains("secret"), "{debug}");
    }
}
