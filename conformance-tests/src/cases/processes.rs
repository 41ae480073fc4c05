//! Real processes that are killed and paused.

use futures_util::future::join_all;
use lock_core::Fence;

use super::{cases, pauses, processes};
use crate::{
    child::{Child, Job},
    setting::{Setting, eventually},
};

cases! {
    "L1" a_killed_holders_lock_is_free_within_its_lease processes;
    "L5" a_paused_holder_learns_of_its_loss_and_is_fenced pauses processes;
    "S1" processes_count_without_losing_an_update processes;
}

async fn a_killed_holders_lock_is_free_within_its_lease(setting: &Setting) {
    let name = setting.name("job");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::Hold);
    let token = child.held().await;
    let client = setting.client().await;
    let early = client.lock(&name).try_acquire().await.unwrap();
    assert!(early.guard().is_none(), "the child holds it");
    let killed = child.kill().await;
    let guard = client.lock(&name).wait(setting.patience() + lease).acquire().await.unwrap();
    assert!(guard.token() > token);
    // The last renewal was just before the kill, at the latest.
    setting.assert_free_in_time(killed, lease);
}

async fn a_paused_holder_learns_of_its_loss_and_is_fenced(setting: &Setting) {
    let name = setting.name("job");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::Hold);
    let token = child.held().await;
    let client = setting.client().await;
    child.pause(setting, &client).await;
    let guard = client.lock(&name).wait(setting.patience() + lease).acquire().await.unwrap();
    let fence = Fence::new();
    fence.admit("data", guard.token()).unwrap();
    child.resume_to_its_loss().await;
    let stale = fence.admit("data", token).unwrap_err();
    assert_eq!((stale.offered, stale.admitted), (token, guard.token()));
    // The clean-up of the late holder must not touch the new holder's lock.
    child.ended().await;
    eventually("the new holder still has the lock", setting.patience(), || async {
        let state = client.backend().inspect(&name).await.unwrap();
        let holder = state.and_then(|state| state.holder);
        (holder.map(|holder| holder.owner) == Some(guard.owner())).then_some(())
    })
    .await;
    assert!(guard.is_valid());
}

async fn processes_count_without_losing_an_update(setting: &Setting) {
    const PROCESSES: u32 = 4;
    const TIMES: u32 = 15;
    let name = setting.name("counter");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0").unwrap();
    let lease = setting.long_lease();
    let job = || Job::Count { file: file.path().to_str().unwrap().to_owned(), times: TIMES };
    let mut children: Vec<_> =
        (0..PROCESSES).map(|_| Child::start(setting, &name, lease, job())).collect();
    let said = join_all(children.iter_mut().map(Child::next_line)).await;
    assert!(said.iter().all(|said| said == "done"), "{said:?}");
    let total = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(total, (PROCESSES * TIMES).to_string(), "two holders at once lost an update");
}
