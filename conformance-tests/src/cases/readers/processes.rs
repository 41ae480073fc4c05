//! Readers and writers among real processes that are killed and paused.

use futures_util::future::join_all;

use crate::{
    cases::{cases, pauses, processes, shared},
    child::{Child, Job},
    setting::Setting,
};

cases! {
    "S1" no_process_reads_while_another_writes shared processes;
    "L1" a_killed_readers_lock_is_free_for_writers_within_its_lease shared processes;
    "L5" a_paused_reader_learns_of_its_loss shared pauses processes;
}

async fn no_process_reads_while_another_writes(setting: &Setting) {
    const READERS: usize = 4;
    const WRITERS: usize = 2;
    const TIMES: u32 = 10;
    let name = setting.name("counter");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("number");
    std::fs::write(&path, "0").unwrap();
    let file = path.to_str().unwrap().to_owned();
    let start = |job| Child::start(setting, &name, setting.long_lease(), job);
    let read = || start(Job::Read { file: file.clone(), times: 2 * TIMES });
    let count = || start(Job::Count { file: file.clone(), times: TIMES });
    let mut children: Vec<_> =
        (0..READERS).map(|_| read()).chain((0..WRITERS).map(|_| count())).collect();
    let said = join_all(children.iter_mut().map(Child::next_line)).await;
    assert!(said.iter().all(|said| said == "done"), "{said:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), (WRITERS as u32 * TIMES).to_string());
}

async fn a_killed_readers_lock_is_free_for_writers_within_its_lease(setting: &Setting) {
    let name = setting.name("job");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::HoldShared);
    let token = child.held().await;
    let client = setting.client().await;
    let inside = client.lock(&name).lease(lease).shared().acquire().await.unwrap();
    let killed = child.kill().await;
    inside.release().await.unwrap();
    let writer = client.lock(&name).wait(setting.patience() + lease).acquire().await.unwrap();
    assert!(writer.token() > token);
    setting.assert_free_in_time(killed, lease);
}

async fn a_paused_reader_learns_of_its_loss(setting: &Setting) {
    let name = setting.name("job");
    let lease = setting.child_lease();
    let mut child = Child::start(setting, &name, lease, Job::HoldShared);
    let token = child.held().await;
    let client = setting.client().await;
    child.pause(setting, &client).await;
    let writer = client.lock(&name).wait(setting.patience() + lease).acquire().await.unwrap();
    assert!(writer.token() > token);
    child.resume_to_its_loss().await;
    child.ended().await;
    assert!(writer.is_valid());
}
