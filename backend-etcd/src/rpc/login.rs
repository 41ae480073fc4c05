//! How a client authenticates: when it connects, and when etcd no longer accepts its token.
//!
//! An authentication token ends when it is unused for a while (5 minutes by default), when the
//! server process that made it ends, and when the user's password or permissions change. etcd then
//! refuses requests before it carries anything out.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use etcd_client::Client;
use lock_core::{CredentialsProvider, Error, ErrorKind};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

use super::error::{failure, late_login};

/// etcd's answers to a request with a token that it no longer accepts, whatever the status code.
/// From `rpctypes/error.go`, as in etcd's own client.
const REJECTED_TOKEN: [&str; 3] = [
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
    "etcdserver: user name is empty",
];

pub(crate) struct Login {
    provider: Option<CredentialsProvider>,
    /// How often the client has authenticated.
    round: AtomicU64,
    /// The last failure. The caller that authenticates holds this lock, and the others wait for it.
    failed: Mutex<Option<(Instant, Error)>>,
}

impl Login {
    pub(crate) fn new(provider: Option<CredentialsProvider>) -> Self {
        Self { provider, round: AtomicU64::new(0), failed: Mutex::default() }
    }

    /// The number of the token with which a request that starts now is sent.
    pub(super) fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    /// Whether a new token may help.
    pub(super) fn is_rejected(&self, error: &etcd_client::Error) -> bool {
        const UNAUTHENTICATED: i32 = 16;
        let etcd_client::Error::GRpcStatus(status) = error else { return false };
        let rejected =
            status.code() as i32 == UNAUTHENTICATED || REJECTED_TOKEN.contains(&status.message());
        rejected && self.provider.is_some()
    }

    /// Authenticates, unless another caller did since `round`. If a try fails, all callers that
    /// were waiting for it get the same failure. So a provider that hangs costs all of them
    /// together one time limit, not one each.
    pub(super) async fn renew(
        &self,
        client: &Client,
        round: u64,
        by: Instant,
    ) -> Result<(), Error> {
        let Some(provider) = &self.provider else { return Ok(()) };
        let asked = Instant::now();
        // Callers that hold this lock began earlier, and their time limits end earlier.
        let mut failed = self.failed.lock().await;
        if self.round() != round {
            return Ok(());
        }
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        match authenticate(client, provider, by).await {
            Ok(()) => {
                self.round.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

async fn authenticate(
    client: &Client,
    provider: &CredentialsProvider,
    by: Instant,
) -> Result<(), Error> {
    let credentials = provider.ask(by).await?;
    let Some(user) = credentials.user() else {
        let message = "the credentials for etcd name no user, and must name one";
        return Err(Error::new(ErrorKind::Config, message));
    };
    let user = Some((user.to_owned(), credentials.password().to_owned()));
    // All clones of the client share the token.
    let mut client = client.clone();
    match timeout_at(by, client.update_user(user)).await {
        Ok(answer) => answer.map_err(|error| failure(error).into()),
        Err(_) => Err(late_login()),
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("provider", &self.provider).finish_non_exhaustive()
    }
}
