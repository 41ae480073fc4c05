//! The text of a script that takes in others. This file needs nothing else, so that tests and benchmarks can take it
//! in by its path.

/// What may be taken in.
const PARTS: [(&str, &str); 6] = [
    ("epoch_arguments.lua", include_str!("epoch_arguments.lua")),
    ("take.lua", include_str!("take.lua")),
    ("limits.lua", include_str!("limits.lua")),
    ("common.lua", include_str!("common.lua")),
    // These are in those above, too.
    ("unknown.lua", include_str!("unknown.lua")),
    ("version.lua", include_str!("version.lua")),
];

/// The whole text: each line `-- include FILE` gives way to that file.
pub(crate) fn whole(script: &str) -> String {
    let mut text = script.to_owned();
    for (file, part) in PARTS {
        text = text.replace(&format!("-- include {file}\n"), part);
    }
    assert!(!text.contains("-- include "), "a script takes in a file that is not there");
    text
}
