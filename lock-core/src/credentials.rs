//! Credentials that change while a client runs. The client asks a provider for them on each new
//! connection.

use std::{error::Error as StdError, fmt, sync::Arc};

use tokio::time::{Instant, timeout_at};

use crate::{BoxFuture, Error, ErrorKind};

/// A password or token, and its user. `Debug` shows neither.
#[derive(Clone)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// The password or token of this user. A line break at its end is left out, with a warning.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: of_one_line(password.into()) }
    }

    /// The password or token of the server's default user. etcd has no such user, and refuses it
    /// with `Config`.
    #[must_use]
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: of_one_line(password.into()) }
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

/// Leaves out the line break at the end, which a file has and a password does not.
fn of_one_line(mut password: String) -> String {
    let end = password.trim_end_matches(['\r', '\n']).len();
    if end < password.len() {
        tracing::warn!(target: "leasehold", "the password or token ends with a line break, which is left out; was it read from a file?");
        password.truncate(end);
    }
    password
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

type Answer = Result<Credentials, Box<dyn StdError + Send + Sync>>;

/// The source of a client's credentials, for passwords and tokens that change while the client
/// runs.
///
/// The client asks its provider each time before it authenticates: on each new connection to Redis,
/// and with etcd also when the cluster no longer accepts the client's token. The client keeps an
/// authenticated connection for as long as the server does. While a server is down, the client may
/// connect many times a second. So a provider that calls another service should cache its answer
/// until shortly before it expires.
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
/// # Durations
///
/// The call counts towards the time limit of the connection, 5 s by default.
///
/// # Errors
///
/// The provider may return any error. A `leasehold::Error` of the kind `Auth` or `Config` keeps its
/// kind, and the client does not retry it. Every other error, and a call that takes too long,
/// becomes `Unavailable`. The error becomes the source of the client's error, so **its text is
/// shown** in messages and logs: put no secret into it.
///
/// # Cancel safety
///
/// The client drops the future when the time limit is over.
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

    /// Asks for the credentials. For backends.
    ///
    /// # Errors
    /// `Unavailable` if there is no answer by `by`; otherwise those of the provider.
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

/// A provider that always returns the same credentials.
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
        // Nothing was sent to the store, so no request has an unknown outcome.
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
