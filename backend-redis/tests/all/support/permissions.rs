//! The permissions that a documentation names, and those that scripts and clients need. Tests of
//! Redlock and of foreign layouts use this file, too.
#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it

use std::{collections::BTreeSet, fs, path::Path};

/// Commands that the redis crate sends by itself.
pub(crate) const OF_THE_CRATE: [&str; 5] = ["auth", "hello", "select", "subscribe", "unsubscribe"];

/// The ACL user that a page or rustdoc gives after the text `heading`, as it stands there.
pub(crate) fn documented_acl(documentation: &str, heading: &str, prefix: &str) -> String {
    let (_, part) = documentation.split_once(heading).unwrap();
    let lines = part.lines().map(|line| line.trim_start_matches("//!").trim());
    let lines = lines.skip_while(|line| !line.starts_with("user NAME"));
    let words: Vec<_> = lines.take_while(|line| !line.starts_with("```")).collect();
    let acl = words.join(" ").replace("NAME", "app").replace("PASSWORD", "hunter2");
    acl.replace("PREFIX", prefix)
}

/// The commands in an ACL, without their subcommands.
pub(crate) fn commands_of(acl: &str) -> BTreeSet<String> {
    let words = acl.split_whitespace().filter_map(|word| word.strip_prefix('+'));
    words.map(|word| word.split('|').next().unwrap().to_owned()).collect()
}

/// All commands that the Lua files of a folder call.
pub(crate) fn of_scripts(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for script in files(Path::new(folder), "lua") {
        // A comment may hold a broken variant.
        let code = script.lines().filter(|line| !line.trim_start().starts_with("--"));
        let script = code.collect::<Vec<_>>().join("\n");
        // The first argument may be one of two commands: `call(one and 'A' or 'B', …)`.
        for beginning in ["call(", "read_typed("] {
            for call in script.split(beginning).skip(1) {
                let command = call.split([',', ')']).next().unwrap();
                found.extend(command.split('\'').skip(1).step_by(2).map(str::to_lowercase));
            }
        }
    }
    assert!(found.contains("set"), "{folder} has no scripts");
    found
}

/// All commands that the Rust files of a folder send, and those of [`OF_THE_CRATE`].
pub(crate) fn of_client(folder: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<_> = OF_THE_CRATE.map(str::to_owned).into();
    for source in files(Path::new(folder), "rs") {
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        for beginning in ["cmd(\"", "command(\""] {
            let commands = source.split(beginning).skip(1);
            found.extend(commands.map(|rest| rest.split('"').next().unwrap().to_lowercase()));
        }
    }
    assert!(found.contains("evalsha"), "{folder} sends no scripts");
    found
}

/// The texts of the files below a folder whose names end so. Tests have a folder of their own.
fn files(folder: &Path, ending: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            texts.extend(files(&path, ending));
        } else if path.extension().is_some_and(|found| found == ending) {
            texts.push(fs::read_to_string(&path).unwrap());
        }
    }
    texts
}
