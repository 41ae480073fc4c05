//! The common flow, the trait `Dialect`, and the sessions, for backends with other tables on the
//! same servers.

pub use crate::{
    Strategy,
    backend::SqlBackend,
    dialect::{Dialect, Handed, Left, Listed, Row},
    error::{general, token_of},
    gate::Gate,
    records::Records,
    settings::{agree, check_longest},
    tables::Tables,
};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use crate::{
    servers::times::{micros, span},
    sql_files::Others,
};
#[cfg(any(feature = "mysql", feature = "postgres"))]
use lock_core::ConnectionSecurity;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::time::Duration;

/// The options of a store in its URL, except those of the connection.
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[derive(Clone, Debug)]
pub struct Described {
    /// The names of its tables.
    pub tables: Tables,
    /// The longest lease that the client expects.
    pub longest_lease: Option<Duration>,
    /// How long a call may take.
    pub timeout: Duration,
    /// How the connection is protected.
    pub connection: ConnectionSecurity,
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl Described {
    fn new(tables: Tables, settings: &crate::settings::Settings) -> Self {
        let (longest_lease, timeout) = (settings.longest_lease, settings.timeout);
        Self { tables, longest_lease, timeout, connection: settings.connection }
    }

    /// The longest lease of a new store with these options.
    #[must_use]
    pub fn longest_lease_of_new(&self) -> Duration {
        self.longest_lease.unwrap_or(lock_core::StoreSettings::DEFAULT_LONGEST_LEASE)
    }
}

/// PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    use lock_core::Error;

    use super::Described;
    pub use crate::{
        postgres::{
            connection::{
                arg::Arg,
                sessions::{Sessions, first},
                table_check::found,
            },
            statements::{exists, other_schema, others, owners},
        },
        tunables::postgres::SHORTEST_LEASE,
    };

    /// Reads the options of such a URL. Does not connect.
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of this form.
    pub fn described(url: &str) -> Result<Described, Error> {
        let (builder, _) = crate::postgres::config::parse(url)?;
        Ok(Described::new(builder.tables()?, &builder.settings))
    }

    /// The sessions of a URL as of [`postgres::connect`](crate::postgres::connect). Sends nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of this form; `Config` for a file that cannot be read.
    pub fn sessions(url: &str) -> Result<(Sessions, Described), Error> {
        let (builder, files) = crate::postgres::config::parse(url)?;
        crate::servers::tls::readable(&files)?;
        let (sessions, tables, settings) = builder.reach()?;
        Ok((sessions, Described::new(tables, &settings)))
    }
}

/// MySQL and MariaDB.
#[cfg(feature = "mysql")]
pub mod mysql {
    use lock_core::Error;

    use super::Described;
    pub use crate::{
        mysql::{
            connection::server::Server,
            guarantees::Durability,
            rows::insert_id,
            statements::{Argument, Statement, other_schema, others, refuse_view},
        },
        tunables::mysql::SHORTEST_LEASE,
    };

    /// Reads the options of such a URL. Does not connect.
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of this form.
    pub fn described(url: &str) -> Result<Described, Error> {
        let (builder, _) = crate::mysql::config::parse(url)?;
        let tables = builder.settings.check(SHORTEST_LEASE)?;
        Ok(Described::new(tables, &builder.settings))
    }

    /// The server of a URL as of [`mysql::connect`](crate::mysql::connect). Sends nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of this form; `Config` for a file that cannot be read.
    pub fn server(url: &str) -> Result<(Server, Described), Error> {
        let (builder, files) = crate::mysql::config::parse(url)?;
        crate::servers::tls::readable(&files)?;
        let (server, tables, settings) = builder.reach()?;
        Ok((server, Described::new(tables, &settings)))
    }
}
