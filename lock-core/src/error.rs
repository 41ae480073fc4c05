//! The error type of all stores and of the client.

use std::{convert::Infallible, error::Error as StdError, fmt, sync::Arc};

use crate::{Busy, LockName, Quarantined};

/// The kind of an error: what a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value of the caller is not allowed. Nothing was sent to the store.
    InvalidInput,
    /// The store or the client is not set up correctly. A retry does not help.
    Config,
    /// The store cannot be reached, or cannot answer now.
    Unavailable,
    /// The store refuses the credentials or the permission.
    Auth,
    /// The caller's wait, or the time limit of a call to the store, is over. The store may still
    /// carry out the call.
    Timeout,
    /// The caller held the lock and has lost it.
    Lost,
    /// This owner does not hold the lock.
    NotHeld,
    /// The store cannot do this. It did nothing weaker instead.
    Unsupported,
    /// It is unknown whether the store has carried out the request.
    OutcomeUnknown,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidInput => "invalid input",
            Self::Config => "wrong configuration",
            Self::Unavailable => "store unavailable",
            Self::Auth => "access refused",
            Self::Timeout => "timed out",
            Self::Lost => "lock lost",
            Self::NotHeld => "lock not held",
            Self::Unsupported => "unsupported",
            Self::OutcomeUnknown => "outcome unknown",
        })
    }
}

/// Why a wait ended without the lock: see [`Error::blocked`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Blocked {
    /// Another owner holds the lock, or waits for it.
    Busy(Busy),
    /// The store is in quarantine and grants nothing for now.
    Quarantined(Quarantined),
}

/// An error of a store or of the client.
///
/// `Display` is one line, without the text of its [`source`](StdError::source). `{:#}` and `Debug`
/// add the texts of all sources to that line; a `main` that returns the error prints `Debug`. None
/// of them shows a password, because backends put no credentials into an error. Clones share their
/// content.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    backend: Option<&'static str>,
    operation: Option<&'static str>,
    server: Option<String>,
    name: Option<LockName>,
    blocked: Option<Blocked>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error with a message for people. The message names the problem, the value and the allowed
    /// range.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            backend: None,
            operation: None,
            server: None,
            name: None,
            blocked: None,
            source: None,
        }))
    }

    /// Sets the underlying error, which must not show credentials.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::from(source.into()));
        self
    }

    /// Sets the backend and the operation that failed.
    #[must_use]
    pub fn at(mut self, backend: &'static str, operation: &'static str) -> Self {
        Arc::make_mut(&mut self.0).backend = Some(backend);
        Arc::make_mut(&mut self.0).operation = Some(operation);
        self
    }

    /// Sets the server that could not be used, such as `host:port`.
    #[must_use]
    pub fn on_server(mut self, server: impl fmt::Display) -> Self {
        Arc::make_mut(&mut self.0).server = Some(server.to_string());
        self
    }

    /// Sets the name of the lock.
    #[must_use]
    pub fn on(mut self, name: &LockName) -> Self {
        Arc::make_mut(&mut self.0).name = Some(name.clone());
        self
    }

    /// Sets why the wait ended without the lock.
    #[must_use]
    pub fn blocked_by(mut self, blocked: Blocked) -> Self {
        Arc::make_mut(&mut self.0).blocked = Some(blocked);
        self
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The backend that failed; `None` if the error is not from a backend.
    #[must_use]
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// The operation that failed, if known.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The server that could not be used, such as `host:port`, if known.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// The name of the lock, if the error is about one.
    #[must_use]
    pub fn name(&self) -> Option<&LockName> {
        self.0.name.as_ref()
    }

    /// Why a wait ended without the lock, if it did.
    #[must_use]
    pub fn blocked(&self) -> Option<&Blocked> {
        self.0.blocked.as_ref()
    }

    /// Whether a wait ended without the lock, because of another owner ([`is_busy`](Self::is_busy))
    /// or a quarantine of the store. [`blocked`](Self::blocked) has the details. `false` if the
    /// store failed.
    #[must_use]
    pub fn is_not_acquired(&self) -> bool {
        self.0.blocked.is_some()
    }

    /// Whether the lock was not acquired because another owner holds it, or waits for it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self.0.blocked, Some(Blocked::Busy(_)))
    }

    /// Whether the caller held the lock and has lost it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }

    /// Whether the store may have carried out the request although the call failed.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Timeout | ErrorKind::OutcomeUnknown)
    }

    /// Whether the same call may succeed later without any change.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutcomeUnknown
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, message, backend, operation, server, name, .. } = &*self.0;
        write!(f, "{kind}: {message}")?;
        let parts = [*backend, *operation].into_iter().flatten().map(str::to_owned);
        let lock = name.as_ref().map(|name| format!("lock {name:?}"));
        let parts: Vec<_> = parts.chain(server.clone()).chain(lock).collect();
        if !parts.is_empty() {
            write!(f, " ({})", parts.join(", "))?;
        }
        if !f.alternate() {
            return Ok(());
        }
        let (mut last, mut source) = (String::new(), self.source());
        while let Some(cause) = source {
            let text = format!("{cause:#}");
            // Many errors of other libraries repeat the text of their source.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
                last = text;
            }
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::FencingToken;

    #[test]
    fn display_shows_kind_message_and_place_without_the_source() {
        let error = Error::new(ErrorKind::Unavailable, "no answer within 5s")
            .at("redis", "renew")
            .on_server("127.0.0.1:6379")
            .on(&LockName::new("job").unwrap())
            .with_source("connection reset");
        assert_eq!(
            error.to_string(),
            "store unavailable: no answer within 5s (redis, renew, 127.0.0.1:6379, lock \"job\")"
        );
        assert_eq!(error.source().unwrap().to_string(), "connection reset");
        assert!(error.is_retryable());
        assert!(!Error::new(ErrorKind::Auth, "no").is_retryable());
    }

    #[test]
    fn the_alternate_form_shows_each_source_once() {
        let inner = std::io::Error::other("connection refused");
        let outer = Error::new(ErrorKind::Unavailable, "no server").with_source(inner);
        let error = Error::new(ErrorKind::Config, "no migration").with_source(outer);
        let line =
            "wrong configuration: no migration: store unavailable: no server: connection refused";
        assert_eq!((format!("{error:#}").as_str(), format!("{error:?}").as_str()), (line, line));
        assert_eq!(error.to_string(), "wrong configuration: no migration");
    }

    #[test]
    fn contention_and_loss_differ_from_failures() {
        let timeout = || Error::new(ErrorKind::Timeout, "not acquired");
        let answers = |error: Error| [error.is_not_acquired(), error.is_busy(), error.is_lost()];
        let busy = Blocked::Busy(Busy::new(None, FencingToken::ZERO, Duration::ZERO));
        assert_eq!(answers(timeout().blocked_by(busy)), [true, true, false]);
        let quarantined = Quarantined::new(Duration::from_secs(1), "restarted");
        let quarantined = Blocked::Quarantined(quarantined);
        assert_eq!(answers(timeout().blocked_by(quarantined)), [true, false, false]);
        // The store did not answer: it is unknown who holds the lock.
        assert_eq!(answers(timeout()), [false; 3]);
        assert_eq!(answers(Error::new(ErrorKind::Lost, "lost")), [false, false, true]);
    }

    #[test]
    fn is_small_to_return() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
