//! Single calls, each with a time limit.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use etcd_client::{
    Client, LeaseKeepAliveStream, LeaseKeeper, StatusResponse, Txn, TxnResponse, WatchOptions,
    WatchStream,
};
use lock_core::{Env as _, Error, Instant, SystemEnv};

use crate::{
    error::{Failure, failure, late},
    members::Members,
};

/// A connection to etcd. Clones share it.
#[derive(Clone)]
pub(crate) struct Rpc {
    /// Large, and cloned with every turn.
    client: Arc<Client>,
    pub(crate) members: Members,
    pub(crate) limit: Duration,
}

/// A lease as etcd set it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// In etcd's whole seconds.
    pub(crate) ttl: Duration,
    /// An instant before its last extension was asked for.
    pub(crate) from: Instant,
}

impl Rpc {
    pub(crate) fn new(client: Client, members: Members, limit: Duration) -> Self {
        Self { client: Arc::new(client), members, limit }
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, Failure> {
        let turn = self.members.turn();
        match tokio::time::timeout(self.limit, call).await {
            Ok(answer) => answer.map_err(failure),
            Err(_) => {
                // It hangs, or is cut off: another may serve.
                self.members.give_up(turn);
                Err(Failure::Error(late(self.limit)))
            }
        }
    }

    /// A transaction.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Failure> {
        self.within(self.client.kv_client().txn(txn)).await
    }

    /// How far the member that answers is.
    pub(crate) async fn status(&self) -> Result<StatusResponse, Failure> {
        self.within(self.client.maintenance_client().status()).await
    }

    /// A new lease of at least `ttl`, rounded up to whole seconds.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<Lease, Failure> {
        let from = SystemEnv.now();
        let seconds = i64::try_from(whole_seconds(ttl)).unwrap_or(i64::MAX);
        let mut client = self.client.lease_client();
        let granted = self.within(client.grant(seconds, None)).await?;
        let ttl = Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0));
        Ok(Lease { id: granted.id(), ttl, from })
    }

    /// Ends a lease and deletes its keys; `false` if it was gone already.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<bool, Failure> {
        match self.within(self.client.lease_client().revoke(lease)).await {
            Ok(_) => Ok(true),
            Err(Failure::LeaseGone) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// What is left of a lease; zero if it is gone.
    pub(crate) async fn remaining(&self, lease: i64) -> Result<Duration, Error> {
        match self.within(self.client.lease_client().time_to_live(lease, None)).await {
            Ok(answer) => Ok(Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or(0))),
            Err(Failure::LeaseGone) => Ok(Duration::ZERO),
            Err(failure) => Err(failure.into()),
        }
    }

    pub(crate) async fn watch(
        &self,
        key: &str,
        options: WatchOptions,
    ) -> Result<WatchStream, Failure> {
        self.within(self.client.watch_client().watch(key, Some(options))).await
    }

    /// Opens a keepalive stream. The client sends a first keepalive of `lease` itself, and hides
    /// what it was answered: `None` if the lease is gone.
    pub(crate) async fn stream(
        &self,
        lease: i64,
    ) -> Result<Option<(LeaseKeeper, LeaseKeepAliveStream)>, Error> {
        match self.within(self.client.lease_client().keep_alive(lease)).await {
            Ok(stream) => Ok(Some(stream)),
            Err(Failure::LeaseGone) => Ok(None),
            Err(failure) => {
                let error = Error::from(failure);
                match std::error::Error::source(&error).and_then(|source| source.downcast_ref()) {
                    // So the client says that it was answered a TTL of 0, and in no other case here.
                    Some(etcd_client::Error::LeaseKeepAliveError(_)) => Ok(None),
                    _ => Err(error),
                }
            }
        }
    }
}

/// Rounded up, as etcd counts.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client's own would show the password.
        f.debug_struct("Rpc").field("limit", &self.limit).finish_non_exhaustive()
    }
}
