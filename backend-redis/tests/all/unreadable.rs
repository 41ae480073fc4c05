//! Records that exist, but are not what they should be.

use std::{collections::BTreeMap, time::Duration};

use backend_redis::Fence;
use lock_core::{
    Attempt, Env as _, Error, ErrorKind, FenceError, LossReason, ReleaseOptions, ReleaseOutcome,
    Renewal, SystemEnv,
};
use servers::{Redis, RedisOptions};

use crate::support::{
    busy, connect, enqueued, first_use, granted, name, quarantined, request, server,
    shared_cases::{taken_away, unreadable},
    url,
};

const LEASE: Duration = Duration::from_secs(20);
const OWNER: &str = "0123456789abcdef0123456789abcdef";

/// Replaces a lock's record, or one of its other keys.
async fn put(server: &Redis, command: &str, kind: &str, text: &str, value: &str) {
    let key = format!("leasehold:{{0}}:{kind}:{text}");
    server.cli(&["DEL", &key]).await.unwrap();
    server.cli(&[command, &key, value]).await.unwrap();
}

#[tokio::test]
async fn an_unreadable_record_holds_its_lock_and_hides_no_other() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let good = granted(&*store, &request("good", LEASE)).await;
    let records = BTreeMap::from([
        ("control", format!("{OWNER} 7 0 a\u{7}b")),
        ("label", format!("{OWNER} 7 0 {}", "x".repeat(300))),
        ("owner", "somebody 7 0 label".to_owned()),
        ("token", format!("{OWNER} 99999999999999999999 0 label")),
        ("state", format!("{OWNER} 7 9 label")),
        ("empty", String::new()),
    ]);
    for (text, record) in &records {
        put(&server, "SET", "lock", text, record).await;
    }
    put(&server, "RPUSH", "lock", "list", "x").await;
    let names: Vec<_> = records.keys().copied().chain(["list"]).collect();
    for text in &names {
        unreadable(busy(&*store, &request(text, LEASE)).await.holder);
        let (turn, busy) = enqueued(&*store, &request(text, LEASE)).await;
        unreadable(busy.holder);
        turn.leave().await.unwrap();
        unreadable(store.inspect(&name(text)).await.unwrap().unwrap().holder);
    }
    let mut listed = BTreeMap::new();
    let mut from = None;
    loop {
        let page = store.list(from).await.unwrap();
        listed.extend(page.locks.into_iter().map(|lock| (lock.name, lock.holder)));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), names.len() + 1);
    assert_eq!(listed.remove(&name("good")).unwrap().unwrap().owner, good.owner);
    listed.into_values().for_each(unreadable);
    for text in &names {
        taken_away(&*store, text).await;
    }
}

#[tokio::test]
async fn an_unreadable_record_without_expiry_ends() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let store = connect(&format!("{}?longest_lease=1s", url(&server))).await;
    first_use(&*store).await;
    for command in ["SET", "RPUSH"] {
        put(&server, command, "lock", "a", "nonsense").await;
        busy(&*store, &request("a", Duration::from_secs(1))).await;
        let asking = async {
            loop {
                match store.try_acquire(&request("a", Duration::from_secs(1))).await.unwrap() {
                    Attempt::Granted(grant) => break grant,
                    Attempt::Busy(busy) => tokio::time::sleep(busy.retry_after).await,
                    other => panic!("{other:?}"),
                }
            }
        };
        let grant = tokio::time::timeout(LEASE, asking).await.expect("it stays for ever");
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_record_that_became_unreadable_is_lost_only_to_its_holder() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let asked = request("stolen", LEASE);
    let (good, stolen) =
        (granted(&*store, &request("good", LEASE)).await, granted(&*store, &asked).await);
    put(&server, "RPUSH", "lock", "stolen", "x").await;
    let answers = store.renew(&[&stolen, &good], SystemEnv.now()).await;
    assert!(matches!(answers[0], Renewal::Lost(LossReason::TakenOver)), "{answers:?}");
    assert!(matches!(answers[1], Renewal::Renewed { .. }), "{answers:?}");
    let next = request("stolen", LEASE);
    for options in [ReleaseOptions::default(), ReleaseOptions::new().with_next(&next)] {
        assert_eq!(store.release(&stolen, options).await.unwrap().outcome, ReleaseOutcome::NotHeld);
    }
    store.abandon(&asked).await.unwrap();
    assert_eq!(store.raise(&stolen, stolen.token).await.unwrap_err().kind(), ErrorKind::NotHeld);
}

/// A queue of another type would make every attempt and release fail.
#[tokio::test]
async fn force_removes_queues_and_entries_of_another_type() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    for kind in ["queue", "entries"] {
        put(&server, "SET", kind, kind, "nonsense").await;
        assert!(store.inspect(&name(kind)).await.is_ok());
        assert_eq!(store.force_release(&name(kind)).await.unwrap(), ReleaseOutcome::Released);
        let held = granted(&*store, &request(kind, LEASE)).await;
        let (turn, _) = enqueued(&*store, &request(kind, LEASE)).await;
        turn.leave().await.unwrap();
        store.release(&held, ReleaseOptions::default()).await.unwrap();
    }
}

