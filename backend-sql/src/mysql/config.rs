//! The builder of a store, and its URL.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, ConnectionSecurity, Error, is_loopback};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, MySql, MySqlConnection, MySqlPool, SqlSafeStr as _, SqlStr,
    mysql::{MySqlConnectOptions, MySqlSslMode},
    pool::PoolOptions,
};

use super::{connection::server::Server, statements, store::Mysql};
use crate::{
    backend::SqlBackend,
    gate::Gate,
    retry::Retry,
    servers::connect_options::{CAPACITY, Described, Form, Reached, Way, described},
    servers::connections::Connections,
    servers::times::micros,
    servers::tls::{Named, Tls, readable},
    settings::{Settings, server_builder, setters},
    tables::Tables,
    tunables::mysql::SHORTEST_LEASE,
};

/// Describes a store in a MySQL or MariaDB database.
#[derive(Clone, Debug)]
pub struct MysqlBuilder {
    reached: Reached<MySql>,
    pub(crate) settings: Settings,
}

setters!(MysqlBuilder);
server_builder!("mysql", MysqlBuilder, MySqlPool, MySqlConnectOptions);

/// What a URL may say.
const FORM: Form = Form {
    whose: "MySQL",
    schemes: ["mysql", "mariadb"],
    example: "mysql://USER@HOST:PORT/DATABASE?options",
    drivers: &["ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "socket", CAPACITY],
    tls: Tls {
        mode: "ssl-mode",
        plain: ["disabled", "preferred", "required"],
        checked: ["verify_ca", "verify_identity"],
        authority: "ssl-ca",
        own: ["ssl-cert", "ssl-key"],
        variables: None,
    },
    own: &[],
};

impl MysqlBuilder {
    fn new(reached: Reached<MySql>) -> Self {
        Self { reached, settings: Settings::default() }
    }

    async fn open(self) -> Result<Arc<dyn Backend>, Error> {
        let (server, tables, settings) = self.reach()?;
        let strategy = settings.strategy;
        let store = Mysql::new(server, tables, settings).await?;
        Ok(Arc::new(SqlBackend::new(store, strategy)))
    }

    /// The server, to which nothing was sent yet, the names of the tables, and the settings.
    pub(crate) fn reach(mut self) -> Result<(Server, Tables, Settings), Error> {
        let tables = self.settings.check(SHORTEST_LEASE)?;
        let way = way(&self.reached.options());
        self.settings.connection = way.security;
        if let Reached::Options(_) = self.reached {
            way.check(self.settings.plaintext, "ssl-mode=verify_identity (or required)")?;
        }
        let limit = wait_limit(self.settings.timeout);
        let own = move |options: PoolOptions<MySql>| {
            options.after_connect(move |session, _| {
                let limit = limit.clone();
                Box::pin(async move {
                    sqlx::raw_sql(limit).execute(&mut *session).await?;
                    isolate(session).await
                })
            })
        };
        let (pool, given) = self.reached.pool(self.settings.timeout, own);
        let retry = Retry::new(self.settings.timeout, "the server".into());
        let gate = Gate::new(pool.options().get_max_connections(), self.settings.timeout);
        let server = Server { connections: Connections::new(pool, given), retry, gate };
        Ok((server, tables, self.settings))
    }
}

/// The statement by which the server stops waiting for a row or a table when this client has given
/// the call up. Otherwise it waits for 50 s more (a day, for a table), and uses up a session.
fn wait_limit(timeout: Duration) -> SqlStr {
    let seconds = timeout.as_secs().max(1);
    let variables = ["innodb_lock_wait_timeout", "lock_wait_timeout"];
    let set = variables.map(|variable| format!("SESSION {variable} = {seconds}"));
    AssertSqlSafe(format!("SET {}", set.join(", "))).into_sql_str()
}

/// Sets the isolation level under which a statement that waits for one row keeps no other rows, and
/// no gap of the queue, locked meanwhile. A binary log of statements allows no writes under it.
async fn isolate(session: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let statements_logged = "SHOW VARIABLES WHERE (Variable_name = 'log_bin' AND Value = 'ON') \
                             OR (Variable_name = 'binlog_format' AND Value = 'STATEMENT')";
    // The pool would repeat a refusal here until its time is over. The next statement gets the same
    // one.
    let Ok(rows) = sqlx::raw_sql(statements_logged).fetch_all(&mut *session).await else {
        return Ok(());
    };
    if rows.len() < 2 {
        let set = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        sqlx::raw_sql(set).execute(session).await?;
    }
    Ok(())
}

/// The way to the server.
fn way(options: &MySqlConnectOptions) -> Way {
    let is_local = options.get_socket().is_some() || is_loopback(options.get_host());
    let security = match options.get_ssl_mode() {
        _ if is_local => ConnectionSecurity::Local,
        MySqlSslMode::VerifyIdentity => ConnectionSecurity::Verified,
        MySqlSslMode::Required | MySqlSslMode::VerifyCa => ConnectionSecurity::Unverified,
        _ => ConnectionSecurity::Plain,
    };
    // The driver tells it only in a URL, which it cannot make of each host and user.
    let has_password =
        || options.clone().host("h").username("u").to_url_lossy().password().is_some();
    Way { security, has_password: !is_local && has_password() }
}

/// Opens the store that a URL describes:
/// `mysql://USER:PASSWORD@HOST:PORT/DATABASE?strategy=optimistic&table_prefix=leasehold&\
/// longest_lease=30s&timeout=5s&plaintext=on`, also with `mariadb:`. The options may be left out.
/// Of the driver's own options `ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key`, `socket` and
/// `statement-cache-capacity` are passed on; [the module](super) says what those of TLS mean. No
/// option may occur twice.
///
/// # Errors
/// As [`MysqlBuilder::build`]; `InvalidInput` for a URL that is not of this form; `Config` for a
/// file that cannot be read. No message shows the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let builder = parse(url).and_then(|(builder, files)| readable(&files).map(|()| builder));
    builder.map_err(|error| error.at("mysql", "connect"))?.build().await
}

