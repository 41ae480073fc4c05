//! The builder of a store, and its URL.

use std::{path::PathBuf, sync::Arc};

use lock_core::{Backend, Error, SeenOptions, unknown_option};
use percent_encoding::percent_decode_str;
use sqlx::SqlitePool;

use super::{connection::open::File, statements, store::Sqlite, sys};
use crate::{
    backend::SqlBackend,
    settings::{Settings, refusal, setters},
    tunables::sqlite::SHORTEST_LEASE,
};

/// Describes a store in a SQLite file.
#[derive(Clone, Debug)]
pub struct SqliteBuilder {
    path: PathBuf,
    pool: Option<SqlitePool>,
    group: bool,
    settings: Settings,
}

setters!(SqliteBuilder);

impl SqliteBuilder {
    /// The file at `path`. The first use that writes makes it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), pool: None, group: false, settings: Settings::default() }
    }

    /// Whether a new file is also for the users of its group: with mode 0660 instead of 0600.
    /// Default: no. Give the folder the setgid bit (`chmod g+s`): then the file has the folder's
    /// group. Without it the file has the group of the user who makes it.
    #[must_use]
    pub fn group_access(mut self, on: bool) -> Self {
        self.group = on;
        self
    }

    /// Uses the database of your pool. A statement takes one of its connections for some
    /// microseconds. Set the database to WAL mode, or readers of the database delay the locks. If
    /// the file is deleted, moved or replaced, or its `-wal` or `-shm` is deleted, all locks of
    /// this store are lost, and each call is refused until you open the pool and the store anew.
    #[must_use]
    pub fn with_pool(pool: SqlitePool) -> Self {
        let path = pool.connect_options().get_filename().to_owned();
        Self { pool: Some(pool), ..Self::new(path) }
    }

    /// Opens the store. If there is no file yet, the first use that writes makes it. `build`
    /// refuses a file that users other than its owner and its group may read, since each of them
    /// could end all locks. With your own pool it only warns, by `tracing`. It also refuses a file
    /// that is mounted by itself or has hard links, with or without your own pool: clients may use
    /// it without the files beside it.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Config` or `Unavailable`, naming the
    /// path, for a file that cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        self.open().await.map_err(|error| error.at("sqlite", "connect"))
    }

    async fn open(self) -> Result<Arc<dyn Backend>, Error> {
        let strategy = self.settings.strategy;
        let tables = self.settings.check(SHORTEST_LEASE)?;
        let file = File::new(self.path, self.pool, self.group, tables, self.settings)?;
        let sqlite = Sqlite::new(file).await?;
        Ok(Arc::new(SqlBackend::new(sqlite, strategy)))
    }
}

/// Opens the store that a URL describes:
/// `sqlite:PATH?strategy=optimistic&table_prefix=leasehold&longest_lease=30s&timeout=5s&\
/// access=group`.
/// All after the path may be left out. PATH is percent-encoded, and relative if it does not begin
/// with a slash. `access` is `owner` (default) or `group`: see [`SqliteBuilder::group_access`]. No
/// option may occur twice.
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
        let settings = parse(url)?.settings;
        let tables = settings.check(SHORTEST_LEASE)?;
        let longest = settings.longest_lease_of_new();
        let locks = statements::schema(&tables, longest.as_millis() as i64);
        Ok(format!("{locks}\n{}", statements::fence_schema(&tables)))
    };
    schema().map_err(|error: Error| error.at("sqlite", "schema"))
}

pub(crate) fn parse(url: &str) -> Result<SqliteBuilder, Error> {
    let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
        refusal("the URL of a SQLite store begins with sqlite: and the path of a file".to_owned())
    })?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // `sqlite:///var/x` and `sqlite:/var/x` mean the same; so does `sqlite://relative`, as in sqlx.
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = percent_decode_str(path).decode_utf8().map_err(|_| {
        refusal(format!("{path:?} is no path for a store; it must be UTF-8, percent-encoded"))
    })?;
    if path.is_empty() || path == ":memory:" {
        let message = "a SQLite store needs the path of a file, as in sqlite:locks.db; \
                       for one process there is memory:";
        return Err(refusal(message.to_owned()));
    }
    let mut builder = SqliteBuilder::new(sys::file_path(path.into_owned()));
    let mut given = SeenOptions::default();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        given.once(&key)?;
        if key == "access" {
            builder.group = match &*value {
                "owner" => false,
                "group" => true,
                _ => {
                    let message =
                        format!("access={value} is not allowed; it must be owner or group");
                    return Err(refusal(message));
                }
            };
        } else if !builder.settings.set(&key, &value)? {
            let allowed = format_args!("{}, access", Settings::KEYS);
            return Err(unknown_option(query, &key, allowed));
        }
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use lock_core::ErrorKind;

    use super::*;
    use crate::Strategy;

    #[test]
    fn a_url_says_what_a_builder_can() {
        let url = "sqlite:/a%20b/l.db?strategy=optimistic&table_prefix=x&longest_lease=1m&timeout=2s&access=group";
        let builder = parse(url).unwrap();
        assert!(builder.group && !parse("sqlite:x?access=owner").unwrap().group);
        assert_eq!(builder.path, Path::new("/a b/l.db"));
        assert_eq!(builder.settings.strategy, Strategy::Optimistic);
        assert_eq!(builder.settings.timeout, Duration::from_secs(2));
        assert_eq!(parse("sqlite:locks.db").unwrap().path, Path::new("locks.db"));
        assert_eq!(parse("sqlite:///v/l.db").unwrap().path, Path::new("/v/l.db"));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (url, part) in [
            ("sqlite:", "path of a file"),
            ("sqlite::memory:", "memory:"),
            ("sqlite:a?mode=rw", "unknown option in the URL; it must be one of"),
            ("sqlite:a?strategy=x", "must be primary-key or optimistic"),
            ("sqlite:a?timeout=x", "timeout=x"),
            ("sqlite:a?access=all", "must be owner or group"),
            ("sqlite:a?timeout=1s&timeout=2s", "timeout is given twice"),
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
