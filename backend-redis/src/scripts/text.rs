//! Puts together the text of a script: its arguments by name, and the files that it includes. This
//! file depends on no other, so that tests and benchmarks can include it by its path.
//!
//! A script declares its arguments in one line: `-- args: NAME…`, or `-- epoch args: NAME…` if it
//! may grant; then those of [`EPOCH_ARGUMENTS`] come first. A name with `...` is the position of
//! the first of a list, which ends the arguments. The encoder in Rust names the same list
//! (the macro `arguments`).

/// The first arguments of every script that may grant; `scripts/epoch.lua` explains each.
pub(crate) const EPOCH_ARGUMENTS: &str = "run replid longest quarantine margin deadline";

/// The files that a script may include.
const PARTS: [(&str, &str); 7] = [
    ("renewal.lua", include_str!("renewal.lua")),
    ("epoch.lua", include_str!("epoch.lua")),
    ("queue.lua", include_str!("queue.lua")),
    ("limits.lua", include_str!("limits.lua")),
    ("records.lua", include_str!("records.lua")),
    // The files above include these.
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
    let local = |(at, name): (usize, &str)| match name.strip_suffix("...") {
        Some(list) => format!("local {list} = {}\n", at + 1),
        None => format!("local {name} = ARGV[{}]\n", at + 1),
    };
    names.enumerate().map(local).collect()
}
