//! SQLite, beyond what the suite asks of every store.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::support::{
    SECOND,
    sqlite::{BOTH, LEASE, busy, file, open, raw, request},
    unknown_errors,
};
use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{
    Env as _, ErrorKind, FencingToken, Init, LockName, ReleaseOptions, Renewal, SystemEnv,
};
use sqlx::Executor as _;

#[tokio::test]
async fn two_clients_of_one_file_exclude_each_other_whatever_their_strategies() {
    let (_folder, path) = file();
    let mut last = FencingToken::ZERO;
    for (ours, theirs) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let (ours, theirs) = (open(&path, BOTH[ours]).await, open(&path, BOTH[theirs]).await);
        let mine = request("job");
        let grant = ours.try_acquire(&mine).await.unwrap().granted().unwrap();
        assert!(grant.token > last);
        let busy = busy(&theirs, &request("job")).await;
        assert_eq!(busy.token, grant.token);
        assert_eq!(busy.holder.unwrap().owner, mine.owner);
        let again = ours.try_acquire(&mine).await.unwrap().granted().unwrap();
        assert_eq!(again.token, grant.token, "a repeat is the same grant");
        ours.release(&grant, ReleaseOptions::default()).await.unwrap();
        last = grant.token;
    }
}

#[tokio::test]
async fn connecting_writes_nothing() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let name = LockName::new("job").unwrap();
    assert_eq!(store.inspect(&name).await.unwrap(), None);
    assert!(store.list(None).await.unwrap().locks.is_empty());
    assert!(!path.exists());
    store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    assert!(path.exists());
}

#[tokio::test]
async fn another_writer_delays_and_is_named_when_it_never_ends() {
    let (_folder, path) = file();
    let patient = open(&path, Strategy::PrimaryKey).await;
    let grant = patient.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    let hasty =
        SqliteBuilder::new(&path).timeout(Duration::from_millis(1_500)).build().await.unwrap();

    let mut writer = raw(&path).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut writer).await.unwrap();
    let error = hasty.try_acquire(&request("other")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("others kept writing"), "{error}");
    let renewed = hasty.renew(&[&grant], SystemEnv.now()).await;
    assert!(matches!(&renewed[..], [Renewal::Unknown(_)]), "{renewed:?}");
    // A read does not wait.
    assert!(patient.inspect(&grant.name).await.unwrap().unwrap().holder.is_some());
    let release = patient.release(&grant, ReleaseOptions::default());
    let commit = async { sqlx::query("COMMIT").execute(&mut writer).await.unwrap() };
    let (released, _) = tokio::join!(release, commit);
    assert_eq!(released.unwrap().outcome, lock_core::ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "this is no database, and long enough to be looked at as one").unwrap();
    fs::set_permissions(&text, Permissions::from_mode(0o600)).unwrap();
    for (path, part) in [
        (folder.path().to_owned(), "is a directory"),
        (folder.path().join("no/locks.db"), "is no folder"),
        (text, "is no SQLite database"),
        ("/proc/locks.db".into(), "cannot be opened"),
        ("/dev/null".into(), "is no regular file"),
    ] {
        let error = match SqliteBuilder::new(&path).build().await {
            Err(error) => error,
            Ok(store) => store.try_acquire(&request("job")).await.unwrap_err(),
        };
        let unavailable = error.kind() == ErrorKind::Unavailable && part == "cannot be opened";
        assert!(unavailable || error.kind() == ErrorKind::Config, "{error}");
        let message = error.to_string();
        assert!(message.contains(part) && message.contains(&*path.to_string_lossy()), "{message}");
        assert!(!message.contains('\n'));
    }
}

/// A release carries an invalid request. The release succeeds, and the request is refused when it
/// asks on its own.
#[tokio::test]
async fn a_release_that_carries_an_invalid_request_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("locks.db"), Strategy::PrimaryKey).await;
    let far = FencingToken::new(SystemEnv.wall_micros() + 3_600_000_000).unwrap();
    for (floor, lease) in [(far, LEASE), (FencingToken::ZERO, LEASE * 100)] {
        let grant = store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
        let mut next = request("job");
        (next.floor, next.lease) = (floor, lease);
        let options = ReleaseOptions::new().with_next(&next);
        let released = store.release(&grant, options).await.unwrap();
        assert!(released.next.is_none(), "{released:?}");
        let error = store.try_acquire(&next).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The database and the two files that SQLite puts beside it.
fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", path.display())))
}

/// A user who may read these files can take WAL's write lock and keep it: then every lock would
/// end.
#[tokio::test]
async fn nobody_else_may_read_a_file_that_we_make() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("locks.db");
    let store = open(&path, Strategy::PrimaryKey).await;
    store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    for file in files(&path) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    if !rustix::process::geteuid().is_root() {
        println!("not as another user: that takes root");
        return;
    }
    const NOBODY: u32 = 65_534;
    for file in files(&path) {
        let mut reader = Command::new("head");
        reader.args(["-c", "1"]).arg(&file).uid(NOBODY).gid(NOBODY);
        assert!(!reader.output().unwrap().status.success(), "{} was read", file.display());
        // With this mode, the file can be read.
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(reader.output().unwrap().status.success(), "the test shows nothing");
    }
}

#[tokio::test]
async fn a_file_for_a_group_is_for_nobody_else() {
    let (_folder, path) = file();
    let builder = SqliteBuilder::new(&path).group_access(true);
    let store = builder.build().await.unwrap();
    store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    for file in files(&path) {
        assert_eq!(mode(&file), 0o660, "{}", file.display());
    }
    // Another client does not change the mode.
    let other = open(&path, Strategy::PrimaryKey).await;
    assert!(other.try_acquire(&request("other")).await.unwrap().granted().is_some());
    assert_eq!(mode(&path), 0o660);
}

/// The database or a file beside it may be read by other users, who can enter the folder.
#[tokio::test]
async fn a_file_that_other_users_may_read_is_refused_by_name() {
    let (folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    store.try_acquire(&request("job")).await.unwrap().granted().unwrap();
    for (at, file) in files(&path).into_iter().enumerate() {
        fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
        // Also if only a group may enter the folder, since it may be another group than the file's.
        for folders in [0o755, 0o750] {
            fs::set_permissions(folder.path(), Permissions::from_mode(folders)).unwrap();
            let error = SqliteBuilder::new(&path).build().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            let told = format!("{file:?} may be read by other users");
            assert!(error.to_string().contains(&told), "{error}");
        }
        if at == 0 {
            // The application's own pool is accepted, and so is a file that other users cannot
            // reach.
            let theirs = sqlx::SqlitePool::connect(&format!("sqlite:{}", path.display())).await;
            SqliteBuilder::with_pool(theirs.unwrap()).build().await.unwrap();
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        SqliteBuilder::new(&path).build().await.unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    }
}

#[tokio::test]
async fn an_unknown_error_is_final_after_one_lease() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    store.init(&Init::new().with_longest_lease(SECOND)).await.unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON leasehold_locks \
        BEGIN SELECT RAISE(ABORT, 'no upstream'); END";
    raw(&path).await.execute(refuse).await.unwrap();
    unknown_errors::an_unknown_error_is_final(&store).await;
}
