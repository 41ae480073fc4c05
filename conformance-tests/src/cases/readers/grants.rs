//! Grants of readers: several readers may hold a name at the same time, but no writer beside them.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{
    Attempt, Enqueued, Env as _, Fence, LossReason, Mode, OwnerId, ReleaseOutcome, Renewal,
    SystemEnv,
};

use super::NOW;
use crate::{
    cases::{cases, limited_readers, shared},
    setting::{Setting, eventually, granted, refused, renew},
};

cases! {
    "S1" readers_share_and_exclude_writers shared;
    "S1" a_group_lasts_as_long_as_its_longest_lease shared;
    "S1" one_reader_above_the_most_is_busy shared limited_readers;
    "S2" tokens_rise_between_readers_and_writers shared;
    "S2" a_readers_token_admits_readers_and_refuses_a_writer_from_before shared;
    "S4" a_reader_that_leaves_twice_counts_once shared;
    "S4" a_new_group_forgets_the_old shared;
    "S5" a_reader_that_left_renews_nothing shared;
    "S6" a_repeat_by_a_reader_is_the_same_grant shared;
    "S6" an_abandoned_reader_joins_nothing shared;
    "S6" abandoning_a_reader_leaves_the_others shared;
    "L5" a_forced_release_is_learnt_by_every_reader shared;
    "operation" inspect_and_list_tell_how_many_readers_share shared;
    "operation" a_store_without_shared_locks_is_refused_by_the_client;
}

async fn readers_share_and_exclude_writers(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let first = granted(&*one, &setting.reader(&name)).await;
    let second = granted(&*other, &setting.reader(&name)).await;
    assert_eq!((first.mode, second.mode), (Mode::Shared, Mode::Shared));
    let busy = refused(&*other, &setting.request(&name)).await;
    assert_eq!(busy.token, first.token.max(second.token));
    assert_eq!(busy.holder.map(|holder| holder.owner), Some(OwnerId::READERS));
    for (backend, grant) in [(&one, &first), (&other, &second)] {
        refused(&*other, &setting.request(&name)).await;
        backend.release(grant, NOW).await.unwrap();
    }
    let writer = granted(&*one, &setting.request(&name)).await;
    assert_eq!(writer.mode, Mode::Exclusive);
    let busy = refused(&*other, &setting.reader(&name)).await;
    assert_eq!(busy.holder.map(|holder| holder.owner), Some(writer.owner));
    // Many attempts at the same time: only readers, or one writer, may be granted.
    one.release(&writer, NOW).await.unwrap();
    let requests: Vec<_> = (0..16)
        .map(|at| if at % 8 == 7 { setting.request(&name) } else { setting.reader(&name) })
        .collect();
    let ask = |(at, request)| {
        let backend = if at % 2 == 0 { &one } else { &other };
        async move { backend.try_acquire(request).await.unwrap().granted() }
    };
    let grants: Vec<_> = join_all(requests.iter().enumerate().map(ask)).await;
    let grants: Vec<_> = grants.into_iter().flatten().collect();
    let writers = grants.iter().filter(|grant| grant.mode == Mode::Exclusive).count();
    assert!(
        writers == 0 || grants.len() == 1,
        "a writer was granted beside {} others",
        grants.len() - 1
    );
    assert!(!grants.is_empty());
}

