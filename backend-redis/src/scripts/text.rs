//! Puts together the text of a script that includes others. This file depends on no other, so that
//! tests and benchmarks can include it by its path.

/// The files that a script may include.
const PARTS: [(&str, &str); 7] = [
    ("epoch_arguments.lua", include_str!("epoch_arguments.lua")),
    ("take.lua", include_str!("take.lua")),
    ("limits.lua", include_str!("limits.lua")),
    ("common.lua", include_str!("common.lua")),
    // The files above include these.
    ("readers.lua", include_str!("readers.lua")),
    ("unknown.lua", include_str!("unknown.lua")),
    ("version.lua", include_str!("version.lua")),
];

/// The whole text: each line `-- include FILE` is replaced by that file.
pub(crate) fn whole(script: &str) -> String {
    let mut text = script.to_owned();
    for (file, part) in PARTS {
        text = text.replace(&format!("-- include {file}\n"), part);
    }
    assert!(!text.contains("-- include "), "a script includes a file that does not exist");
    text
}
