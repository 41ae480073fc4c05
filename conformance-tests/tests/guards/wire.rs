//! What the cases have in common: a store behind a proxy that leaves something out.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::Proxy;
use futures_util::future::{BoxFuture, join};
use lock_core::{
    Attempt, Backend, Env as _, Grant, Init, LockName, OwnerId, OwnerLabel, Request, SystemEnv,
};

/// What a case says: how the store broke its word.
pub(crate) type Verdict = Result<(), String>;

/// A guard, and the case that must fail without it.
pub(crate) struct Guard<S: 'static> {
    /// In words, with the requirement.
    pub(crate) what: &'static str,
    /// Texts that the client sends, and what the server gets in their place.
    pub(crate) texts: &'static [(&'static str, &'static str)],
    pub(crate) case: fn(&mut S) -> BoxFuture<'_, Verdict>,
}

/// A store whose texts can be altered.
#[async_trait::async_trait]
pub(crate) trait Stage: Sized + Send {
    /// Starts a server, and a proxy that alters these texts.
    async fn start(texts: &[(&str, &str)]) -> Self;
    fn proxy(&self) -> &Proxy;
    /// How often a text was altered on its way.
    fn altered(&self) -> u64 {
        self.proxy().counters().altered
    }
}

/// Tries each guard: with it the case passes, without it the case fails. The two are tried side by side, since
/// each waits for its server most of the time.
pub(crate) async fn try_all<S: Stage>(guards: &[Guard<S>]) {
    let mut wrong = Vec::new();
    for Guard { what, texts, case } in guards {
        let (mut sound, mut broken) = join(S::start(&[]), S::start(texts)).await;
        let (passed, verdict) = join(case(&mut sound), case(&mut broken)).await;
        let altered = broken.altered();
        println!("{what}: {verdict:?} ({altered} texts altered)");
        if let Err(why) = passed {
            wrong.push(format!("{what}: fails with the guard: {why}"));
        } else if altered == 0 {
            wrong.push(format!("{what}: the text was not sent, so that nothing was left out"));
        } else if verdict.is_ok() {
            wrong.push(format!("{what}: SURVIVED"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) async fn open(url: &str) -> Arc<dyn Backend> {
    leasehold::open(url).await.unwrap()
}

/// A connection to a store that grants at once.
pub(crate) async fn first_use(url: &str) -> Arc<dyn Backend> {
    let store = open(url).await;
    store.init(&Init { first_use: true, ..Init::default() }).await.unwrap();
    store
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(text: &str, lease: Duration) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("guards").unwrap();
    Request::new(name(text), owner, label, lease, SystemEnv.now())
}

pub(crate) async fn granted(store: &dyn Backend, request: &Request) -> Result<Grant, String> {
    match store.try_acquire(request).await {
        Ok(Attempt::Granted(grant)) => Ok(grant),
        other => Err(format!("{} was not granted: {other:?}", request.name)),
    }
}

/// The store must not grant this.
pub(crate) async fn not_granted(store: &dyn Backend, request: &Request) -> Verdict {
    let asking = async {
        loop {
            match store.try_acquire(request).await {
                Ok(Attempt::Granted(grant)) => {
                    return Err(format!("{} was granted, with {}", request.name, grant.token));
                }
                Ok(_) => return Ok(()),
                // A connection that broke with its server.
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    tokio::time::timeout(LONG, asking).await.unwrap_or_else(|_| Err("no answer".into()))
}

/// The second must be above the first.
pub(crate) fn above(first: &Grant, second: &Grant) -> Verdict {
    match second.token > first.token {
        true => Ok(()),
        false => Err(format!("token {} came after {}", second.token, first.token)),
    }
}
