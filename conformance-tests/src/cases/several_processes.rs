//! Semaphores and `all` among real processes that are killed and paused.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{LockClient, LockName};

use super::{cases, pauses, processes};
use crate::{
    child::{Child, Job},
    setting::{Setting, eventually},
};

cases! {
    "S1" processes_share_the_permits_of_a_semaphore processes;
    "L1" a_killed_holders_permit_is_free_within_its_lease processes;
    "L1" a_client_killed_at_the_door_keeps_nobody_from_a_free_slot processes;
    "L1" all_locks_of_a_killed_holder_are_free_within_their_lease processes;
    "L5" a_paused_holder_of_a_permit_learns_of_its_loss pauses processes;
    "L5" a_paused_holder_of_all_learns_of_its_loss pauses processes;
}

/// The longest lease of a semaphore's door, as the docs say.
const DOOR: Duration = Duration::from_secs(3);

async fn processes_share_the_permits_of_a_semaphore(setting: &Setting) {
    const PROCESSES: usize = 8;
    const PERMITS: usize = 3;
    let name = setting.name("pool");
    let folder = tempfile::tempdir().unwrap();
    let (inside, enough) = (folder.path().join("inside"), folder.path().join("enough"));
    std::fs::create_dir(&inside).unwrap();
    let path = folder.path().to_str().unwrap();
    let job = || Job::Enter { folder: path.to_owned(), permits: PERMITS as u32, times: 4 };
    let lease = setting.long_lease();
    let mut children: Vec<_> =
        (0..PROCESSES).map(|_| Child::start(setting, &name, lease, job())).collect();
    // Each child holds its permit until all permits were in use at the same time.
    let look = async {
        loop {
            let now = std::fs::read_dir(&inside).unwrap().count();
            assert!(now <= PERMITS, "{now} processes hold {PERMITS} permits");
            if now == PERMITS && !enough.exists() {
                std::fs::write(&enough, "").unwrap();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        () = look => {}
        said = join_all(children.iter_mut().map(Child::next_line)) => {
            assert!(said.iter().all(|said| said == "done"), "{said:?}");
        }
    }
    assert!(enough.exists(), "the permits were never all in use at the same time");
}

async fn a_killed_holders_permit_is_free_within_its_lease(setting: &Setting) {
    let name = setting.name("pool");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::HoldPermit);
    let token = child.held().await;
    let client = setting.client().await;
    let pool = || client.semaphore(&name, 1);
    assert!(pool().try_acquire().await.unwrap().guard().is_none(), "the child holds the permit");
    let killed = child.kill().await;
    let permit = pool().wait(setting.patience() + lease).acquire().await.unwrap();
    assert!(permit.token() > token);
    setting.assert_free_in_time(killed, lease);
}

async fn a_client_killed_at_the_door_keeps_nobody_from_a_free_slot(setting: &Setting) {
    let name = setting.name("pool");
    let client = setting.client().await;
    let promised = setting.promised();
    let door = DOOR.max(promised.shortest_lease);
    // Longer than the lease of the door. The store may read an attempt of the killed client late,
    // and grant it a slot for this long.
    let lease = (3 * door).min(setting.long_lease());
    let pool = |client: &LockClient| client.semaphore(&name, 1).lease(lease);
    let permit = pool(&client).acquire().await.unwrap();
    let child = Child::start(setting, &name, lease, Job::HoldPermit);
    let holder = eventually("the child holds the door", setting.patience() + DOOR, || async {
        client.backend().inspect(&name).await.unwrap()?.holder
    })
    .await;
    let shorter = door + promised.lease_step + promised.expiry_slack;
    assert!(holder.remaining <= shorter, "the door must have its own short lease: {holder:?}");
    child.kill().await;
    permit.release().await.unwrap();
    let wait = lease + promised.dead_waiter_delay + setting.patience();
    let permit = pool(&client).wait(wait).acquire().await;
    let permit = permit.expect("a client killed at the door must not block the free slot");
    assert_eq!(permit.name().as_str(), format!("{name}/0"));
}

async fn all_locks_of_a_killed_holder_are_free_within_their_lease(setting: &Setting) {
    let name = setting.name("job");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::HoldBoth);
    child.held().await;
    let client = setting.client().await;
    let both = || both(setting, &client, &name);
    let early = both().wait(Duration::ZERO).acquire().await;
    assert!(early.unwrap_err().is_busy(), "the child holds both locks");
    let killed = child.kill().await;
    both().acquire().await.unwrap().release().await.unwrap();
    setting.assert_free_in_time(killed, lease);
}

/// The two locks of `Job::HoldBoth`.
fn both(setting: &Setting, client: &LockClient, name: &LockName) -> lock_core::All {
    let second = LockName::new(format!("{name} too")).unwrap();
    let locks = [name.clone(), second].map(|name| client.lock(name));
    lock_core::all(locks).wait(setting.patience() * 2)
}

async fn a_paused_holder_of_a_permit_learns_of_its_loss(setting: &Setting) {
    let name = setting.name("pool");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::HoldPermit);
    let token = child.held().await;
    let client = setting.client().await;
    child.pause(setting, &client).await;
    let permit =
        client.semaphore(&name, 1).wait(setting.patience() + lease).acquire().await.unwrap();
    assert!(permit.token() > token);
    child.resume_to_its_loss().await;
    child.ended().await;
    assert!(permit.is_valid());
}

async fn a_paused_holder_of_all_learns_of_its_loss(setting: &Setting) {
    let name = setting.name("job");
    let mut child = Child::start(setting, &name, setting.child_lease(), Job::HoldBoth);
    let token = child.held().await;
    let client = setting.client().await;
    child.pause(setting, &client).await;
    let guards = both(setting, &client, &name).acquire().await.unwrap();
    assert!(guards[0].token() > token);
    child.resume_to_its_loss().await;
    child.ended().await;
    assert!(guards.is_valid());
}