/// The SQL that makes the tables of the store that a URL describes. Does not connect.
///
/// # Errors
/// `InvalidInput` as [`connect`].
pub fn schema(url: &str) -> Result<String, Error> {
    let schema = || {
        let settings = parse(url)?.0.settings;
        let tables = settings.check(SHORTEST_LEASE)?;
        let longest = settings.longest_lease_of_new();
        let locks = statements::schema(&tables, micros(longest));
        let fence = statements::fence_schema(&tables);
        Ok(format!("{locks}\n{fence}"))
    };
    schema().map_err(|error: Error| error.at("mysql", "schema"))
}

/// Also the files for TLS.
pub(crate) fn parse(url: &str) -> Result<(MysqlBuilder, Vec<Named>), Error> {
    let Described { reached, settings, files, .. } = described(url, &FORM)?;
    Ok((MysqlBuilder { reached, settings }, files))
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;
    use crate::{Strategy, servers::connect_options::assert_refused};

    #[test]
    fn a_url_says_what_a_builder_can() {
        let url =
            "mariadb://me:secret@db:3307/app?ssl-mode=disabled&strategy=optimistic&timeout=2s";
        let builder = parse(url).unwrap().0;
        assert_eq!(builder.settings.strategy, Strategy::Optimistic);
        assert_eq!(builder.settings.timeout, Duration::from_secs(2));
        assert!(!format!("{builder:?}").contains("secret"), "{builder:?}");
        let Reached::Options(options) = builder.reached else { panic!("no options") };
        assert_eq!((options.get_host(), options.get_port()), ("db", 3307));
        assert_eq!(options.get_database(), Some("app"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_and_no_password_is() {
        let refused = [
            ("mysql:", "mysql://USER@HOST"),
            ("mysql://me:secret@db/a?mode=rw", "unknown option in the URL"),
            ("mysql://db/a?secret", "unknown option in the URL"),
            ("mysql://db/a?secret=1&timeout=1s", "unknown option in the URL"),
            ("mysql://db/a?passwort=secret", "unknown option in the URL"),
            ("mysql://me:?timeout=secret@db/a", "timeout in the URL is not allowed"),
            ("mysql://me:?strategy=secret@db/a", "strategy in the URL is not allowed"),
            ("mysql://me:?secret@db/a", "unknown option"),
            ("mysql://me:secret@db/a?ssl-mode=secret", "ssl-mode in the URL is not understood"),
            ("mysql://me:%FF@db/a", "no UTF-8"),
            ("mysql://me:secret@db/a?strategy=x", "must be primary-key or optimistic"),
        ];
        assert_refused(parse, &refused);
    }

    /// Refused before anything is sent: the host is not there.
    #[tokio::test]
    async fn a_password_leaves_the_machine_encrypted_or_by_an_explicit_word() {
        use ConnectionSecurity::{Local, Plain, Unverified, Verified};

        for url in ["", "?ssl-mode=preferred", "?ssl-mode=disabled", "?plaintext=off"] {
            let error = connect(&format!("mysql://me:secret@db.invalid/a{url}")).await.unwrap_err();
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
            ("mysql://me:secret@db/a?plaintext=on", Plain, true),
            ("mysql://me@db/a", Plain, true),
            ("mysql://me:secret@db/a?ssl-mode=required", Unverified, true),
            ("mysql://me:secret@db/a?ssl-mode=verify_ca", Unverified, true),
            ("mysql://me:secret@db/a?ssl-mode=verify_identity", Verified, true),
            ("mysql://me:secret@127.0.0.1/a", Local, true),
            ("mysql://me:secret@[::1]/a", Local, true),
            ("mysql://me:secret@db/a?socket=/run/mysqld/mysqld.sock", Local, true),
            ("mysql://me:secret@db/a", Plain, false),
        ] {
            assert_eq!(way(url), (security, allowed), "{url}");
        }
    }

    #[test]
    fn the_schema_names_the_tables() {
        let sql = schema("mysql://db/a?table_prefix=app&longest_lease=1m").unwrap();
        assert!(sql.contains("`app_locks`") && sql.contains("`app_fence`"), "{sql}");
        assert!(sql.contains("(1, 60000000, 0, ") && !sql.contains('{'), "{sql}");
    }
}
