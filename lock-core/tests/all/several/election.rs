//! Leader election.

use std::{sync::Arc, sync::Mutex, time::Duration};

use lock_core::{Backend as _, ErrorKind, Leadership, LockClient, LockName};

use super::SECOND;
use crate::support::Stub;

#[tokio::test(start_paused = true)]
async fn an_election_starts_the_work_again_after_a_loss() {
    let stub = Stub::new();
    let terms = Arc::new(Mutex::new(Vec::new()));
    let seen = terms.clone();
    let election = stub.client().election("chief").lease(2 * SECOND);
    let candidate = tokio::spawn(async move {
        election
            .run(|leadership| {
                let mut terms = seen.lock().unwrap();
                terms.push(leadership.token());
                let term = terms.len();
                async move {
                    if term < 3 {
                        std::future::pending::<()>().await;
                    }
                    term
                }
            })
            .await
    });
    let name = LockName::new("chief").unwrap();
    for term in 1..3 {
        while terms.lock().unwrap().len() < term {
            tokio::time::sleep(SECOND / 10).await;
        }
        stub.memory.force_release(&name).await.unwrap();
    }
    let done = candidate.await.unwrap().unwrap();
    assert_eq!(done.output, 3);
    done.release.unwrap();
    assert!(terms.lock().unwrap().is_sorted_by(|a, b| a < b), "{terms:?}");
    assert_eq!(stub.holder("chief").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_election_ends_with_an_error_that_waiting_cannot_mend() {
    let stub = Stub::new();
    let client = stub.client();
    let error = client.election("").run(|_| async {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    client.close().await;
    let error = client.election("chief").run(|_| async {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

fn shown(leadership: &Leadership) -> String {
    match leadership {
        Leadership::Held(leader) => leader.term.to_string(),
        Leadership::Vacant => "vacant".into(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_each_leader_once_and_who_leads_no_more() {
    let stub = Stub::new();
    let election = stub.client().election("chief");
    let mut seen = election.watch(SECOND).unwrap();
    let mut next = async || {
        seen.changed().await.unwrap();
        shown(&seen.borrow_and_update())
    };
    assert_eq!(next().await, "vacant");
    for _ in 0..2 {
        let leader = election.campaign().await.unwrap();
        assert_eq!(next().await, leader.token().to_string());
        tokio::time::sleep(30 * SECOND).await;
        leader.release().await.unwrap();
        assert_eq!(next().await, "vacant");
    }
    for interval in [Duration::ZERO, 3_601 * SECOND] {
        let error = election.watch(interval).unwrap_err();
        assert!(error.to_string().contains("between 10ms and 1h"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_client() {
    let stub = Stub::new();
    let client: LockClient = stub.client();
    let mut seen = client.election("chief").watch(SECOND).unwrap();
    client.close().await;
    while seen.changed().await.is_ok() {}
    assert!(client.election("chief").watch(SECOND).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_keep_its_client_alive() {
    let stub = Stub::new();
    let client = stub.client();
    let mut seen = client.election("chief").watch(3_600 * SECOND).unwrap();
    seen.changed().await.unwrap();
    drop(client);
    let ended = tokio::time::timeout(60 * SECOND, seen.changed()).await;
    assert!(ended.expect("it goes on without a client").is_err());
    assert_eq!(Arc::strong_count(&stub), 1, "the store is kept");
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_nothing_that_is_older_than_it_says() {
    let stub = Stub::new();
    let election = stub.client().election("chief");
    let leader = election.campaign().await.unwrap();
    let mut seen = election.watch(2 * SECOND).unwrap();
    for _ in 0..3 {
        let held = |now: &Leadership| matches!(now, Leadership::Held(_));
        seen.wait_for(held).await.unwrap();
        stub.hold("inspect");
        let hangs = tokio::time::Instant::now();
        seen.changed().await.unwrap();
        assert!(matches!(*seen.borrow(), Leadership::Unknown(_)), "{:?}", *seen.borrow());
        assert!(hangs.elapsed() <= 2 * SECOND, "only after {:?}", hangs.elapsed());
        stub.let_go("inspect");
    }
    leader.release().await.unwrap();
    let released = tokio::time::Instant::now();
    seen.wait_for(|now| *now == Leadership::Vacant).await.unwrap();
    assert!(released.elapsed() <= 2 * SECOND, "only after {:?}", released.elapsed());
}