/// The text of a queue entry, which the script reads when it hands the lock over.
#[tokio::test]
async fn an_unreadable_entry_does_not_stop_a_handoff() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    for (at, entry) in ["nonsense", "1 2", ""].into_iter().enumerate() {
        let text = format!("a{at}");
        let held = granted(&*store, &request(&text, LEASE)).await;
        put(&server, "RPUSH", "queue", &text, OWNER).await;
        let entries = format!("leasehold:{{0}}:entries:{text}");
        server.cli(&["HSET", &entries, OWNER, entry]).await.unwrap();
        if at > 0 {
            // The long way, since the watermark is ahead of the clock.
            let ahead = (held.token.get() + 60_000_000).to_string();
            server.cli(&["HSET", "leasehold:{0}:epoch", "mark", &ahead]).await.unwrap();
        }
        let released = store.release(&held, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        granted(&*store, &request(&text, LEASE)).await;
    }
}

/// A call that fails because of this key, at once and for good.
fn names(error: &Error, key: &str, remedy: &str) {
    assert_eq!(error.kind(), ErrorKind::Config, "{key}: {error:?}");
    let shown = error.to_string();
    assert!(shown.contains(&format!("{key:?}")) && shown.contains(remedy), "{key}: {error:?}");
}

const EPOCH: &str = "leasehold:{0}:epoch";

#[tokio::test]
async fn an_unreadable_epoch_record_is_named_with_its_remedy() {
    let server = server().await;
    let record = server.cli(&["HGETALL", EPOCH]).await.unwrap();
    let record: Vec<_> = record.lines().collect();
    let store = connect(&url(&server)).await;
    let held = granted(&*store, &request("held", LEASE)).await;
    for field in ["a string", "longest", "quarantine", "from", "span"] {
        server.cli(&["DEL", EPOCH]).await.unwrap();
        if field == "a string" {
            server.cli(&["SET", EPOCH, "nonsense"]).await.unwrap();
        } else {
            server.cli(&[&["HSET", EPOCH], &*record].concat()).await.unwrap();
            server.cli(&["HSET", EPOCH, field, "nonsense"]).await.unwrap();
        }
        if field == "span" {
            // Only a new epoch reads it.
            server.cli(&["HDEL", EPOCH, "run"]).await.unwrap();
        }
        let error = store.try_acquire(&request("a", LEASE)).await.unwrap_err();
        names(&error, EPOCH, "DEL");
        match backend_redis::connect(&url(&server)).await {
            // A new client reads the settings only.
            Ok(_) => assert!(["from", "span"].contains(&field), "{field}"),
            Err(error) => names(&error, EPOCH, "DEL"),
        }
        if ["a string", "longest"].contains(&field) {
            let renewed = store.renew(&[&held], SystemEnv.now()).await.pop();
            let Some(Renewal::Unknown(error)) = renewed else { panic!("{renewed:?}") };
            names(&error, EPOCH, "DEL");
        }
    }
    server.cli(&["DEL", EPOCH]).await.unwrap();
    let told = quarantined(&*store).await;
    assert!(told.why.contains("missing"), "{told:?}");
}

/// A record without its wait says nothing about it.
#[tokio::test]
async fn an_epoch_record_without_its_wait_begins_a_quarantine() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    server.cli(&["HDEL", EPOCH, "from"]).await.unwrap();
    quarantined(&*store).await;
}

#[tokio::test]
async fn a_queue_and_entries_of_another_type_are_named_with_their_remedy() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    for kind in ["queue", "entries"] {
        let text = format!("with {kind}");
        let held = granted(&*store, &request(&text, LEASE)).await;
        put(&server, "SET", kind, &text, "nonsense").await;
        let key = format!("leasehold:{{0}}:{kind}:{text}");
        let error = store.enqueue(&request(&text, LEASE)).await.unwrap_err();
        names(&error, &key, "DEL");
        let error = store.abandon(&request(&text, LEASE)).await.err();
        if kind == "entries" {
            names(&error.unwrap(), &key, "DEL");
        }
        server.cli(&["DEL", &key]).await.unwrap();
        let freed = store.release(&held, ReleaseOptions::default()).await.unwrap();
        assert_eq!(freed.outcome, ReleaseOutcome::Released);
    }
}

#[tokio::test]
async fn an_unreadable_record_of_a_fence_is_named_with_its_remedy() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let token = granted(&*store, &request("a", LEASE)).await.token;
    let fence = Fence::connect(&url(&server)).await.unwrap();
    for command in ["SET", "RPUSH"] {
        put(&server, command, "fence", "row", "nonsense").await;
        match fence.set("row", "value", token).await.unwrap_err() {
            FenceError::Store(error) => {
                names(&error, "leasehold:{0}:fence:row", "the highest token");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The entry of an owner that asks again.
#[tokio::test]
async fn an_unreadable_entry_is_replaced_when_its_owner_asks_again() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let held = granted(&*store, &request("a", LEASE)).await;
    let asked = request("a", LEASE);
    let (turn, _) = enqueued(&*store, &asked).await;
    let entries = "leasehold:{0}:entries:a";
    server.cli(&["HSET", entries, &asked.owner.to_string(), "nonsense"]).await.unwrap();
    busy(&*connect(&url(&server)).await, &asked).await;
    turn.leave().await.unwrap();
    store.release(&held, ReleaseOptions::default()).await.unwrap();
}
