//! The cases: each shows what a guard is for.

use std::time::Duration;

use futures_util::StreamExt as _;
use lock_core::{
    Attempt, Env as _, ErrorKind, FencingToken, LossReason, ReleaseOptions, ReleaseOutcome,
    Renewal, Signal, SystemEnv,
};
use servers::Mode;
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{
        LONG, above, check, enqueue, first_use, granted, name, not_granted, refused, renewed,
        request, words,
    },
};

use super::server::Shared;

/// The epoch record of the layout `redis-py`.
const EPOCH: &str = "leasehold-foreign:redis-py:{0}:epoch";

pub(super) async fn a_foreign_holder(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    setup.say(&["SET", "a", "theirs", "PX", "20000"]).await;
    not_granted(&*store, &request("a", LONG)).await?;
    let value = setup.say(&["GET", "a"]).await;
    check(value == "theirs", || format!("the key is {value:?} now"))
}

pub(super) async fn a_foreign_client_in_a_listing(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    setup.say(&["SET", "a", "theirs", "PX", "20000"]).await;
    not_granted(&*store, &request("a", LONG)).await?;
    let page = store.list(None).await.map_err(words)?;
    let records = page
        .locks
        .iter()
        .filter(|lock| lock.name.as_str().starts_with("leasehold migration only "));
    check(records.count() == 1, || format!("{page:?}"))
}

pub(super) async fn an_attempt_in_the_quarantine(setup: &Shared) -> Verdict {
    not_granted(&*setup.open().await, &request("a", LONG)).await
}

/// Its request is under way for longer than `late_after`.
pub(super) async fn a_late_request(setup: &Shared) -> Verdict {
    setup.of("redis-py").await;
    let store = setup.client("redis-py&late_after=4s&timeout=20s").await;
    // The client knows the server's clock from before.
    granted(&*store, &request("other", LONG)).await?;
    let slow = Mode::Delay { to_server: Duration::from_secs(5), to_client: Duration::ZERO };
    setup.proxy.set(slow).await.map_err(words)?;
    let answer = store.try_acquire(&request("a", LONG)).await;
    let value = setup.say(&["GET", "a"]).await;
    check(value.is_empty(), || format!("a late request took the lock for {value}"))?;
    refused(ErrorKind::Unavailable, answer)
}

pub(super) async fn a_token_of_the_other_side(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let ahead = SystemEnv.wall_micros() + 25_000_000;
    setup.say(&["SET", "leasehold_token:{a}", &ahead.to_string()]).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    check(grant.token.get() > ahead, || format!("{} came after {ahead}", grant.token))
}

pub(super) async fn the_token_for_the_other_side(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let value = setup.say(&["GET", "leasehold_token:{a}"]).await;
    check(value == grant.token.to_string(), || format!("{value:?} is kept for {}", grant.token))
}

pub(super) async fn a_hash_that_ends(setup: &Shared) -> Verdict {
    let store = setup.of("redisson").await;
    granted(&*store, &request("a", LONG)).await?;
    let left: i64 = setup.say(&["PTTL", "a"]).await.parse().unwrap();
    check(left > 0, || format!("it ends in {left} ms"))
}

/// The release after a run of grants begins a rest, in which nobody of leasehold gets the lock. The
/// rest is short, so its begin is read from the server's notifications, and it is then prolonged.
pub(super) async fn many_grants_in_a_row(setup: &Shared) -> Verdict {
    const RUN: &str = "leasehold-foreign:redis-py:{0}:queue:a";
    let store = setup.of("redis-py").await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    // As if the holder had come back again and again for an hour.
    let since = SystemEnv.wall_micros() - 3_600_000_000;
    setup.say(&["SET", RUN, &format!("1000 {since}"), "KEEPTTL"]).await;
    setup.say(&["CONFIG", "SET", "notify-keyspace-events", "K$"]).await;
    let mut written = setup.listen(&format!("__keyspace@0__:{RUN}")).await;
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    setup.say(&["APPEND", RUN, "after the release"]).await;
    let first = written.on_message().next().await.map(|it| it.get_payload::<String>().unwrap());
    check(first.as_deref() == Some("set"), || format!("no rest begins: {first:?}"))?;
    setup.say(&["SET", RUN, "rest", "PX", "20000"]).await;
    match store.try_acquire(&request("a", LONG)).await.map_err(words)? {
        Attempt::Busy(busy) if busy.holder.is_none() => Ok(()),
        other => Err(format!("the lock is not left to others: {other:?}")),
    }
}

