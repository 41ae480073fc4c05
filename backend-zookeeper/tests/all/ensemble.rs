//! An ensemble of three: a follower is cut off from the leader, and a leader dies.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Env as _, Grant, RecordWrite, Renewal, SystemEnv};
use servers::{Mode, Server as _, ZooKeeper, ZooKeeperOptions};

use crate::support::{
    WAIT, busy, connect, eventually_granted, granted, is_over, name, release, request, request_for,
    silence::Silence, touches::Touches, until,
};

/// The lease of a holder behind a follower. A renewal takes at most 5 s, and the next one comes
/// 1.5 s after it. So 5 s are left for a busy machine.
const SHORT: Duration = Duration::from_secs(12);

/// An ensemble, a follower, a client of the follower, and a client of the leader.
async fn follower_and_leader() -> (ZooKeeper, usize, usize, [Arc<dyn Backend>; 2]) {
    // The follower goes on for longer than any session of the test.
    let options = ZooKeeperOptions::new().peers_by_proxy().line("syncLimit=300");
    let zookeeper = ZooKeeper::three(options).await.unwrap();
    let leader = zookeeper.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let endpoints = zookeeper.endpoints();
    let behind = connect(&[endpoints[follower]], "5s").await;
    let other = connect(&[endpoints[leader]], "20s").await;
    (zookeeper, follower, leader, [behind, other])
}

async fn cut(zookeeper: &ZooKeeper, follower: usize, leader: usize) {
    let link = zookeeper.link(follower, leader).unwrap();
    link.set(Mode::BlackHole).await.unwrap();
    link.until("a lost ping", WAIT, |now| now.to_client.swallowed > 0).await.unwrap();
}

/// What the holder believes after its last renewal.
fn renewed(grant: &Grant, renewals: &[Renewal]) -> Option<Grant> {
    let [Renewal::Renewed { from, lease }] = renewals else { return None };
    let mut renewed = grant.clone();
    (renewed.from, renewed.lease) = (*from, *lease);
    Some(renewed)
}

/// A follower that is cut off answers reads and pings, and the session is over before it notices.
/// The holder renews as long as it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_behind_a_follower_that_is_cut_off_is_no_second_holder() {
    let (zookeeper, follower, leader, [behind, other]) = follower_and_leader().await;
    let mut believed = granted(&*behind, &request_for("job", SHORT)).await;
    cut(&zookeeper, follower, leader).await;
    let next = eventually_granted(&*other);
    tokio::pin!(next);
    loop {
        let renewing = believed.clone();
        let grants = [&renewing];
        tokio::select! {
            next = &mut next => {
                is_over(&believed);
                assert!(next.token > believed.token);
                return;
            }
            answers = behind.renew(&grants, SystemEnv.now()) => {
                assert!(!matches!(answers[..], [Renewal::Lost(_)]), "it cannot know: {answers:?}");
                believed = renewed(&believed, &answers).unwrap_or(believed);
                tokio::time::sleep(SHORT / 8).await;
            }
        }
    }
}

/// The follower has answered a write, and is cut off before it reports to the leader that the
/// session was used. The session was silent before: nothing passed its connection for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_and_then_a_cut_leave_no_second_holder() {
    let lease = Duration::from_secs(20);
    let options = ZooKeeperOptions::new().tick(Duration::from_millis(100)).peers_by_proxy();
    let options = options.line("syncLimit=500").line("maxSessionTimeout=60000");
    let zookeeper = ZooKeeper::three(options).await.unwrap();
    let leader = zookeeper.leader().await.unwrap();
    let follower = (leader + 1) % 3;
    let touches = Touches::start(zookeeper.members()[leader].peer_address()).await;
    let link = zookeeper.link(follower, leader).unwrap();
    link.redirect(touches.address());
    let before = link.counters().accepted;
    link.set(Mode::Reset).await.unwrap();
    link.set(Mode::Pass).await.unwrap();
    until("the follower is back", async || {
        let mode = zookeeper.members()[follower].mode().await;
        mode.as_deref() == Some("follower") && touches.passed() > 0
    })
    .await;
    assert!(link.counters().accepted > before, "it uses another way");
    let endpoints = zookeeper.endpoints();
    let way = Silence::start(endpoints[follower]).await;
    let behind = connect(&[way.address()], "20s").await;
    let other = connect(&[endpoints[leader]], "20s").await;
    let grant = granted(&*behind, &request_for("job", lease)).await;
    // Longer than the time by which the session outlasts the lease, and shorter than the session by
    // 16 s, which are left for a busy machine.
    way.hold();
    tokio::time::sleep(lease / 2).await;
    touches.lose();
    way.pass();
    let answers = behind.renew(&[&grant], SystemEnv.now()).await;
    let believed = renewed(&grant, &answers).expect("the follower works");
    until("a lost report", async || touches.lost() > 0).await;
    cut(&zookeeper, follower, leader).await;
    let next = eventually_granted(&*other).await;
    is_over(&believed);
    assert!(next.token > grant.token);
}

/// A job that ran elsewhere must not run again because the follower of this client is behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_behind_answers_no_old_record() {
    let (zookeeper, follower, leader, [behind, other]) = follower_and_leader().await;
    let slow = connect(&[zookeeper.endpoints()[follower]], "20s").await;
    drop(behind);
    assert!(slow.read_record(&name()).await.unwrap().record.is_none());
    let link = zookeeper.link(follower, leader).unwrap();
    link.set(Mode::Hold).await.unwrap();
    let grant = granted(&*other, &request()).await;
    let write = RecordWrite::new("it ran", WAIT).unwrap();
    other.write_record(&grant, &write).await.unwrap();
    link.until("a held change", WAIT, |now| now.to_client.waiting > 0).await.unwrap();
    let held = link.counters().to_server.waiting;
    let mut read = tokio::spawn(async move { slow.read_record(&name()).await });
    // Nothing else is sent: no ping arrives that is to be answered.
    tokio::select! {
        old = &mut read => panic!("it is answered by the follower: {old:?}"),
        held = link.until("a held request", WAIT, |now| now.to_server.waiting > held) => {
            held.map(drop).unwrap();
        }
    }
    link.set(Mode::Pass).await.unwrap();
    let record = read.await.unwrap().unwrap().record.expect("the record");
    assert_eq!(record.value, b"it ran");
}

/// The next leader gives each session its whole time.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_loses_no_lock() {
    let mut zookeeper = ZooKeeper::three(ZooKeeperOptions::new()).await.unwrap();
    let endpoints = zookeeper.endpoints();
    let (one, other) = (connect(&endpoints, "10s").await, connect(&endpoints, "10s").await);
    let grant = granted(&*one, &request()).await;
    let leader = zookeeper.leader().await.unwrap();
    zookeeper.member_mut(leader).kill().unwrap();
    assert_ne!(zookeeper.leader().await.unwrap(), leader, "the fault did not happen");
    assert_eq!(busy(&*other, &request()).await.token, grant.token);
    release(&*one, &grant).await;
    assert!(eventually_granted(&*other).await.token > grant.token);
    assert!(one.inspect(&name()).await.unwrap().is_some());
    busy(&*one, &request()).await;
}
