//! Tries broken variants of a store that has no server: it changes the texts in copies of the test
//! program.

use std::{
    fs,
    io::{ErrorKind, Seek as _, SeekFrom, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use servers::{Change, marker};

use super::{
    list::{MissingGuard, Setup, Verdict, check},
    wire::is_no_program,
};

/// The environment variable that tells a copy which variant of the list it is.
const VARIANT: &str = "LEASEHOLD_BROKEN_VARIANT";
/// Begins the line in which a copy reports the result of its case.
const SAYS: &str = "the case says: ";
/// Longer than any case takes.
const LIMIT: Duration = Duration::from_secs(90);

/// Tries each variant as [`try_all`](super::try_all) does, but in a copy of this test program.
/// `test` is the name of the test that calls this; it runs again in the copy. [`Setup::start`] gets
/// no changes.
///
/// # Panics
/// As `try_all`.
pub async fn try_all_in_copies<S: Setup>(folders: &[&str], list: &[MissingGuard<S>], test: &str) {
    if let Ok(variant) = std::env::var(VARIANT) {
        let verdict = verdict(&list[variant.parse::<usize>().unwrap()]).await;
        println!("\n{SAYS}{}", verdict.err().unwrap_or_default());
        return;
    }
    check(folders, list);
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let markers = find_all(&program, marker("").trim_end().as_bytes());
    let mut wrong = Vec::new();
    for (at, broken) in list.iter().enumerate() {
        let passed = verdict(broken).await;
        let told = tokio::task::block_in_place(|| {
            let folder = tempfile::tempdir().unwrap();
            let copy = folder.path().join("copy");
            fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
            change(&copy, &program, &markers, broken.changes);
            run(&copy, test, at)
        });
        println!("{}: {told:?}", broken.what);
        match (passed, told) {
            (Err(why), _) => wrong.push(format!("{}: fails with the guard: {why}", broken.what)),
            (Ok(()), Err(why)) => wrong.push(format!("{}: {why}", broken.what)),
            (Ok(()), Ok(why)) if why.is_empty() => wrong.push(format!("{}: SURVIVED", broken.what)),
            (Ok(()), Ok(why)) => {
                wrong.extend(is_no_program(&why).map(|it| format!("{}: {it}", broken.what)))
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn verdict<S: Setup>(broken: &MissingGuard<S>) -> Verdict {
    (broken.case)(&mut S::start(&[]).await).await
}

fn find_all(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let first = |(at, byte): (usize, &u8)| {
        (*byte == wanted[0] && bytes[at..].starts_with(wanted)).then_some(at)
    };
    bytes.iter().enumerate().filter_map(first).collect()
}

/// Changes the copy. `markers` has the positions of all markers in the program.
fn change(copy: &Path, program: &[u8], markers: &[usize], changes: &[Change<'_>]) {
    let mut file = fs::OpenOptions::new().write(true).open(copy).unwrap();
    for change in changes {
        let (name, to) = match *change {
            Change::LeaveOut(name) => (name, ""),
            Change::Replace(name, to) => (name, to),
            other => panic!("{other:?}: in a copy only guards are changed"),
        };
        let marker = marker(name);
        let mut found = false;
        for at in markers.iter().filter(|at| program[**at..].starts_with(marker.as_bytes())) {
            let line = &program[at + marker.len()..];
            let length = marker.len() + line.iter().position(|byte| *byte == b'\n').unwrap();
            assert!(to.len() <= length, "{change:?} is longer than the guard");
            let mut text = to.as_bytes().to_vec();
            text.resize(length, b' ');
            file.seek(SeekFrom::Start(*at as u64)).unwrap();
            file.write_all(&text).unwrap();
            found = true;
        }
        assert!(found, "{change:?}: the guard is not in the program");
    }
}

/// Runs the case in the copy. Returns why the case failed, or an empty text if it passed; `Err` if
/// there is no result.
fn run(copy: &Path, test: &str, variant: usize) -> Result<String, String> {
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut child = loop {
        let started = Command::new(copy)
            .args(["--exact", test, "--nocapture"])
            .env(VARIANT, variant.to_string())
            .stdin(Stdio::null())
            .stdout(output.reopen().unwrap())
            .stderr(Stdio::inherit())
            .spawn();
        match started {
            // Another test is between fork and exec, and so has the copy open for writing.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => break started.unwrap(),
        }
    };
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err("the case hangs".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = fs::read_to_string(output.path()).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix(SAYS));
    line.map(str::to_owned).ok_or_else(|| format!("{test} said nothing of its case: {said}"))
}
