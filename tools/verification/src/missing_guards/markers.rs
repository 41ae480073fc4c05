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
//! marker. If a name stands at several guards, the variant breaks all of them.

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
    /// Stands in the place of the guard's line.
    pub instead: String,
}

/// The variants in the Lua and SQL files at or below these paths, by their names.
///
/// # Panics
/// If a marker is none, or if two variants have one name.
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
        let (name, variant) = parse(&marker).unwrap_or_else(|| {
            panic!("{path:?}: {marker:?} is not `NAME | REQUIREMENT | CASE | TEXT`")
        });
        let before = found.insert(name.to_owned(), variant.clone());
        let same = before.is_none_or(|before| before == variant);
        assert!(same, "{path:?}: another variant has the name {name:?}");
    }
}

fn parse(marker: &str) -> Option<(&str, Variant)> {
    let mut parts = marker.splitn(4, " | ").map(str::trim);
    let (name, requirement, case) = (parts.next()?, parts.next()?, parts.next()?);
    let (case, argument) = match case.split_once('(') {
        Some((case, argument)) => (case, argument.strip_suffix(')')?),
        None => (case, ""),
    };
    let instead = parts.next().unwrap_or_default().to_owned();
    let known = requirement == "operation" || REQUIREMENTS.contains(&requirement);
    let [requirement, case, argument] = [requirement, case, argument].map(str::to_owned);
    known.then_some((name, Variant { requirement, case, argument, instead }))
}
