//! COMMAND's streams, environment and exit codes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::{Fifo, Running, detached, pid, stat, supervise};

fn code_of(script: &str) -> i32 {
    Running::script(&[], script).code()
}

#[test]
fn exit_codes_are_passed_on() {
    for code in [0, 1, 7, 75, 126, 127, 255] {
        assert_eq!(code_of(&format!("exit {code}")), code);
    }
}

#[test]
fn a_signal_is_128_and_more() {
    for (name, code) in [("TERM", 143), ("KILL", 137), ("INT", 130), ("USR1", 138), ("PIPE", 141)] {
        assert_eq!(code_of(&format!("kill -{name} $$; sleep 60")), code, "{name}");
    }
}

#[test]
fn what_cannot_run_is_126_or_127_with_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    for (program, code) in [
        ("no-such-command", 127),
        ("/no/such/command", 127),
        ("", 127),
        ("/etc/passwd", 126),
        ("/etc", 126),
        (script, 126),
    ] {
        let mut running = Running::start(detached().arg(program));
        assert_eq!(running.code(), code, "{program}");
        let lines = running.stderr();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("leasehold: "), "{lines:?}");
        assert!(lines[0].contains(program), "{lines:?}");
    }
}

#[test]
fn standard_input_passes_through() {
    let mut running = Running::start(detached().arg("cat"));
    running.say("first");
    assert_eq!(running.line(), "first");
    running.say("second");
    assert_eq!(running.line(), "second");
    running.close_stdin();
    assert_eq!(running.code(), 0);
}

#[test]
fn standard_input_is_the_very_same_open_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let mut file = File::open(&path).unwrap();
    let output = Command::new(supervise())
        .args(["sh", "-c", "read -r line; echo $line"])
        .stdin(Stdio::from(file.try_clone().unwrap()))
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"one\n");
    // The shell reads byte by byte and leaves the rest. A copy would have moved the offset
    // elsewhere, or not at all.
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two\n");
}

#[test]
fn no_descriptor_of_ours_leaks_into_the_command() {
    let count = "ls /proc/self/fd | wc -l";
    let plain = Running::start(Command::new("sh").args(["-c", count])).line();
    assert_eq!(Running::script(&[], count).line(), plain);
}

#[test]
fn the_environment_is_added_to() {
    let mut command = detached();
    command.env("KEPT", "kept").args(["sh", "-c", "echo $KEPT $LEASEHOLD_TOKEN"]);
    assert_eq!(Running::start(&mut command).line(), "kept 42");
}

#[test]
fn no_signal_is_blocked_and_the_ignored_stay_ignored() {
    let masks = "grep -E '^Sig(Blk|Ign):' /proc/self/status";
    for setup in ["", "trap '' HUP QUIT USR1; "] {
        let plain = format!("{setup}exec sh -c \"{masks}\"");
        let ours = format!("{setup}exec {} sh -c \"{masks}\"", supervise().display());
        let read = |script: &str| {
            let running = Running::start(Command::new("sh").args(["-c", script]));
            [running.line(), running.line()]
        };
        assert_eq!(read(&ours), read(&plain), "{setup}");
    }
}

#[test]
fn without_a_terminal_the_command_leads_its_group() {
    let mut running = Running::script(&[], "echo $$; read _");
    let command = pid(&running.line());
    let stat = stat(command).unwrap();
    assert_eq!(stat[2], command.as_raw_nonzero().to_string(), "its process group");
    running.say("");
    assert_eq!(running.code(), 0);
}

#[test]
fn what_the_command_leaves_behind_lives_on() {
    let fifo = Fifo::new();
    // The background part keeps none of our streams open.
    let script = format!(
        "{{ read -r word < {0}; echo $word > {0}; }} > /dev/null 2>&1 < /dev/null & exit 3",
        fifo.path.display()
    );
    let mut running = Running::script(&[], &script);
    assert_eq!(running.code(), 3);
    assert!(running.until_all_gone().is_empty());
    std::fs::write(&fifo.path, "alive\n").unwrap();
    assert_eq!(fifo.read(), "alive\n");
}
