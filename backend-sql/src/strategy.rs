//! How a lock is taken: the two strategies, written once for all databases.

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
    /// The row stays: a conditional update takes it if its version is the one that was read before,
    /// or that this client left behind. The table keeps a row for every name ever used.
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

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is ours.
    Yes(Grant),
    /// It is another's; or it was free and was snatched away, or is not to be had by this owner.
    No(Option<Row>),
}

/// The primary key: one statement takes the lock or does nothing. Readers go this way by both strategies: one joins
/// whatever version the row has.
pub(crate) async fn primary_key<D: Dialect>(
    dialect: &D,
    versions: &Versions,
    request: &Request,
) -> Result<Taken, Error> {
    let mut looks_first = dialect.looks_first(request);
    if !looks_first
        && request.mode == Mode::Exclusive
        && versions.recall(&request.name).is_some()
        && let Some(token) = dialect.retake(request, None).await?
    {
        return Ok(Taken::Yes(grant(request, token)));
    }
    let mut last = None;
    for _ in 0..TRIES {
        if !std::mem::take(&mut looks_first)
            && let Some(token) = dialect.insert(request).await?
        {
            return Ok(Taken::Yes(grant(request, token)));
        }
        match dialect.look_to_take(request).await? {
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

/// A row that is held, or that others take first. Where it is our own by an earlier attempt, that is
/// the same grant, with the lease anew.
async fn held<D: Dialect>(dialect: &D, request: &Request, row: Row) -> Result<Taken, Error> {
    let mut ours = grant(request, row.token);
    if row.granted {
        return Ok(Taken::Yes(ours));
    }
    if row.is_held()
        && row.owner == Some(request.owner)
        && let Some(lease) = dialect.renew_one(&ours).await?
    {
        ours.lease = lease;
        return Ok(Taken::Yes(ours));
    }
    Ok(Taken::No(Some(row)))
}

/// The version: read, decide here, and change the row only if nobody has meanwhile.
pub(crate) async fn optimistic<D: Dialect>(
    dialect: &D,
    versions: &Versions,
    request: &Request,
) -> Result<Taken, Error> {
    let mut last = None;
    for _ in 0..TRIES {
        let taken = match versions.recall(&request.name) {
            Some(version) => dialect.retake(request, Some(version)).await?,
            None => match dialect.look_to_take(request).await? {
                None => {
                    dialect.create(&request.name).await?;
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

/// The versions at which this client left names behind, so that it need not look before it takes one
/// again, and knows that there is a row. What is out of date costs a statement.
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

    /// Each is used once.
    fn recall(&self, name: &LockName) -> Option<i64> {
        self.0.lock().remove(name)
    }
}
