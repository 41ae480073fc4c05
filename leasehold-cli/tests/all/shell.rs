//! Completions and manual pages, tried with the programs that read them.

use std::fs;
use std::process::Command;

use crate::support::locks::{Store, failure};

#[test]
fn bash_completes_actions_and_options() {
    let store = Store::new();
    let script = store.beside("leasehold.bash");
    fs::write(&script, store.ok(&["completions", "bash"])).unwrap();
    // As bash does it where TAB is pressed behind the last word.
    let complete = |words: &[&str]| {
        let shell = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                     COMP_LINE=\"$*\"; COMP_POINT=${#COMP_LINE}; \
                     _leasehold leasehold \"${COMP_WORDS[COMP_CWORD]}\" \
                     \"${COMP_WORDS[COMP_CWORD-1]}\"; echo \"${COMPREPLY[@]}\"";
        let output =
            Command::new("bash").args(["-c", shell, "bash"]).arg(&script).args(words).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(complete(&["leasehold", "insp"]).trim(), "inspect");
    assert_eq!(complete(&["leasehold", "run", "--at-l"]).trim(), "--at-least");
    assert_eq!(complete(&["leasehold", "--log-format", "j"]).trim(), "json");
}

#[test]
fn every_shell_has_a_script() {
    let store = Store::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(store.ok(&["completions", shell]).contains("conflict-exit-code"), "{shell}");
    }
    let (code, line) = failure(&store.act(&["completions", "csh"]));
    assert_eq!(code, 64);
    assert!(line.contains("csh") && line.contains("zsh"), "{line}");
}

#[test]
fn the_manual_has_a_page_for_each_action() {
    let store = Store::new();
    let main = store.ok(&["man"]);
    for part in [".TH leasehold", "Exit codes", "LEASEHOLD_STORE", "leasehold\\-run"] {
        assert!(main.contains(part), "{part} in {main}");
    }
    let run = store.ok(&["man", "run"]);
    for part in [".TH leasehold-run", "\\-\\-conflict\\-exit\\-code", "\\-\\-store\\-file"] {
        assert!(run.contains(part), "{part} in {run}");
    }
    for action in [
        "hold", "acquire", "renew", "init", "inspect", "list", "release", "schema", "check",
        "migrate",
    ] {
        assert!(store.ok(&["man", action]).contains("DESCRIPTION"), "{action}");
    }
    let (code, line) = failure(&store.act(&["man", "nothing"]));
    assert_eq!(code, 64);
    assert!(line.contains("nothing") && line.contains("inspect"), "{line}");
}
