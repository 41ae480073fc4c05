//! A server in which leasehold and foreign clients lock.

use std::net::SocketAddr;

use servers::{
    Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions, Server as _,
};

/// ShedLock's documentation requires this for its TIMESTAMP.
const UTC: &str = "--default-time-zone=+00:00";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Redis,
    Postgres,
    Mysql,
}

pub(crate) enum Server {
    Redis(Redis),
    Postgres(Postgres),
    Mysql(Mariadb),
}

impl Server {
    pub(crate) async fn start(kind: Kind) -> Self {
        match kind {
            Kind::Redis => Self::Redis(Redis::start(RedisOptions::new()).await.unwrap()),
            Kind::Postgres => {
                Self::Postgres(Postgres::start(PostgresOptions::new()).await.unwrap())
            }
            Kind::Mysql => {
                Self::Mysql(Mariadb::start(MariadbOptions::new().flag(UTC)).await.unwrap())
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Redis(server) => server.address(),
            Self::Postgres(server) => server.address(),
            Self::Mysql(server) => server.address(),
        }
    }

    pub(crate) fn url(&self, layout: &str) -> String {
        let address = self.address();
        match self {
            Self::Redis(_) => format!("redis://{address}?layout={layout}"),
            Self::Postgres(_) => format!("postgres://postgres@{address}/postgres?layout={layout}"),
            Self::Mysql(_) => {
                format!("mysql://root@{address}/test?ssl-mode=disabled&layout={layout}")
            }
        }
    }

    /// ShedLock's table, as its documentation has it.
    pub(crate) async fn make_table(&self) {
        let time = match self {
            Self::Redis(_) => return,
            Self::Postgres(_) => "TIMESTAMP",
            Self::Mysql(_) => "TIMESTAMP(3)",
        };
        let columns = "lock_until TIME NOT NULL, locked_at TIME NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name)";
        let columns = columns.replace("TIME", time);
        self.sql(&format!("CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, {columns})")).await;
    }

    /// Runs SQL, and returns the answer.
    pub(crate) async fn sql(&self, sql: &str) -> String {
        match self {
            Self::Redis(_) => panic!("it is no database"),
            Self::Postgres(server) => server.sql(sql).await.unwrap(),
            Self::Mysql(server) => server.sql(sql).await.unwrap(),
        }
    }

    /// Runs a command of Redis, and returns the answer.
    pub(crate) async fn redis(&self, args: &[&str]) -> String {
        let Self::Redis(server) = self else { panic!("it is no Redis") };
        server.cli(args).await.unwrap().trim().to_owned()
    }
}