/// A reader with a short lease that joins, renews and leaves must not shorten the lease of a reader
/// with a long one.
async fn a_group_lasts_as_long_as_its_longest_lease(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let long = granted(&*backend, &setting.reader(&name)).await;
    let short = granted(&*backend, &setting.short_reader(&name)).await;
    let late = granted(&*backend, &setting.short_reader(&name)).await;
    let sent = SystemEnv.now();
    let answers = backend.renew(&[&short], sent).await;
    // On a busy machine the short lease may be over.
    let over = SystemEnv.now().since(short.from) >= short.lease;
    assert!(over || matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
    backend.release(&late, NOW).await.unwrap();
    let over = setting.lease() + setting.promised().expiry_slack + Duration::from_secs(1);
    // The slack may be longer than the long lease, which must not end before the check.
    let over = sent + over.min(setting.long_lease() / 2);
    tokio::time::sleep(over.since(SystemEnv.now())).await;
    refused(&*backend, &setting.request(&name)).await;
    let answers = renew(&*backend, &[&long]).await;
    assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
}

async fn one_reader_above_the_most_is_busy(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let most = setting.promised().most_readers.unwrap();
    let (mut grants, mut renewed) = (Vec::new(), SystemEnv.now());
    while grants.len() < most {
        // Ten at a time: on a busy machine a reply that waits for many others tells Redlock too
        // little about the clock of its node.
        let requests: Vec<_> = (0..10).map(|_| setting.reader(&name)).collect();
        grants.extend(join_all(requests.iter().map(|request| granted(&*backend, request))).await);
        // On a busy machine a slow store may take longer than a lease for all of them.
        let now = SystemEnv.now();
        if now.since(renewed) > setting.long_lease() / 4 {
            renewed = now;
            let held: Vec<_> = grants.iter().collect();
            for ten in held.chunks(10) {
                let answers = renew(&*backend, ten).await;
                let lost = answers.iter().find(|answer| matches!(answer, Renewal::Lost(_)));
                assert!(lost.is_none(), "{lost:?}");
            }
        }
    }
    let late = setting.reader(&name);
    refused(&*backend, &late).await;
    // The readers that hold are still known.
    let first = grants.pop().unwrap();
    let answers = renew(&*backend, &[&first]).await;
    assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
    backend.release(&first, NOW).await.unwrap();
    granted(&*backend, &late).await;
    // Otherwise the listings of other cases would have to read all these readers.
    backend.force_release(&name).await.unwrap();
}

async fn tokens_rise_between_readers_and_writers(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let mut last = lock_core::FencingToken::ZERO;
    for _ in 0..3 {
        let writer = granted(&*backend, &setting.request(&name)).await;
        assert!(writer.token > last, "a writer's token is above those of the readers before it");
        backend.release(&writer, NOW).await.unwrap();
        let mut readers = Vec::new();
        for _ in 0..3 {
            let reader = granted(&*backend, &setting.reader(&name)).await;
            assert!(reader.token > writer.token, "a reader's token is above the last writer's");
            last = last.max(reader.token);
            readers.push(reader);
        }
        if setting.promised().one_token_for_readers {
            assert!(readers.iter().all(|reader| reader.token == last), "{readers:?}");
        }
        for reader in &readers {
            backend.release(reader, NOW).await.unwrap();
        }
    }
    // A floor raises the token of the group, and of all later grants. It leads the clock, so no
    // later token is above the last one by chance.
    let reader = granted(&*backend, &setting.reader(&name)).await;
    let ahead = (setting.promised().longest_lease.as_micros() as u64 / 2).min(10_000_000);
    let floor = lock_core::FencingToken::new(reader.token.get() + ahead).unwrap();
    let mut lifted = setting.reader(&name);
    lifted.floor = floor;
    let lifted = granted(&*backend, &lifted).await;
    assert!(lifted.token > floor);
    for reader in [&reader, &lifted] {
        backend.release(reader, NOW).await.unwrap();
    }
    let writer = granted(&*backend, &setting.request(&name)).await;
    assert!(writer.token > lifted.token);
    backend.release(&writer, NOW).await.unwrap();
    assert!(granted(&*backend, &setting.reader(&name)).await.token > writer.token);
}

async fn a_readers_token_admits_readers_and_refuses_a_writer_from_before(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let before = granted(&*backend, &setting.request(&name)).await;
    backend.release(&before, NOW).await.unwrap();
    let one = granted(&*backend, &setting.reader(&name)).await;
    let two = granted(&*backend, &setting.reader(&name)).await;
    let fence = Fence::new();
    // If readers have different tokens, a fence admits them only in the order of the tokens.
    let order = if one.token <= two.token { [&one, &two] } else { [&two, &one] };
    for reader in order {
        fence.admit("data", reader.token).unwrap();
    }
    if setting.promised().one_token_for_readers {
        fence.admit("data", one.token).expect("readers with one token must all be admitted");
    }
    fence.admit("data", before.token).expect_err("the earlier writer must be stale");
    for reader in [&one, &two] {
        backend.release(reader, NOW).await.unwrap();
    }
    let after = granted(&*backend, &setting.request(&name)).await;
    fence.admit("data", after.token).unwrap();
    fence.admit("data", one.token.max(two.token)).expect_err("the earlier readers must be stale");
}

async fn a_reader_that_leaves_twice_counts_once(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.reader(&name)).await;
    let inside = granted(&*backend, &setting.reader(&name)).await;
    for expected in [ReleaseOutcome::Released, ReleaseOutcome::NotHeld] {
        let released = backend.release(&gone, NOW).await.unwrap();
        assert_eq!(released.outcome, expected);
        refused(&*backend, &setting.request(&name)).await;
    }
    let answers = renew(&*backend, &[&inside]).await;
    assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
    backend.release(&inside, NOW).await.unwrap();
    granted(&*backend, &setting.request(&name)).await;
}

