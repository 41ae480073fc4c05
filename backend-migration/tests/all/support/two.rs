//! A migration in phase `Both` over two stores with planted faults.

use std::{sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use lock_core::{
    Backend, Enqueued, Env as _, FencingToken, Grant, LockName, OwnerId, OwnerLabel,
    ReleaseOptions, Request, SystemEnv, Waiter,
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
        // Fixed identities, because those of the memories have no fixed order: 10 would come before
        // 9.
        let stores = ["first", "second"].map(|identity| Arc::new(Faulty::named(identity)));
        let both = both(&stores).await;
        Self { stores, both }
    }

    /// Puts the second store's tokens ahead, as if its clock were ahead. Then the first store's
    /// must be raised.
    pub(crate) async fn second_is_ahead(&self) {
        let mut early = request(7);
        let ahead = SystemEnv.wall_micros() + 5_000_000;
        early.floor = FencingToken::new(ahead).unwrap();
        let memory = &self.stores[1].memory;
        let grant = memory.try_acquire(&early).await.unwrap().granted().unwrap();
        memory.release(&grant, ReleaseOptions::default()).await.unwrap();
    }

    /// Whether the store has no holder.
    pub(crate) async fn is_free(&self, side: usize) -> bool {
        let state = self.stores[side].memory.inspect(&name()).await.unwrap();
        state.is_none_or(|state| state.holder.is_none())
    }

    /// Waits until neither store has a holder.
    pub(crate) async fn all_free(&self) {
        let free = async {
            for side in 0..2 {
                while !self.is_free(side).await {
                    tokio::task::yield_now().await;
                }
            }
        };
        // Far less than the lease, after which anything that was left behind ends anyway.
        tokio::time::timeout(LEASE / 2, free).await.expect("a store is not free");
        assert!(self.stores.iter().all(|store| store.spent()), "a planted fault did not happen");
    }

    /// Waits until only the second store has a holder, the one of this grant.
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

/// The waiter of a new queue entry.
pub(crate) async fn waits(store: &dyn Backend, request: &Request) -> Box<dyn Waiter> {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(waiter, _) => waiter,
        other => panic!("it did not wait: {other:?}"),
    }
}
