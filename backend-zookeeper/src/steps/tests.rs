//! Steps between which something else happens, on a real server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use lock_core::{
    Attempt, Backend as _, Env as _, ErrorKind, FencingToken, Grant, LockName, OwnerId, OwnerLabel,
    RecordWrite, ReleaseOptions, ReleaseOutcome, Request, SystemEnv,
};
use servers::{Mode, Proxy, ZooKeeper, ZooKeeperOptions};
use zookeeper_client::{CreateMode, Stat};

use super::{
    acquire::{Placement, decide, place, stem_of},
    release::keep_for,
    view::View,
};
use crate::{
    builder,
    keys::data::{Note, micros, to_bytes},
    session::{Ending, Session, Write, keeper::remove_ended},
    store::{OwnEntry, Store},
    waiting::{WaiterEntry, ZooKeeperWaiter},
};

const LEASE: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3_600);
/// Longer than any wait on a busy machine.
const WAIT: Duration = Duration::from_secs(60);

pub(super) async fn start() -> (ZooKeeper, Arc<Store>) {
    let zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    let store = connect(&zookeeper).await;
    (zookeeper, store)
}

pub(super) async fn connect(zookeeper: &ZooKeeper) -> Arc<Store> {
    let url = format!("zookeeper://{}?tick=200ms&timeout=20s", zookeeper.endpoints()[0]);
    builder::store(&url).await.unwrap()
}

pub(super) fn request(name: &str) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let (name, label) = (LockName::new(name).unwrap(), OwnerLabel::new("test").unwrap());
    Request::new(name, owner, label, LEASE, SystemEnv.now())
}

pub(super) async fn granted(store: &Store, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// The entry of a request that waits for a holder, who then releases the lock.
async fn first_in_the_queue(store: &Store, request: &Request) -> (OwnEntry, String) {
    let holder = granted(store, &self::request("job")).await;
    let placed = place(store, request).await.unwrap();
    let Placement::Waiting { own, predecessor, .. } = placed else { panic!("it does not wait") };
    store.release(&holder, ReleaseOptions::default()).await.unwrap();
    (own, predecessor)
}

async fn view(store: &Store, session: &Arc<Session>) -> View {
    store.view(session, &LockName::new("job").unwrap(), OwnerId::FOREIGN).await.unwrap()
}

/// What a leader in this epoch answers, whose clock is ahead of the present one.
fn answer_of(epoch: i64, store: &Store, ahead: Duration) -> Stat {
    let now = store.sessions.clock.earliest() + ahead.as_micros() as u64;
    Stat {
        czxid: 0,
        mzxid: epoch << 32,
        pzxid: 0,
        ctime: 0,
        mtime: (now / 1_000).cast_signed(),
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WAIT, waiting).await.expect(what);
}

/// The keeper marks an entry, reads it, and deletes it. Its task comes to itself in between.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_the_keeper_is_removing_takes_no_lock() {
    let (_zookeeper, store) = start().await;
    let waiting = request("job");
    let (own, predecessor) = first_in_the_queue(&store, &waiting).await;
    let (session, path) = (Arc::clone(&own.session), own.path.clone());
    // It stays under way for as long as the test lasts.
    session.end_at(&path, SystemEnv.now() + HOUR, Ending::Unused);
    session.learn_name(&stem_of(&store, &waiting), &path, false);
    let entry = WaiterEntry::new(waiting.owner, own, predecessor);
    let _waiter = ZooKeeperWaiter::start(entry, &store.waiters);
    // The delete is answered before the attempt has ended that has found the entry.
    session.forget(&path);
    let error = store.try_acquire(&waiting).await.expect_err("it is granted");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// Otherwise the directory, made anew a moment later, would repeat tokens.
#[tokio::test(flavor = "multi_thread")]
async fn the_write_of_a_record_has_the_token_of_its_time() {
    let (_zookeeper, store) = start().await;
    let mut ahead = request("job");
    let now = store.sessions.clock.latest();
    ahead.floor = FencingToken::new(now + 10_000_000).unwrap();
    let first = granted(&store, &ahead).await;
    store.release(&first, ReleaseOptions::default()).await.unwrap();
    let grant = granted(&store, &request("job")).await;
    let write = RecordWrite::new("value", LEASE).unwrap();
    store.write_record(&grant, &write).await.unwrap();
    let session = store.session().await.unwrap();
    let (note, stat) = view(&store, &session).await.note.unwrap();
    let highest = note.highest(&stat, micros(stat.mtime));
    assert!(highest >= grant.token, "{highest} after {}", grant.token);
}

/// A later leader may be behind it, and the store waits by the clock of that one.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_an_earlier_leader_ends_no_wait() {
    let (_zookeeper, store) = start().await;
    let session = store.session().await.unwrap();
    let (mut settings, version) = store.read_settings(&session).await.unwrap();
    settings.lost(session.epoch(), store.sessions.clock.latest());
    assert!(store.put_settings(&session, &settings, version).await.unwrap());
    assert!(view(&store, &session).await.quarantined.is_some(), "it does not wait");
    let ahead = answer_of(session.epoch() - 1, &store, HOUR);
    store.sessions.clock.observe(&ahead, SystemEnv.now());
    assert!(view(&store, &session).await.quarantined.is_some(), "the wait has ended early");
}

