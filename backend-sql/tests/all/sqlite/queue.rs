//! The order of the queue in SQLite, and bells.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{Backend, Enqueued, LockClient, LockName, ReleaseOptions, Signal};
use tokio::time::timeout;

use crate::support::{
    BOTH, WAIT, busy, enqueue, granted, request_for,
    sqlite::{LEASE, file, open, raw, request},
    turns::nobody_is_served_twice_before_another,
    used_once,
};

/// The environment variable that names the file in which a child waits.
const FILE: &str = "LEASEHOLD_QUEUE_FILE";

/// The bells in a folder.
fn bells(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    files.filter(|file| file.file_type().unwrap().is_fifo()).map(|file| file.path()).collect()
}

async fn waiting(store: &Arc<dyn Backend>, name: &LockName) -> Option<u64> {
    store.inspect(name).await.unwrap().and_then(|state| state.waiting)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_a_loop_are_served_in_turn() {
    for strategy in BOTH {
        for (clients, rounds, hold) in
            [(2, 40, 5), (2, 100, 0), (4, 20, 5), (16, 6, 5), (16, 10, 0)]
        {
            let (_folder, path) = file();
            let mut stores = Vec::new();
            for _ in 0..clients {
                stores.push(open(&path, strategy).await);
            }
            let hold = Duration::from_millis(hold);
            nobody_is_served_twice_before_another(stores, rounds, hold).await;
        }
    }
}

/// The first waiter gets a signal, and nobody else does.
#[tokio::test]
async fn a_release_grants_the_lock_to_the_first_entry_and_wakes_it() {
    for strategy in BOTH {
        let (_folder, path) = file();
        let (holder, first, second) =
            (open(&path, strategy).await, open(&path, strategy).await, open(&path, strategy).await);
        let held = granted(&holder, &request("job")).await;
        let (asked, behind) = (request("job"), request("job"));
        let mut woken = enqueue(&first, &asked).await;
        let mut other = enqueue(&second, &behind).await;
        assert_eq!(waiting(&holder, &held.name).await, Some(2));
        holder.release(&held, ReleaseOptions::default()).await.unwrap();
        let signal = timeout(WAIT, woken.next()).await.unwrap();
        let Signal::Granted(grant) = signal else { panic!("{signal:?}") };
        assert!(grant.token > held.token && grant.claim.is_some());
        let state = holder.inspect(&held.name).await.unwrap().unwrap();
        assert_eq!(state.holder.map(|holder| holder.owner), Some(asked.owner));
        assert_eq!(state.waiting, Some(1));
        timeout(Duration::from_millis(200), other.next()).await.expect_err("it was woken too");
    }
}

/// A grant by another client's release respects the floor of the new owner.
#[tokio::test]
async fn a_grant_by_a_release_is_above_the_floor_of_its_new_owner() {
    let (_folder, path) = file();
    let (holder, store) =
        (open(&path, Strategy::PrimaryKey).await, open(&path, Strategy::PrimaryKey).await);
    let held = granted(&holder, &request("job")).await;
    let mut demanding = request("job");
    demanding.floor = lock_core::FencingToken::new(held.token.get() + 20_000_000).unwrap();
    let mut waiter = enqueue(&store, &demanding).await;
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    let signal = timeout(WAIT, waiter.next()).await.unwrap();
    let Signal::Granted(grant) = signal else { panic!("{signal:?}") };
    assert!(grant.token > demanding.floor);
}

/// The first waiter is woken also when a hold ends without a release: by an operator, by an owner
/// that is abandoned, and by a waiter that leaves the queue.
#[tokio::test]
async fn a_hold_that_ends_without_a_release_wakes_the_first_waiter() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    for how in ["force", "abandon", "leave"] {
        let own = request_for(how, LEASE);
        let held = granted(&store, &own).await;
        let before = match how {
            "leave" => Some(enqueue(&store, &request_for(how, LEASE)).await),
            _ => None,
        };
        let mut waiter = enqueue(&store, &request_for(how, LEASE)).await;
        match how {
            "force" => drop(store.force_release(&held.name).await.unwrap()),
            "abandon" => store.abandon(&own).await.unwrap(),
            _ => {
                // The release grants the lock to the waiter that then leaves.
                store.release(&held, ReleaseOptions::default()).await.unwrap();
                before.unwrap().leave().await.unwrap();
            }
        }
        let signal = timeout(WAIT, waiter.next()).await.unwrap();
        assert!(matches!(signal, Signal::Recheck), "{how}: {signal:?}");
    }
}

#[tokio::test]
async fn a_request_that_a_release_carries_gets_the_lock_if_nobody_waits() {
    for strategy in BOTH {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        let held = granted(&store, &request("job")).await;
        let next = request("job");
        let options = ReleaseOptions::new().with_next(&next);
        let answer = store.release(&held, options).await.unwrap().next;
        let Some(Enqueued::Granted(grant)) = answer else { panic!("{answer:?}") };
        assert!(grant.token > held.token && grant.claim.is_none());
        busy(&store, &request("job")).await;
        assert_eq!(waiting(&store, &held.name).await, Some(0));
    }
}

