//! A lock that is held between calls of the command: acquire, renew, release.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::docs::{self, Shell};
use crate::support::locks::{Store, failure};

/// Leases longer than a test.
const LONG_LEASES: [&str; 3] = ["init", "--longest-lease", "1h"];

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

/// The files of a folder.
fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn a_lock_is_held_between_calls_and_its_file_is_for_its_user_only() {
    let store = Store::new();
    store.ok(&LONG_LEASES);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.lock");
    let path = file.to_str().unwrap();
    let acquire = ["acquire", "job", "--lease", "1h", "--handle-file", path];
    let token = store.ok(&acquire);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(store.ok(&["inspect", "job"]).contains("held by"));
    let (code, line) = failure(&store.act(&["run", "job", "--", "true"]));
    assert_eq!(code, 75, "{line}");
    // The file of a lock that is not acquired stays as it is.
    let before = text(&file);
    assert_eq!(failure(&store.act(&acquire)).0, 75);
    assert_eq!(text(&file), before);
    let older = folder.path().join("older");
    fs::copy(&file, &older).unwrap();
    assert_eq!(store.ok(&["renew", "--handle-file", path]), token);
    assert_ne!(text(&file), before);
    // A copy from before is of no use, also to release.
    let older = older.to_str().unwrap();
    for args in [&["renew", "--handle-file", older][..], &["release", "--handle-file", older]] {
        let (code, line) = failure(&store.act(args));
        assert!(code == 79 && line.contains("lock lost"), "{line}");
    }
    assert!(store.ok(&["inspect", "job"]).contains("held by"));
    let renewed = store.ok(&["renew", "--lease", "30m", "--handle-file", path]);
    assert_eq!(renewed, token);
    assert!(text(&file).contains(r#""lease_ms":1800000"#), "{}", text(&file));
    assert_eq!(files(folder.path()), ["job.lock"], "the older copy was removed by its release");
    store.ok(&["release", "--handle-file", path]);
    assert!(files(folder.path()).is_empty());
    assert!(store.ok(&["inspect", "job"]).contains("free"));
    let (code, line) = failure(&store.act(&["release", "--handle-file", path]));
    assert!(code == 64 && line.contains("No such file"), "{line}");
}

#[test]
fn a_lock_that_was_taken_away_or_changed_is_refused() {
    let store = Store::new();
    store.ok(&LONG_LEASES);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.lock");
    let path = file.to_str().unwrap();
    let acquire = ["acquire", "job", "--lease", "1h", "--handle-file", path];
    store.ok(&acquire);
    let good = text(&file);
    let secret = good.split('"').find(|part| part.len() == 32).unwrap().to_owned();
    let renew = ["renew", "--handle-file", path];
    for (from, to, code, word) in [
        (r#""version":1"#, r#""version":2"#, 64, "version 2"),
        (r#""name":"job""#, r#""name":"jib""#, 79, "was changed"),
        (&secret[..], &"7".repeat(32)[..], 79, "was changed"),
        (&secret[..], &secret[1..], 64, "32 hexadecimal digits"),
        ("{", "", 64, "has no lock"),
    ] {
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let (is, line) = failure(&store.act(&renew));
        assert!(is == code && line.contains(word), "{from} to {to}: {is} {line}");
        assert!(!line.contains(&secret[1..]), "{line}");
    }
    // Another store.
    fs::write(&file, &good).unwrap();
    let other = Store::new();
    other.ok(&LONG_LEASES);
    let (code, line) = failure(&other.act(&renew));
    assert!(code == 64 && line.contains("of the store"), "{line}");
    // An operator takes it away.
    store.ok(&["release", "--force", "job"]);
    let (code, line) = failure(&store.act(&renew));
    assert!(code == 79 && line.contains("lock lost"), "{line}");
    let (code, _) = failure(&store.act(&["release", "--handle-file", path]));
    assert_eq!(code, 79);
    assert!(!file.exists());
}

#[test]
fn a_lock_that_cannot_be_written_down_is_not_acquired() {
    let store = Store::new();
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/job.lock");
    for path in [missing.to_str().unwrap(), folder.path().to_str().unwrap()] {
        let args = ["acquire", "job", "--lease", "25s", "--handle-file", path];
        let (code, line) = failure(&store.act(&args));
        assert!(code == 64 && line.contains("cannot write"), "{line}");
    }
    assert!(store.ok(&["inspect", "job"]).contains("free"));
    let file = folder.path().join("job.lock");
    let path = file.to_str().unwrap();
    let too_long = ["acquire", "job", "--lease", "31s", "--handle-file", path];
    let (code, line) = failure(&store.act(&too_long));
    assert!(code == 64 && line.contains("30s"), "{line}");
    assert_eq!(failure(&store.act(&["acquire", "job", "--handle-file", path])).0, 64);
    assert_eq!(failure(&store.act(&["release"])).0, 64);
    let both = ["release", "--handle-file", path, "--force", "job"];
    assert_eq!(failure(&store.act(&both)).0, 64);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn the_script_of_the_page_holds_its_lock_to_the_end() {
    let shell = Shell::new();
    shell.ok(docs::block("docs/hand-over.md", "leasehold init --longest-lease").trim());
    let busy = "leasehold run deploy -- true; echo \"busy: $?\"";
    for program in ["build", "publish"] {
        shell.program(program, busy);
    }
    let block = docs::block("docs/hand-over.md", "leasehold acquire deploy");
    let told = shell.ok(&format!("{block}\nleasehold inspect deploy\nls"));
    assert_eq!(told.matches("busy: 75").count(), 2, "{told}");
    assert!(told.contains("free") && !told.contains("deploy.lock"), "{told}");
}
