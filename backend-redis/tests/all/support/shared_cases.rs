//! Tests that hold for Redis and for Redlock.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, ClientOptions, FencingToken, Holder, LockClient, Mode, OwnerLabel,
    ReleaseOptions, ReleaseOutcome, Signal,
};
use servers::Redis;

use super::requests::*;

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

/// Uses every operation once. A listing begins at `cursor`.
pub(crate) async fn use_every_operation(store: &dyn Backend, cursor: Option<String>) {
    first_use(store).await;
    let grant = granted(store, &request("a", LEASE)).await;
    let asked = request("a", LEASE);
    let (mut waiter, _) = enqueued(store, &asked).await;
    renewed(store, &[&grant]).await;
    store.raise(&grant, FencingToken::new(grant.token.get() + 10).unwrap()).await.unwrap();
    assert_eq!(store.inspect(&grant.name).await.unwrap().unwrap().waiting, Some(1));
    assert_eq!(store.list(cursor).await.unwrap().locks.len(), 1);
    store.clock_difference_micros().await.unwrap().unwrap();
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    match tokio::time::timeout(SOON, waiter.next()).await.unwrap() {
        Signal::Granted(_) => {}
        Signal::Recheck => drop(granted(store, &asked).await),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.force_release(&asked.name).await.unwrap(), ReleaseOutcome::Released);
    store.abandon(&asked).await.unwrap();
    if store.guarantees().shared.holds() {
        use_readers(store).await;
    }
    // Many calls at once share batches, also in each bucket of a cluster.
    let requests: Vec<_> = (0..300).map(|at| request(&format!("job {at}"), LEASE)).collect();
    releases(store, &grants(attempts(store, &requests).await)).await;
}

/// A writer that releases beside waiting readers, a writer behind them, and a reader that comes
/// back.
async fn use_readers(store: &dyn Backend) {
    let reader = || request("readers", LEASE).with_mode(Mode::Shared);
    let writer = granted(store, &request("readers", LEASE)).await;
    let [one, two] = [reader(), reader()];
    let (mut first, _) = enqueued(store, &one).await;
    let (mut second, _) = enqueued(store, &two).await;
    store.release(&writer, ReleaseOptions::default()).await.unwrap();
    for waiter in [&mut first, &mut second] {
        tokio::time::timeout(SOON, waiter.next()).await.unwrap();
    }
    let mut inside = granted(store, &one).await;
    granted(store, &two).await;
    let (behind, _) = enqueued(store, &request("readers", LEASE)).await;
    inside.lease += Duration::from_secs(1);
    renewed(store, &[&inside]).await;
    store.raise(&inside, FencingToken::new(inside.token.get() + 10).unwrap()).await.unwrap();
    store.release(&inside, ReleaseOptions::default()).await.unwrap();
    behind.leave().await.unwrap();
    store.abandon(&two).await.unwrap();
}

/// The server has refused the user `app` nothing, and would refuse it any other key.
pub(crate) async fn assert_permitted_no_more(server: &Redis) {
    assert_eq!(server.cli(&["ACL", "LOG"]).await.unwrap(), "", "something was refused");
    let refused = server.cli(&["ACL", "DRYRUN", "app", "GET", "elsewhere"]).await.unwrap();
    assert!(refused.contains("no permissions") || refused.contains("NOPERM"), "{refused}");
}

/// `scripts` counts the scripts that the servers ran, of which each phase needs `most`.
pub(crate) async fn many_acquire_and_release_in_few_scripts(
    store: &dyn Backend,
    scripts: impl AsyncFn() -> u64,
    most: u64,
) {
    // From here on the servers know all scripts.
    releases(store, &grants(attempts(store, &many_requests("warm", LEASE)).await)).await;
    let before = scripts().await;
    let asked = many_requests("job", LEASE);
    let held = grants(attempts(store, &asked).await);
    assert_eq!(held.len(), MANY);
    let tried = scripts().await - before;
    assert!(tried <= most, "{tried} scripts for {MANY} attempts");
    for (grant, request) in held.iter().zip(&asked) {
        let state = store.inspect(&grant.name).await.unwrap().unwrap();
        let holder = state.holder.unwrap();
        assert_eq!((&grant.name, holder.owner), (&request.name, request.owner));
        assert_eq!((state.token, holder.label.as_str()), (grant.token, "test"));
        assert!(holder.remaining > LEASE / 2);
    }
    let before = scripts().await;
    assert_eq!(releases(store, &held).await, [ReleaseOutcome::Released; MANY]);
    let freed = scripts().await - before;
    assert!(freed <= most, "{freed} scripts for {MANY} releases");
    assert_eq!(releases(store, &held).await, [ReleaseOutcome::NotHeld; MANY]);
    // Later tokens are higher, also for a single attempt.
    for grant in &held {
        let asked = request(grant.name.as_str(), LEASE);
        let again = async {
            loop {
                // A node of Redlock may not have freed it yet.
                if let Attempt::Granted(next) = store.try_acquire(&asked).await.unwrap() {
                    return next;
                }
            }
        };
        let next = tokio::time::timeout(SOON, again).await.unwrap();
        assert!(next.token > grant.token);
    }
}

/// The record of this holder cannot be read.
pub(crate) fn unreadable(holder: Option<Holder>) {
    let holder = holder.unwrap();
    assert_eq!(holder.label.as_str(), "an unreadable record");
    // At most the longest lease, for a record that never ends.
    assert!(holder.remaining > Duration::ZERO && holder.remaining <= Duration::from_secs(30));
}

/// Force frees the lock, and the next client gets it.
pub(crate) async fn taken_away(store: &dyn Backend, text: &str) {
    let forced = store.force_release(&name(text)).await.unwrap();
    assert_eq!(forced, ReleaseOutcome::Released, "{text}");
    granted(store, &request(text, LEASE)).await;
}

/// Two clients with labels of their own may share one store.
pub(crate) async fn each_client_of_a_shared_store_keeps_its_label(store: &Arc<dyn Backend>) {
    let client = |label: &str| {
        let label = OwnerLabel::new(label).unwrap();
        let options = ClientOptions::new().with_label(label);
        LockClient::with_options(store.clone(), options).unwrap()
    };
    let (one, two) = (client("one"), client("two"));
    let both = (0..MANY).map(|number| {
        let client = if number % 2 == 0 { &one } else { &two };
        client.lock(format!("job {number}")).lease(LEASE).acquire()
    });
    let guards: Vec<_> = join_all(both).await.into_iter().map(Result::unwrap).collect();
    for (number, guard) in guards.into_iter().enumerate() {
        let state = store.inspect(guard.name()).await.unwrap().unwrap();
        let label = state.holder.unwrap().label;
        assert_eq!(label.as_str(), if number % 2 == 0 { "one" } else { "two" });
        guard.release().await.unwrap();
    }
}
