//! The builder of a store, and its URL.

use std::sync::Arc;

use lock_core::{Backend, ConnectionSecurity, Error, is_loopback};
use sqlx::{
    ConnectOptions as _, PgPool,
    postgres::{PgConnectOptions, PgSslMode},
};

use super::{
    connection::{server::Server, sessions::Sessions},
    statements,
    store::Postgres,
};
use crate::{
    backend::SqlBackend,
    servers::connect_options::{CAPACITY, Described, Form, Reached, Way, described, switch},
    servers::tls::{Named, Tls, readable},
    settings::{Settings, server_builder, setters},
    tables::Tables,
    tunables::postgres::SHORTEST_LEASE,
};

/// Describes a store in a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresBuilder {
    reached: Reached<sqlx::Postgres>,
    pub(crate) settings: Settings,
    listens: bool,
    prepares: Option<bool>,
    schema: String,
}

setters!(PostgresBuilder);
server_builder!("postgres", PostgresBuilder, PgPool, PgConnectOptions);

/// The form of the URL.
const FORM: Form = Form {
    whose: "PostgreSQL",
    schemes: ["postgres", "postgresql"],
    example: "postgres://USER@HOST:PORT/DATABASE?options",
    drivers: &["sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "host", CAPACITY],
    tls: Tls {
        mode: "sslmode",
        // The driver also has `allow`, but never tries TLS with it.
        plain: ["disable", "prefer", "require"],
        checked: ["verify-ca", "verify-full"],
        authority: "sslrootcert",
        own: ["sslcert", "sslkey"],
        variables: Some("PG"),
    },
    own: &["listen", "prepare", "schema"],
};

impl PostgresBuilder {
    /// Whether the server wakes waiters by NOTIFY, on one connection besides the pool's. Default:
    /// `true`; if no message arrives, waiters poll every 10 ms. With `false` they always poll, and
    /// no statement is [prepared](Self::prepare).
    #[must_use]
    pub fn listen(mut self, listens: bool) -> Self {
        self.listens = listens;
        self
    }

    /// Whether statements are prepared, which saves the server some work. Default: only while
    /// messages of NOTIFY arrive, for that shows that the sessions belong to this client alone.
    /// Otherwise, and always with `false`, the arguments are written into the statements. Then each
    /// statement is one message, and any pooler will do.
    ///
    /// `true` is for a pooler in transaction mode that tracks prepared statements, as pgbouncer
    /// does from 1.21 on, and for `listen(false)` without a pooler. With a pooler that tracks none
    /// `true` is not safe: the session may have another client's statement of the same name, and
    /// would run that instead.
    #[must_use]
    pub fn prepare(mut self, prepares: bool) -> Self {
        self.prepares = Some(prepares);
        self
    }

    /// The schema of the tables. Default: `public`. Every statement names the schema, so a role
    /// that may create tables in another schema of the search path cannot replace ours. `init` does
    /// not make the schema.
    ///
    /// The owner of a table can run code in the name of each role that uses the table. So a client
    /// checks the owner before it first uses the tables. The owner must be a role of which the
    /// client's role is a member, a superuser, or the owner of the schema or of the database.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        // SET search_path would not do: it outlives the statement, and a pooler in transaction mode
        // then gives the session to another client.
        self.schema = schema.into();
        self
    }

    fn new(reached: Reached<sqlx::Postgres>) -> Self {
        Self {
            reached,
            settings: Settings::default(),
            listens: true,
            prepares: None,
            schema: statements::DEFAULT_SCHEMA.to_owned(),
        }
    }

    /// The names of the tables, if all settings are allowed.
    pub(crate) fn tables(&self) -> Result<Tables, Error> {
        self.settings.check(SHORTEST_LEASE)?.in_schema(&self.schema)
    }

    async fn open(self) -> Result<Arc<dyn Backend>, Error> {
        // A client that does not prepare has a pooler, through which it must not listen.
        let listens = self.listens && self.prepares != Some(false);
        let (sessions, tables, settings) = self.reach()?;
        let strategy = settings.strategy;
        let store = Postgres::new(Server::new(sessions, tables), settings, listens).await?;
        Ok(Arc::new(SqlBackend::new(store, strategy)))
    }

    /// The sessions, which are still unused, the names of the tables, and the settings.
    pub(crate) fn reach(mut self) -> Result<(Sessions, Tables, Settings), Error> {
        let tables = self.tables()?;
        let way = way(&self.reached.options());
        self.settings.connection = way.security;
        if let Reached::Options(_) = self.reached {
            way.check(self.settings.plaintext, "sslmode=verify-full (or require)")?;
        }
        let (pool, given) = self.reached.pool(self.settings.timeout, |options| options);
        let sessions = Sessions::new(pool, given, self.prepares, self.settings.timeout);
        Ok((sessions, tables, self.settings))
    }
}

