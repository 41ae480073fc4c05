//! Files that are not what every client finds at the path: mounted or linked apart from the files
//! beside them, or deleted, moved or replaced under a holder.

use std::{
    env, fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{
    Backend, Env as _, Error, ErrorKind, Grant, LockClient, LossReason, Mode, ReleaseOptions,
    ReleaseOutcome, Renewal, SystemEnv,
};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};
use tokio::time::timeout;

use crate::support::{
    BOTH, WAIT, granted,
    sqlite::{LEASE, busy, file, open, request},
};

/// The environment variable that gives a process in another mount namespace its file.
const PART: &str = "LEASEHOLD_PLACE_PART";

/// The database and the two files that SQLite puts beside it.
fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", path.display())))
}

async fn refused(path: &Path) -> Error {
    match SqliteBuilder::new(path).build().await {
        Ok(store) => store.try_acquire(&request("job")).await.unwrap_err(),
        Err(error) => error,
    }
}

async fn pool(path: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).min_connections(0);
    pool.connect_with(options.journal_mode(SqliteJournalMode::Wal)).await.unwrap()
}

async fn renew(store: &Arc<dyn Backend>, grant: &Grant) -> Renewal {
    store.renew(&[grant], SystemEnv.now()).await.pop().unwrap()
}

fn assert_gone(renewal: &Renewal) {
    assert!(matches!(renewal, Renewal::Lost(LossReason::Gone)), "{renewal:?}");
}

/// Mounts one path over the other in a mount namespace of its own, and plays a part there. `None`
/// if this machine allows no mount namespace; that is said on the real standard error, since the
/// output of a test that passes is not shown.
fn with_mount(from: &Path, to: &Path, path: &Path) -> Option<Output> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount --bind \"$1\" \"$2\" || exit 99; shift 2; exec \"$@\"",
        "sh",
    ]);
    command.args([from, to]).arg(env::current_exe().unwrap());
    command.args(["--exact", "sqlite::place::a_part_beside_a_mount", "--ignored", "--nocapture"]);
    let why = match command.env(PART, path).output() {
        Ok(output) if ![1, 99].contains(&output.status.code().unwrap_or(0)) => return Some(output),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let line = format!("SKIPPED: no folder can be mounted here: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

#[tokio::test]
#[ignore = "a process that the tests of this module start"]
async fn a_part_beside_a_mount() {
    let Some(path) = env::var_os(PART) else { return };
    let answer = match SqliteBuilder::new(&path).build().await {
        Ok(store) => store.try_acquire(&request("job")).await,
        Err(error) => Err(error),
    };
    println!("the answer is {answer:?}");
}

/// Two containers mount the file, and each has a `-wal` and a `-shm` of its own: both would get the
/// lock.
#[tokio::test]
async fn a_file_that_is_mounted_alone_is_refused_and_one_in_a_mounted_folder_is_not() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    granted(&store, &request("job")).await;
    let other = tempfile::tempdir().unwrap();
    let mounted = other.path().join("locks.db");
    fs::write(&mounted, "").unwrap();
    let Some(output) = with_mount(&path, &mounted, &mounted) else { return };
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [mounted.to_str().unwrap(), "is mounted by itself", "mount the folder"] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
    // A link to the file leads there, too.
    let link = other.path().join("link");
    symlink(&mounted, &link).unwrap();
    let output = with_mount(&path, &mounted, &link).unwrap();
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.contains("is mounted by itself"), "{answer}");
    // The folder with all three files: the lock is held there, too.
    let folder = tempfile::tempdir().unwrap();
    let output = with_mount(path.parent().unwrap(), folder.path(), &folder.path().join("locks.db"));
    let answer = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
    assert!(answer.contains("the answer is Ok(Busy("), "{answer}");
}

