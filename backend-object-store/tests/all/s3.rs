//! The same over a real server of S3, by the URL that users have.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, Grant, Init, LockName, LossReason,
    OwnerId, OwnerLabel, ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv,
};
use servers::{Mode, Proxy, S3, Server as _};

use super::support::job;

const LEASE: Duration = Duration::from_secs(20);

async fn connect(url: &str) -> Result<Arc<dyn Backend>, lock_core::Error> {
    connect_within(url, "20s").await
}

async fn connect_within(url: &str, timeout: &str) -> Result<Arc<dyn Backend>, lock_core::Error> {
    let variables = S3::CREDENTIALS.map(|(key, value)| (key.to_owned(), value.to_owned()));
    backend_object_store::connect_with(&format!("{url}&timeout={timeout}"), variables).await
}

fn request(name: LockName) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name, owner, OwnerLabel::new("test").unwrap(), LEASE, SystemEnv.now())
}

async fn acquire(store: &dyn Backend) -> Option<Grant> {
    store.try_acquire(&request(job())).await.unwrap().granted()
}

async fn renew(store: &dyn Backend, grant: &Grant) -> Renewal {
    store.renew(&[grant], SystemEnv.now()).await.remove(0)
}

/// Each of 16 clients tries each lock at the same time as all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_clients_one_wins_each_race() {
    let server = S3::start().await.unwrap();
    let url = server.store_url();
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(connect(&url).await.unwrap());
    }
    let mut last = FencingToken::ZERO;
    for race in 0..8 {
        // A name that nobody has used, and one that was released.
        let name = LockName::new(format!("race {}", race / 2)).unwrap();
        let tries = clients.iter().map(|client| {
            let (client, request) = (Arc::clone(client), request(name.clone()));
            tokio::spawn(async move { client.try_acquire(&request).await })
        });
        let tries: Vec<_> = tries.collect();
        let mut winners = Vec::new();
        for (client, attempt) in clients.iter().zip(tries) {
            match attempt.await.unwrap().unwrap() {
                Attempt::Granted(grant) => winners.push((client, grant)),
                Attempt::Busy(_) => {}
                Attempt::Quarantined(_) => unreachable!(),
            }
        }
        let [(client, grant)] = &winners[..] else { panic!("race {race}: {winners:?}") };
        assert!(race % 2 == 0 || grant.token > last, "race {race}");
        last = grant.token;
        let released = client.release(grant, ReleaseOptions::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
    }
}

/// 503 and 429 say that the store is overloaded. The holder tries again, and loses nothing.
#[tokio::test]
async fn a_server_that_asks_for_less_is_no_loss() {
    let server = S3::start().await.unwrap();
    let store = connect(&server.store_url()).await.unwrap();
    for status in [503, 429] {
        server.refuse(status, 2).await.unwrap();
        let grant = acquire(&*store).await.expect("the client tries again");
        assert_eq!(server.refusals_left().await.unwrap(), 0, "the server has refused requests");
        server.refuse(status, 2).await.unwrap();
        assert!(matches!(renew(&*store, &grant).await, Renewal::Renewed { .. }));
        server.refuse(status, 2).await.unwrap();
        let released = store.release(&grant, ReleaseOptions::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        assert_eq!(server.refusals_left().await.unwrap(), 0, "the server has refused requests");
        // The same for calls that only read, and for the connect.
        server.refuse(status, 2).await.unwrap();
        assert!(store.inspect(&job()).await.unwrap().is_some());
        server.refuse(status, 2).await.unwrap();
        store.list(None).await.unwrap();
        server.refuse(status, 2).await.unwrap();
        connect(&server.store_url()).await.unwrap();
        assert_eq!(server.refusals_left().await.unwrap(), 0, "the server has refused requests");
    }
}

/// 501 says that the server has no such operation. A repeat does not help.
#[tokio::test]
async fn a_server_without_an_operation_is_told_which() {
    let server = S3::start().await.unwrap();
    let store = connect(&server.store_url()).await.unwrap();
    let refused = |error: lock_core::Error, operation: &str| {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("cannot carry out {operation}: NotImplemented")), "{text}");
    };
    server.refuse(501, 1).await.unwrap();
    refused(connect(&server.store_url()).await.unwrap_err(), "a read");
    server.refuse(501, 1).await.unwrap();
    refused(store.list(None).await.unwrap_err(), "a listing");
    let grant = acquire(&*store).await.expect("it is free");
    server.refuse(501, 1).await.unwrap();
    let Renewal::Unknown(error) = renew(&*store, &grant).await else { panic!() };
    refused(error, "a write with If-Match");
}