/// It may be one of an old state, in which the queue is an old one. So nothing is granted by what
/// was read before.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_a_later_epoch_confirms_no_grant() {
    let (_zookeeper, store) = start().await;
    let waiting = request("job");
    let (own, _) = first_in_the_queue(&store, &waiting).await;
    let seen = view(&store, &own.session).await;
    let later = answer_of(own.session.epoch() + 1, &store, Duration::ZERO);
    own.session.wrote(SystemEnv.now(), &later);
    let error = decide(&store, &waiting, own, seen).await.expect_err("it is granted");
    assert!(error.is_retryable(), "{error}");
}

/// The first release with a minimum hold was carried out, and its answer was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_minimum_hold_is_removed_also_after_a_lost_answer() {
    let (_zookeeper, store) = start().await;
    let grant = granted(&store, &request("job")).await;
    let own = OwnEntry::of(&grant).unwrap();
    let keep = Duration::from_secs(1);
    assert!(keep_for(&store, &own.session, &own.path, own.version, keep).await.unwrap());
    let again = store.release(&grant, ReleaseOptions::new().with_keep(keep)).await.unwrap();
    assert_eq!(again.outcome, ReleaseOutcome::Released);
    let directory = store.layout.directory(&grant.name);
    until("it is removed", async || own.session.children(&directory).await.unwrap().is_empty())
        .await;
}

/// Also when the token has come to lag behind the clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_by_the_holder_keeps_the_token() {
    let (_zookeeper, store) = start().await;
    let request = request("job");
    let grant = granted(&store, &request).await;
    let own = OwnEntry::of(&grant).unwrap();
    let (note, stat) = view(&store, &own.session).await.note.unwrap();
    let lagging = Note { token: note.token - 10_000_000, ..note };
    let path = store.layout.note(&grant.name);
    own.session.write(&[Write::Put(&path, &to_bytes(&lagging), stat.version)]).await.unwrap();
    let again = granted(&store, &request).await;
    assert_eq!(again.token.get(), grant.token.get() - 10_000_000);
}

/// The first try was not answered, and the second one was.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_an_earlier_try_ends_although_the_later_one_was_answered() {
    let (_zookeeper, store) = start().await;
    let request = request("job");
    let session = store.sessions.for_lease(LEASE).await.unwrap();
    let (stem, directory) = (stem_of(&store, &request), store.layout.directory(&request.name));
    session.make(&directory, &[], CreateMode::Persistent).await.unwrap();
    assert!(!session.expect(&stem));
    session.make(&stem, &[], CreateMode::EphemeralSequential).await.unwrap();
    let is_earlier = session.expect(&stem);
    session.learn_name(&stem, &format!("{stem}1234567890"), is_earlier);
    // The keeper finds it when its lease is over, and removes it then.
    let over = SystemEnv.now() + LEASE;
    for _ in 0..2 {
        remove_ended(&session, over).await;
    }
    assert!(session.children(&directory).await.unwrap().is_empty(), "it is there");
}