async fn a_new_group_forgets_the_old(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let crashed = granted(&*backend, &setting.short_reader(&name)).await;
    let client = setting.client().await;
    // After a writer's turn the old group is over.
    let writer = client.lock(&name).wait(setting.patience()).acquire().await.unwrap();
    writer.release().await.unwrap();
    let inside = granted(&*backend, &setting.reader(&name)).await;
    assert!(inside.token > crashed.token);
    let answers = renew(&*backend, &[&crashed, &inside]).await;
    assert!(
        matches!(answers[..], [Renewal::Lost(LossReason::TakenOver), Renewal::Renewed { .. }]),
        "{answers:?}"
    );
    let released = backend.release(&crashed, NOW).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    refused(&*backend, &setting.request(&name)).await;
}

async fn a_reader_that_left_renews_nothing(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.reader(&name)).await;
    let inside = granted(&*backend, &setting.reader(&name)).await;
    backend.release(&gone, NOW).await.unwrap();
    let answers = renew(&*backend, &[&gone, &inside]).await;
    assert!(matches!(answers[..], [Renewal::Lost(_), Renewal::Renewed { .. }]), "{answers:?}");
    backend.release(&inside, NOW).await.unwrap();
    let answers = renew(&*backend, &[&inside]).await;
    assert!(matches!(answers[..], [Renewal::Lost(LossReason::Gone)]), "{answers:?}");
    granted(&*backend, &setting.request(&name)).await;
}

async fn a_repeat_by_a_reader_is_the_same_grant(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let mut tries = 0;
    let (request, first) = loop {
        let request = setting.reader(&name);
        let first = granted(&*one, &request).await;
        let Attempt::Granted(again) = other.try_acquire(&request).await.unwrap() else {
            panic!("a repeated request of a reader must be granted again");
        };
        assert_eq!((again.owner, again.mode), (first.owner, first.mode));
        if again.token == first.token {
            break (request, first);
        }
        // Of several nodes, a slow one may have heard of the reader only now. Its number is higher
        // then.
        tries += 1;
        assert!(again.token > first.token && tries < 5, "{} after {}", again.token, first.token);
        one.release(&again, NOW).await.unwrap();
    };
    // The same while a writer waits.
    let waiting = other.enqueue(&setting.request(&request.name)).await.unwrap();
    assert!(matches!(waiting, Enqueued::Waiting(..)), "{waiting:?}");
    let again = granted(&*other, &request).await;
    assert!(again.token >= first.token, "{} after {}", again.token, first.token);
    if let Enqueued::Waiting(entry, _) = waiting {
        entry.leave().await.unwrap();
    }
    one.release(&first, NOW).await.unwrap();
    granted(&*one, &setting.request(&request.name)).await;
}

