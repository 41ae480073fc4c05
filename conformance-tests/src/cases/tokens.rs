//! S2: tokens strictly increase over the grants of a name.

use std::time::Duration;

use lock_core::{Env as _, ErrorKind, FencingToken, LockName, ReleaseOptions, Request, SystemEnv};

use super::{cases, raises};
use crate::setting::{Setting, eventually, granted};

cases! {
    "S2" tokens_increase_over_releases;
    "S2" tokens_increase_over_an_expiry;
    "S2" a_renewal_keeps_the_token;
    "S2" a_token_is_above_the_floor;
    "S2" a_floor_far_ahead_of_the_clock_is_refused;
    "S2" a_raised_token_is_exceeded_by_the_next raises;
    "S2" a_token_is_not_raised_by_who_does_not_hold raises;
}

async fn tokens_increase_over_releases(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let mut last = FencingToken::ZERO;
    // A store that other libraries use, too, may rest after ten grants in a row.
    for turn in 0..8 {
        let backend = if turn % 2 == 0 { &one } else { &other };
        let grant = granted(&**backend, &setting.request(&name)).await;
        assert!(grant.token > last, "the token {} came after {last}", grant.token);
        last = grant.token;
        backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
}

async fn tokens_increase_over_an_expiry(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let first = granted(&*backend, &setting.short_request(&name)).await;
    let second = eventually("the lease runs out", setting.patience(), || async {
        backend.try_acquire(&setting.request(&name)).await.unwrap().granted()
    })
    .await;
    assert!(second.token > first.token, "the token {} came after {}", second.token, first.token);
}

async fn a_renewal_keeps_the_token(setting: &Setting) {
    let backend = setting.connect().await;
    let request = setting.request(&setting.name("job"));
    let grant = granted(&*backend, &request).await;
    backend.renew(&[&grant], request.sent).await;
    let state = backend.inspect(&request.name).await.unwrap().expect("a held name");
    assert_eq!(state.token, grant.token, "a renewal must keep the token");
}

async fn a_token_is_above_the_floor(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    // Ten seconds ahead of the clock, or half of a short longest lease.
    let ahead = (setting.promised().longest_lease.as_micros() as u64 / 2).min(10_000_000);
    let floor = FencingToken::new(grant.token.get() + ahead).unwrap();
    let above_the_floor = async |name: &LockName| {
        let grant = granted(&*backend, &with_floor(setting.request(name), floor)).await;
        assert!(grant.token > floor, "the token {} is not above the floor {floor}", grant.token);
        grant
    };
    above_the_floor(&setting.name("a name that the store does not know")).await;
    let next = above_the_floor(&name).await;
    let clock = backend.clock_difference_micros().await.unwrap().unwrap_or(0);
    let clock = SystemEnv.wall_micros().saturating_add_signed(clock);
    let lead = Duration::from_micros(next.token.get().saturating_sub(clock));
    // One second more, since the clocks are compared only roughly.
    let most = setting.promised().token_lead + Duration::from_secs(1);
    assert!(
        lead <= most,
        "the token leads the clock by {lead:?}; `token_lead` promises at most {most:?}"
    );
    // The store must remember a token that leads its clock.
    backend.release(&next, ReleaseOptions::default()).await.unwrap();
    let last = granted(&*backend, &setting.request(&name)).await;
    assert!(last.token > next.token, "the token {} came after {}", last.token, next.token);
}

async fn a_floor_far_ahead_of_the_clock_is_refused(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let day = 24 * 3600 * 1_000_000;
    let far = setting.promised().longest_lease.as_micros() as u64 + day;
    let floor = FencingToken::new(SystemEnv.wall_micros() + far).unwrap();
    let error = backend.try_acquire(&with_floor(setting.request(&name), floor)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let grant = granted(&*backend, &setting.request(&name)).await;
    assert!(grant.token < floor, "a refused attempt must not raise the next token");
}

async fn a_raised_token_is_exceeded_by_the_next(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    let ahead = (setting.promised().longest_lease.as_micros() as u64 / 2).min(5_000_000);
    let raised = FencingToken::new(grant.token.get() + ahead).unwrap();
    backend.raise(&grant, raised).await.unwrap();
    backend.raise(&grant, grant.token).await.unwrap();
    backend.renew(&[&grant], grant.from).await;
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    let next = granted(&*backend, &setting.request(&name)).await;
    assert!(next.token > raised, "the token {} came after the raised token {raised}", next.token);
}

async fn a_token_is_not_raised_by_who_does_not_hold(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.request(&name)).await;
    backend.release(&gone, ReleaseOptions::default()).await.unwrap();
    let grant = granted(&*backend, &setting.request(&name)).await;
    let raised = FencingToken::new(grant.token.get() + 1_000).unwrap();
    let error = backend.raise(&gone, raised).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    let state = backend.inspect(&name).await.unwrap().unwrap();
    assert_eq!(state.token, grant.token);
}

fn with_floor(mut request: Request, floor: FencingToken) -> Request {
    request.floor = floor;
    request
}