/// Nobody tells of the end of a session that is over already.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_does_not_wait_for_a_session_that_is_over() {
    let (zookeeper, other) = start().await;
    let proxy = Proxy::start(zookeeper.endpoints()[0]).await.unwrap();
    let url = format!("zookeeper://{}?tick=200ms&timeout=1h", proxy.address());
    let store = builder::store(&url).await.unwrap();
    let brief = store.sessions.for_lease(Duration::from_secs(1)).await.unwrap();
    let (direct, sessions) = (other.session().await.unwrap(), store.layout.session());
    let sessions = crate::keys::layout::parent(&sessions);
    proxy.set(Mode::Cut).await.unwrap();
    until("the end of a session", async || direct.children(sessions).await.unwrap().len() < 3)
        .await;
    proxy.set(Mode::Pass).await.unwrap();
    until("the client knows", async || !brief.is_alive()).await;
    tokio::time::timeout(WAIT, store.close()).await.expect("it closes");
}

/// Somebody asks in a `select!`, and does something else meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_polls_keeps_nobody_from_the_session() {
    let (_zookeeper, store) = start().await;
    let session = store.session().await.unwrap();
    let name = LockName::new("job").unwrap();
    let mut waker = Context::from_waker(Waker::noop());
    let mut asked = pin!(store.inspect(&name));
    assert!(asked.as_mut().poll(&mut waker).is_pending());
    tokio::time::timeout(WAIT, session.touch()).await.expect("it ends").unwrap();
    // Another lease needs another session.
    let mut asked = pin!(store.sessions.for_lease(LEASE / 2));
    assert!(asked.as_mut().poll(&mut waker).is_pending());
    let opened = tokio::time::timeout(WAIT, store.sessions.for_lease(LEASE / 3)).await;
    opened.expect("it ends").unwrap();
}

/// Its attempts are writes, too, but they do not show that nothing was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_session_writes_its_own_node_in_time() {
    let (_zookeeper, store) = start().await;
    let lease = Duration::from_secs(6);
    let session = store.sessions.for_lease(lease).await.unwrap();
    let since = session.written();
    until("a write of its node", async || {
        let mut request = request("job");
        request.lease = lease;
        if let Ok(Attempt::Granted(grant)) = store.try_acquire(&request).await {
            let _ = store.release(&grant, ReleaseOptions::default()).await;
        }
        session.written() > since
    })
    .await;
    assert!(session.written().since(since) >= lease / 4, "it writes for each attempt");
}

/// What was before an entry is gone, and so is the entry: another state has begun between two
/// reads.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_granted_by_two_reads() {
    let (_zookeeper, store) = start().await;
    let waiting = request("job");
    let holder = granted(&store, &request("job")).await;
    let placed = place(&store, &waiting).await.unwrap();
    let Placement::Waiting { own, .. } = placed else { panic!("it does not wait") };
    let seen = view(&store, &own.session).await;
    for path in [&OwnEntry::of(&holder).unwrap().path, &own.path] {
        assert!(own.session.delete(path, None).await.unwrap());
    }
    assert!(decide(&store, &waiting, own, seen).await.unwrap().is_none(), "it is granted");
}

/// They count their own elections, from below.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_copied_to_other_servers_are_waited_for() {
    let (_zookeeper, store) = start().await;
    let session = store.session().await.unwrap();
    let (mut settings, version) = store.read_settings(&session).await.unwrap();
    let theirs = session.epoch() + 50;
    settings.enter(theirs, 0, [0; 2]);
    assert!(store.put_settings(&session, &settings, version).await.unwrap());
    assert!(view(&store, &session).await.quarantined.is_some(), "it does not wait");
    let (settings, _) = store.read_settings(&session).await.unwrap();
    assert_eq!(settings.last_epoch(), session.epoch());
    // Only the keeper writes its node now.
    until("an attempt that does not", async || {
        let written = session.written();
        view(&store, &session).await;
        session.written() == written
    })
    .await;
}

/// The clock of a leader that was elected later may be behind.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_an_earlier_leader_ends_no_minimum_hold() {
    let (_zookeeper, store) = start().await;
    let grant = granted(&store, &request("job")).await;
    store.release(&grant, ReleaseOptions::new().with_keep(HOUR)).await.unwrap();
    let session = store.session().await.unwrap();
    let mut entries = view(&store, &session).await.entries;
    let ahead = answer_of(session.epoch() - 1, &store, 2 * HOUR);
    store.sessions.clock.observe(&ahead, SystemEnv.now());
    let first = store.first(&session, &grant.name, &mut entries).await.unwrap();
    assert!(first.is_some(), "it has ended early");
}
