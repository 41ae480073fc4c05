use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::exit::USAGE;

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
    assert_eq!(run.lease, Duration::from_secs(10));
    assert_eq!(run.wait, Wait::AtMost(Duration::ZERO));
    assert_eq!(run.quarantine_wait, None);
    assert_eq!(run.at_least, Duration::ZERO);
    assert_eq!(run.grace, Duration::from_secs(10));
    assert_eq!(run.conflict_exit_code, 75);
    assert_eq!(run.name.as_str(), "backup");
    assert_eq!(run.command, ["true"]);
}

#[test]
fn what_follows_the_dashes_belongs_to_the_command() {
    let run = run(&["--wait", "forever", "n", "--", "sh", "-c", "x", "--", "--wait", "0s"]);
    assert_eq!(run.wait, Wait::Forever);
    assert_eq!(run.command, ["sh", "-c", "x", "--", "--wait", "0s"]);
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
        ("", ["\"\"", "1 to 255"]),
        (&long, ["256 bytes", "1 to 255"]),
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
    assert!(failure.message.contains("\"a\\xFF\" is not UTF-8"), "{failure}");
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
    assert!(run.replace('\n', " ").contains("of this user's"), "{run}");
    assert!(run.contains("[default: 10s]"), "{run}");
    assert!(run.contains("sudo leasehold run backup -- COMMAND"), "{run}");
    assert!(help(&["--version"]).starts_with("leasehold "));
}

#[test]
fn no_help_line_is_wider_than_a_terminal() {
    for args in [&["--help"][..], &["run", "--help"], &["init", "--help"], &["run", "-h"]] {
        for line in help(args).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn a_store_that_would_be_ignored_is_refused() {
    for (args, part) in [
        (&["--store", "memory:", "compare"][..], "named behind it"),
        (&["compare", "--store=memory:", "sqlite:x"], "named behind it"),
        (
            &["migrate", "status", "--from", "a:", "--to", "b:", "--store", "memory:"],
            "--from and --to",
        ),
    ] {
        assert!(refused(args).contains(part), "{}", refused(args));
    }
}

#[test]
fn help_does_not_offer_a_store_that_would_be_refused() {
    for action in ["migrate", "compare"] {
        for how in ["--help", "-h"] {
            let text = help(&[action, how]);
            assert!(!text.contains("--store"), "{text}");
        }
    }
    assert!(help(&["list", "--help"]).contains("--store"));
}

/// What the docs have a reader type, but for what stands in brackets.
#[test]
fn the_commands_of_the_docs_are_understood() {
    let docs = [
        include_str!("../../../README.md"),
        include_str!("../../../docs/choosing-a-backend.md"),
        include_str!("../../../docs/migration.md"),
    ];
    let mut understood = 0;
    for line in docs.iter().flat_map(|doc| doc.lines()).filter(|line| !line.contains('[')) {
        let command = line.split(" #").next().unwrap_or_default();
        let args = match command.split_once("leasehold ") {
            // A line of a crontab begins with its time.
            Some((before, args)) if before.is_empty() || before.starts_with("0 2 ") => args,
            _ if command.starts_with("cargo run") && !command.contains("conformance") => {
                command.split_once(" -- ").map_or("", |(_, args)| args)
            }
            _ => continue,
        };
        let parsed = parse(["leasehold"].into_iter().chain(args.split_whitespace()));
        assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        understood += 1;
    }
    assert_eq!(understood, 5, "where are they?");
}
