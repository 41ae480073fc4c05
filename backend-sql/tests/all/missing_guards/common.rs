//! Cases of several databases, beside those of `verification`.

#![allow(dead_code)] // a build with one database does not use all

use std::time::Duration;

use lock_core::{
    Backend, Enqueued, Env as _, FencingToken, Grant, Init, ReleaseOptions, Renewal::Renewed,
    Request, SystemEnv,
};
use verification::{
    cases,
    missing_guards::{
        Case, Clients, Verdict,
        cases::{
            LONG, SHORT, check, enqueue, first_use, granted, not_granted, reader, request, words,
        },
    },
};

/// A database that a case may change.
#[async_trait::async_trait]
pub(super) trait Database: Clients {
    /// Fills the lock with the maximum number of readers.
    const FULL: &'static str;

    /// Runs SQL without leasehold, and returns the answer.
    async fn sql(&self, sql: &str) -> Result<String, String>;
}

/// The cases of every database.
pub(super) fn of_all<S: Database>() -> Vec<Case<S>> {
    cases![S: an_entry_of_an_abandoned_owner, a_reader_beside_a_writer, a_reader_beside_the_most]
}

pub(super) async fn release(store: &dyn Backend, grant: &Grant) -> Verdict {
    store.release(grant, ReleaseOptions::default()).await.map(drop).map_err(words)
}

/// Takes a lock and releases it, so that its row stays. One release in a thousand sweeps it away.
pub(super) async fn used_once(store: &dyn Backend, request: &Request) -> Result<Grant, String> {
    loop {
        let grant = granted(store, request).await?;
        release(store, &grant).await?;
        if store.inspect(&request.name).await.map_err(words)?.is_some() {
            return Ok(grant);
        }
    }
}

/// A released grant whose token leads the clock, as if the store's clock had been ahead. It leads
/// for longer than a sweep takes on any machine.
pub(super) async fn ahead(store: &dyn Backend) -> Result<Grant, String> {
    let init = Init::new().with_longest_lease(Duration::from_secs(600));
    store.init(&init).await.map_err(words)?;
    let mut asked = request("a", LONG);
    asked.floor = FencingToken::new(SystemEnv.wall_micros() + 590_000_000).unwrap();
    used_once(store, &asked).await
}

/// Takes a new name while the watermark leads the clock. `lead` raises the watermark, and returns
/// it.
pub(super) async fn below_a_watermark<S: Database>(setup: &S, lead: &str) -> Verdict {
    let store = first_use(setup).await;
    // The client has read the watermark before.
    granted(&*store, &request("old", LONG)).await?;
    let watermark: u64 = setup.sql(lead).await?.parse().map_err(words)?;
    above(&granted(&*store, &request("new", LONG)).await?, watermark)
}

pub(super) fn above(grant: &Grant, token: u64) -> Verdict {
    check(grant.token.get() > token, || format!("token {} came after {token}", grant.token))
}

/// `silence` makes the last heartbeat of the entry seem old.
pub(super) async fn beside_a_dead_entry<S: Database>(setup: &S, silence: &str) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let _waiter = enqueue(&*store, &request("a", LONG)).await?;
    setup.sql(silence).await?;
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub(super) async fn an_entry_of_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let leaves = enqueue(&*store, &request("a", LONG)).await?;
    let _stays = enqueue(&*store, &request("a", LONG)).await?;
    leaves.leave().await.map_err(words)?;
    release(&*store, &held).await?;
    not_granted(&*store, &request("a", LONG)).await
}

async fn an_entry_of_an_abandoned_owner<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    let _waiter = enqueue(&*store, &given_up).await?;
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub(super) async fn an_entry_behind_itself<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let own = request("a", LONG);
    let held = granted(&*store, &own).await?;
    let again = store.enqueue(&own).await.map_err(words)?;
    let same = matches!(&again, Enqueued::Granted(it) if it.token == held.token);
    check(same, || format!("not the same grant: {again:?}"))?;
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

/// A writer takes the lock after a reader has crashed.
pub(super) async fn beside_a_writer(store: &dyn Backend) -> Verdict {
    granted(store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    granted(store, &request("a", LONG)).await?;
    not_granted(store, &reader(LONG)).await
}

async fn a_reader_beside_a_writer<S: Clients>(setup: &S) -> Verdict {
    first_use(setup).await;
    beside_a_writer(&*setup.open().await).await
}

async fn a_reader_beside_the_most<S: Database>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    setup.sql(S::FULL).await?;
    not_granted(&*store, &reader(LONG)).await
}

/// A reader with a long lease, which may have renewed, leaves one that has crashed.
pub(super) async fn a_writer_after_a_reader_that_crashed<S: Clients>(
    setup: &S,
    how: &str,
) -> Verdict {
    let store = first_use(setup).await;
    let long = granted(&*store, &reader(LONG)).await?;
    granted(&*store, &reader(SHORT)).await?;
    if how == "renewing" {
        store.renew(&[&long], SystemEnv.now()).await;
    }
    release(&*store, &long).await?;
    tokio::time::sleep(2 * SHORT).await;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

/// Long enough that another reader joins before its end: a join removes those whose lease is over.
pub(super) const LATE: Duration = Duration::from_secs(4);

/// A reader renews after its lease, in one batch with another that lives.
pub(super) async fn a_late_renewal_beside_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let late = granted(&*store, &reader(LATE)).await?;
    let lives = granted(&*store, &reader(LONG)).await?;
    tokio::time::sleep(LATE + SHORT).await;
    let answers = store.renew(&[&late, &lives], SystemEnv.now()).await;
    let right = !matches!(answers[0], Renewed { .. }) && matches!(answers[1], Renewed { .. });
    check(right, || format!("an ended lease and a living one: {answers:?}"))
}

/// Offers a lower token after a higher one to the fence of one database.
macro_rules! stale_write {
    ($fence:ty, $session:ty, $url:expr) => {
        async move {
            let fence = <$fence>::new("fenced").unwrap();
            let mut session = <$session>::connect(&$url).await.map_err(words)?;
            fence.create(&mut session).await.map_err(words)?;
            let [one, two] = [1, 2].map(|token| lock_core::FencingToken::new(token).unwrap());
            fence.admit(&mut session, "data", two).await.map_err(words)?;
            let stale = fence.admit(&mut session, "data", one).await;
            let right = matches!(stale, Err(lock_core::FenceError::Stale(_)));
            check(right, || format!("a stale token: {stale:?}"))
        }
    };
}

pub(super) use stale_write;
