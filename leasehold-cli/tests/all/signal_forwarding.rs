//! Which signals are passed on, and to which processes.

use std::ffi::OsStr;

use crate::support::terminal::Session;
use crate::support::{Fifo, Running, supervise};
use rustix::process::{Signal, kill_process};

/// Says each signal that it gets, until told to end.
const TALKER: &str = "
    for s in HUP INT QUIT TERM USR1 USR2 WINCH CONT TSTP; do trap \"echo got-$s\" $s; done
    echo ready
    while [ \"$word\" != end ]; do read -r word; done
";

#[test]
fn every_signal_is_forwarded() {
    let mut running = Running::script(&[], TALKER);
    assert_eq!(running.line(), "ready");
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::CONT, "CONT"),
        (Signal::TSTP, "TSTP"),
    ] {
        running.signal(signal);
        assert_eq!(running.line(), format!("got-{name}"));
    }
    running.say("end");
    assert_eq!(running.code(), 0);
}

#[test]
fn sigterm_reaches_the_whole_group_and_sigusr1_the_command_alone() {
    let mut running = Running::script(
        &[],
        "trap 'echo got-USR1' USR1; trap 'echo got-TERM; wait; exit 9' TERM
         sh -c 'trap \"echo child-TERM; exit\" TERM; trap \"echo child-USR1\" USR1
                echo up; while :; do sleep 0.01; done' &
         while :; do wait; done",
    );
    assert_eq!(running.line(), "up");
    running.signal(Signal::USR1);
    assert_eq!(running.line(), "got-USR1");
    running.signal(Signal::TERM);
    let mut rest = running.until_all_gone();
    rest.sort();
    assert_eq!(rest, ["child-TERM", "got-TERM"]);
    assert_eq!(running.code(), 9);
}

/// A session whose leader is a shell that runs the example and then says its code.
fn in_a_shell(options: &str, script: &str) -> Session {
    let outer = format!("trap : INT; {} {options} sh -c '{script}'; echo code=$?.", quoted());
    Session::start(&[OsStr::new("sh"), OsStr::new("-c"), OsStr::new(&outer)])
}

fn quoted() -> String {
    format!("'{}'", supervise().display())
}

/// The terminal shows what is typed, so the script must not say its own words in its source.
const COUNTER: &str = r#"
    trap "echo int: in $$" INT; trap "echo usr: in $$" USR1; echo pid: $PPID $$;
    while [ "$word" != end ]; do read -r word; done; exit 4
"#;

#[test]
fn a_signal_of_the_terminal_is_not_forwarded_a_second_time() {
    let mut session = in_a_shell("", COUNTER);
    session.until("pid: ");
    let line = session.until("\n");
    let job_reaper = crate::support::pid(line.split_whitespace().next().unwrap());
    let leasehold = crate::support::pid(&crate::support::stat(job_reaper).unwrap()[1]);
    for _ in 0..20 {
        session.type_in("\u{3}");
        session.until("int: ");
        // It takes the same way as a forwarded SIGINT would, and is sent later.
        kill_process(leasehold, Signal::USR1).unwrap();
        let between = session.until("usr: ");
        assert!(!between.contains("int: "), "a second SIGINT: {between:?}");
    }
    // From another process it is forwarded, terminal or not.
    kill_process(leasehold, Signal::INT).unwrap();
    session.until("int: ");
    session.type_in("end\n");
    session.until("code=4.");
}

#[test]
fn in_a_terminal_the_command_stays_in_the_foreground_group() {
    let mut session = in_a_shell("", "echo pid: $$; read -r word; echo word: $word");
    session.until("pid: ");
    let command = crate::support::pid(&session.until("\n"));
    let stat = crate::support::stat(command).unwrap();
    assert_eq!(stat[2], stat[5], "its group, and the terminal's foreground group");
    session.type_in("hello\n");
    session.until("word: hello");
    session.until("code=0.");
}

#[test]
fn in_a_terminal_a_lost_lock_spares_the_rest_of_the_group() {
    let fifo = Fifo::new();
    let options = format!("--grace 300ms --lost {}", fifo.path.display());
    let script = "trap \"\" TERM HUP; sh -c \"sleep 1000\" & echo up: $$; sleep 1000; sleep 1000";
    let mut session = in_a_shell(&options, script);
    session.until("up: ");
    fifo.poke();
    session.until("lock lost: told so");
    // The shell, which is in the same group, lives to say this.
    session.until("code=79.");
}

/// An interactive shell, which does job control, with `script` running in the foreground.
fn in_an_interactive_shell(script: &str) -> Session {
    // Its prompt says when it reads: what is typed before may be lost.
    let shell = ["env", "PS1=prompt> ", "bash", "--norc", "--noediting", "-i"].map(OsStr::new);
    let mut session = Session::start(&shell);
    session.until("prompt> ");
    session.type_in(&format!("{} sh -c '{script}'; echo code=$?.\n", quoted()));
    session
}

#[test]
fn stopped_and_continued_in_a_terminal() {
    let mut session = in_an_interactive_shell("echo pid: $$; read -r word; echo word: $word.");
    session.until("\npid: ");
    let command = crate::support::pid(&session.until("\n"));
    session.type_in("\u{1a}");
    session.until("Stopped");
    session.until("code=148.");
    session.until("prompt> ");
    // The shell knows of leasehold; COMMAND may still be about to stop, and read what is typed.
    crate::support::until_stopped(command);
    session.type_in("fg; echo code=$?.\n");
    session.until("examples/supervise");
    session.type_in("hello\n");
    session.until("word: hello.");
    session.until("code=0.");
    session.until("prompt> ");
    session.type_in("exit\n");
    assert!(session.ended().success());
}

#[test]
fn a_stopped_job_does_not_outlive_its_shell() {
    let mut session = in_an_interactive_shell("echo pid: $$; read -r word");
    session.until("\npid: ");
    let command = crate::support::pid(&session.until("\n"));
    let command_gone = crate::support::handle(command);
    let job_reaper = crate::support::pid(&crate::support::stat(command).unwrap()[1]);
    let leasehold_gone =
        crate::support::handle(crate::support::pid(&crate::support::stat(job_reaper).unwrap()[1]));
    session.type_in("\u{1a}");
    session.until("Stopped");
    session.kill();
    crate::support::until_gone(&command_gone);
    crate::support::until_gone(&leasehold_gone);
}

#[test]
fn a_hang_up_that_only_the_leader_is_told_of_is_forwarded() {
    let fifo = Fifo::new();
    // leasehold leads the session, as after `ssh -t host leasehold run …`. The script must not wait
    // for anything long: a shell runs its trap only behind what it has just started.
    let script = format!(
        "trap 'echo hung > {}; exit' HUP; echo up:; while :; do read _; sleep 0.05; done",
        fifo.path.display()
    );
    let mut session = Session::start(&[
        supervise().as_os_str(),
        OsStr::new("sh"),
        OsStr::new("-c"),
        OsStr::new(&script),
    ]);
    session.until("up:");
    session.hang_up();
    assert_eq!(fifo.read(), "hung\n");
}

#[test]
fn a_stopped_command_learns_of_a_hang_up() {
    let script = "echo pid: $$; kill -STOP $$; while :; do read -r word; sleep 1; done";
    let mut session = in_a_shell("", script);
    session.until("pid: ");
    let command = crate::support::pid(&session.until("\n"));
    let handle = crate::support::handle(command);
    crate::support::until_stopped(command);
    // The kernel hangs up on the foreground group when the session's leader has gone.
    session.kill();
    crate::support::until_gone(&handle);
}
