//! The parts that the steps share.

use std::{collections::HashMap, sync::Arc, time::Duration};

use etcd_client::Txn;
use lock_core::{ConnectionSecurity, Error, ErrorKind, LockName, Mutex, OwnerId};

use crate::{
    keys::{
        entry::{EnqueueAttempt, StoredEntry},
        layout::KeyLayout,
        reserved::ReservedKeys,
    },
    leases::{Keepalives, Leases},
    restore::RestoreCheck,
    rpc::{Rpc, gets, incomplete, revision},
    waiting::{Waiters, Watch},
};

/// Locks in etcd.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) rpc: Rpc,
    pub(crate) layout: KeyLayout,
    pub(crate) keepalives: Keepalives,
    pub(crate) leases: Leases,
    pub(crate) restore: RestoreCheck,
    pub(crate) reserved_keys: ReservedKeys,
    pub(crate) attempts: Attempts,
    pub(crate) waiters: Waiters,
    pub(crate) watch: Arc<Watch>,
}

impl Store {
    /// `expected` is the longest lease of the client's configuration. `pool` is how many unused
    /// leases of each length it keeps.
    pub(crate) async fn open(
        rpc: Rpc,
        layout: KeyLayout,
        connection: ConnectionSecurity,
        expected: Option<Duration>,
        pool: usize,
    ) -> Result<Arc<Self>, Error> {
        let restore = RestoreCheck::new(rpc.clone(), layout.clone(), connection, expected);
        let history = restore.history_token().await?.history;
        let longest = restore.settings().record.longest_lease();
        if let Some(expected) = expected.filter(|expected| *expected != longest) {
            let show = humantime::format_duration;
            let message = format!(
                "this client expects the longest lease {}, and the store has {}; `init` changes it",
                show(expected),
                show(longest)
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        // etcd shows its shortest lease only by granting it.
        let probe = rpc.grant(Duration::from_secs(1)).await?;
        restore.set_shortest_lease(probe.ttl);
        let keepalives = Keepalives::new(rpc.clone());
        let waiters = Waiters::default();
        Ok(Arc::new(Self {
            leases: Leases::new(rpc.clone(), keepalives.clone(), pool, probe, history),
            restore,
            reserved_keys: ReservedKeys::new(),
            attempts: Attempts::default(),
            watch: Arc::new(Watch::new(rpc.clone(), layout.prefix().to_owned(), waiters.clone())),
            waiters,
            keepalives,
            rpc,
            layout,
        }))
    }

    /// The first entry in the queue of a name, and how many entries there are.
    pub(crate) async fn first_entry(
        &self,
        name: &LockName,
    ) -> Result<(Option<StoredEntry>, i64), Error> {
        let reads = [self.layout.get_first(name), self.layout.get_settings()];
        let answer = self.rpc.txn(Txn::new().and_then(reads)).await?;
        let got = gets(&answer);
        let [first, found] = &got[..] else { return Err(incomplete()) };
        self.restore.note_found(found, revision(&answer))?;
        Ok((StoredEntry::from_get(first), first.count()))
    }
}

/// Enqueue attempts whose outcome is unknown, by owner.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<OwnerId, EnqueueAttempt>>);

impl Attempts {
    pub(crate) fn get(&self, owner: OwnerId) -> Option<EnqueueAttempt> {
        self.0.lock().get(&owner).cloned()
    }

    pub(crate) fn note(&self, owner: OwnerId, attempt: EnqueueAttempt) {
        self.0.lock().insert(owner, attempt);
    }

    pub(crate) fn forget(&self, owner: OwnerId) {
        self.0.lock().remove(&owner);
    }
}
