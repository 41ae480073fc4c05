//! What is printed into a pipe that nobody reads any more, as with `| head -1`.

use std::process::{Command, Stdio};

/// A pipe that nobody reads any more.
fn closed() -> Stdio {
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    write.into()
}

#[test]
fn lists_and_help_end_quietly_when_nobody_reads_on() {
    let program = env!("CARGO_BIN_EXE_verification");
    let results = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(results.path(), "[]").unwrap();
    let results = results.path().to_str().unwrap();
    for args in [&["--list"][..], &["--help"], &["--page", results]] {
        let ended = Command::new(program).args(args).stdout(closed()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{args:?}: {}, {said}", ended.status);
    }
}
