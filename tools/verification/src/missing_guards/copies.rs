//! Broken variants of a store that has no server: each is a copy of the test program with changed
//! texts.

use std::{
    env, fs, io::ErrorKind, os::unix::fs::PermissionsExt as _, process::Stdio, sync::LazyLock,
    time::Duration,
};

use servers::{Change, guard_length, marker};
use tokio::process::Command;

use super::{
    markers::Variant,
    setup::{LIMIT, Verdict},
};

/// The environment variable that names the case for a copy, and the one with its argument.
const CASE: [&str; 2] = ["LEASEHOLD_CASE_IN_COPY", "LEASEHOLD_ARGUMENT_IN_COPY"];
/// Begins the line in which a copy reports the result of its case.
const SAYS: &str = "the case says: ";

/// The test program, and where it has markers.
static PROGRAM: LazyLock<(Vec<u8>, Vec<usize>)> = LazyLock::new(|| {
    let program = fs::read(env::current_exe().unwrap()).unwrap();
    let wanted = marker("");
    let wanted = wanted.trim_end_matches(" |").as_bytes();
    let is_marker = |(at, byte): (usize, &u8)| {
        (*byte == wanted[0] && program[at..].starts_with(wanted)).then_some(at)
    };
    let markers = program.iter().enumerate().filter_map(is_marker).collect();
    (program, markers)
});

/// The case that this program is to run, and its argument, if it is a copy.
pub(super) fn case_of_this_copy() -> Option<(String, String)> {
    let [case, argument] = CASE.map(env::var);
    Some((case.ok()?, argument.ok()?))
}

/// Says the result of the case of this copy, if there is one.
pub(super) fn report(verdict: &Result<Verdict, String>) {
    if let Ok(verdict) = verdict {
        println!("\n{SAYS}{}", verdict.as_ref().err().map_or("", String::as_str));
    }
}

/// Runs the case of a variant in a copy with these changes, in which `test` runs again. `Err` if
/// there is no result.
pub(super) async fn run(
    test: &str,
    variant: &Variant,
    changes: &[Change<'_>],
) -> Result<Verdict, String> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    fs::write(&copy, changed(changes)?).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&copy);
    command.args(["--exact", test, "--nocapture"]).stdin(Stdio::null()).kill_on_drop(true);
    command.env(CASE[0], &variant.case).env(CASE[1], &variant.argument);
    let output = loop {
        let output = tokio::time::timeout(2 * LIMIT, command.output()).await;
        match output.map_err(|_| "the case hangs")? {
            // Another test is between fork and exec, and so has the copy open for writing.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            output => break output.unwrap(),
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().find_map(|line| line.strip_prefix(SAYS)) {
        Some("") => Ok(Ok(())),
        Some(why) => Ok(Err(why.to_owned())),
        None => Err(format!("{test} said nothing of its case: {said}")),
    }
}

/// The program with these changes.
fn changed(changes: &[Change<'_>]) -> Result<Vec<u8>, String> {
    let (program, markers) = &*PROGRAM;
    let mut changed = program.clone();
    for change in changes {
        let Change::Guard(name, instead) = change else { panic!("{change:?} is no guard") };
        let marker = marker(name);
        let here = |at: &&usize| program[**at..].starts_with(marker.as_bytes());
        let places: Vec<_> = markers.iter().filter(here).collect();
        for at in &places {
            let length = guard_length(&program[**at..], true).unwrap_or(0);
            let place = &mut changed[**at..*at + length];
            if instead.len() > length {
                return Err(format!("the guard {name} is shorter than its replacement"));
            }
            place.fill(b' ');
            place[..instead.len()].copy_from_slice(instead.as_bytes());
        }
        if places.is_empty() {
            return Err(format!("the guard {name} is not in the program"));
        }
    }
    Ok(changed)
}
