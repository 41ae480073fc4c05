//! What is asked of a migration in phase `Both`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use benchmarks::{Call, Contender, call, pairs_of};
use comparison::{Contest, Ratio, Store, Target, Trouble};
use lock_core::{
    Backend, Env as _, FencingToken, Grant, LockClient, LockName, Migration, OwnerId, OwnerLabel,
    Phase, Request, SystemEnv,
};

use crate::duel::{Against::Sum, Duel, How, Of::P50};

/// Opened when its turn has come: a migration keeps records in both stores, and a comparison refuses
/// one in which something is held.
struct Moving {
    from: Store,
    to: Store,
    duel: Option<Duel>,
}

/// Of the first store to the second.
pub(crate) fn contest(from: &Store, to: &Store) -> Box<dyn Contest> {
    Box::new(Moving { from: from.clone(), to: to.clone(), duel: None })
}

#[async_trait]
impl Contest for Moving {
    fn title(&self) -> String {
        format!("migration, {} to {}", self.from.name, self.to.name)
    }

    fn weight(&self) -> f64 {
        4.0
    }

    async fn round(&mut self, unit: Duration) -> Result<Vec<Ratio>, Trouble> {
        if self.duel.is_none() {
            self.duel = Some(duel(&self.from, &self.to).await);
        }
        match &mut self.duel {
            Some(duel) => duel.round(unit).await,
            None => Ok(Vec::new()),
        }
    }
}

async fn duel(from: &Store, to: &Store) -> Duel {
    const PARTS: &[&str] = &["from", "to", "raise"];
    let [old, new] = [from, to].map(|store| leasehold::open(store.url.clone()));
    let (old, new) = (old.await.unwrap(), new.await.unwrap());
    let both = Migration::new(Arc::clone(&old), Arc::clone(&new), Phase::Both).await.unwrap();
    let pair = |store: Arc<dyn Backend>| {
        How::Calls(pairs_of(&Contender::Leasehold(LockClient::new(store))))
    };
    let sum = "acquire + release of each store, and one raise";
    Duel::new(format!("{} to {}", from.name, to.name), "acquire + release")
        .with("in Both", pair(Arc::new(both)))
        .with("raise", How::Calls(raise(&new).await))
        .with("from", pair(old))
        .with("to", pair(new))
        .row("", "in Both", Sum(sum, PARTS), P50, Target::AtMost(1.0))
}

/// Each time to a higher token.
async fn raise(store: &Arc<dyn Backend>) -> Call {
    let (name, owner) = (LockName::new("raised").unwrap(), OwnerId::from_bits(SystemEnv.random()));
    let label = OwnerLabel::new("bench").unwrap();
    let lease = store.guarantees().longest_lease;
    let request = Request::new(name, owner, label, lease, SystemEnv.now());
    let (store, request) = (Arc::clone(store), Arc::new(request));
    let last: Arc<tokio::sync::Mutex<Option<Grant>>> = Arc::default();
    call(move |_| {
        let (store, request, last) = (Arc::clone(&store), Arc::clone(&request), Arc::clone(&last));
        async move {
            let mut last = last.lock().await;
            // The lease ends between rounds.
            let live = last.take().filter(|grant| grant.from + grant.lease / 2 > SystemEnv.now());
            let grant = match live {
                Some(grant) => grant,
                None => {
                    let _ = store.force_release(&request.name).await.unwrap();
                    let mut request = (*request).clone();
                    request.owner = OwnerId::from_bits(SystemEnv.random());
                    store.try_acquire(&request).await.unwrap().granted().unwrap()
                }
            };
            let token = FencingToken::new(SystemEnv.wall_micros() + 1_000).unwrap();
            store.raise(&grant, token).await.unwrap();
            *last = Some(grant);
        }
    })
}