/// How the connection to the server is protected.
fn way(options: &PgConnectOptions) -> Way {
    let is_local = options.get_socket().is_some()
        // A folder with a socket.
        || options.get_host().starts_with('/')
        || is_loopback(options.get_host());
    let security = match options.get_ssl_mode() {
        _ if is_local => ConnectionSecurity::Local,
        PgSslMode::VerifyFull => ConnectionSecurity::Verified,
        PgSslMode::Require | PgSslMode::VerifyCa => ConnectionSecurity::Unverified,
        _ => ConnectionSecurity::Plain,
    };
    // The driver shows the password only in a URL, and it cannot write every host and user into
    // one.
    let has_password =
        || options.clone().host("h").username("u").to_url_lossy().password().is_some();
    Way { security, has_password: !is_local && has_password() }
}

/// Opens the store that a URL describes:
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?strategy=optimistic&table_prefix=leasehold&\
/// longest_lease=30s&timeout=5s&listen=on&prepare=off&schema=public&plaintext=on`. All after the
/// host may be left out. Of the driver's own options `sslmode`, `sslrootcert`, `sslcert`, `sslkey`,
/// `application_name`, `host` and `statement-cache-capacity` are passed on; [the module](super)
/// says what those of TLS mean. No option may occur twice.
///
/// # Errors
/// As [`PostgresBuilder::build`]; `InvalidInput` for a URL that is not of this form; `Config` for a
/// file that cannot be read. No message shows the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let builder = parse(url).and_then(|(builder, files)| readable(&files).map(|()| builder));
    builder.map_err(|error| error.at("postgres", "connect"))?.build().await
}

/// The SQL that makes the tables of the store that a URL describes. Does not connect.
///
/// # Errors
/// `InvalidInput` as [`connect`].
pub fn schema(url: &str) -> Result<String, Error> {
    let schema = || {
        let builder = parse(url)?.0;
        let tables = builder.tables()?;
        let longest = builder.settings.longest_lease_of_new();
        let locks = statements::schema(&tables, longest.as_micros() as i64);
        // One transaction, so that a refused table of another role stops all that follows.
        let fence = statements::fence_schema(&tables);
        Ok(format!("BEGIN;\n{locks}\n{fence}\nCOMMIT;\n"))
    };
    schema().map_err(|error: Error| error.at("postgres", "schema"))
}

