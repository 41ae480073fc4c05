//! Puts together the text of a script: its arguments by name, and the parts that it includes. This
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

/// The files whose parts a script may include.
const FILES: [&str; 17] = [
    include_str!("busy.lua"),
    include_str!("check_epoch.lua"),
    include_str!("check_request.lua"),
    include_str!("entries.lua"),
    include_str!("epoch.lua"),
    include_str!("forgive.lua"),
    include_str!("grant.lua"),
    include_str!("handoff.lua"),
    include_str!("holders.lua"),
    include_str!("make_token.lua"),
    include_str!("reader_token.lua"),
    include_str!("records.lua"),
    include_str!("renewal.lua"),
    include_str!("server.lua"),
    include_str!("since.lua"),
    include_str!("tunables.lua"),
    include_str!("version.lua"),
];

/// The whole text. It begins with the local variables for the arguments. Each line `-- include
/// PART` is replaced by that part.
pub(crate) fn whole(script: &str) -> String {
    let mut text = locals(script) + script;
    while let Some((before, after)) = text.split_once("-- include ") {
        let (name, after) = after.split_once('\n').unwrap_or((after, ""));
        let part = FILES.iter().find_map(|file| part(file, name));
        assert!(part.is_some(), "a script includes {name:?}, which does not exist");
        text = [before, &part.unwrap_or_default(), after].concat();
    }
    text
}

/// The part of a file under the heading `-- part: NAME`. What stands before the first heading is
/// about all parts.
pub(crate) fn part(file: &str, name: &str) -> Option<String> {
    let mut parts = file.split("-- part: ").skip(1).filter_map(|part| part.split_once('\n'));
    let (_, text) = parts.find(|(heading, _)| *heading == name)?;
    Some(text.trim_end().to_owned() + "\n")
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