#[tokio::test]
async fn a_file_with_hard_links_is_refused_by_each_of_its_names() {
    let (folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let held = granted(&store, &request("job")).await;
    for (at, file) in files(&path).into_iter().enumerate() {
        let link = folder.path().join("link");
        fs::hard_link(&file, &link).unwrap();
        let names = if at == 0 { vec![&path, &link] } else { vec![&path] };
        for name in names {
            let error = refused(name).await;
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let told = error.to_string();
            assert!(told.contains("has hard links") && told.contains("mount the folder"), "{told}");
        }
        let application = pool(&path).await;
        let error = SqliteBuilder::with_pool(application.clone()).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        application.close().await;
        fs::remove_file(&link).unwrap();
    }
    // The holder was there first, and still holds.
    assert!(matches!(renew(&store, &held).await, Renewal::Renewed { .. }));
    busy(&open(&path, Strategy::PrimaryKey).await, &request("job")).await;
}

/// What happens to a file.
type Fault = (&'static str, fn(&Path));

const FAULTS: [Fault; 3] = [
    ("deleted", |file| fs::remove_file(file).unwrap()),
    ("moved", |file| fs::rename(file, format!("{}.old", file.display())).unwrap()),
    ("replaced", |file| {
        let copy = format!("{}.new", file.display());
        fs::copy(file, &copy).unwrap();
        fs::rename(copy, file).unwrap();
    }),
];

/// A cleaner of /tmp, or somebody who restores a backup. The next client has other files and gets
/// the lock.
#[tokio::test]
async fn a_holder_learns_by_its_renewal_that_the_file_was_deleted_moved_or_replaced() {
    for (what, fault) in FAULTS {
        for strategy in BOTH {
            for mode in [Mode::Exclusive, Mode::Shared] {
                let (_folder, path) = file();
                let (store, wanted) = (open(&path, strategy).await, request("job").with_mode(mode));
                let grant = granted(&store, &wanted).await;
                fault(&path);
                if what == "replaced" {
                    // Nothing was written into the copy: it is as it was before the lock was
                    // granted.
                    for file in &files(&path)[1..] {
                        fs::remove_file(file).unwrap();
                    }
                }
                let renewed = renew(&store, &grant).await;
                assert_gone(&renewed);
                let next = granted(&open(&path, strategy).await, &request("job")).await;
                assert!(next.token > grant.token, "{what}");
                // It stays lost, and this client uses the same file as all others now.
                let again = renew(&store, &grant).await;
                assert!(matches!(again, Renewal::Lost(_)), "{what}: {again:?}");
                let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
                assert_eq!(released.outcome, ReleaseOutcome::NotHeld, "{what}");
                busy(&store, &request("job")).await;
                granted(&store, &request("other")).await;
                busy(&open(&path, strategy).await, &request("other")).await;
            }
        }
    }
}

/// Whoever comes next does not see what is in the files of the holder. If its lock is not in the
/// others, it is lost.
#[tokio::test]
async fn a_holder_learns_that_a_file_beside_the_database_was_deleted() {
    for at in [1, 2] {
        for (what, fault) in &FAULTS[..2] {
            let (_folder, path) = file();
            let store = open(&path, Strategy::PrimaryKey).await;
            let grant = granted(&store, &request("job")).await;
            fault(&files(&path)[at]);
            // By the next call the client has the files at the path open. Then the answer is what
            // is in them.
            let renewed = renew(&store, &grant).await;
            let there = store.inspect(&grant.name).await.unwrap().and_then(|state| state.holder);
            match renewed {
                Renewal::Lost(_) => assert!(there.is_none(), "{what}: {there:?}"),
                Renewal::Renewed { .. } => assert_eq!(there.unwrap().owner, grant.owner),
                unknown => panic!("{what}: {unknown:?}"),
            }
            let theirs = open(&path, Strategy::PrimaryKey).await;
            let seen = theirs.inspect(&grant.name).await.unwrap().and_then(|state| state.holder);
            let still = matches!(renewed, Renewal::Renewed { .. });
            assert_eq!(seen.is_some(), still, "{what}: two clients see different locks");
        }
    }
}

/// One of them cannot use the files at the path before the other has left the ones that are gone.
#[tokio::test]
async fn two_clients_of_one_process_find_each_other_again_after_a_file_was_deleted() {
    for at in [0, 1, 2] {
        let (_folder, path) = file();
        let ours = open(&path, Strategy::PrimaryKey).await;
        let theirs = open(&path, Strategy::PrimaryKey).await;
        let grant = granted(&ours, &request("job")).await;
        busy(&theirs, &request("job")).await;
        fs::remove_file(&files(&path)[at]).unwrap();
        let _ = renew(&ours, &grant).await;
        let _ = theirs.inspect(&grant.name).await;
        let renewed = renew(&ours, &grant).await;
        let seen = theirs.inspect(&grant.name).await.unwrap().and_then(|state| state.holder);
        match renewed {
            Renewal::Lost(_) => assert!(seen.is_none(), "{at}: {seen:?}"),
            Renewal::Renewed { .. } => assert_eq!(seen.unwrap().owner, grant.owner, "{at}"),
            unknown => panic!("{at}: {unknown:?}"),
        }
        granted(&ours, &request("other")).await;
        busy(&theirs, &request("other")).await;
        granted(&theirs, &request("third")).await;
        busy(&ours, &request("third")).await;
    }
}

/// A deployment switches a link to another folder.
#[tokio::test]
async fn a_link_that_leads_to_another_file_ends_the_locks() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = tempfile::tempdir().unwrap();
    let link = place.path().join("current");
    symlink(first.path(), &link).unwrap();
    let path = link.join("locks.db");
    let store = open(&path, Strategy::PrimaryKey).await;
    let grant = granted(&store, &request("job")).await;
    fs::remove_file(&link).unwrap();
    symlink(second.path(), &link).unwrap();
    assert_gone(&renew(&store, &grant).await);
    granted(&store, &request("job")).await;
    assert!(second.path().join("locks.db").exists());
}

#[tokio::test]
async fn a_file_whose_folder_is_gone_holds_no_locks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/locks.db");
    fs::create_dir(folder.path().join("sub")).unwrap();
    let store = open(&path, Strategy::PrimaryKey).await;
    let grant = granted(&store, &request("job")).await;
    fs::remove_dir_all(folder.path().join("sub")).unwrap();
    assert_gone(&renew(&store, &grant).await);
    store.try_acquire(&request("job")).await.unwrap_err();
    assert!(!path.exists());
    fs::create_dir(folder.path().join("sub")).unwrap();
    granted(&store, &request("job")).await;
}

