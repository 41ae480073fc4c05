//! Puts together the text of a script: its arguments by name, and the files that it includes. This
//! file depends on no other, so that tests and benchmarks can include it by its path.
//!
//! A script declares its arguments in one line: `-- args: NAME…`, or `-- epoch args: NAME…` if it
//! may grant; then those of [`EPOCH_ARGUMENTS`] come first. A name with `...` is the position of
//! the first of a list, which ends the arguments. The encoder in Rust names the same list (the
//! macro `arguments`). An argument may be empty. Empty ones at the end are not sent, since each
//! costs the server time.

use std::fmt::Write as _;

/// The first arguments of every script that may grant; `scripts/epoch.lua` explains each.
pub(crate) const EPOCH_ARGUMENTS: &str = "run replid longest quarantine margin deadline";

/// The files that a script may include. Each stands before those that it includes.
const PARTS: [(&str, &str); 27] = [
    ("epoch.lua", include_str!("epoch.lua")),
    ("grant.lua", include_str!("grant.lua")),
    ("gate.lua", include_str!("gate.lua")),
    ("unfit.lua", include_str!("unfit.lua")),
    ("handover.lua", include_str!("handover.lua")),
    ("entries.lua", include_str!("entries.lua")),
    ("busy.lua", include_str!("busy.lua")),
    ("renewal.lua", include_str!("renewal.lua")),
    ("holders.lua", include_str!("holders.lua")),
    ("records.lua", include_str!("records.lua")),
    ("readers_line.lua", include_str!("readers_line.lua")),
    ("lease_end.lua", include_str!("lease_end.lua")),
    ("read.lua", include_str!("read.lua")),
    ("parse.lua", include_str!("parse.lua")),
    ("is_reader.lua", include_str!("is_reader.lua")),
    ("forgive.lua", include_str!("forgive.lua")),
    ("limits.lua", include_str!("limits.lua")),
    ("clock.lua", include_str!("clock.lua")),
    ("check_epoch.lua", include_str!("check_epoch.lua")),
    ("check_request.lua", include_str!("check_request.lua")),
    ("reader_token.lua", include_str!("reader_token.lua")),
    ("make_token.lua", include_str!("make_token.lua")),
    ("server_change.lua", include_str!("server_change.lua")),
    ("since.lua", include_str!("since.lua")),
    ("text.lua", include_str!("text.lua")),
    ("unknown.lua", include_str!("unknown.lua")),
    ("version.lua", include_str!("version.lua")),
];

/// The whole text. It begins with the local variables for the arguments. Each line `-- include
/// FILE` is replaced by that file.
pub(crate) fn whole(script: &str) -> String {
    let mut text = locals(script) + script;
    for (file, part) in PARTS {
        text = text.replace(&format!("-- include {file}\n"), part);
    }
    assert!(!text.contains("-- include "), "a script includes a file that does not exist");
    text
}

fn locals(script: &str) -> String {
    let declared = |line: &'static str| script.lines().find_map(|text| text.strip_prefix(line));
    let (epoch, own) = match (declared("-- epoch args:"), declared("-- args:")) {
        (Some(own), _) => (EPOCH_ARGUMENTS, own),
        (None, own) => ("", own.unwrap_or_default()),
    };
    let names = epoch.split_whitespace().chain(own.split_whitespace());
    let single: Vec<_> = names.filter(|name| !name.ends_with("...")).collect();
    let mut text = String::new();
    if !single.is_empty() {
        // One call, since each read of an argument costs the server time.
        writeln!(text, "local {} = unpack(ARGV, 1, {})", single.join(", "), single.len()).ok();
    }
    for name in own.split_whitespace() {
        match name.strip_suffix("...") {
            Some(list) => writeln!(text, "local {list} = {}", single.len() + 1).ok(),
            None => writeln!(text, "{name} = {name} or ''").ok(),
        };
    }
    text
}
