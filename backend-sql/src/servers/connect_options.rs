//! How a client connects to a database server: by the user's pool, or by options, which a URL may
//! describe.

use std::{fmt, str::FromStr, time::Duration};

use lock_core::{
    ConnectionSecurity, Error, PLAINTEXT, SeenOptions, plaintext_refusal, unknown_option,
};
use sqlx::{ConnectOptions, Connection, Database, Pool, pool::PoolOptions};
use url::Url;

use crate::{
    servers::tls::{Named, Tls},
    settings::{Settings, refusal},
    tunables::{CONNECTIONS, IDLE, LIFETIME},
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
    /// The options with which connections are made.
    pub(crate) fn options(&self) -> Options<DB> {
        match self {
            Self::Pool(pool) => (*pool.connect_options()).clone(),
            Self::Options(options) => (**options).clone(),
        }
    }

    /// The pool, and whether it is the user's. The user's pool stays open. `own` completes the
    /// options of a pool of our own.
    pub(crate) fn pool(
        self,
        timeout: Duration,
        own: impl FnOnce(PoolOptions<DB>) -> PoolOptions<DB>,
    ) -> (Pool<DB>, bool) {
        match self {
            Self::Pool(pool) => (pool, true),
            Self::Options(options) => {
                let pool = PoolOptions::new()
                    .max_connections(CONNECTIONS)
                    .acquire_timeout(timeout)
                    .idle_timeout(IDLE)
                    .max_lifetime(LIFETIME)
                    // One connection stays, so that a holder can renew and release.
                    // `connections.rs` closes the others.
                    .min_connections(1)
                    // A test would cost each statement a second round trip. Instead, a statement
                    // that meets a broken connection is repeated on another one, if that is safe.
                    .test_before_acquire(false);
                (own(pool).connect_lazy_with(options.disable_statement_logging()), false)
            }
        }
    }
}

/// How the connection to a server is protected, by the options of a driver.
pub(crate) struct Way {
    pub(crate) security: ConnectionSecurity,
    pub(crate) has_password: bool,
}

impl Way {
    /// Refuses to send a password unencrypted over a network. `tls` names the better option.
    pub(crate) fn check(&self, plaintext: bool, tls: &str) -> Result<(), Error> {
        if self.has_password && self.security == ConnectionSecurity::Plain && !plaintext {
            return Err(plaintext_refusal(tls));
        }
        Ok(())
    }
}

/// An option of both drivers. Its value is a number.
pub(crate) const CAPACITY: &str = "statement-cache-capacity";

/// The form of the URL of a kind of store.
pub(crate) struct Form {
    /// The name of the database.
    pub(crate) whose: &'static str,
    pub(crate) schemes: [&'static str; 2],
    pub(crate) example: &'static str,
    /// The options that the driver understands.
    pub(crate) drivers: &'static [&'static str],
    /// The ones of these for TLS.
    pub(crate) tls: Tls,
    /// The options of this kind of store besides [`Settings::KEYS`]. [`switch`] reads those that
    /// are on or off.
    pub(crate) own: &'static [&'static str],
}

/// The contents of a URL.
pub(crate) struct Described<DB: Database> {
    pub(crate) reached: Reached<DB>,
    pub(crate) settings: Settings,
    /// Files for TLS.
    pub(crate) files: Vec<Named>,
    /// The options of [`Form::own`], in the order of the URL.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only it has any"))]
    pub(crate) own: Vec<(String, String)>,
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
    // A password that was not encoded may end up in the options.
    let query = url.query().unwrap_or_default().to_owned();
    let secret = query.contains('@');
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(key, _)| drivers.contains(&key.as_str()));
    let mut given = SeenOptions::default();
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
    // The driver's message may repeat a value, which may be a password, so it is dropped.
    let options = Options::<DB>::from_str(url.as_str()).map_err(|_| {
        refusal(format!("the user, password, host or database of the {whose} URL is no UTF-8"))
    })?;
    let (mut settings, mut others) = (Settings::default(), Vec::new());
    for (key, value) in ours {
        given.once(&key)?;
        if key == PLAINTEXT {
            settings.plaintext = switch(&key, &value)?;
        } else if own.contains(&key.as_str()) {
            others.push((key, value));
        } else if !settings.set(&key, &value).map_err(|error| {
            // The value may be the rest of the password.
            if secret { refusal(format!("{key} in the URL is not allowed")) } else { error }
        })? {
            let known: Vec<_> =
                [Settings::KEYS, PLAINTEXT].iter().chain(*own).chain(*drivers).copied().collect();
            return Err(unknown_option(&query, &key, known.join(", ")));
        }
    }
    Ok(Described { reached: Reached::Options(Box::new(options)), settings, files, own: others })
}

/// The value of an option that is on or off.
pub(crate) fn switch(key: &str, value: &str) -> Result<bool, Error> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        // Not shown: it may be the rest of a password.
        _ => Err(refusal(format!("{key} in the URL is not understood; it must be on or off"))),
    }
}

/// Asserts that each of these URLs is refused with a message that names what is wrong, and shows no
/// password.
/// The host and port to which a driver connects.
pub(super) fn place(options: &impl ConnectOptions) -> String {
    let url = options.to_url_lossy();
    let host = url.host_str().unwrap_or("localhost");
    url.port_or_known_default().map_or(host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
pub(crate) fn assert_refused<T: fmt::Debug>(
    parse: impl Fn(&str) -> Result<T, Error>,
    refused: &[(&str, &str)],
) {
    for (url, part) in refused {
        let error = parse(url).unwrap_err();
        assert_eq!(error.kind(), lock_core::ErrorKind::InvalidInput);
        let (shown, debug) = (error.to_string(), format!("{error:?}"));
        assert!(shown.contains(part), "{url}: {error}");
        assert!(!shown.contains("secret") && !debug.contains("secret"), "{debug}");
    }
}