/// The guard reports it long before its lease ends.
#[tokio::test]
async fn the_guard_of_a_deleted_file_is_told() {
    let (_folder, path) = file();
    let client = LockClient::new(open(&path, Strategy::PrimaryKey).await);
    let lease = Duration::from_secs(30);
    let guard = client.lock("job").lease(lease).acquire().await.unwrap();
    fs::remove_file(&path).unwrap();
    let reason = timeout(WAIT, guard.lost()).await.unwrap();
    assert_eq!(reason, LossReason::Gone);
    assert!(!guard.is_valid());
    let next = client.lock("job").acquire().await.unwrap();
    assert!(next.token() > guard.token() && !guard.is_valid(), "a lost guard stays lost");
}

/// The pool is the application's: only the application can open it anew.
#[tokio::test]
async fn a_pool_whose_file_was_deleted_grants_nothing_more() {
    for at in [0, 1, 2] {
        let (_folder, path) = file();
        let application = pool(&path).await;
        let store = SqliteBuilder::with_pool(application.clone()).build().await.unwrap();
        let grant = granted(&store, &request("job")).await;
        fs::remove_file(&files(&path)[at]).unwrap();
        assert_gone(&renew(&store, &grant).await);
        let error = store.try_acquire(&request("other")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("open its pool and this store anew"), "{error}");
        application.close().await;
        let pool = pool(&path).await;
        let store = SqliteBuilder::with_pool(pool).build().await.unwrap();
        granted(&store, &request("other")).await;
    }
}

/// SQLite deletes the files beside the database with the last connection, and makes new ones.
#[tokio::test]
async fn a_pool_that_has_closed_all_its_connections_keeps_the_locks() {
    let (_folder, path) = file();
    let application = pool(&path).await;
    let store = SqliteBuilder::with_pool(application.clone()).build().await.unwrap();
    let grant = granted(&store, &request("job")).await;
    for _ in 0..3 {
        application.acquire().await.unwrap().close().await.unwrap();
        assert!(!files(&path)[1].exists(), "the fault did not happen");
        assert!(matches!(renew(&store, &grant).await, Renewal::Renewed { .. }));
        assert!(files(&path)[1].exists());
        assert!(matches!(renew(&store, &grant).await, Renewal::Renewed { .. }));
    }
    assert_eq!(grant.lease, LEASE);
}

#[tokio::test]
async fn check_warns_of_a_folder_that_others_empty() {
    for (within, warns) in
        [("/tmp", true), ("/var/tmp", true), (env!("CARGO_TARGET_TMPDIR"), false)]
    {
        let folder = tempfile::tempdir_in(within).unwrap();
        let store = open(&folder.path().join("locks.db"), Strategy::PrimaryKey).await;
        let told = store.warnings().await.unwrap();
        assert_eq!(told.len(), usize::from(warns), "{told:?}");
        assert!(told.iter().all(|told| told.contains(&format!("is in {within}: "))), "{told:?}");
    }
}
