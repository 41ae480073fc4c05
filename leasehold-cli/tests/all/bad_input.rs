//! Invalid input is refused in one line that names the value and what is allowed. Nothing is
//! written.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::support::locks::{Store, Unprivileged, failure, open_up};

/// The names and sizes of all files in a directory.
fn contents(directory: &Path) -> Vec<(String, u64)> {
    let mut all: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (format!("{:?}", entry.file_name()), entry.metadata().unwrap().len()))
        .collect();
    all.sort();
    all
}

/// Runs the command. The line must contain these words, and the directory must not change.
fn refused(command: &mut Command, code: i32, words: &[&str], directory: &Path) {
    let before = contents(directory);
    let output = command.output().unwrap();
    let (given, line) = failure(&output);
    assert_eq!(given, code, "{line}");
    for word in words {
        assert!(line.contains(word), "{word:?} in {line}");
    }
    assert_eq!(contents(directory), before, "{line}");
}

/// A URL in the wrong place may contain a password, and names are shown to all clients that list
/// locks.
#[test]
fn misplaced_urls() {
    let store = Store::new();
    for url in [
        "redis://user:hunter2@host",
        "redis://:hun/ter2@host",
        "unix:/run/redis.sock?password=hunter2",
        " unix:/run/redis.sock?password=hunter2\r",
        "https://user:hunter2@host/path",
        "postgres:user:hunter2@host/db",
        "migrate:both?from=redis%3A%2F%2Fu%3Ahunter2%40h&to=memory%3A",
    ] {
        for args in [
            &["run", url, "--", "echo", "ran"][..],
            &["run", "job", "--", url],
            &["run", "job", "--also", url, "--", "echo", "ran"],
            &["run", "job", url, "--", "echo", "ran"],
            &["inspect", url],
            &["release", "--force", url],
            &["list", "--store-file", url],
        ] {
            refused(store.leasehold().args(args), 64, &[], store.directory());
            let (_, line) = failure(&store.act(args));
            assert!(!line.contains("ter2"), "{line}");
        }
    }
    // It need not be UTF-8.
    let url = OsStr::from_bytes(b"redis://user:hunter2\xff@host");
    for before in [&["inspect"][..], &["run", "job", "--"]] {
        let mut command = store.leasehold();
        refused(command.args(before).arg(url), 64, &["URL"], store.directory());
        assert!(!failure(&command.output().unwrap()).1.contains("hunter2"));
    }
    // Names that only look like a URL.
    for name in
        ["redis:cache", "https://host/@me?a=b", "mail:me@host", "postgres:vacuum/all", "a:b"]
    {
        store.ok(&["inspect", name]);
    }
    // The arguments of a job may contain a URL.
    let args = ["run", "job", "--", "echo", "redis://user:hunter2@host"];
    assert_eq!(store.ok(&args), "redis://user:hunter2@host\n");
}

#[test]
fn durations() {
    let store = Store::new();
    for (option, value, words) in [
        ("--lease", "31s", ["31s", "30s"]),
        ("--lease", "1ms", ["1ms", "between 10ms and 30s"]),
        ("--at-least", "31s", ["31s", "30s"]),
    ] {
        let mut command = store.leasehold();
        command.args(["run", option, value, "job", "--", "echo", "ran"]);
        refused(&mut command, 64, &words, store.directory());
    }
}

#[test]
fn durations_on_a_default_store_that_is_not_there_yet() {
    let user = Unprivileged::new();
    for (option, value) in [("--lease", "31s"), ("--at-least", "1min")] {
        let mut command = user.leasehold();
        command.args(["run", option, value, "job", "--", "echo", "ran"]);
        refused(&mut command, 64, &[option, "30s"], user.home());
    }
}

#[test]
fn urls() {
    let store = Store::new();
    for (url, words) in [
        ("gopher://user:hunter2@host", ["\"gopher\"", "sqlite:"]),
        ("/var/lib/locks.db", ["no scheme", "sqlite:"]),
        ("", ["empty", "--store"]),
        ("sqlite:", ["sqlite:", "path"]),
    ] {
        for args in [&["run", "job", "--", "echo", "ran"][..], &["list"]] {
            let mut command = store.leasehold();
            command.env("LEASEHOLD_STORE", url).args(args).current_dir(store.directory());
            refused(&mut command, 64, &words, store.directory());
            assert!(!failure(&command.output().unwrap()).1.contains("hunter2"));
        }
    }
    // An unknown option may be a part of a password that was not percent-encoded, or a password in
    // the wrong place.
    for url in [
        "sqlite:a.db?hunter2",
        #[cfg(feature = "redis")]
        "redis://127.0.0.1:1?hunter2=1",
        #[cfg(feature = "redis")]
        "redis://127.0.0.1:1?password=hunter2",
        #[cfg(feature = "redlock")]
        "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?hunter2",
        #[cfg(feature = "object-store")]
        "s3://bucket?hunter2=1",
        #[cfg(feature = "etcd")]
        "etcd://127.0.0.1:1?hunter2=1",
        #[cfg(feature = "postgres")]
        "postgres://127.0.0.1:1/a?hunter2=1",
        #[cfg(feature = "mysql")]
        "mysql://127.0.0.1:1/a?hunter2=1",
        #[cfg(feature = "zookeeper")]
        "zookeeper://127.0.0.1:1?hunter2=1",
    ] {
        let mut command = store.leasehold();
        command.env("LEASEHOLD_STORE", url).args(["list"]).current_dir(store.directory());
        refused(&mut command, 64, &["option", "it must be one of"], store.directory());
        assert!(!failure(&command.output().unwrap()).1.contains("hunter2"), "{url}");
    }
    // A lock in the memory of a process that runs one command excludes nobody.
    let mut command = store.leasehold();
    refused(
        run(command.args(["--store", "memory:"])),
        64,
        &["memory:", "--store"],
        store.directory(),
    );
}