/// Reads a URL. Also returns the files for TLS.
pub(crate) fn parse(url: &str) -> Result<(PostgresBuilder, Vec<Named>), Error> {
    let Described { reached, settings, files, own } = described(url, &FORM)?;
    let mut builder = PostgresBuilder { settings, ..PostgresBuilder::new(reached) };
    for (key, value) in own {
        match key.as_str() {
            "listen" => builder.listens = switch(&key, &value)?,
            "prepare" => builder.prepares = Some(switch(&key, &value)?),
            _ => builder.schema = value,
        }
    }
    Ok((builder, files))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::ErrorKind;

    use super::*;
    use crate::{Strategy, servers::connect_options::assert_refused};

    #[test]
    fn a_url_says_what_a_builder_can() {
        let url = "postgres://me:secret@db:5433/app?sslmode=disable&strategy=optimistic&timeout=2s";
        let builder = parse(url).unwrap().0;
        assert_eq!(builder.settings.strategy, Strategy::Optimistic);
        assert_eq!(builder.settings.timeout, Duration::from_secs(2));
        assert!(!format!("{builder:?}").contains("secret"), "{builder:?}");
        let Reached::Options(options) = builder.reached else { panic!("no options") };
        assert_eq!((options.get_host(), options.get_port()), ("db", 5433));
        assert_eq!(options.get_database(), Some("app"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_and_no_password_is() {
        let refused = [
            ("postgres:", "postgres://USER@HOST"),
            ("postgres://me:secret@db/a?mode=rw", "unknown option in the URL"),
            ("postgres://me:secret@db/a?sslmode=secret", "sslmode in the URL is not understood"),
            ("postgres://me:?listen=secret@db/a", "listen in the URL is not understood"),
            ("postgres://me:secret@db/a?listen=on&timeout=1s&listen=off", "listen is given twice"),
            ("postgres://db/a?sslmode=prefer&sslmode=secret", "sslmode is given twice"),
        ];
        assert_refused(parse, &refused);
    }

    /// These are refused before anything is sent: none of the hosts exists.
    #[tokio::test]
    async fn a_password_leaves_the_machine_encrypted_or_by_an_explicit_word() {
        for url in ["", "?sslmode=prefer", "?sslmode=disable", "?plaintext=off"] {
            let error =
                connect(&format!("postgres://me:secret@db.invalid/a{url}")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(error.to_string().contains("plaintext=on in the URL"), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        let way = |url: &str| {
            let builder = parse(url).unwrap().0;
            let way = way(&builder.reached.options());
            (way.security, way.check(builder.settings.plaintext, "").is_ok())
        };
        for (url, security, allowed) in [
            ("postgres://me:secret@db/a?plaintext=on", ConnectionSecurity::Plain, true),
            ("postgres://me@db/a", ConnectionSecurity::Plain, true),
            ("postgres://me:secret@db/a?sslmode=require", ConnectionSecurity::Unverified, true),
            ("postgres://me:secret@db/a?sslmode=verify-ca", ConnectionSecurity::Unverified, true),
            ("postgres://me:secret@db/a?sslmode=verify-full", ConnectionSecurity::Verified, true),
            ("postgres://me:secret@127.0.0.1/a", ConnectionSecurity::Local, true),
            ("postgres://me:secret@[::1]/a", ConnectionSecurity::Local, true),
            ("postgres://me:secret@localhost/a", ConnectionSecurity::Local, true),
            ("postgres://me:secret@db/a?host=/run/postgresql", ConnectionSecurity::Local, true),
            ("postgres://me:secret@localhost/a?host=db", ConnectionSecurity::Plain, false),
        ] {
            assert_eq!(way(url), (security, allowed), "{url}");
        }
    }

    #[test]
    fn the_schema_names_the_tables() {
        let sql = schema("postgres://db/a?table_prefix=app&longest_lease=1m").unwrap();
        assert!(sql.contains("\"app_locks\"") && sql.contains("\"app_fence\""), "{sql}");
        assert!(sql.contains("\"public\".\"app_locks\""), "{sql}");
        let other = schema("postgres://db/a?schema=Own").unwrap();
        assert!(
            other.contains("\"Own\".\"leasehold_locks\"") && !other.contains("public"),
            "{other}"
        );
        let error = schema("postgres://db/a?schema=a.b").unwrap_err();
        assert!(error.to_string().contains("schema \"a.b\" is not allowed"), "{error}");
        let error = schema("postgres://me:?schema=secret@db/a").unwrap_err();
        assert!(error.to_string().contains("schema is not allowed"), "{error}");
        assert!(sql.contains("'60000000 microseconds'") && !sql.contains('{'), "{sql}");
    }
}
