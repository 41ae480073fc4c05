//! A migration in phase `Both` over two stores that a test may spoil.

use std::{sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use lock_core::{
    Backend, Env as _, FencingToken, Grant, LockName, OwnerId, OwnerLabel, ReleaseOptions, Request,
    SystemEnv,
};

use super::faulty::Faulty;

pub(crate) const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn name() -> LockName {
    LockName::new("job").unwrap()
}

pub(crate) fn request(owner: u128) -> Request {
    let label = OwnerLabel::new("test").unwrap();
    Request::new(name(), OwnerId::from_bits(owner), label, LEASE, SystemEnv.now())
}

/// Two stores, the first and the second in the order of acquisition, and a migration over them.
pub(crate) struct Two {
    pub(crate) stores: [Arc<Faulty>; 2],
    pub(crate) both: Arc<Migration>,
}

impl Two {
    pub(crate) async fn new() -> Self {
        // Identities of their own: by those of the memories 10 would come before 9.
        let stores = ["first", "second"].map(|identity| Arc::new(Faulty::named(identity)));
        let both = both(&stores).await;
        Self { stores, both }
    }

    /// From now on the second store's tokens are ahead, as with a clock that is: the first is raised.
    pub(crate) async fn second_is_ahead(&self) -> FencingToken {
        let mut early = request(7);
        let ahead = SystemEnv.wall_micros() + 5_000_000;
        early.floor = FencingToken::new(ahead).unwrap();
        let memory = &self.stores[1].memory;
        let grant = memory.try_acquire(&early).await.unwrap().granted().unwrap();
        memory.release(&grant, ReleaseOptions::default()).await.unwrap();
        grant.token
    }

    /// Whether the store has no holder.
    pub(crate) async fn is_free(&self, side: usize) -> bool {
        let state = self.stores[side].memory.inspect(&name()).await.unwrap();
        state.is_none_or(|state| state.holder.is_none())
    }

    /// Waits until neither is held.
    pub(crate) async fn all_free(&self) {
        let free = async {
            for side in 0..2 {
                while !self.is_free(side).await {
                    tokio::task::yield_now().await;
                }
            }
        };
        // Far from the lease, which is the bound of what is left behind.
        tokio::time::timeout(LEASE / 2, free).await.expect("a store is not free");
        assert!(self.stores.iter().all(|store| store.spent()), "a planted fault did not happen");
    }

    /// Waits until only the second store is held, by this grant.
    pub(crate) async fn all_but_the_second(&self, held: &Grant) {
        while !self.is_free(0).await {
            tokio::task::yield_now().await;
        }
        let state = self.stores[1].memory.inspect(&name()).await.unwrap().unwrap();
        assert_eq!(state.holder.unwrap().owner, held.owner);
    }
}

pub(crate) async fn both(stores: &[Arc<Faulty>; 2]) -> Arc<Migration> {
    let [old, new] = stores.clone().map(|store| store as Arc<dyn Backend>);
    Arc::new(Migration::new(old, new, Phase::Both).await.unwrap())
}

pub(crate) async fn granted(store: &dyn Backend, owner: u128) -> Grant {
    store.try_acquire(&request(owner)).await.unwrap().granted().unwrap()
}
