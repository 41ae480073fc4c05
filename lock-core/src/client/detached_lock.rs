//! A held lock without a client, as text that another process may read.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, FencingToken, Grant, Instant, LockName, Mode, OwnerId, OwnerLabel};
use crate::{Request, tunables::DETACHED_VERSION};

/// A held lock that no client renews, made by [`Guard::detach`](crate::Guard::detach). A client
/// that [attaches](crate::LockClient::attach) it has a guard of the same grant.
///
/// Its serialized form is for files, queues and environment variables. **Keep it secret**: who has
/// it can take or release the lock. `Debug` shows only name and token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct DetachedLock {
    pub(super) name: LockName,
    pub(super) owner: OwnerId,
    pub(super) token: FencingToken,
    pub(super) lease: Duration,
    /// The identity of the store; `None` if the store has none.
    pub(super) store: Option<String>,
    /// How many writes of the record were begun under this grant.
    pub(super) record_writes: u64,
    /// Whether a late request of the owner may still reach the store.
    pub(super) doubtful: bool,
}

impl DetachedLock {
    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The fencing token. The guard after an attach has the same.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// The lease that the detach has set, and that an attach sets.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Sets the lease of the next attach.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The grant that the lock was detached from.
    pub(super) fn grant(&self, label: OwnerLabel, now: Instant) -> Grant {
        let request = Request::new(self.name.clone(), self.owner, label, self.lease, now);
        Grant::new(&request, self.token)
    }
}

impl fmt::Debug for DetachedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedLock")
            .field("name", &self.name)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// The serialized form. All but `version` may be missing, so that another version is named before a
/// missing field.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    name: Option<LockName>,
    /// A text, so that no error shows what may be a part of the id.
    owner: Option<String>,
    token: Option<FencingToken>,
    mode: Option<Mode>,
    lease_ms: Option<u64>,
    store: Option<String>,
    #[serde(default)]
    record_writes: u64,
    doubtful: Option<bool>,
}

impl From<DetachedLock> for Written {
    fn from(lock: DetachedLock) -> Self {
        let lease_ms = lock.lease.as_nanos().div_ceil(1_000_000);
        Self {
            version: DETACHED_VERSION,
            name: Some(lock.name),
            owner: Some(lock.owner.to_string()),
            token: Some(lock.token),
            mode: Some(Mode::Exclusive),
            lease_ms: Some(u64::try_from(lease_ms).unwrap_or(u64::MAX)),
            store: lock.store,
            record_writes: lock.record_writes,
            doubtful: Some(lock.doubtful),
        }
    }
}

impl TryFrom<Written> for DetachedLock {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let version = written.version;
        if version != DETACHED_VERSION {
            return Err(refused(format!(
                "has version {version}; this version of leasehold reads {DETACHED_VERSION}"
            )));
        }
        if written.mode != Some(Mode::Exclusive) {
            return Err(refused("must have the mode \"exclusive\""));
        }
        let owner = part(written.owner, "owner")?.parse::<OwnerId>();
        let owner = owner.map_err(|_| refused("has an owner that is not 32 hexadecimal digits"))?;
        if owner == OwnerId::READERS || owner == OwnerId::FOREIGN {
            return Err(refused("has an owner that no client has"));
        }
        Ok(Self {
            name: part(written.name, "name")?,
            owner,
            token: part(written.token, "token")?,
            lease: Duration::from_millis(part(written.lease_ms, "lease_ms")?),
            store: written.store,
            record_writes: written.record_writes,
            doubtful: part(written.doubtful, "doubtful")?,
        })
    }
}

fn part<T>(part: Option<T>, name: &str) -> Result<T, Error> {
    part.ok_or_else(|| refused(format!("has no {name}")))
}

fn refused(why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("the detached lock {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> DetachedLock {
        DetachedLock {
            name: LockName::new("job").unwrap(),
            owner: OwnerId::from_bits(0xabc),
            token: FencingToken::new(7).unwrap(),
            lease: Duration::from_secs(30),
            store: Some("memory:1".into()),
            record_writes: 2,
            doubtful: true,
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_debug_shows_no_secret() {
        let text = serde_json::to_string(&lock()).unwrap();
        assert_eq!(serde_json::from_str::<DetachedLock>(&text).unwrap(), lock());
        assert!(text.contains(&lock().owner.to_string()), "{text}");
        let shown = format!("{:?}", lock());
        assert!(!shown.contains("abc") && shown.contains("job"), "{shown}");
    }

    #[test]
    fn another_version_or_a_changed_part_is_refused_by_name() {
        let text = serde_json::to_string(&lock()).unwrap();
        let refusal = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            serde_json::from_str::<DetachedLock>(&changed).unwrap_err().to_string()
        };
        let owner = lock().owner.to_string();
        for (from, to, said) in [
            (
                r#""version":1"#,
                r#""version":2"#,
                "has version 2; this version of leasehold reads 1",
            ),
            (r#""mode":"exclusive""#, r#""mode":"shared""#, "must have the mode"),
            (owner.as_str(), &"0".repeat(32), "an owner that no client has"),
            (owner.as_str(), "abc", "32 hexadecimal digits"),
            (r#""lease_ms""#, r#""lease""#, "has no lease_ms"),
            (r#""token":7"#, r#""token":-7"#, "-7"),
            (r#""name":"job""#, r#""name":"""#, "name"),
        ] {
            let text = refusal(from, to);
            assert!(text.contains(said), "{from} to {to}: {text}");
        }
        let other = serde_json::from_str::<DetachedLock>(r#"{"version": 9}"#).unwrap_err();
        assert!(other.to_string().contains("has version 9"), "{other}");
    }
}
