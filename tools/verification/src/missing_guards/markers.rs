//! The guards in the sources. Before the line of a guard stands, for each way to break it:
//!
//! ```sql
//! -- guard: release-owner | S4 | only_the_owner_releases | AND $2 <> ''
//!     AND owner = $owner
//! ```
//!
//! the name of this broken variant, the requirement that it breaks, the case that must then fail,
//! with its argument in parentheses, and the text in the place of the guard's line, as it is sent;
//! without that text the line is left out. Comment lines that begin with three spaces continue the
//! marker. The markers `NAME/…` are one variant, which breaks several guards.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use conformance_tests::cases::REQUIREMENTS;

const MARKER: &str = "-- guard: ";
const GOES_ON: &str = "--   ";

/// A broken variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// One of [`REQUIREMENTS`], or `operation`.
    pub requirement: String,
    /// The name of the case that must fail.
    pub case: String,
    /// The argument of the case; empty if it has none.
    pub argument: String,
    /// The names of the guards, each with the text in its place.
    pub guards: Vec<[String; 2]>,
}

/// The variants in the Lua and SQL files at or below these paths, by their names.
///
/// # Panics
/// If a marker is none, or if two have one name.
pub fn variants(paths: &[&str]) -> BTreeMap<String, Variant> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "lua" || it == "sql") {
            read(&path, &mut found);
        }
    }
    assert!(!found.is_empty(), "no guard in {paths:?}");
    found
}

fn read(path: &Path, found: &mut BTreeMap<String, Variant>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(str::trim_start).peekable();
    while let Some(line) = lines.next() {
        let Some(marker) = line.strip_prefix(MARKER) else { continue };
        let mut marker = marker.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(GOES_ON)) {
            marker.extend([" ", more.trim_start_matches(GOES_ON).trim_start()]);
        }
        let (name, mut variant) = parse(&marker).unwrap_or_else(|| {
            panic!("{path:?}: {marker:?} is not `NAME | REQUIREMENT | CASE | TEXT`")
        });
        let guard = variant.guards.remove(0);
        let whole = found.entry(name).or_insert_with(|| variant.clone());
        let is_new = whole.guards.iter().all(|[name, _]| *name != guard[0]);
        variant.guards.clone_from(&whole.guards);
        assert!(is_new && variant == *whole, "{path:?}: {:?} is the name of another", guard[0]);
        whole.guards.push(guard);
    }
}

/// The name of the variant, and of it this guard.
fn parse(marker: &str) -> Option<(String, Variant)> {
    let mut parts = marker.splitn(4, " | ").map(|part| part.trim().to_owned());
    let (guard, requirement, case) = (parts.next()?, parts.next()?, parts.next()?);
    let (case, argument) = match case.split_once('(') {
        Some((case, argument)) => (case.to_owned(), argument.strip_suffix(')')?.to_owned()),
        None => (case, String::new()),
    };
    let known = requirement == "operation" || REQUIREMENTS.contains(&&*requirement);
    let name = guard.split('/').next()?.to_owned();
    let guards = vec![[guard, parts.next().unwrap_or_default()]];
    known.then_some((name, Variant { requirement, case, argument, guards }))
}
