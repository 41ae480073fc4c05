//! A test of every backend on a real server whose records have another version than this code:
//! [`refused`]. The backend implements [`Versioned`], which writes the version into the store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Env as _, Error, ErrorKind, FencingToken, Grant, Init, LockClient, LockName,
    OwnerId, OwnerLabel, RecordWrite, ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv,
};
use servers::wait::until;

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

/// A store whose version a test sets.
#[async_trait]
pub trait Versioned: Send + Sync + 'static {
    /// Makes a new connection.
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error>;

    /// Writes the version of the records.
    async fn plant(&self, version: u64);

    /// All that the store has, except what changes with time.
    async fn contents(&self) -> String;
}

fn request(name: &str) -> Request {
    let (name, label) = (LockName::new(name).unwrap(), OwnerLabel::new("test").unwrap());
    Request::new(name, OwnerId::from_bits(SystemEnv.random()), label, LEASE, SystemEnv.now())
}

async fn granted(store: &dyn Backend, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("{} should have been free: {other:?}", request.name),
    }
}

/// Asserts that the step was refused, in one line that says what helps.
fn told(what: &str, error: Option<Error>, stored: u64, helps: &str) {
    let Some(error) = error else { panic!("{what}: not refused") };
    let line = format!("{error:#}");
    let known = format!("the store's records have version {stored}; this leasehold knows version");
    assert!(line.contains(&known) && line.contains(helps), "{what}: {line}");
    assert!(!line.contains('\n'), "{what}: {line}");
    assert!(!error.is_ambiguous(), "{what}: {line}");
}

/// Tries each step that a client of another version must not take.
async fn all_refused(store: &dyn Backend, held: (&Request, &Grant), stored: u64, helps: &str) {
    let (own, grant) = held;
    let told = |what: &str, error| told(what, error, stored, helps);
    told("an attempt", store.try_acquire(&request("other")).await.err());
    let read = store.read_record(&own.name).await.err();
    if read.as_ref().is_none_or(|error| error.kind() != ErrorKind::Unsupported) {
        told("a read of a record", read);
        let write = RecordWrite::new("late", LEASE).unwrap();
        told("a write of a record", store.write_record(grant, &write).await.err());
    }
    told("an attempt on a held lock", store.try_acquire(&request("held")).await.err());
    told("a repeat", store.try_acquire(own).await.err());
    told("a queue entry", store.enqueue(&request("held")).await.err());
    let renewal = store.renew(&[grant], SystemEnv.now()).await.pop();
    let Some(Renewal::Unknown(error)) = renewal else { panic!("a renewal: {renewal:?}") };
    told("a renewal", Some(error));
    if store.guarantees().raise {
        let above = FencingToken::new(grant.token.get() + 1).unwrap();
        told("a raise", store.raise(grant, above).await.err());
    }
    told("inspect", store.inspect(&own.name).await.err());
    told("list", store.list(None).await.err());
    told("force", store.force_release(&own.name).await.err());
    match store.highest_token().await {
        Ok(None) => {}
        highest => told("check", highest.err()),
    }
}

/// Tests that every step refuses a version that this code does not know, and writes nothing. That
/// includes clients that connected before, that hold a lock or wait for one. A client may only be
/// able to release what it holds.
///
/// # Panics
/// Where it is not.
pub async fn refused(world: &dyn Versioned) {
    let store = world.connect().await.unwrap();
    let known = store.guarantees().record_version.unwrap();
    let own = request("held");
    let held = granted(&*store, &own).await;
    let waiting = LockClient::new(world.connect().await.unwrap());
    let waiter = tokio::spawn(waiting.lock("held").lease(LEASE).acquire());
    let (stored, helps) = (known + 1, "upgrade leasehold");
    world.plant(stored).await;
    let answer = tokio::time::timeout(SOON, waiter).await.expect("the waiter is told").unwrap();
    told("a waiter", answer.err(), stored, helps);
    waiting.close().await;

    let before = world.contents().await;
    assert!(before.contains("held"), "{before}");
    all_refused(&*store, (&own, &held), stored, helps).await;
    told("init", store.init(&Init::new()).await.err(), stored, helps);
    let first_use = Init::new().with_first_use(true);
    told("a first use", store.init(&first_use).await.err(), stored, helps);
    // A backend may refuse at the connect, or at the first request.
    let newcomer = match world.connect().await {
        Ok(store) => store.try_acquire(&request("other")).await.err(),
        Err(error) => Some(error),
    };
    told("a newcomer", newcomer, stored, helps);
    assert_eq!(world.contents().await, before, "something was written");

    let mut released = store.release(&held, ReleaseOptions::default()).await;
    if let Err(error) = released {
        told("a release", Some(error), stored, helps);
        assert_eq!(world.contents().await, before, "something was written");
        world.plant(known).await;
        released = store.release(&held, ReleaseOptions::default()).await;
    } else {
        world.plant(known).await;
    }
    assert_eq!(released.unwrap().outcome, ReleaseOutcome::Released);
    // The queue entry of the refused waiter may be served first; nobody claims that grant.
    let attempt = || async {
        Ok(match store.try_acquire(&request("held")).await.unwrap() {
            Attempt::Granted(grant) => Some(grant),
            _ => None,
        })
    };
    let again = until("the lock to be granted again", SOON, attempt).await.unwrap();
    assert!(again.token > held.token);
}