/// A prefix is percent-encoded in a URL, and a part of the keys as it is meant.
#[tokio::test]
async fn a_prefix_may_have_any_characters() {
    let server = S3::start().await.unwrap();
    let url = server.store_url();
    let store = connect(&url.replace("some/prefix", "some%20prefix/%C3%A4%25%2B")).await.unwrap();
    acquire(&*store).await.expect("it is free");
    let page = store.list(None).await.unwrap();
    assert_eq!(page.locks[0].name, job());
    let same = url.replace("some/prefix", "%73ome prefix/ä%25+");
    assert!(connect(&same).await.unwrap().inspect(&job()).await.unwrap().is_some());
    let others = [url.replace("some/prefix", "some%2520prefix/%25C3%25A4"), url];
    for other in others {
        assert!(connect(&other).await.unwrap().inspect(&job()).await.unwrap().is_none());
    }
}

/// A proxy on the way loses the headers of conditions.
#[tokio::test]
async fn a_server_that_ignores_conditions_is_refused() {
    let server = S3::start().await.unwrap();
    for (header, other) in [("if-match:", "x-match: "), ("if-none-match:", "x-none-match: ")] {
        let proxy = Proxy::altering(server.address(), &[(header, other)]).await.unwrap();
        let error = connect(&S3::store_url_at(proxy.address())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let condition = if header == "if-match:" { "If-Match" } else { "If-None-Match" };
        assert!(error.to_string().contains(&format!("ignores {condition}:")), "{error}");
        assert!(proxy.counters().altered > 0);
    }
    connect(&server.store_url()).await.unwrap();
}

/// The server carries a write out, and its answer is lost.
#[tokio::test]
async fn a_lost_answer_is_resolved() {
    let server = S3::start().await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let far = connect(&S3::store_url_at(proxy.address())).await.unwrap();
    let near = connect(&server.store_url()).await.unwrap();
    let grant = acquire(&*far).await.expect("it is free");
    proxy.set(Mode::HalfCut).await.unwrap();
    let held = async |token: Option<FencingToken>| {
        loop {
            let state = near.inspect(&job()).await.unwrap();
            if state.and_then(|state| state.holder.map(|_| state.token)) == token {
                return;
            }
        }
    };
    let release = async {
        let released = far.release(&grant, ReleaseOptions::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
    };
    let others = async {
        held(None).await;
        // The next holder comes before the first one learns of its release.
        acquire(&*near).await.expect("it was released");
        proxy.set(Mode::Pass).await.unwrap();
    };
    tokio::join!(release, others);
    assert!(proxy.counters().to_client.swallowed > 0);
    assert!(acquire(&*far).await.is_none(), "the next holder has it");
}

/// A client that is cut off keeps nobody from the lock for longer than one lease of looking.
#[tokio::test]
async fn a_holder_that_is_cut_off_is_followed() {
    let server = S3::start().await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    // A call of the client that is cut off ends soon.
    let far = connect_within(&S3::store_url_at(proxy.address()), "3s").await.unwrap();
    let near = connect(&server.store_url()).await.unwrap();
    let mut wanted = request(job());
    wanted.lease = Duration::from_secs(2);
    let grant = far.try_acquire(&wanted).await.unwrap().granted().expect("it is free");
    proxy.set(Mode::BlackHole).await.unwrap();
    assert!(matches!(renew(&*far, &grant).await, Renewal::Unknown(_)));
    let first_look = SystemEnv.now();
    let next = loop {
        match near.try_acquire(&request(job())).await.unwrap() {
            Attempt::Granted(next) => break next,
            Attempt::Busy(busy) => tokio::time::sleep(busy.retry_after).await,
            Attempt::Quarantined(_) => unreachable!(),
        }
    };
    assert!(SystemEnv.now().since(first_look) >= wanted.lease, "not before the lease is over");
    assert!(next.token > grant.token);
    proxy.set(Mode::Pass).await.unwrap();
    let renewal = renew(&*far, &grant).await;
    assert!(matches!(renewal, Renewal::Lost(LossReason::TakenOver)), "{renewal:?}");
}

#[tokio::test]
async fn the_longest_lease_is_a_setting_of_the_store() {
    let server = S3::start().await.unwrap();
    let url = server.store_url();
    let store = connect(&url).await.unwrap();
    let init = Init::new().with_longest_lease(Duration::from_secs(90));
    store.init(&init).await.unwrap();
    let expecting = async |span: &str| connect(&format!("{url}&longest_lease={span}")).await;
    assert_eq!(expecting("90s").await.unwrap().guarantees().longest_lease.as_secs(), 90);
    let error = expecting("30s").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("expects a longest lease of 30s"), "{error}");
    let error = store.init(&Init::new().with_longest_lease(Duration::from_secs(1))).await;
    assert!(error.unwrap_err().to_string().contains("between 2s and 1day"));
}

/// Also names with characters that no key has.
#[tokio::test]
async fn a_listing_has_every_held_lock_once() {
    let server = S3::start().await.unwrap();
    let store = connect(&server.store_url()).await.unwrap();
    let mut names = BTreeSet::new();
    for name in ["a", "a/b", "ä", "b c", "Z"] {
        let name = LockName::new(name).unwrap();
        store.try_acquire(&request(name.clone())).await.unwrap().granted().unwrap();
        names.insert(name);
    }
    let mut found = Vec::new();
    let mut from = None;
    loop {
        let page = store.list(from.take()).await.unwrap();
        found.extend(page.locks.into_iter().map(|state| state.name));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), names.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), names);
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_named() {
    let server = S3::start().await.unwrap();
    let url = server.store_url().replace("//bucket/", "//nobody/");
    let error = connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:#}");
    assert!(error.to_string().contains("no such bucket"), "{error:#}");
}

