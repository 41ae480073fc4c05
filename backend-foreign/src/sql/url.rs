//! The URL of a store in an SQL database.

use std::sync::Arc;

use backend_sql::shared::{self, Described, micros};
use lock_core::{Backend, Error};

use super::{dialect::backend, server::Server as _, statements::Names, store::ShedLock};
use crate::options::{self, refuse};

/// Options of leasehold's own stores in these databases that have no meaning here.
const NOT_HERE: [&str; 3] = ["strategy", "table_prefix", "listen"];

/// Opens the locks of ShedLock in PostgreSQL:
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?layout=shedlock&table=shedlock`, with the options
/// of a `postgres://` URL except `strategy`, `table_prefix` and `listen`.
#[cfg(feature = "postgres")]
pub(crate) async fn postgres(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let (table, rest) = parse(url)?;
    let (sessions, described) = shared::postgres::sessions(&rest)?;
    let server = super::postgres::Postgres::new(sessions, described.clone());
    Ok(Arc::new(backend(ShedLock::open(server, described, &table).await?)))
}

/// Opens the locks of ShedLock in MySQL or MariaDB:
/// `mysql://USER:PASSWORD@HOST:PORT/DATABASE?layout=shedlock&table=shedlock`, with the options of a
/// `mysql://` URL except `strategy` and `table_prefix`.
#[cfg(feature = "mysql")]
pub(crate) async fn mysql(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let (table, rest) = parse(url)?;
    let (server, described) = shared::mysql::server(&rest)?;
    let server = super::mysql::Mysql::new(server, described.clone());
    Ok(Arc::new(backend(ShedLock::open(server, described, &table).await?)))
}

/// The SQL that creates the tables for such a URL.
#[cfg(feature = "postgres")]
pub(crate) fn postgres_schema(url: &str) -> Result<String, Error> {
    let (table, rest) = parse(url)?;
    let described = shared::postgres::described(&rest)?;
    let names = Names::new(&described, &table, super::postgres::Postgres::QUOTE)?;
    Ok(super::postgres::schema(&described.tables, &names, longest(&described)))
}

/// The SQL that creates the tables for such a URL.
#[cfg(feature = "mysql")]
pub(crate) fn mysql_schema(url: &str) -> Result<String, Error> {
    let (table, rest) = parse(url)?;
    let described = shared::mysql::described(&rest)?;
    let names = Names::new(&described, &table, super::mysql::Mysql::QUOTE)?;
    Ok(super::mysql::schema(&described.tables, &names, longest(&described)))
}

fn longest(described: &Described) -> i64 {
    micros(described.longest_lease_of_new())
}

/// The table, and the URL without the layout's options.
fn parse(url: &str) -> Result<(String, String), Error> {
    let (options, rest) = options::split(url, |option, _| match option {
        own if NOT_HERE.contains(&own) => Err(refuse(format!(
            "{own} is no option of locks shared with ShedLock; beside those of the server it must be table"
        ))),
        option => Ok(matches!(option, "layout" | "table")),
    })?;
    let value = |wanted: &str| {
        options.iter().find(|(option, _)| option == wanted).map(|(_, value)| value.as_str())
    };
    if value("layout") != Some("shedlock") {
        let message = "this layout is not known in an SQL database; it must be shedlock";
        return Err(refuse(message.to_owned()));
    }
    Ok((value("table").unwrap_or("shedlock").to_owned(), rest))
}