pub(super) async fn a_waiter_by_message(setup: &Shared) -> Verdict {
    let (one, other) = (setup.of("redisson").await, setup.client("redisson").await);
    let grant = granted(&*one, &request("a", LONG)).await?;
    let mut waiter = enqueue(&*other, &request("a", LONG)).await?;
    one.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    match tokio::time::timeout(LONG / 2, waiter.next()).await {
        Ok(Signal::Recheck) => Ok(()),
        other => Err(format!("it was not woken: {other:?}")),
    }
}

/// Spring Integration 6 waits like this.
pub(super) async fn a_waiter_of_a_registry(setup: &Shared) -> Verdict {
    let store = setup.of("spring&registry=app").await;
    let mut waiting = setup.listen("app-channel").await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    match tokio::time::timeout(LONG / 4, waiting.on_message().next()).await {
        Ok(Some(message)) => {
            let text: String = message.get_payload().map_err(words)?;
            check(text == "app:a", || format!("the message is {text:?}"))
        }
        other => Err(format!("it was not woken: {other:?}")),
    }
}

pub(super) async fn a_waiter_by_signal(setup: &Shared) -> Verdict {
    let store = setup.of("python-redis-lock").await;
    // Another program waits like that library.
    let waiting = setup.say(&["BLPOP", "lock-signal:a", "10"]);
    let held = async {
        let grant = granted(&*store, &request("a", LONG)).await?;
        store.release(&grant, ReleaseOptions::default()).await.map_err(words)
    };
    let (signal, released) = tokio::join!(waiting, held);
    released?;
    check(signal.ends_with('1'), || format!("the signal is {signal:?}"))
}

/// Without the knowledge of leasehold, as after a deletion that did not compare the holder.
async fn taken_over(setup: &Shared) {
    setup.say(&["DEL", "a"]).await;
    setup.say(&["SET", "a", "theirs", "PX", "5000"]).await;
}

pub(super) async fn a_repeat_after_another_took_it(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let wanted = request("a", LONG);
    granted(&*store, &wanted).await?;
    taken_over(setup).await;
    not_granted(&*store, &wanted).await
}

pub(super) async fn a_renewal_after_another_took_it(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    taken_over(setup).await;
    let answer = renewed(&*store, &grant).await;
    let taken = matches!(answer, Renewal::Lost(LossReason::TakenOver));
    check(taken, || format!("it was answered {answer:?}"))
}

pub(super) async fn a_repeat_in_another_version(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let wanted = request("a", LONG);
    granted(&*store, &wanted).await?;
    setup.say(&["HSET", EPOCH, "version", "2"]).await;
    refused(ErrorKind::Config, store.try_acquire(&wanted).await)
}

pub(super) async fn a_renewal_in_another_version(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    setup.say(&["HSET", EPOCH, "version", "2"]).await;
    let answer = renewed(&*store, &grant).await;
    let refused = matches!(&answer, Renewal::Unknown(error) if error.kind() == ErrorKind::Config);
    check(refused, || format!("it was answered {answer:?}"))
}

/// Another program deletes the key of the last token.
pub(super) async fn a_token_after_a_raise(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    let raised = FencingToken::new(grant.token.get() + 20_000_000).unwrap();
    store.raise(&grant, raised).await.map_err(words)?;
    grant.token = raised;
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    setup.say(&["DEL", "leasehold_token:{a}"]).await;
    above(&grant, &granted(&*store, &request("a", LONG)).await?)
}

pub(super) async fn force_on_other_data(setup: &Shared) -> Verdict {
    let store = first_use(setup).await;
    setup.say(&["RPUSH", "a", "data"]).await;
    let freed = store.force_release(&name("a")).await.map_err(words)?;
    let there = setup.say(&["LLEN", "a"]).await;
    check(freed == ReleaseOutcome::NotHeld && there == "1", || format!("{freed:?}, {there:?}"))
}
