//! Single calls, each with a time limit.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use etcd_client::{
    Client, LeaseKeepAliveStream, LeaseKeeper, LeaseTimeToLiveOptions, LeaseTimeToLiveResponse,
    StatusResponse, Txn, TxnResponse, WatchOptions, WatchStream,
};
use lock_core::{Env as _, Error, Instant, SystemEnv};
use tokio::time::timeout_at;

use super::{
    error::{Failure, failure, late},
    login::Login,
    members::Members,
};

/// A connection to etcd. Clones share it.
#[derive(Clone)]
pub(crate) struct Rpc {
    /// Shared, because it is large and every waiter clones this struct.
    client: Arc<Client>,
    login: Arc<Login>,
    pub(crate) members: Members,
    pub(crate) limit: Duration,
}

/// A lease as etcd granted or extended it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// In etcd's whole seconds.
    pub(crate) ttl: Duration,
    /// An instant before its grant or last extension was requested: its time counts from here.
    pub(crate) from: Instant,
}

impl Rpc {
    pub(crate) fn new(client: Client, login: Login, members: Members, limit: Duration) -> Self {
        Self { client: Arc::new(client), login: Arc::new(login), members, limit }
    }

    /// Authenticates for the first time, if the client has credentials.
    pub(crate) async fn log_in(&self, by: tokio::time::Instant) -> Result<(), Error> {
        self.login.renew(&self.client, self.login.round(), by).await
    }

    /// Makes a call. If etcd rejects the authentication token, gets a new token and repeats the
    /// call once.
    async fn within<T, F: Future<Output = Result<T, etcd_client::Error>>>(
        &self,
        call: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let position = self.members.position();
        let by = tokio::time::Instant::now() + self.limit;
        let round = self.login.round();
        let mut answer = timeout_at(by, call()).await;
        if let Ok(Err(error)) = &answer
            && self.login.is_rejected(error)
        {
            self.login.renew(&self.client, round, by).await?;
            answer = timeout_at(by, call()).await;
        }
        match answer {
            Ok(answer) => answer.map_err(failure),
            Err(_) => {
                // This member hangs or is unreachable. Another may serve.
                self.members.give_up_silent(position);
                Err(Failure::Error(late(self.limit)))
            }
        }
    }

    /// A transaction.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Failure> {
        self.within(|| {
            let (mut client, txn) = (self.client.kv_client(), txn.clone());
            async move { client.txn(txn).await }
        })
        .await
    }

    /// The state of the member that answers.
    pub(crate) async fn status(&self) -> Result<StatusResponse, Failure> {
        self.within(|| {
            let mut client = self.client.maintenance_client();
            async move { client.status().await }
        })
        .await
    }

    /// A new lease of at least `ttl`, rounded up to whole seconds.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<Lease, Failure> {
        let from = SystemEnv.now();
        let seconds = i64::try_from(whole_seconds(ttl)).unwrap_or(i64::MAX);
        let grant = || {
            let mut client = self.client.lease_client();
            async move { client.grant(seconds, None).await }
        };
        let granted = self.within(grant).await?;
        let ttl = Duration::from_secs(u64::try_from(granted.ttl()).unwrap_or(0));
        Ok(Lease { id: granted.id(), ttl, from })
    }

    /// Revokes a lease, which deletes its keys; `false` if it was gone already.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<bool, Failure> {
        let revoke = || {
            let mut client = self.client.lease_client();
            async move { client.revoke(lease).await }
        };
        match self.within(revoke).await {
            Ok(_) => Ok(true),
            Err(Failure::LeaseGone) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// The remaining TTL of a lease; zero if it is gone.
    pub(crate) async fn remaining(&self, lease: i64) -> Result<Duration, Error> {
        match self.time_to_live(lease, LeaseTimeToLiveOptions::new()).await {
            Ok(answer) => Ok(Duration::from_secs(u64::try_from(answer.ttl()).unwrap_or(0))),
            Err(Failure::LeaseGone) => Ok(Duration::ZERO),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Whether a lease lives, and no key lives by it.
    pub(crate) async fn is_unused(&self, lease: i64) -> Result<bool, Failure> {
        let answer = self.time_to_live(lease, LeaseTimeToLiveOptions::new().with_keys()).await?;
        Ok(answer.ttl() > 0 && answer.keys().is_empty())
    }

    async fn time_to_live(
        &self,
        lease: i64,
        options: LeaseTimeToLiveOptions,
    ) -> Result<LeaseTimeToLiveResponse, Failure> {
        self.within(|| {
            let (mut client, options) = (self.client.lease_client(), options.clone());
            async move { client.time_to_live(lease, Some(options)).await }
        })
        .await
    }

    pub(crate) async fn watch(
        &self,
        key: &str,
        options: WatchOptions,
    ) -> Result<WatchStream, Failure> {
        self.within(|| {
            let (mut client, options) = (self.client.watch_client(), options.clone());
            async move { client.watch(key, Some(options)).await }
        })
        .await
    }

    /// Opens a keepalive stream; `None` if the lease is gone. The client library itself sends a
    /// first keepalive of `lease`, and hides its answer.
    pub(crate) async fn stream(
        &self,
        lease: i64,
    ) -> Result<Option<(LeaseKeeper, LeaseKeepAliveStream)>, Error> {
        let open = || {
            let mut client = self.client.lease_client();
            async move { client.keep_alive(lease).await }
        };
        match self.within(open).await {
            Ok(stream) => Ok(Some(stream)),
            Err(Failure::LeaseGone) => Ok(None),
            Err(failure) => {
                let error = Error::from(failure);
                match std::error::Error::source(&error).and_then(|source| source.downcast_ref()) {
                    // The client library returns this error here only for an answer with a TTL of
                    // 0.
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
        // The `Debug` of the client would show the password.
        f.debug_struct("Rpc").field("limit", &self.limit).finish_non_exhaustive()
    }
}
