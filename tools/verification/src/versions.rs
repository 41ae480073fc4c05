//! Two tests of every backend on a real server whose records have another version than this code:
//! [`refused`] and [`upgraded`]. The backend implements [`Versioned`], which writes the version
//! into the store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Env as _, Error, ErrorKind, FencingToken, Grant, Init, LockClient, LockName,
    OwnerId, OwnerLabel, ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv,
};
use servers::wait::until;
use tokio::sync::Semaphore;

use conformance_tests::history::{Event, Recorder, Rule, What, assert_clean};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);
const CLIENTS: usize = 4;
const GRANTS: usize = 20;

/// A store whose version a test sets.
#[async_trait]
pub trait Versioned: Send + Sync + 'static {
    /// Makes a new connection.
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error>;

    /// Writes the version of the records. `None` makes them look as before there were versions.
    async fn plant(&self, version: Option<u64>);

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
    world.plant(Some(stored)).await;
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
        world.plant(Some(known)).await;
        released = store.release(&held, ReleaseOptions::default()).await;
    } else {
        world.plant(Some(known)).await;
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

/// [`upgraded_from`] records from before there were versions.
///
/// # Panics
/// Where it is not so.
pub async fn upgraded(world: Arc<dyn Versioned>) {
    upgraded_from(world, None).await;
}

/// Tests the upgrade of records of the older version `stored`, or from before there were versions.
/// Several clients ask for a lock again and again; each is refused until `init` has upgraded the
/// records. From then on they lock, and never two at once. A lock that was held over the upgrade
/// stays held.
///
/// # Panics
/// Where it is not so.
pub async fn upgraded_from(world: Arc<dyn Versioned>, stored: Option<u64>) {
    let older = world.connect().await.unwrap();
    let own = request("held");
    let held = granted(&*older, &own).await;
    world.plant(stored).await;

    let recorder = Recorder::new(1);
    let (mut clients, mut refusals) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let refused = Arc::new(Semaphore::new(0));
        refusals.push(Arc::clone(&refused));
        clients.push(tokio::spawn(lock_often(Arc::clone(&world), recorder.clone(), refused)));
    }
    for refused in &refusals {
        let told = tokio::time::timeout(SOON, refused.acquire()).await;
        told.expect("each client is refused").unwrap().forget();
    }
    let newer = world.connect().await.unwrap();
    let number = stored.unwrap_or(0);
    all_refused(&*newer, (&own, &held), number, "`leasehold init` upgrades them").await;
    let acquired = |event: &&Event| matches!(event.what, What::Acquired { .. });
    let grants = || recorder.history().events().iter().filter(acquired).count();
    assert_eq!(grants(), 0);

    let settings = newer.init(&Init::new()).await.unwrap();
    assert_eq!(settings.grants_in, Duration::ZERO);
    let enough = || async { Ok((grants() >= GRANTS).then_some(())) };
    until("grants after the upgrade", SOON, enough).await.unwrap();
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    assert_clean(&recorder.history(), &[Rule::Exclusion, Rule::Tokens]);

    let renewal = older.renew(&[&held], SystemEnv.now()).await.pop();
    assert!(matches!(renewal, Some(Renewal::Renewed { .. })), "{renewal:?}");
    let other = newer.try_acquire(&request("held")).await.unwrap();
    assert!(matches!(other, Attempt::Busy(_)), "{other:?}");
    // A second `init` changes nothing.
    assert_eq!(newer.init(&Init::new()).await.unwrap(), settings);
}

async fn lock_often(world: Arc<dyn Versioned>, recorder: Recorder, refused: Arc<Semaphore>) {
    let client = LockClient::new(world.connect().await.unwrap());
    let name = LockName::new("job").unwrap();
    loop {
        let op = recorder.ask(&name);
        match client.lock(name.clone()).lease(LEASE).acquire().await {
            Ok(guard) => {
                op.acquired(&guard);
                tokio::task::yield_now().await;
                op.look(&guard);
                op.given_up();
                op.released(&guard.release().await);
            }
            Err(error) => {
                op.failed(&error);
                assert_eq!(error.kind(), ErrorKind::Config, "{error:#}");
                refused.add_permits(1);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}
