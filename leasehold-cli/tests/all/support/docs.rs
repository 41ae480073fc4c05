//! What docs/cli.md has a reader write, for trying it to the letter.

use std::fs;
use std::path::Path;

/// The page.
pub const PAGE: &str = include_str!("../../../../docs/cli.md");

/// The first block of a language.
pub fn block(language: &str) -> String {
    let (_, from) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    from.split("```").next().unwrap().to_owned()
}

/// The first text between backquotes that begins so.
pub fn quoted(beginning: &str) -> &'static str {
    let (_, from) = PAGE.split_once(&format!("`{beginning}")).unwrap();
    let length = from.find('`').unwrap();
    let start = PAGE.len() - from.len() - beginning.len();
    &PAGE[start..start + beginning.len() + length]
}

/// A shell script that can be run.
pub fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    super::locks::open_up(path, 0o755);
}
