//! ShedLock's tables on servers behind a proxy that removes a guard from the statements.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use lock_core::{Backend, Error, OwnerId};
use servers::{
    Change, Clock, Mariadb, MariadbOptions, Postgres, PostgresOptions, Proxy, Server as _,
};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};
use tokio::sync::Mutex;
use verification::missing_guards::{Clients, Setup};

use crate::server::Server;

pub(super) const POSTGRES: bool = false;
pub(super) const MYSQL: bool = true;

/// The table of one variant. All variants share one server.
pub(super) struct Table<const KIND: bool> {
    pub(super) server: Arc<Server>,
    proxy: Proxy,
    pub(super) table: String,
}

/// The server of each kind. It ends with the last variant that uses it.
static SERVERS: [Mutex<Weak<Server>>; 2] =
    [Mutex::const_new(Weak::new()), Mutex::const_new(Weak::new())];
static TABLES: AtomicU64 = AtomicU64::new(0);

async fn shared(mysql: bool) -> Arc<Server> {
    let mut there = SERVERS[usize::from(mysql)].lock().await;
    if let Some(server) = there.upgrade() {
        return server;
    }
    let server = Arc::new(if mysql {
        Server::Mysql(Mariadb::start(MariadbOptions::new()).await.unwrap())
    } else {
        Server::Postgres(Postgres::start(PostgresOptions::new()).await.unwrap())
    });
    *there = Arc::downgrade(&server);
    server
}

impl<const KIND: bool> Table<KIND> {
    /// With prepared statements, so that the text which the proxy changes contains `$1`, not the
    /// value.
    fn url_with(&self, options: &str) -> String {
        let url = self.server.url("shedlock");
        let [server, proxy] = [self.server.address(), self.proxy.address()];
        let url = url.replace(&server.to_string(), &proxy.to_string());
        let prepare = if KIND == POSTGRES { "&prepare=on" } else { "" };
        format!("{url}&table={}&{options}{prepare}", self.table)
    }

    pub(super) async fn client(&self, options: &str) -> Arc<dyn Backend> {
        Self::connect(&self.url_with(options)).await.unwrap()
    }

    /// The address of the proxy.
    pub(super) fn proxied(&self) -> SocketAddr {
        self.proxy.address()
    }

    /// A statement for MySQL with the name `a` and this owner inserted.
    pub(super) fn filled(&self, text: &str, owner: OwnerId) -> String {
        text.replace("{lock}", &self.table)
            .replace("{utc}", "UTC_TIMESTAMP(6)")
            .replace("$name", "'a'")
            .replace("$owner", &format!("'{owner}'"))
    }

    /// Runs `sql`, in which `{table}` is replaced by the name of the table, and returns the answer.
    pub(super) async fn sql(&self, sql: &str) -> String {
        let sql = sql.replace("{table}", &self.table);
        self.server.sql(&sql).await.trim().to_owned()
    }
}

#[async_trait::async_trait]
impl<const KIND: bool> Setup for Table<KIND> {
    async fn start(changes: &[Change<'_>]) -> Self {
        let server = shared(KIND).await;
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        let table = format!("jobs_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        Self { server, proxy, table }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl<const KIND: bool> Clients for Table<KIND> {
    fn url(&self) -> String {
        self.url_with("timeout=30s")
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_foreign::connect(url).await
    }
}

/// A server whose clock can be stepped.
pub(super) struct Clocked {
    pub(super) server: Postgres,
    pub(super) clock: Clock,
    proxy: Proxy,
}

#[async_trait::async_trait]
impl Setup for Clocked {
    async fn start(changes: &[Change<'_>]) -> Self {
        let clock = Clock::new().await.unwrap();
        let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        Self { server, clock, proxy }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for Clocked {
    fn url(&self) -> String {
        let url = format!("postgres://postgres@{}/postgres", self.proxy.address());
        url + "?layout=shedlock&timeout=30s"
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_foreign::connect(url).await
    }
}

/// A transaction that keeps the row of `a` locked.
pub(super) async fn a_locked_row(server: &Postgres, table: &str) -> PgConnection {
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let mut session = PgConnection::connect(&url).await.unwrap();
    let lock = format!("BEGIN; UPDATE {table} SET locked_by = locked_by WHERE name = 'a'");
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut session).await.unwrap();
    session
}

/// The same in MySQL.
pub(super) async fn a_locked_row_of_mysql(address: SocketAddr, table: &str) -> MySqlConnection {
    let url = format!("mysql://root@{address}/test?ssl-mode=disabled");
    let mut session = MySqlConnection::connect(&url).await.unwrap();
    let lock = format!("BEGIN; SELECT name FROM {table} WHERE name = 'a' FOR UPDATE");
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut session).await.unwrap();
    session
}
