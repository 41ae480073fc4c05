//! The two strategies by which a lock is taken, written once for all databases.

use std::{collections::HashMap, fmt, str::FromStr};

use lock_core::{Error, ErrorKind, FencingToken, Grant, LockName, Mode, Mutex, Request};
use serde::Deserialize;

use crate::{
    dialect::{Dialect, Row},
    tunables::{REMEMBERED_NAMES, TRIES},
};

/// How a lock is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Strategy {
    /// The row is the lock: one upsert takes it. Rows of free names are swept away.
    #[default]
    PrimaryKey,
    /// The row stays. A conditional update takes it if it still has the version that this client
    /// last read or wrote. The table keeps a row for every name ever used.
    Optimistic,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PrimaryKey => "primary-key",
            Self::Optimistic => "optimistic",
        })
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "primary-key" => Ok(Self::PrimaryKey),
            "optimistic" => Ok(Self::Optimistic),
            other => {
                let message = format!(
                    "strategy {other:?} is not known; it must be primary-key or optimistic"
                );
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
        }
    }
}

/// The result of an attempt.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The request has the lock.
    Yes(Grant),
    /// Another owner has the lock, or was faster, or this owner was abandoned.
    No(Option<Row>),
}

/// Primary key: one statement takes the lock or does nothing. Readers use this with both
/// strategies, since a reader joins whatever version the row has.
pub(crate) async fn primary_key<D: Dialect>(
    dialect: &D,
    versions: &Versions,
    request: &Request,
) -> Result<Taken, Error> {
    let mut reads_first = dialect.reads_first(request);
    if !reads_first
        && request.mode == Mode::Exclusive
        && versions.recall(&request.name).is_some()
        && let Some(token) = dialect.retake(request, None).await?
    {
        return Ok(Taken::Yes(grant(request, token)));
    }
    let mut last = None;
    for _ in 0..TRIES {
        if !std::mem::take(&mut reads_first)
            && let Some(token) = dialect.insert(request).await?
        {
            return Ok(Taken::Yes(grant(request, token)));
        }
        match dialect.read_to_take(request).await? {
            Some(row) if row.granted || row.refuses(request) => {
                return held(dialect, request, row).await;
            }
            row => last = row,
        }
    }
    Ok(Taken::No(last))
}

fn grant(request: &Request, token: FencingToken) -> Grant {
    Grant::new(request, token).with_mode(request.mode)
}

/// The answer for a row that is held, or that others may take first. If an earlier attempt of this
/// owner took it, the answer is the same grant with a new lease.
async fn held<D: Dialect>(dialect: &D, request: &Request, row: Row) -> Result<Taken, Error> {
    let mut ours = grant(request, row.token);
    if row.granted {
        return Ok(Taken::Yes(ours));
    }
    if row.is_held()
        && row.owner == Some(request.owner)
        && let Some(lease) = dialect.renew_one(&ours).await?
        && dialect.is_usable(request, &ours).await?
    {
        ours.lease = lease;
        return Ok(Taken::Yes(ours));
    }
    Ok(Taken::No(Some(row)))
}

/// Optimistic: reads the row, decides here, and changes the row only if nobody else has changed it.
pub(crate) async fn optimistic<D: Dialect>(
    dialect: &D,
    versions: &Versions,
    request: &Request,
) -> Result<Taken, Error> {
    let mut last = None;
    for _ in 0..TRIES {
        let taken = match versions.recall(&request.name) {
            Some(version) => dialect.retake(request, Some(version)).await?,
            None => match dialect.read_to_take(request).await? {
                None => {
                    dialect.create_row(&request.name).await?;
                    dialect.take(request, 0).await?
                }
                Some(row) if row.is_taken() => return held(dialect, request, row).await,
                Some(row) => {
                    let version = row.version;
                    last = Some(row);
                    dialect.take(request, version).await?
                }
            },
        };
        if let Some(token) = taken {
            return Ok(Taken::Yes(grant(request, token)));
        }
    }
    Ok(Taken::No(last))
}

/// The versions of the rows that this client released. With a version, it can take the row again
/// without reading it first. A version that is out of date costs one statement.
#[derive(Debug, Default)]
pub(crate) struct Versions(Mutex<HashMap<LockName, i64>>);

impl Versions {
    pub(crate) fn note(&self, name: &LockName, version: i64) {
        let mut versions = self.0.lock();
        if versions.len() >= REMEMBERED_NAMES {
            versions.clear();
        }
        versions.insert(name.clone(), version);
    }

    /// Returns a version and forgets it.
    fn recall(&self, name: &LockName) -> Option<i64> {
        self.0.lock().remove(name)
    }
}