async fn an_abandoned_reader_joins_nothing(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let inside = granted(&*backend, &setting.reader(&name)).await;
    let abandoned = setting.reader(&name);
    backend.abandon(&abandoned).await.unwrap();
    refused(&*backend, &abandoned).await;
    let late = backend.enqueue(&abandoned).await.unwrap();
    assert!(matches!(late, Enqueued::Waiting(..)), "a late request joined the readers: {late:?}");
    backend.release(&inside, NOW).await.unwrap();
    refused(&*backend, &abandoned).await;
    granted(&*backend, &setting.request(&name)).await;
}

async fn abandoning_a_reader_leaves_the_others(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let inside = granted(&*backend, &setting.reader(&name)).await;
    let request = setting.reader(&name);
    let gone = granted(&*backend, &request).await;
    backend.abandon(&request).await.unwrap();
    backend.abandon(&request).await.unwrap();
    let answers = renew(&*backend, &[&gone, &inside]).await;
    assert!(matches!(answers[..], [Renewal::Lost(_), Renewal::Renewed { .. }]), "{answers:?}");
    refused(&*backend, &request).await;
    refused(&*backend, &setting.request(&name)).await;
    backend.release(&inside, NOW).await.unwrap();
    granted(&*backend, &setting.request(&name)).await;
}

async fn a_forced_release_is_learnt_by_every_reader(setting: &Setting) {
    let (one, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    // Longer than a busy machine may stand still: a renewal must report the loss, not the end of
    // the lease.
    let lease = (setting.lease() * 10).min(setting.long_lease());
    let first = one.lock(&name).lease(lease).shared().acquire().await.unwrap();
    let second = other.lock(&name).lease(lease).shared().acquire().await.unwrap();
    let forced = one.force_release(&name).await.unwrap();
    assert_eq!(forced, ReleaseOutcome::Released);
    let backend = setting.connect().await;
    granted(&*backend, &setting.request(&name)).await;
    let limit = setting.patience() + lease;
    for guard in [&first, &second] {
        let reason = tokio::time::timeout(limit, guard.lost()).await;
        let reason = reason.expect("the guard of each reader must report its loss");
        assert!(matches!(reason, LossReason::TakenOver | LossReason::Gone), "{reason:?}");
    }
}

async fn inspect_and_list_tell_how_many_readers_share(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let readers = async || backend.inspect(&name).await.unwrap().and_then(|state| state.readers);
    let one = granted(&*backend, &setting.reader(&name)).await;
    let two = granted(&*backend, &setting.reader(&name)).await;
    assert_eq!(readers().await, Some(2));
    let mut listing = lock_core::Listing::new();
    let mut listed = None;
    loop {
        let page = backend.list(listing.cursor()).await.unwrap();
        listed = listed.or_else(|| page.locks.iter().find(|lock| lock.name == name).cloned());
        if !listing.goes_on(&page).unwrap() {
            break;
        }
    }
    let listed = listed.expect("`list` must show a name that readers hold");
    assert_eq!(listed.holder.map(|holder| holder.owner), Some(OwnerId::READERS));
    assert_eq!(listed.readers, Some(2));
    backend.release(&one, NOW).await.unwrap();
    assert_eq!(readers().await, Some(1));
    backend.release(&two, NOW).await.unwrap();
    assert_eq!(readers().await, None);
    granted(&*backend, &setting.request(&name)).await;
    assert_eq!(readers().await, None);
}

async fn a_store_without_shared_locks_is_refused_by_the_client(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    let answer = client.lock(&name).shared().wait(Duration::from_secs(10)).acquire().await;
    if setting.promised().shared.holds() {
        assert_eq!(answer.expect("the store promises shared locks").mode(), Mode::Shared);
    } else {
        assert_eq!(answer.unwrap_err().kind(), lock_core::ErrorKind::Unsupported);
        // The client must not have sent a request, so the name has no holder.
        eventually("no holder", setting.patience(), || async {
            let state = client.backend().inspect(&name).await.unwrap();
            state.is_none_or(|state| state.holder.is_none()).then_some(())
        })
        .await;
    }
}
