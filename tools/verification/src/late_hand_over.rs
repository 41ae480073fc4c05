//! Tests of every backend with a server: calls around a lock that is handed over which a proxy
//! holds back, or whose answers it loses.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, Grant, LockName, LossReason, OwnerId, OwnerLabel, Renewal, Request,
    SystemEnv,
};
use servers::{Counters, Mode, Proxy};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

fn request(name: &str) -> Request {
    let (name, label) = (LockName::new(name).unwrap(), OwnerLabel::new("test").unwrap());
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name, owner, label, LEASE, SystemEnv.now())
}

async fn granted(store: &dyn Backend, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

async fn holder(store: &dyn Backend, name: &LockName) -> Option<OwnerId> {
    let state = store.inspect(name).await.unwrap();
    state.and_then(|state| state.holder).map(|holder| holder.owner)
}

/// `behind` is a client of the store of `direct`, through `proxy`, whose calls may take a minute.
pub async fn changes_nothing(direct: &dyn Backend, behind: Arc<dyn Backend>, proxy: &Proxy) {
    let held_up = |now: &Counters| now.to_server.waiting > 0;
    // A renewal of the former owner is held back until another has the lock.
    let former = granted(&*behind, &request("handed")).await;
    let name = former.name.clone();
    behind.renew(&[&former], SystemEnv.now()).await;
    proxy.set(Mode::Hold).await.unwrap();
    let (store, grant) = (Arc::clone(&behind), former.clone());
    let renewal = tokio::spawn(async move { store.renew(&[&grant], SystemEnv.now()).await.pop() });
    proxy.until("the renewal to be held up", SOON, held_up).await.unwrap();
    let second = request("handed");
    let second = direct.reown(&former, &second).await.unwrap().expect("it is held");
    proxy.set(Mode::Pass).await.unwrap();
    let answer = renewal.await.unwrap();
    let taken = Some(Renewal::Lost(LossReason::TakenOver));
    assert_eq!(format!("{answer:?}"), format!("{taken:?}"), "it came after the hand-over");

    // A hand-over is held back until its client has given its owner up.
    let warm = granted(&*behind, &request("warm")).await;
    behind.reown(&warm, &request("warm")).await.unwrap().expect("it is held");
    let late = request("handed");
    proxy.set(Mode::Hold).await.unwrap();
    let (store, grant, asked) = (Arc::clone(&behind), second.clone(), late.clone());
    let call = tokio::spawn(async move { store.reown(&grant, &asked).await });
    proxy.until("the hand-over to be held up", SOON, held_up).await.unwrap();
    direct.abandon(&late).await.unwrap();
    proxy.set(Mode::Pass).await.unwrap();
    assert!(call.await.unwrap().unwrap().is_none(), "it came after the clean-up");
    assert_eq!(holder(direct, &name).await, Some(second.owner));

    // The answer is lost. A repeat of the same owner finds the lock, another does not.
    let third = request("handed");
    proxy.set(Mode::HalfCut).await.unwrap();
    let (store, grant, asked) = (Arc::clone(&behind), second.clone(), third.clone());
    let call = tokio::spawn(async move { store.reown(&grant, &asked).await });
    let carried_out = async {
        while holder(direct, &name).await != Some(third.owner) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, carried_out).await.expect("the hand-over to arrive");
    assert!(!call.is_finished(), "its answer was not lost");
    proxy.set(Mode::Pass).await.unwrap();
    let answer = call.await.unwrap();
    let doubtful = answer.as_ref().is_err_and(lock_core::Error::is_ambiguous);
    assert!(doubtful || answer.as_ref().is_ok_and(Option::is_some), "{answer:?}");
    assert!(direct.reown(&second, &request("handed")).await.unwrap().is_none(), "a second owner");
    let again = direct.reown(&second, &third).await.unwrap().expect("a repeat by the owner");
    assert_eq!((again.owner, again.token), (third.owner, former.token));
}
