//! A cluster that was restored, or may have been: a connection to it was begun.

use conformance_tests::kit::{Mode, Proxy, Streams};
use etcd_client::{Txn, TxnOp, TxnResponse};
use lock_core::{Attempt, Backend as _, Env as _, Init, Renewal, SystemEnv};

use super::*;
use crate::store::put;

/// One etcd, and what it is to be set back to.
struct Scene {
    etcd: Etcd,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> (Self, Arc<EtcdBackend>) {
        let scene = Self { etcd: start().await, folder: tempfile::tempdir().unwrap() };
        let store = scene.open().await;
        granted(&store, &request("warm")).await;
        (scene, store)
    }

    async fn open(&self) -> Arc<EtcdBackend> {
        open(self.etcd.endpoints()[0]).await
    }

    async fn save(&self) {
        self.etcd.save_snapshot(&self.folder.path().join("snapshot")).await.unwrap();
    }

    async fn restore(&mut self) {
        self.etcd.restore_snapshot(&self.folder.path().join("snapshot")).await.unwrap();
    }
}

/// Sends over whatever connection there is, as nothing that grants is sent.
async fn send(store: &EtcdBackend, txn: Txn) -> TxnResponse {
    let sending = async {
        loop {
            if let Ok(answer) = store.rpc.txn(txn.clone()).await {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, sending).await.expect("an answer")
}

async fn attempt(store: &EtcdBackend, request: &Request) -> Attempt {
    let asking = async {
        loop {
            match store.try_acquire(request).await {
                Ok(attempt) => return attempt,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("an answer")
}

/// By a client that has seen nothing of what was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_holds_everything_back() {
    let (mut scene, known) = Scene::start().await;
    scene.save().await;
    granted(&known, &request("job")).await;
    scene.restore().await;
    let attempt = attempt(&*scene.open().await, &request("job")).await;
    assert!(matches!(attempt, Attempt::Quarantined(_)), "two holders: {attempt:?}");
}

/// Whether or not it shows.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_tells_holds_everything_back() {
    let (_scene, store) = Scene::start().await;
    // Also where a restore that shows would not.
    let told = Init { restored: true, quarantine: Some(false), ..Init::default() };
    store.init(&told).await.unwrap();
    not_granted(&store, &request("job")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_longest_lease_waits_the_old_one_out() {
    let (_scene, store) = Scene::start().await;
    let init = Init { longest_lease: Some(2 * LEASE), ..Init::default() };
    store.init(&init).await.unwrap();
    not_granted(&store, &request("job")).await;
}

/// One granted before the longest lease was made shorter goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_is_as_long_as_any_lease_that_may_be_held() {
    let (scene, store) = Scene::start().await;
    let init = Init { longest_lease: Some(LEASE / 10), ..Init::default() };
    store.init(&init).await.unwrap();
    scene.etcd.ctl(&["del", "--prefix", "leasehold/%leasehold/"]).await.unwrap();
    let mut short = request("job");
    short.lease = LEASE / 10;
    match store.try_acquire(&short).await.unwrap() {
        Attempt::Quarantined(held_back) => {
            assert!(held_back.remaining > LEASE / 5, "{held_back:?}")
        }
        other => panic!("a loss was not seen: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_another_longest_lease_is_refused() {
    let (scene, _known) = Scene::start().await;
    let url = format!("etcd://{}?longest_lease=40s", scene.etcd.endpoints()[0]);
    let error = backend_etcd::connect(&url).await.expect_err("it is not refused");
    assert_eq!(error.kind(), lock_core::ErrorKind::Config, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_after_a_restore_are_above_all_before() {
    let (mut scene, known) = Scene::start().await;
    known.init(&Init { quarantine: Some(false), ..Init::default() }).await.unwrap();
    scene.save().await;
    let lost = granted(&known, &ahead("job")).await;
    scene.restore().await;
    // With the quarantine off somebody else holds at once, and a fence is to tell the two apart.
    let second = attempt(&*scene.open().await, &request("job")).await.granted().unwrap();
    assert!(second.token > lost.token, "{} after {}", second.token, lost.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_lives_on_keeps_no_lock_that_was_lost() {
    let (mut scene, store) = Scene::start().await;
    let spare = store.lease(LEASE).await.unwrap();
    store.spare(spare);
    scene.save().await;
    let grant = granted(&store, &request("job")).await;
    let held = grant.state.as_ref().unwrap().downcast_ref::<crate::place::Held>().unwrap();
    assert_eq!(held.lease.id, spare.id);
    scene.restore().await;
    let answered = async {
        loop {
            match store.renew(&[&grant], SystemEnv.now()).await.pop().unwrap() {
                Renewal::Unknown(_) => {}
                answer => return answer,
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, answered).await.expect("an answer");
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_a_restored_cluster_is_given_back() {
    let (mut scene, store) = Scene::start().await;
    scene.save().await;
    granted(&store, &request("job")).await;
    let pass = store.pass().await.unwrap();
    scene.restore().await;
    // As if it had been on its way when the connection was begun.
    send(&store, Txn::new().and_then([TxnOp::get("any", None)])).await;
    let lease = store.rpc.grant(LEASE).await.unwrap().id;
    let place = store.layout.place(&name("job"), 77);
    let answer = send(&store, Txn::new().and_then([put(&place, Vec::new(), lease)])).await;
    assert!(!store.stands(&pass, &answer, lease).await.unwrap(), "it is believed");
    let left = scene.etcd.ctl(&["get", &place, "--keys-only"]).await.unwrap();
    assert_eq!(left, "", "what was granted is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_a_restored_cluster_that_is_not_given_back_is_of_unknown_outcome() {
    let (mut scene, known) = Scene::start().await;
    let streams = Streams::reconnecting(scene.etcd.endpoints()[0]).await.unwrap();
    let store = open(streams.address()).await;
    scene.save().await;
    granted(&known, &request("job")).await;
    let pass = store.pass().await.unwrap();
    scene.restore().await;
    let answer = send(&store, Txn::new().and_then([TxnOp::get("any", None)])).await;
    let lease = store.rpc.grant(LEASE).await.unwrap().id;
    streams.refuse("LeaseRevoke");
    store.history.doubt();
    let error = store.stands(&pass, &answer, lease).await.expect_err("a grant that is left behind");
    assert!(streams.refused("LeaseRevoke") > 0, "the fault did not happen");
    assert_eq!(error.kind(), lock_core::ErrorKind::OutcomeUnknown, "nobody cleans up: {error}");
}

/// Others shortened the longest lease, and said that nothing is held.
async fn shortened(scene: &Scene) {
    let longest_lease = Some(LEASE / 6);
    let init = Init { longest_lease, first_use: true, ..Init::default() };
    scene.open().await.init(&init).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_old_settings_is_refused() {
    let (scene, store) = Scene::start().await;
    shortened(&scene).await;
    let error = store.try_acquire(&request("job")).await.expect_err("it outlasts a quarantine");
    assert_eq!(error.kind(), lock_core::ErrorKind::InvalidInput, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_of_old_settings_is_refused() {
    let (scene, store) = Scene::start().await;
    let held = granted(&store, &request("job")).await;
    let wanted = request("job");
    let _turn = waits(&store, &wanted).await;
    shortened(&scene).await;
    release(&store, &held).await;
    let error = store.try_acquire(&wanted).await.expect_err("it outlasts a quarantine");
    assert_eq!(error.kind(), lock_core::ErrorKind::InvalidInput, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_new_settings_is_granted() {
    let (scene, store) = Scene::start().await;
    let longest_lease = Some(2 * LEASE);
    let init = Init { longest_lease, first_use: true, ..Init::default() };
    scene.open().await.init(&init).await.unwrap();
    let mut long = request("job");
    long.lease = 2 * LEASE;
    granted(&store, &long).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_settings_does_not_cut_a_quarantine_short() {
    let (_scene, store) = Scene::start().await;
    for longest in [LEASE / 10, LEASE / 15] {
        let init = Init { longest_lease: Some(longest), ..Init::default() };
        let left = store.init(&init).await.unwrap().grants_in;
        assert!(left > LEASE / 5, "{LEASE:?} are to be waited out, and {left:?} are");
    }
}

/// They were made longer after the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_is_as_long_as_the_lost_settings_allowed() {
    let (mut scene, store) = Scene::start().await;
    scene.save().await;
    let init = Init { longest_lease: Some(10 * LEASE), first_use: true, ..Init::default() };
    store.init(&init).await.unwrap();
    granted(&store, &request("job")).await;
    scene.restore().await;
    match attempt(&store, &request("job")).await {
        Attempt::Quarantined(held_back) => {
            assert!(held_back.remaining > 5 * LEASE, "{held_back:?}")
        }
        other => panic!("a loss was not seen: {other:?}"),
    }
}

/// No transaction compares what tells of a restore: whether one was carried out before or after it is
/// known by the connections alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_begun_meanwhile_leaves_a_grant_in_doubt() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open(proxy.address()).await;
    let pass = store.pass().await.unwrap();
    let read = || Txn::new().and_then([TxnOp::get("any", None)]);
    let answer = send(&store, read()).await;
    assert!(store.history.is_same(&store.rpc, &pass, &answer));
    proxy.set(Mode::Reset).await.unwrap();
    proxy.set(Mode::Pass).await.unwrap();
    let answer = send(&store, read()).await;
    assert!(!store.history.is_same(&store.rpc, &pass, &answer), "it is believed without a look");
}
