//! What the store costs without leasehold: its cheapest round trip and its cheapest write, by its own
//! client, on one connection, one after the other.

#[cfg(feature = "etcd")]
mod etcd;
mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;

use async_trait::async_trait;
use leasehold::StoreUrl;

/// What a floor has to say against its store.
pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

#[async_trait]
pub(crate) trait Floor: Send + Sync {
    /// The cheapest question.
    async fn ping(&self) -> Result<(), Trouble>;

    /// The cheapest write that is as durable as the locks are.
    async fn write(&self) -> Result<(), Trouble>;

    /// Takes away what it has written.
    async fn close(&self);
}

/// The floor of a store; an error says why there is none.
pub(crate) async fn of(url: &StoreUrl) -> Result<Box<dyn Floor>, String> {
    let plain = url.expose().split('?').next().unwrap_or_default();
    let floor: Result<Box<dyn Floor>, Trouble> = match url.scheme() {
        "memory" => Ok(Box::new(memory::Map::default())),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => redis::open(plain).await,
        #[cfg(feature = "etcd")]
        "etcd" => etcd::open(plain).await,
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => sql::postgres(plain).await,
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => sql::mysql(plain).await,
        #[cfg(feature = "sqlite")]
        "sqlite" => sql::sqlite(plain).await,
        scheme => return Err(format!("{scheme} has no single server to measure a floor on")),
    };
    // An error of a driver may show its URL.
    floor.map_err(|_| "the store's own client could not be set up for it".to_owned())
}
