//! What enters etcd's log, and that it is long enough for a restore to be seen.
//!
//! A restored log has an entry for each member and few more. Where it had not many more when the snapshot
//! was taken, it soon has as many again, and nobody could tell it from the one that was lost. So a log that
//! is short is made longer once in the life of a cluster.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnResponse};
use futures_util::future::try_join_all;
use lock_core::Error;

use crate::{
    error::Failure,
    history::Look,
    rpc::Lease,
    settings::Record,
    store::{EtcdBackend, revision},
};

/// How long the log is made: a restored one does not get there by what a server does by itself, nor by what
/// clients send that do not know of it yet.
pub(crate) const LONG: u64 = 1_000;
/// How many entries are asked for at once: etcd flushes them together. All took 0.4 s in a debug build on a
/// machine with five times more to do than processors.
const AT_ONCE: u64 = 250;
/// How often something is sent anew for which there was only a connection that nobody had looked at.
const TRIES: usize = 8;

/// Whether a log is to be made longer.
pub(crate) fn is_short(index: u64) -> bool {
    index < LONG
}

impl EtcdBackend {
    /// Makes the log [`LONG`], by entries that write nothing. If it cannot be done now, the next client
    /// does it that looks.
    pub(crate) async fn lengthen(&self, look: &Look) {
        let mut index = look.index;
        while is_short(index) {
            let entries = (index..LONG).take(AT_ONCE as usize).map(|_| {
                // A transaction that may put something enters the log, also if it does not.
                let never = Compare::version(self.layout.settings(), CompareOp::Less, 0);
                let put = TxnOp::put(self.layout.settings(), "", None);
                self.rpc.write(look.seen(), Txn::new().when([never]).and_then([put]))
            });
            // Others may do the same.
            let next = match try_join_all(entries).await {
                Ok(_) => self.rpc.status().await,
                Err(failure) => Err(failure),
            };
            match next {
                Ok(status) => index = status.raft_index().max(index + 1),
                Err(failure) => {
                    let error = Error::from(failure);
                    tracing::debug!(%error, "the log was not made longer");
                    return;
                }
            }
        }
    }

    /// Keeps in the settings how long the log is now. They are good without it: a failure is not told.
    pub(crate) async fn bring_up_to_date(
        &self,
        look: &Look,
        record: &Record,
        found: i64,
    ) -> Option<(Record, i64, i64)> {
        let next = Record { index: look.index, lead: look.lead.max(record.lead), ..record.clone() };
        let same = Compare::mod_revision(self.layout.settings(), CompareOp::Equal, found);
        let txn = Txn::new().when([same]).and_then([next.put(&self.layout)]);
        match self.rpc.write(look.seen(), txn).await {
            Ok(answer) if answer.succeeded() => Some((next, revision(&answer), revision(&answer))),
            Ok(_) | Err(Failure::Unseen) => None,
            Err(_) => Some((record.clone(), found, look.revision)),
        }
    }

    /// A transaction that writes and grants nothing.
    pub(crate) async fn write(&self, txn: Txn) -> Result<TxnResponse, Failure> {
        for _ in 0..TRIES {
            match self.rpc.write(self.history.seen(), txn.clone()).await {
                Err(Failure::Unseen) => drop(Box::pin(self.pass()).await?),
                answer => return answer,
            }
        }
        Err(Failure::Unseen)
    }

    /// A new lease of at least `ttl`, rounded up to whole seconds.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<Lease, Error> {
        for _ in 0..TRIES {
            match self.rpc.grant(self.history.seen(), ttl).await {
                Err(Failure::Unseen) => drop(Box::pin(self.pass()).await?),
                answer => return Ok(answer?),
            }
        }
        Err(Failure::Unseen.into())
    }

    /// Ends a lease and deletes its keys; `false` if it was gone already.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<bool, Error> {
        for _ in 0..TRIES {
            match self.rpc.revoke(self.history.seen(), lease).await {
                Err(Failure::Unseen) => drop(Box::pin(self.pass()).await?),
                answer => return Ok(answer?),
            }
        }
        Err(Failure::Unseen.into())
    }
}
