use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::exit::USAGE;
use crate::supervise::Graces;

fn run(args: &[&str]) -> Run {
    let args = ["leasehold", "run"].iter().chain(args);
    match parse(args) {
        Ok(Parsed::Cli(cli)) => match cli.action {
            Action::Run(run) => run,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn refused(args: &[&str]) -> String {
    let failure = parse(["leasehold"].iter().chain(args)).unwrap_err();
    assert_eq!(failure.code, USAGE);
    assert!(!failure.message.contains('\n'), "{failure}");
    assert!(!failure.message.starts_with("error"), "{failure}");
    failure.message
}

fn help(args: &[&str]) -> String {
    match parse(["leasehold"].iter().chain(args)) {
        Ok(Parsed::Text(text)) => {
            assert_eq!(text.exit_code(), 0);
            text.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn clap_finds_no_fault_in_the_definition() {
    Cli::command().debug_assert();
}

#[test]
fn the_defaults_are_those_of_the_manual() {
    let run = run(&["backup", "--", "true"]);
    assert_eq!(run.lock.lease, Duration::from_secs(10));
    assert_eq!(run.lock.wait, Wait::AtMost(Duration::ZERO));
    assert_eq!(run.lock.quarantine_wait, None);
    assert_eq!(run.lock.at_least, Duration::ZERO);
    assert_eq!(run.grace, Wait::Forever);
    assert_eq!((run.once_per, run.at_most_once, run.if_unknown), (None, false, None));
    assert_eq!(run.done_exit_code, 0);
    let (not_renewed, lost) = (Duration::from_millis(2500), Duration::from_secs(1));
    assert_eq!(run.graces(), Graces { not_renewed, lost, shutdown: None });
    assert_eq!(run.lock.conflict_exit_code, 75);
    assert_eq!(run.lock.name.as_str(), "backup");
    assert_eq!(run.command, ["true"]);
}

#[test]
fn the_grace_of_a_loss_is_at_most_a_third_of_the_validity() {
    let with = |grace| ["run", "--lease", "10s", "--loss-grace", grace, "n", "--", "true"];
    // 1% and 2 ms of the lease are not valid.
    for grace in ["0s", "3299ms"] {
        assert!(parse(["leasehold"].iter().chain(&with(grace))).is_ok(), "{grace}");
    }
    let message = refused(&with("3300ms"));
    for word in ["--loss-grace 3s 300ms", "between 0s and 3s 299ms", "--lease 10s"] {
        assert!(message.contains(word), "{word} in {message}");
    }
}

#[test]
fn what_follows_the_dashes_belongs_to_the_command() {
    let run = run(&["--wait", "forever", "n", "--", "sh", "-c", "x", "--", "--wait", "0s"]);
    assert_eq!(run.lock.wait, Wait::Forever);
    assert_eq!(run.command, ["sh", "-c", "x", "--", "--wait", "0s"]);
}

#[test]
fn several_locks_are_named_in_their_order() {
    let run = run(&["b", "--also", "a", "--also=c", "--", "true"]);
    let names: Vec<_> = run.lock.names().map(|name| name.as_str()).collect();
    assert_eq!((names, run.lock.permits), (vec!["b", "a", "c"], None));
    let most = leasehold::Semaphore::MOST_PERMITS;
    assert!(help(&["run", "--help"]).contains(&format!("1 to {most}")));
}

#[test]
fn bad_values_are_named_with_what_is_allowed() {
    for (args, words) in [
        (["--lease", "10"], ["'10'", "10s"]),
        (["--lease", "0s"], ["'0s'", "longer than zero"]),
        (["--lease", "-1s"], ["'-1'", "tip"]),
        (["--wait", "soon"], ["'soon'", "'forever'"]),
        (["--grace", "99999999999999999999s"], ["99999999999999999999s", "10s"]),
        (["--conflict-exit-code", "256"], ["'256'", "0..=255"]),
    ] {
        let message = refused(&["run", args[0], args[1], "n", "--", "true"]);
        for word in words {
            assert!(message.contains(word), "{word} in {message}");
        }
    }
}

#[test]
fn a_bad_name_is_named_once_and_with_what_is_allowed() {
    let long = "x".repeat(256);
    for (name, words) in [
        ("", ["\"\"", "between 1 and 255"]),
        (&long, ["256 bytes", "between 1 and 255"]),
        ("a\n\nUsage: b", ["'\\n'", "without control characters"]),
        ("a\u{1b}[2Jb", ["'\\u{1b}'", "without control characters"]),
    ] {
        for args in
            [&["run", name, "--", "true"][..], &["inspect", name], &["release", "--force", name]]
        {
            let message = refused(args);
            assert!(message.chars().count() < 200, "{message}");
            for word in words {
                assert!(message.contains(word), "{word} in {message}");
            }
        }
    }
    let bytes = OsString::from_vec(vec![b'a', 0xff]);
    let args = ["leasehold".into(), "inspect".into(), bytes];
    let failure = parse(args).unwrap_err();
    assert!(failure.message.contains("\"a\\xFF\" must be UTF-8"), "{failure}");
}

#[test]
fn a_misplaced_url_does_not_show_its_password() {
    for args in [
        &["redis://user:hunter2@host"][..],
        &["run", "name", "redis://user:hunter2@host", "--", "true"],
        &["list", "--stroe=redis://user:hunter2@host"],
        &["init", "--longest-lease", "unix:/run/redis?password=hunter2"],
        &["init", "--longest-lease", "redis://user:hunter2@host"],
        // With a space in it, and with an = before the password.
        &["redis://user:a hunter2@host"],
        &["init", "--longest-lease=redis://user:a hunter2@host"],
        &["init", "--longest-lease=unix:/run/redis?password=hunter2"],
        &["init", "--longest-lease", "redis://:hunter2"],
    ] {
        assert!(!refused(args).contains("hunter2"), "{}", refused(args));
    }
}

#[test]
fn what_is_missing_is_named() {
    assert!(refused(&[]).contains("requires a subcommand"));
    assert!(refused(&["run"]).contains("<NAME>"));
    assert!(refused(&["run", "n"]).contains("<COMMAND>"));
    assert!(refused(&["run", "n", "true"]).contains("'true'"));
    assert!(refused(&["release", "n"]).contains("--force"));
    assert!(refused(&["run", "--leese", "1s", "n", "--", "true"]).contains("'--lease'"));
    assert!(refused(&["init", "--quarantine", "maybe"]).contains("on, off"));
}

#[test]
fn the_help_says_that_users_do_not_exclude_each_other() {
    assert!(help(&["--help"]).contains("DIFFERENT USERS DO NOT EXCLUDE EACH OTHER"));
    let run = help(&["run", "--help"]);
    assert!(run.replace('\n', " ").contains("of this user"), "{run}");
    assert!(run.contains("[default: 10s]"), "{run}");
    assert!(run.contains("sudo leasehold run backup -- COMMAND"), "{run}");
    assert!(help(&["--version"]).starts_with("leasehold "));
}

#[test]
fn no_help_line_is_wider_than_a_terminal() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["init", "--help"],
        &["run", "-h"],
        &["hold", "--help"],
        &["acquire", "--help"],
        &["renew", "--help"],
        &["release", "--help"],
    ] {
        for line in help(args).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn a_store_that_would_be_ignored_is_refused() {
    let migrate = ["migrate", "status", "--from", "a:", "--to", "b:"];
    for (args, part) in [
        ([&migrate[..], &["--store", "memory:"]].concat(), "--from and --to"),
        ([&["--store-file", "f"], &migrate[..]].concat(), "--from and --to"),
        (vec!["man", "--store", "memory:"], "no store"),
        (vec!["--store-file=f", "completions", "bash"], "no store"),
        (vec!["--store", "memory:", "--store-file", "f", "list"], "once"),
        ([&migrate[..], &["--to-file", "f"]].concat(), "--to-file"),
    ] {
        assert!(refused(&args).contains(part), "{}", refused(&args));
    }
}

#[test]
fn a_migration_may_name_its_stores_in_files() {
    let args = ["leasehold", "migrate", "next", "--from-file", "a", "--to", "memory:"];
    assert!(parse(args).is_ok());
    assert!(refused(&["migrate", "next", "--to-file", "b"]).contains("--from"));
}

#[test]
fn help_does_not_offer_a_store_that_would_be_refused() {
    for action in ["migrate", "completions", "man"] {
        for how in ["--help", "-h"] {
            let text = help(&[action, how]);
            assert!(!text.contains("--store"), "{text}");
        }
    }
    assert!(help(&["list", "--help"]).contains("--store-file"));
}

/// Words of a command line, and a URL with a password, which may be in any position by mistake.
const WORDS: &str = "\
    run|init|list|inspect|release|check|schema|migrate|status|hold|man|--store-file|--store|\
    --store=|--lease|--wait|--at-least|--permits|--also|--grace|--loss-grace|--json|--force|--from|--to|\
    --first-use|--longest-lease|--once-per|--if-unknown|record|--|-|=| |10s|forever|nightly|sqlite:locks.db|redis://:hunter2@h|\
    \n";

#[test]
fn a_password_in_a_mistyped_option_is_not_repeated() {
    let text = refused(&["--storeredis://:hunter2@h=", "list"]);
    assert!(text.contains("***") && !text.contains("hunter2"), "{text}");
}

proptest::proptest! {
    #[test]
    fn fuzz_of_arguments_is_understood_or_refused_in_one_line_without_a_password(
        args in proptest::collection::vec(lock_core::test_util::soup(WORDS.split('|')), 0..8),
    ) {
        if let Err(failure) = parse(["leasehold".to_owned()].into_iter().chain(args)) {
            assert_eq!(failure.code, USAGE);
            assert!(!failure.message.contains('\n'), "{failure}");
            assert!(!failure.message.contains("hunter2"), "{failure}");
        }
    }
}

#[test]
fn a_missing_separator_is_explained_without_the_arguments_of_command() {
    for (args, expected) in [
        (&["run", "a", "true"][..], "write -- before COMMAND: leasehold run a -- true;"),
        (&["run", "a", "mysql", "-phunter2"], "leasehold run a -- mysql;"),
        (&["run", "a", "--wait", "5s", "true"], "leasehold run a -- true;"),
        (&["run", "--wait", "5s", "a", "true"], "leasehold run NAME -- true;"),
        (&["--log-format", "json", "run", "a", "sh", "-c", "hunter2"], "run a -- sh;"),
        (&["run", "a", "--color", "ls"], "if it is an option of COMMAND, write -- before COMMAND"),
        (&["run", "a", "redis://user:hunter2@host"], "leasehold run a -- ***;"),
    ] {
        let message = refused(args);
        assert!(message.contains(expected), "{args:?}: {message}");
        assert!(!message.contains("hunter2") && !message.contains('\n'), "{message}");
    }
    // Here something else is wrong.
    for args in [&["run", "a", "b", "--", "true"][..], &["inspect", "run", "a"]] {
        assert!(!refused(args).contains("write --"), "{args:?}");
    }
}
