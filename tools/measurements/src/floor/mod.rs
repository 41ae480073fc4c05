//! The floors: what a store costs without leasehold, through its own client. These are its cheapest
//! round trip, its cheapest write, and the least that any lock in this store must do for acquire
//! and release (the *bare lock*).

#[cfg(feature = "etcd")]
mod etcd;
mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use async_trait::async_trait;
use leasehold::StoreUrl;
use serde::Serialize;

/// An error of a store's own client.
pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// A version or a setting of a store, as the store reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// Its name, as in the store's own documentation.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Setting {
    /// Its value, or `(empty)`.
    pub(crate) fn shown(&self) -> &str {
        if self.value.is_empty() { "(empty)" } else { &self.value }
    }

    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

#[async_trait]
pub(crate) trait Floor: Send + Sync {
    /// The cheapest round trip.
    async fn ping(&self) -> Result<(), Trouble>;

    /// The cheapest write that is as durable as the locks are.
    async fn write(&self) -> Result<(), Trouble>;

    /// The bare lock: acquires and releases the lock of this task, which nobody else wants.
    async fn pair(&self, task: usize) -> Result<(), Trouble>;

    /// What `pair` does, in words.
    fn pair_is(&self) -> &'static str;

    /// The bare lock when many tasks run at the same time.
    async fn pair_of_many(&self, task: usize) -> Result<(), Trouble> {
        self.pair(task).await
    }

    /// What `pair_of_many` does, in words.
    fn pair_of_many_is(&self) -> &'static str {
        self.pair_is()
    }

    /// The versions and settings that matter to locks, if this user may read them.
    async fn about(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// What the store counts, such as scripts or statements; `None` if it counts nothing.
    fn counts(&self) -> Option<&'static str> {
        None
    }

    /// The count so far, without the call that reads it.
    async fn count(&self) -> Option<u64> {
        None
    }

    /// Removes what it has written.
    async fn close(&self);
}

/// Opens the floor of a store. An error says why there is none.
pub(crate) async fn of(url: &StoreUrl) -> Result<Box<dyn Floor>, String> {
    let floor: Result<Box<dyn Floor>, Trouble> = match (url.scheme(), as_drivers_read(url.expose()))
    {
        ("memory", _) => Ok(Box::new(memory::Map::default())),
        #[cfg(feature = "redis")]
        ("redis" | "rediss", plain) => redis::one(&plain).await,
        #[cfg(feature = "redlock")]
        ("redlock" | "redlocks", plain) => redis::quorum(&plain).await,
        #[cfg(feature = "etcd")]
        ("etcd", plain) => etcd::open(&plain).await,
        #[cfg(feature = "zookeeper")]
        ("zookeeper", plain) => zookeeper::open(&plain).await,
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", plain) => sql::postgres(&plain).await,
        #[cfg(feature = "mysql")]
        ("mysql" | "mariadb", plain) => sql::mysql(&plain).await,
        #[cfg(feature = "sqlite")]
        ("sqlite", plain) => sql::sqlite(&plain).await,
        (scheme, _) => {
            return Err(format!("{scheme} has no server of its own to measure a floor on"));
        }
    };
    // The error of a driver may show the URL, which may contain a password.
    floor.map_err(|_| "the store's own client could not be set up for it".to_owned())
}

/// The URL without leasehold's own parameters, which a driver would refuse.
fn as_drivers_read(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else { return url.to_owned() };
    let drivers = |pair: &&str| pair.starts_with("ssl");
    let kept: Vec<_> = query.split('&').filter(drivers).collect();
    if kept.is_empty() { place.to_owned() } else { format!("{place}?{}", kept.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_given_its_own_parameters() {
        for (url, plain) in [
            ("redis://h", "redis://h"),
            ("redis://h?longest_lease=2s", "redis://h"),
            ("mysql://h/d?ssl-mode=disabled&strategy=x", "mysql://h/d?ssl-mode=disabled"),
        ] {
            assert_eq!(as_drivers_read(url), plain);
        }
    }
}