#[test]
fn what_is_no_database() {
    let store = Store::new();
    let file = store.beside("locks.db");
    fs::create_dir(&file).unwrap();
    let path = file.to_str().unwrap();
    refused(run(&mut store.leasehold()), 69, &[path, "directory"], store.directory());

    fs::remove_dir(&file).unwrap();
    fs::write(&file, "The quick brown fox jumps over the lazy dog. ".repeat(200)).unwrap();
    open_up(&file, 0o644);
    let every = [path, "may be read by other users", "chmod"];
    refused(run(&mut store.leasehold()), 69, &every, store.directory());
    open_up(&file, 0o600);
    refused(run(&mut store.leasehold()), 69, &[path, "database"], store.directory());

    let nowhere = store.beside("no/such/locks.db");
    let mut command = store.leasehold();
    command.env("LEASEHOLD_STORE", format!("sqlite:{}", nowhere.display()));
    refused(run(&mut command), 69, &[nowhere.to_str().unwrap()], store.directory());
}

fn run(command: &mut Command) -> &mut Command {
    command.args(["run", "job", "--", "echo", "ran"])
}

#[test]
fn what_the_user_may_not_read_or_write() {
    let user = Unprivileged::new();
    let private = user.home().join("private");
    fs::create_dir(&private).unwrap();
    let file = private.join("locks.db");
    let path = file.to_str().unwrap();
    let url = format!("sqlite:{path}");
    let mut make = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    assert!(make.args(["--store", &url, "init"]).output().unwrap().status.success());
    // If the tests run as root, `nobody` does not own the files. Otherwise the owner's rights are
    // removed, too.
    for (of_file, of_directory) in [(0o000, 0o555), (0o444, 0o555), (0o444, 0o000)] {
        open_up(&file, of_file);
        open_up(&private, of_directory);
        let output = run(user.leasehold().env("LEASEHOLD_STORE", &url)).output().unwrap();
        let (code, line) = failure(&output);
        assert_eq!(code, 69, "{line}");
        assert!(line.contains(path), "{line}");
        open_up(&private, 0o755);
    }
    // The directory of the default store cannot be created.
    let mut command = user.leasehold();
    command.env("XDG_STATE_HOME", private.join("state"));
    open_up(&private, 0o555);
    let state = private.join("state");
    refused(run(&mut command), 69, &[state.to_str().unwrap(), "--store"], &private);
    open_up(&private, 0o755);
}

/// A read-only file system, because permissions do not stop root.
#[test]
fn a_read_only_disk() {
    let store = Store::new();
    store.ok(&["init"]);
    let before = contents(store.directory());
    // Mounts the directory on itself, read-only, in a mount namespace that ends with the command.
    let read_only = |command: &str| {
        let directory = store.directory().display();
        let script = format!(
            "mount --bind {directory} {directory} && mount -o remount,ro,bind {directory} || exit 99; \
             cd {directory}; touch x 2> /dev/null && exit 98; exec {command}"
        );
        let root = rustix::process::geteuid().is_root();
        let mut unshare = Command::new("unshare");
        unshare.args(if root { &["--mount"][..] } else { &["--mount", "--map-root-user"] });
        unshare.args(["sh", "-c", &script]);
        unshare
    };
    let probe = read_only("true").output().unwrap();
    if !probe.status.success() {
        // `a_place_that_takes_no_files` tests the same in another way.
        let why = String::from_utf8_lossy(&probe.stderr);
        println!("SKIPPED: nothing can be mounted here: {why}");
        return;
    }
    for file in ["locks.db", "new.db"] {
        let url = format!("sqlite:{}", store.beside(file).display());
        let mut command =
            read_only(&format!("{} run job -- echo ran", env!("CARGO_BIN_EXE_leasehold")));
        let (code, line) = failure(&command.env("LEASEHOLD_STORE", url).output().unwrap());
        assert_eq!(code, 69, "{line}");
        assert!(line.contains(file), "{line}");
    }
    assert_eq!(contents(store.directory()), before);
}

/// The same where nothing can be mounted: the kernel's own file systems take no files either.
#[test]
fn a_place_that_takes_no_files() {
    let store = Store::new();
    let mut command = store.leasehold();
    command.env("LEASEHOLD_STORE", "sqlite:/proc/locks.db");
    refused(run(&mut command), 69, &["/proc/locks.db"], store.directory());
}
