//! What the locks protect: a file per name, whose lines are the writes that were admitted.
//!
//! The file itself is the fence: under the file's own lock, a write is admitted if its token is
//! above that of the last line. A process that is killed leaves its write there or not at all.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::Path,
};

use leasehold::FencingToken;
use rustix::fs::{FlockOperation, flock};

/// A write: who, under which token, and which write it had read before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) token: u64,
    pub(crate) read: String,
    pub(crate) wrote: String,
}

pub(crate) fn lines(path: &Path) -> Vec<Line> {
    let mut text = String::new();
    if let Ok(mut file) = File::open(path) {
        file.read_to_string(&mut text).unwrap();
    }
    text.lines().map(line).collect()
}

fn line(text: &str) -> Line {
    let words: Vec<_> = text.split(' ').collect();
    let [token, read, wrote] = words[..] else { panic!("half a line: {text:?}") };
    Line { token: token.parse().unwrap(), read: read.into(), wrote: wrote.into() }
}

/// What a holder finds when it begins.
pub(crate) fn read(path: &Path) -> String {
    lines(path).pop().map_or_else(|| "nothing".into(), |line| line.wrote)
}

/// Writes at the end of a hold; `false` if the token is stale.
pub(crate) fn write(path: &Path, token: FencingToken, read: &str, wrote: &str) -> bool {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    if lines(path).last().is_some_and(|last| last.token >= token.get()) {
        return false;
    }
    // One call: the line is there or it is not.
    file.write_all(format!("{token} {read} {wrote}\n").as_bytes()).unwrap();
    true
}