/// A console of S3 makes an object with the name of a folder.
#[tokio::test]
async fn a_listing_ends_after_an_object_that_is_a_folder() {
    let server = S3::start().await.unwrap();
    let store = connect(&server.store_url()).await.unwrap();
    server.put("/bucket/some/prefix/locks/").await.unwrap();
    let page = store.list(None).await.unwrap();
    assert!(page.next.is_some(), "the server has listed it");
    let page = store.list(page.next).await.unwrap();
    assert!(page.next.is_none(), "{page:?}");
}

/// Amazon answers so. A repeat does not help.
#[tokio::test]
async fn a_bucket_in_another_region_is_told() {
    let server = S3::start().await.unwrap();
    let store = connect(&server.store_url()).await.unwrap();
    server.refuse(301, 1).await.unwrap();
    let error = store.inspect(&job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("in another region"), "{error}");
}

/// The test runs again in a process whose environment names a proxy that is not there.
#[tokio::test]
async fn an_unencrypted_request_to_this_machine_passes_no_proxy() {
    const PROXY: &str = "http://127.0.0.1:1";
    if std::env::var("http_proxy").as_deref() == Ok(PROXY) {
        let server = S3::start().await.unwrap();
        connect(&server.store_url()).await.unwrap();
        return;
    }
    let again = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["s3::an_unencrypted_request_to_this_machine_passes_no_proxy", "--exact"])
        .env("http_proxy", PROXY)
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output();
    let again = again.await.unwrap();
    let shown = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && shown.contains("1 passed"), "{shown}");
}