/// Not a test by itself.
#[tokio::test]
#[ignore = "a part of another"]
async fn a_part_that_waits_until_it_is_killed() {
    let store = open(Path::new(&std::env::var(FILE).unwrap()), Strategy::PrimaryKey).await;
    let _waiter = enqueue(&store, &request("job")).await;
    println!("it waits");
    std::future::pending::<()>().await;
}

/// A process that waits is killed. It still gets the lock, since its heartbeat is fresh. The waiter
/// behind it is served when that grant ends. The bell of the killed process is removed when it is
/// rung.
#[tokio::test]
async fn a_killed_waiter_delays_the_next_by_the_stated_bound() {
    let (folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let held = granted(&store, &request("job")).await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sqlite::queue::a_part_that_waits_until_it_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(FILE, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(says.any(|line| line.unwrap().contains("it waits")), "it ended before it waited");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(waiting(&store, &held.name).await, Some(1), "it had no entry");
    assert_eq!(bells(folder.path()).len(), 1);
    let client = LockClient::new(open(&path, Strategy::PrimaryKey).await);
    let limit = client.guarantees().dead_waiter_delay + Duration::from_secs(10);
    let next = tokio::spawn(client.lock("job").lease(LEASE).wait(limit).acquire());
    while waiting(&store, &held.name).await != Some(2) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.release(&held, ReleaseOptions::default()).await.unwrap();
    let guard = next.await.unwrap().expect("the next is served in time");
    assert_eq!(bells(folder.path()).len(), 1, "only that of the living client is left");
    guard.release().await.unwrap();
    client.close().await;
    assert!(bells(folder.path()).is_empty(), "a client leaves its bell behind");
}

/// The users who may use the database may use a bell.
#[tokio::test]
async fn a_bell_has_the_mode_of_the_database_and_goes_with_its_client() {
    for (group, mode) in [(false, 0o600), (true, 0o660)] {
        let (folder, path) = file();
        let store = SqliteBuilder::new(&path).group_access(group).build().await.unwrap();
        let held = granted(&store, &request("job")).await;
        assert!(bells(folder.path()).is_empty(), "nobody waits");
        drop(enqueue(&store, &request("job")).await);
        let bell = bells(folder.path()).pop().unwrap();
        assert_eq!(fs::metadata(bell).unwrap().permissions().mode() & 0o777, mode);
        store.release(&held, ReleaseOptions::default()).await.unwrap();
        drop(store);
        assert!(bells(folder.path()).is_empty());
    }
}

/// If no bell can be made, as beside a file whose name is too long, waiters poll, and the
/// guarantees say so.
#[tokio::test]
async fn waiters_poll_if_no_bell_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x".repeat(240));
    for strategy in BOTH {
        let (holder, store) = (open(&path, strategy).await, open(&path, strategy).await);
        let held = granted(&holder, &request("job")).await;
        let mut waiter = enqueue(&store, &request("job")).await;
        assert!(!store.guarantees().push && store.guarantees().fair);
        assert!(bells(folder.path()).is_empty());
        holder.release(&held, ReleaseOptions::default()).await.unwrap();
        let signal = timeout(WAIT, waiter.next()).await.unwrap();
        let Signal::Granted(grant) = signal else { panic!("{signal:?}") };
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
}

/// A sweep removes dead entries, and bells of killed clients that nobody rings, but no others.
#[tokio::test]
async fn a_sweep_removes_dead_entries_and_their_bells() {
    let (folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let held = granted(&store, &request("job")).await;
    drop(enqueue(&store, &request("job")).await);
    drop(enqueue(&store, &request("job")).await);
    let own = bells(folder.path());
    let mut database = raw(&path).await;
    // The heartbeat of the first one is old.
    let age = "UPDATE leasehold_queue SET heard = CASE position WHEN 1 THEN 0 ELSE heard + 3600000000000 END";
    sqlx::query(age).execute(&mut database).await.unwrap();
    let name = format!("{}-wake-{}", path.display(), "0".repeat(32));
    let not_ours = folder.path().join("locks.db-wake-other");
    for pipe in [Path::new(&name), &not_ours] {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, mode, 0).unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
        // Open it for reading, too, so that this does not wait for a reader.
        let open = fs::File::options().read(true).write(true).open(pipe).unwrap();
        open.set_modified(long_ago).unwrap();
    }
    for number in 0..1_001 {
        used_once(&store, &request(&format!("n{number}"))).await;
    }
    let mut left = bells(folder.path());
    left.sort();
    let mut expected = [own, vec![not_ours]].concat();
    expected.sort();
    assert_eq!(left, expected);
    let entries = sqlx::query_scalar::<_, i64>("SELECT position FROM leasehold_queue");
    assert_eq!(entries.fetch_all(&mut database).await.unwrap(), [2]);
    store.release(&held, ReleaseOptions::default()).await.unwrap();
}
