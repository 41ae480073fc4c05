//! Cases for every kind of server, and helpers of cases.

use std::time::Duration;

use lock_core::{
    Backend, Env as _, Error, ErrorKind, FencingToken, Grant, ReleaseOptions, Renewal, SystemEnv,
};
use verification::missing_guards::{
    Clients, Verdict,
    cases::{LONG, first_use, granted, name, not_granted, request, words},
};

pub(super) fn wrong<T>(holds: bool, what: impl FnOnce() -> T) -> Result<(), T> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The answer must be an error of this kind.
pub(super) fn refused<T: std::fmt::Debug>(kind: ErrorKind, answer: Result<T, Error>) -> Verdict {
    match answer {
        Err(error) if error.kind() == kind => Ok(()),
        other => Err(format!("it was not refused: {other:?}")),
    }
}

pub(super) async fn renewed(store: &dyn Backend, grant: &Grant) -> Renewal {
    store.renew(&[grant], SystemEnv.now()).await.pop().unwrap()
}

pub(super) async fn left(store: &dyn Backend) -> Result<Duration, String> {
    let state = store.inspect(&name("a")).await.map_err(words)?;
    Ok(state.and_then(|state| state.holder).ok_or("nobody holds it")?.remaining)
}

pub(super) async fn kept(store: &dyn Backend) -> Result<Grant, String> {
    let grant = granted(store, &request("a", LONG)).await?;
    let options = ReleaseOptions::new().with_keep(LONG);
    store.release(&grant, options).await.map_err(words)?;
    Ok(grant)
}

pub(super) async fn a_floor_far_ahead<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut wanted = request("a", LONG);
    wanted.floor = FencingToken::new(SystemEnv.wall_micros() + 600_000_000).unwrap();
    refused(ErrorKind::InvalidInput, store.try_acquire(&wanted).await)
}

pub(super) async fn a_lease_above_the_longest<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    refused(ErrorKind::InvalidInput, store.try_acquire(&request("a", 10 * LONG)).await)
}

pub(super) async fn abandoning_beside_a_holder<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &request("a", LONG)).await?;
    store.abandon(&request("a", LONG)).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub(super) async fn a_repeat<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let wanted = request("a", LONG);
    let [first, second] = [granted(&*store, &wanted).await?, granted(&*store, &wanted).await?];
    wrong(first.token == second.token, || format!("{} and {}", first.token, second.token))
}

pub(super) async fn a_repeat_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    let mut again = request("a", LONG);
    again.owner = grant.owner;
    not_granted(&*store, &again).await
}

pub(super) async fn a_shorter_repeat<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut wanted = request("a", LONG);
    granted(&*store, &wanted).await?;
    wanted.lease = LONG / 10;
    granted(&*store, &wanted).await?;
    let left = left(&*store).await?;
    wrong(left > LONG / 5, || format!("it ends in {left:?}"))
}

pub(super) async fn a_shorter_renewal<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    grant.lease = LONG / 10;
    renewed(&*store, &grant).await;
    let left = left(&*store).await?;
    wrong(left > LONG / 5, || format!("it ends in {left:?}"))
}

pub(super) async fn a_release_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub(super) async fn a_renewal_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    let answer = renewed(&*store, &grant).await;
    wrong(matches!(answer, Renewal::Lost(_)), || format!("it was answered {answer:?}"))
}

pub(super) async fn a_raise_by_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    let higher = FencingToken::new(grant.token.get() + 1).unwrap();
    grant.owner = request("a", LONG).owner;
    refused(ErrorKind::NotHeld, store.raise(&grant, higher).await)
}

pub(super) async fn a_raise_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    let higher = FencingToken::new(grant.token.get() + 1).unwrap();
    refused(ErrorKind::NotHeld, store.raise(&grant, higher).await)
}

pub(super) async fn a_raise_far_ahead<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let far = FencingToken::new(grant.token.get() + 600_000_000).unwrap();
    refused(ErrorKind::InvalidInput, store.raise(&grant, far).await)
}

pub(super) async fn a_raise_to_less<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let lower = FencingToken::new(grant.token.get() - 1).unwrap();
    store.raise(&grant, lower).await.map_err(words)?;
    let state = store.inspect(&grant.name).await.map_err(words)?.ok_or("it is gone")?;
    wrong(state.token == grant.token, || format!("the token is {}", state.token))
}
