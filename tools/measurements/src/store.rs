//! A store in a comparison, and the connections to it.

use std::sync::Arc;

use futures_util::future::try_join_all;
use leasehold::{StoreUrl, open};
use lock_core::{Backend, Env as _, Error, ErrorKind, LockClient, LockName, OwnerId, SystemEnv};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::floor::{self, Floor, Setting};

/// A store, and its name in the report.
#[derive(Clone, Debug)]
pub struct Store {
    /// A short name, such as the URL's scheme.
    pub name: String,
    /// Its URL.
    pub url: StoreUrl,
}

/// The stores that need no server: memory, and SQLite in a file in the returned folder, which is
/// removed when it is dropped.
///
/// # Errors
/// `Unavailable` if the folder for temporary files cannot be used.
pub fn embedded() -> Result<(Vec<Store>, TempDir), Error> {
    let unavailable = |error: std::io::Error| {
        Error::new(ErrorKind::Unavailable, "no folder for a temporary file").with_source(error)
    };
    let folder = tempfile::tempdir().map_err(unavailable)?;
    let mut stores = vec![Store::new(StoreUrl::new("memory:")?)];
    if cfg!(feature = "sqlite") {
        let file = folder.path().join("locks.db");
        stores.push(Store::new(StoreUrl::new(format!("sqlite:{}", file.display()))?));
    }
    Ok((stores, folder))
}

impl Store {
    /// A store whose name is the scheme of its URL.
    #[must_use]
    pub fn new(url: StoreUrl) -> Self {
        Self { name: url.scheme().to_owned(), url }
    }
}

/// The number of clients of one store; each stands for a process.
const CLIENTS: usize = 4;

/// A store in a run.
pub(crate) struct Subject {
    pub(crate) store: Store,
    /// The clients, each with its own connection.
    pub(crate) clients: Vec<LockClient>,
    pub(crate) floor: Option<Box<dyn Floor>>,
    /// Why there is no floor.
    pub(crate) no_floor: Option<String>,
    /// As the store reported them before the measurements.
    pub(crate) settings: Vec<Setting>,
    run: OwnerId,
}

impl Subject {
    pub(crate) async fn open(store: Store) -> Result<Self, Error> {
        let first = open(store.url.clone()).await?;
        refuse_if_in_use(&store, &*first).await?;
        let more = try_join_all((1..CLIENTS).map(|_| open(store.url.clone()))).await?;
        let clients = std::iter::once(first).chain(more).map(LockClient::new).collect();
        let (floor, no_floor) = match floor::of(&store.url).await {
            Ok(floor) => (Some(floor), None),
            Err(why) => (None, Some(why)),
        };
        let settings = match &floor {
            Some(floor) => floor.about().await,
            None => Vec::new(),
        };
        let run = OwnerId::from_bits(SystemEnv.random());
        Ok(Self { store, clients, floor, no_floor, settings, run })
    }

    /// A name that nobody else uses.
    pub(crate) fn name(&self, part: impl std::fmt::Display) -> LockName {
        let name = LockName::new(format!("{}{part}", self.ours()));
        name.unwrap_or_else(|_| unreachable!("short, and without control characters"))
    }

    /// The prefix of all names of this run.
    fn ours(&self) -> String {
        format!("leasehold compare {}: ", self.run)
    }

    /// The count of the store so far, if it counts.
    pub(crate) async fn count(&self) -> Option<u64> {
        match &self.floor {
            Some(floor) => floor.count().await,
            None => None,
        }
    }

    pub(crate) async fn counted_since(&self, before: Option<u64>) -> Option<u64> {
        let before = before?;
        self.count().await?.checked_sub(before)
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.clients[0].backend()
    }

    /// Releases all locks of this run, also those of a process or a client that was interrupted.
    pub(crate) async fn close(&self) {
        let (first, others) = self.clients.split_at(1);
        for client in others {
            client.close().await;
        }
        self.free_ours().await;
        for client in first {
            client.close().await;
        }
        if let Some(floor) = &self.floor {
            floor.close().await;
        }
    }

    /// Releases only names of this run. If this fails, their leases end after some seconds.
    async fn free_ours(&self) {
        let (ours, mut from) = (self.ours(), None);
        while let Ok(page) = self.backend().list(from).await {
            for lock in page.locks.iter().filter(|lock| lock.name.as_str().starts_with(&ours)) {
                let _ = self.backend().force_release(&lock.name).await;
            }
            from = page.next;
            if from.is_none() {
                return;
            }
        }
    }
}

/// Waits for all tasks. Returns their results, or the first error; the other tasks are then
/// aborted.
pub(crate) async fn finished<T: Send + 'static>(
    mut tasks: JoinSet<Result<T, Error>>,
) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(ended) => all.push(ended?),
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => unreachable!("nobody cancels them but a drop of the set"),
            },
        }
    }
    Ok(all)
}

async fn refuse_if_in_use(store: &Store, backend: &dyn Backend) -> Result<(), Error> {
    let mut from = None;
    loop {
        let page = backend.list(from).await?;
        if let Some(held) = page.locks.iter().find(|lock| lock.holder.is_some()) {
            let message = format!(
                "{} is in use: {:?} is held; name a store, a prefix or a database in which \
                 nobody holds a lock, since a comparison loads it",
                store.url,
                held.name.as_str()
            );
            backend.close().await;
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}
