//! How a store is described: by a builder or a URL.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use lock_core::{Backend, Error, ErrorKind, StoreSettings};
use percent_encoding::percent_decode_str;
use sqlx::SqlitePool;

use super::{backend::Sqlite, open::File, statements};
use crate::{Strategy, backend::SqlBackend, tables::Tables};

/// Describes a store in a SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteBuilder {
    path: PathBuf,
    pool: Option<SqlitePool>,
    strategy: Strategy,
    prefix: String,
    longest_lease: Option<Duration>,
    timeout: Duration,
}

impl SqliteBuilder {
    /// The shortest lease.
    pub(super) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
    /// The longest `longest_lease`.
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The file at `path`, which is made at the first use that writes.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            pool: None,
            strategy: Strategy::default(),
            prefix: Tables::DEFAULT_PREFIX.to_owned(),
            longest_lease: None,
            timeout: Duration::from_secs(5),
        }
    }

    /// The database of a pool that you have. A statement of ours takes one of its connections for
    /// some microseconds. Set it to WAL mode, or readers will hold up the lock.
    #[must_use]
    pub fn with_pool(pool: SqlitePool) -> Self {
        let path = pool.connect_options().get_filename().to_owned();
        Self { pool: Some(pool), ..Self::new(path) }
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

    /// How long a call may wait for other users of the file. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens the store. A file that is not there yet is made at the first use that writes.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Config` or `Unavailable`, naming the path,
    /// for a file that cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        self.open().await.map_err(|error| error.at("sqlite", "connect"))
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
        let file = File::new(self.path, self.pool, self.timeout, tables, self.longest_lease)?;
        let sqlite = Sqlite::new(file).await?;
        Ok(Arc::new(SqlBackend::new(sqlite, self.strategy)))
    }
}

pub(super) fn check_longest(longest: Duration) -> Result<(), Error> {
    let (least, most) = (SqliteBuilder::SHORTEST_LEASE, SqliteBuilder::LONGEST);
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
/// `sqlite:PATH?strategy=optimistic&table_prefix=leasehold&longest_lease=30s&timeout=5s`, where all
/// after the path may be left out. PATH is percent-encoded, and relative if it does not begin with
/// a slash.
///
/// # Errors
/// As [`SqliteBuilder::build`]; `InvalidInput` for a URL that is not of this form.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url).map_err(|error| error.at("sqlite", "connect"))?.build().await
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
        let locks = statements::schema(&tables, longest.as_millis() as i64);
        Ok(format!("{locks}\n{}", statements::fence_schema(&tables)))
    };
    schema().map_err(|error: Error| error.at("sqlite", "schema"))
}

fn parse(url: &str) -> Result<SqliteBuilder, Error> {
    let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
        refuse("the URL of a SQLite store begins with sqlite: and the path of a file".to_owned())
    })?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // `sqlite:///var/x` and `sqlite:/var/x` mean the same; so does `sqlite://relative`, as in sqlx.
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = percent_decode_str(path).collect::<Vec<u8>>();
    let path = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path);
    if path.is_empty() || path == ":memory:" {
        let message = "a SQLite store needs the path of a file, as in sqlite:locks.db; \
                       for one process there is memory:";
        return Err(refuse(message.to_owned()));
    }
    let mut builder = SqliteBuilder::new(Path::new(&path));
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let duration = || {
            humantime::parse_duration(&value).map_err(|_| {
                refuse(format!("{key}={value} in the URL is no duration; allowed is such as 30s"))
            })
        };
        builder = match &*key {
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
            other => {
                return Err(refuse(format!(
                    "{other} in the URL of a SQLite store is not known; allowed are strategy, \
                     table_prefix, longest_lease and timeout"
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
        let url =
            "sqlite:/a%20b/l.db?strategy=optimistic&table_prefix=x&longest_lease=1m&timeout=2s";
        let builder = parse(url).unwrap();
        assert_eq!(builder.path, Path::new("/a b/l.db"));
        assert_eq!(builder.strategy, Strategy::Optimistic);
        assert_eq!(builder.prefix, "x");
        assert_eq!(builder.longest_lease, Some(Duration::from_secs(60)));
        assert_eq!(builder.timeout, Duration::from_secs(2));
        assert_eq!(parse("sqlite:locks.db").unwrap().path, Path::new("locks.db"));
        assert_eq!(parse("sqlite:///v/l.db").unwrap().path, Path::new("/v/l.db"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (url, part) in [
            ("sqlite:", "path of a file"),
            ("sqlite::memory:", "memory:"),
            ("sqlite:a?mode=rw", "mode"),
            ("sqlite:a?strategy=x", "allowed are primary-key and optimistic"),
            ("sqlite:a?timeout=x", "timeout=x"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn the_schema_names_the_tables() {
        let sql = schema("sqlite:x?table_prefix=app&longest_lease=1m").unwrap();
        assert!(sql.contains("\"app_locks\"") && sql.contains("\"app_fence\""), "{sql}");
        assert!(sql.contains("VALUES (1, 60000, 0)") && !sql.contains('{'), "{sql}");
    }
}
