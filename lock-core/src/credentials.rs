//! Credentials that change while a client runs: a provider is asked for them on each new connection.

use std::{error::Error as StdError, fmt, sync::Arc};

use tokio::time::{Instant, timeout_at};

use crate::{BoxFuture, Error, ErrorKind};

/// A password or a token, and the user to whom it belongs. `Debug` shows neither.
#[derive(Clone)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// The password or token of this user.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// The password or token of the server's default user. etcd has no such user, and refuses it with `Config`.
    #[must_use]
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// The user; `None` for the server's default user.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password or token.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

type Answer = Result<Credentials, Box<dyn StdError + Send + Sync>>;

/// Where a client gets its credentials from, for passwords and tokens that change while it runs.
///
/// A client asks its provider each time before it authenticates: on each new connection to Redis, and in etcd also
/// when the cluster no longer accepts the client's token. A connection that is authenticated stays in use for as long
/// as the server keeps it. A server that is down may be tried many times a second, so a provider that calls another
/// service should keep its answer until that is about to expire.
///
/// ```
/// use lock_core::{Credentials, CredentialsProvider};
///
/// # async fn token() -> std::io::Result<String> { Ok("secret".into()) }
/// let provider = CredentialsProvider::new(|| async {
///     let token = token().await?; // from a file or a service
///     Ok(Credentials::new("worker", token))
/// });
/// assert!(!format!("{provider:?}").contains("secret"));
/// ```
///
/// *Durations*: the call counts in the time limit of the connection (5 s unless set).
///
/// *Errors*: any error may be returned. A `leasehold::Error` of the kind `Auth` or `Config` keeps its kind, and the client
/// does not try again by itself. Every other error, and a call that takes too long, is `Unavailable`. The error is
/// the source of the client's error, so **its text is shown** in messages and logs: put no secret in it.
///
/// *Cancel safety*: the future is dropped when the time limit is over.
#[derive(Clone)]
pub struct CredentialsProvider(Arc<dyn Fn() -> BoxFuture<Answer> + Send + Sync>);

impl CredentialsProvider {
    /// A provider that calls `ask` each time.
    #[must_use]
    pub fn new<F, A>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(ask())))
    }

    /// Asks. For backends.
    ///
    /// # Errors
    /// `Unavailable` if there is no answer until `by`; otherwise those of the provider.
    pub async fn ask(&self, by: Instant) -> Result<Credentials, Error> {
        match timeout_at(by, (self.0)()).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => {
                let message =
                    "the credentials provider did not answer within the connection's time limit";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

/// Always the same.
impl From<Credentials> for CredentialsProvider {
    fn from(credentials: Credentials) -> Self {
        Self::new(move || {
            let credentials = credentials.clone();
            async { Ok(credentials) }
        })
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsProvider").finish_non_exhaustive()
    }
}

fn failed(error: Box<dyn StdError + Send + Sync>) -> Error {
    let kind = match error.downcast_ref().map(Error::kind) {
        Some(kind @ (ErrorKind::Auth | ErrorKind::Config)) => kind,
        // Nothing was sent to the store, so the outcome of no request is in doubt.
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "the credentials provider failed").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;

    async fn answer(answer: fn() -> Answer) -> Result<Credentials, Error> {
        let provider = CredentialsProvider::new(move || async move { answer() });
        provider.ask(Instant::now() + Duration::from_secs(1)).await
    }

    #[tokio::test]
    async fn an_error_of_the_provider_is_told_with_its_text_and_a_fitting_kind() {
        for (kind, told) in [
            (ErrorKind::Auth, ErrorKind::Auth),
            (ErrorKind::Config, ErrorKind::Config),
            (ErrorKind::Unavailable, ErrorKind::Unavailable),
            (ErrorKind::OutcomeUnknown, ErrorKind::Unavailable),
            (ErrorKind::Lost, ErrorKind::Unavailable),
        ] {
            let provider =
                CredentialsProvider::new(
                    move || async move { Err(Error::new(kind, "no role").into()) },
                );
            let error = provider.ask(Instant::now() + Duration::from_secs(1)).await.unwrap_err();
            assert_eq!(error.kind(), told, "{kind:?}");
            assert!(format!("{error:#}").contains("the credentials provider failed"), "{error:#}");
            assert!(format!("{error:#}").ends_with("no role"), "{error:#}");
        }
        let error = answer(|| Err(io::Error::other("the agent is down").into())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(format!("{error:#}").ends_with("the agent is down"), "{error:#}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_hangs_is_given_up() {
        let provider = CredentialsProvider::new(std::future::pending);
        let by = Instant::now() + Duration::from_secs(5);
        let error = provider.ask(by).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("credentials provider did not answer"), "{error}");
        assert!(Instant::now() >= by);
    }

    #[tokio::test]
    async fn nothing_shows_a_user_or_a_password() {
        let credentials = Credentials::new("alice", "sesame");
        let provider = CredentialsProvider::from(credentials.clone());
        let asked = provider.ask(Instant::now() + Duration::from_secs(1)).await.unwrap();
        assert_eq!((asked.user(), asked.password()), (Some("alice"), "sesame"));
        assert_eq!(answer(|| Ok(Credentials::of_default_user("x"))).await.unwrap().user(), None);
        let shown = format!("{credentials:?} {credentials:#?} {provider:?} {provider:#?}");
        assert!(!shown.contains("alice") && !shown.contains("sesame"), "{shown}");
    }
}
