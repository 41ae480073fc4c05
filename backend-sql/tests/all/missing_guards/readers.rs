//! Cases of readers and writers, for the guards of each database.

use std::{fmt::Display, sync::Arc, time::Duration};

use super::entries::used_once;
use lock_core::{Backend, Env as _, FencingToken, Grant, Mode, Renewal, Request, SystemEnv};
#[cfg(feature = "mysql")]
use lock_core::{ReleaseOptions, ReleaseOutcome};
use verification::missing_guards::{
    Clients, Verdict,
    cases::{LONG, above, first_use, granted, not_granted, request, words},
};

pub(super) const SHORT: Duration = Duration::from_millis(300);

/// Long enough that another reader joins before its end: a join removes those whose lease is over.
#[cfg(feature = "mysql")]
const LATE: Duration = Duration::from_secs(4);

pub(super) fn reader(lease: Duration) -> Request {
    request("a", lease).with_mode(Mode::Shared)
}

/// A writer takes the lock after a reader has crashed.
pub(super) async fn beside_a_writer(open: impl Future<Output = Arc<dyn Backend>>) -> Verdict {
    let store = open.await;
    granted(&*store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    granted(&*store, &request("a", LONG)).await?;
    not_granted(&*store, &reader(LONG)).await
}

pub(super) async fn after_the_last_token<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    // So far ahead that no clock comes after it.
    let mut asked = request("a", LONG);
    asked.floor = FencingToken::new(SystemEnv.wall_micros() + 15_000_000).unwrap();
    let writer = used_once(&*store, &asked).await?;
    above(&writer, &granted(&*store, &reader(LONG)).await?)
}

pub(super) async fn an_abandoned_one<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let given_up = reader(LONG);
    store.abandon(&given_up).await.map_err(words)?;
    not_granted(&*store, &given_up).await
}

pub(super) async fn past_a_waiting_writer<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    let _waiting = store.enqueue(&request("a", LONG)).await.map_err(words)?;
    not_granted(&*setup.open().await, &reader(LONG)).await
}

pub(super) async fn beside_a_longer_lease<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    granted(&*store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    not_granted(&*store, &request("a", LONG)).await
}

pub(super) async fn beside_others<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    used_once(&*store, &reader(LONG)).await?;
    not_granted(&*store, &request("a", LONG)).await
}

#[cfg(feature = "mysql")]
pub(super) async fn a_writer_after_the_longest_reader<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let longest = granted(&*store, &reader(LONG)).await?;
    granted(&*store, &reader(SHORT)).await?;
    store.release(&longest, ReleaseOptions::new()).await.map_err(words)?;
    tokio::time::sleep(2 * SHORT).await;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

/// `full` fills the lock with the maximum number of readers.
pub(super) async fn beside_the_most<S: Clients, T, E: Display>(
    setup: &S,
    full: impl Future<Output = Result<T, E>>,
) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    full.await.map_err(words)?;
    not_granted(&*store, &reader(LONG)).await
}

pub(super) async fn a_renewal_by_one_that_left<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    let left = used_once(&*store, &reader(LONG)).await?;
    // A renewal would extend the lease to this.
    let mut longer = left;
    longer.lease = LONG + Duration::from_secs(5);
    not_renewed(setup, &longer).await?;
    let state = store.inspect(&longer.name).await.map_err(words)?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.remaining <= LONG => Ok(()),
        other => Err(format!("its renewal was carried out: {other:?}")),
    }
}

pub(super) async fn a_late_renewal<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    not_renewed(setup, &grant).await
}

/// One batch renews a reader whose lease has ended, and one that lives.
#[cfg(feature = "mysql")]
pub(super) async fn a_late_renewal_beside_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let late = granted(&*store, &reader(LATE)).await?;
    let lives = granted(&*store, &reader(LONG)).await?;
    tokio::time::sleep(LATE + SHORT).await;
    match store.renew(&[&late, &lives], SystemEnv.now()).await[..] {
        [Renewal::Renewed { .. }, _] => Err("an ended lease was renewed".to_owned()),
        [_, Renewal::Renewed { .. }] => Ok(()),
        ref other => Err(format!("the reader that lives was not renewed: {other:?}")),
    }
}

#[cfg(feature = "mysql")]
pub(super) async fn a_late_release_beside_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let late = granted(&*store, &reader(LATE)).await?;
    granted(&*store, &reader(LONG)).await?;
    tokio::time::sleep(LATE + SHORT).await;
    let released = store.release(&late, ReleaseOptions::new()).await.map_err(words)?;
    match released.outcome {
        ReleaseOutcome::NotHeld => Ok(()),
        other => Err(format!("an ended lease was released: {other:?}")),
    }
}

pub(super) async fn not_renewed<S: Clients>(setup: &S, grant: &Grant) -> Verdict {
    match setup.open().await.renew(&[grant], SystemEnv.now()).await.pop() {
        Some(Renewal::Renewed { .. }) => Err("it was renewed".to_owned()),
        _ => Ok(()),
    }
}
