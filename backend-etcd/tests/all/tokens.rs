//! etcd forgets the tokens by which its users are known: they are renewed, and no lock is lost.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions};
use etcd_client::{Client, ConnectOptions};
use lock_core::{Backend, Env as _, ErrorKind, LockClient, SystemEnv};

use crate::support::{WAIT, held_and_waited_for, served, single};

async fn connect(etcd: &Etcd) -> Arc<dyn Backend> {
    let url = format!("etcd://root:sesame@{}", etcd.endpoints()[0]);
    backend_etcd::connect(&url).await.unwrap()
}

/// A client that authenticates once.
async fn once(etcd: &Etcd) -> Client {
    let options = ConnectOptions::new().with_user("root", "sesame");
    Client::connect([etcd.endpoints()[0].to_string()], Some(options)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expired_is_renewed() {
    let options = EtcdOptions::new().root_password("sesame").flag("--auth-token-ttl=1");
    let etcd = Etcd::single(options).await.unwrap();
    let backend = connect(&etcd).await;
    let client = LockClient::new(Arc::clone(&backend));
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    let witness = once(&etcd).await;
    // A token lives for its time from its last use: this is what is tested, so it must pass unused.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(witness.kv_client().get("k", None).await.is_err(), "the fault did not happen");
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_void_cost_neither_lock_nor_place() {
    let etcd = Etcd::single(EtcdOptions::new().root_password("sesame")).await.unwrap();
    let (guard, waiting) = held_and_waited_for(connect(&etcd).await, connect(&etcd).await).await;
    let lease = Duration::from_secs(6);
    let short = LockClient::new(connect(&etcd).await);
    let short = short.lock("short").lease(lease).acquire().await.unwrap();
    let witness = once(&etcd).await;
    witness.kv_client().get("k", None).await.unwrap();
    // All tokens at once; a restart would bring them back from the log.
    etcd.ctl(&["auth", "disable"]).await.unwrap();
    etcd.ctl(&["auth", "enable"]).await.unwrap();
    let back = SystemEnv.now();
    assert!(witness.kv_client().get("k", None).await.is_err(), "the fault did not happen");
    let renewed = async {
        while SystemEnv.now() + short.remaining() <= back + lease {
            assert!(short.is_valid(), "lost");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT, renewed).await.expect("it is renewed");
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(served(waiting).await.token() > token);
    short.release().await.unwrap();
}

/// A client meets it, too, after an operator voided its token by switching authentication off and on again.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_where_authentication_is_off_may_come_again() {
    let etcd = single().await;
    let url = format!("etcd://root:sesame@{}", etcd.endpoints()[0]);
    let error = backend_etcd::connect(&url).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("authentication switched off"), "{error}");
}
