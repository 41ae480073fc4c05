//! The entries of a list of broken variants, and the checks of a list against the markers in the
//! sources.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use lock_core::Backend;
use servers::{Change, marker};

/// `Err` says how the store broke its promise.
pub type Verdict = Result<(), String>;

/// A store without some of its guards, and the case that must then fail.
pub struct MissingGuard<S: 'static> {
    /// The requirement, and what the guard does, as in `S1: a name that is held is not granted`.
    pub what: &'static str,
    /// The changes of the texts.
    pub changes: &'static [Change<'static>],
    /// Fails if the store does not do what the guard is for.
    pub case: fn(&mut S) -> BoxFuture<'_, Verdict>,
}

/// A list of [`MissingGuard`]s, each as `"requirement: guard" change, … => case;`.
#[doc(hidden)]
#[macro_export]
macro_rules! variants {
    ($vis:vis $list:ident |$stage:ident: $setup:ty| $($what:literal $($change:expr),+ => $case:expr;)*) => {
        $vis const $list: &[$crate::missing_guards::MissingGuard<$setup>] = &[
            $($crate::missing_guards::MissingGuard {
                what: $what,
                changes: &[$($change),+],
                case: |$stage| Box::pin($case),
            }),*
        ];
    };
}

/// A store whose texts can be changed.
#[async_trait::async_trait]
pub trait Setup: Sized + Send + Sync {
    /// Starts a server, and a proxy that makes these changes:
    /// [`Proxy::changing`](servers::Proxy::changing).
    async fn start(changes: &[Change<'_>]) -> Self;

    /// How often a text was changed: [`Counters::altered`](servers::Counters::altered).
    fn altered(&self) -> u64;
}

/// A [`Setup`] that backends connect to.
#[async_trait::async_trait]
pub trait Clients: Setup {
    /// A new client, through the proxy.
    async fn open(&self) -> Arc<dyn Backend>;
}

/// Asserts that each guard of the list stands exactly once in the sources in these folders.
pub(super) fn check<S>(folders: &[&str], list: &[MissingGuard<S>]) {
    assert!(!list.is_empty());
    let there = markers(folders);
    for name in names(list) {
        let count = there.get(name).copied().unwrap_or(0);
        assert_eq!(count, 1, "guard {name:?} stands {count} times in {folders:?}");
    }
}

/// Asserts that `names`, the [`names`](MissingGuard::names) of all lists, has each guard in these
/// folders.
pub fn every_marker_is_tried(folders: &[&str], names: &[&str]) {
    let there = markers(folders);
    assert!(!there.is_empty(), "no marker in {folders:?}");
    let untried: Vec<_> = there.keys().filter(|name| !names.contains(&name.as_str())).collect();
    assert!(untried.is_empty(), "no broken variant leaves these guards out: {untried:?}");
}

impl<S> MissingGuard<S> {
    /// The names of the guards of a list.
    pub fn names(list: &[Self]) -> Vec<&'static str> {
        names(list).collect()
    }
}

fn names<S>(list: &[MissingGuard<S>]) -> impl Iterator<Item = &'static str> {
    list.iter().flat_map(|broken| broken.changes).filter_map(|change| match *change {
        Change::LeaveOut(name) | Change::Replace(name, _) => Some(name),
        Change::Text(..) => None,
    })
}

/// Counts each guard in the Lua, SQL and Rust files below these folders.
fn markers(folders: &[&str]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    let beginning = marker("");
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if is_source(&path) {
            let text = fs::read_to_string(&path).unwrap();
            let lines =
                text.lines().filter_map(|line| line.trim().strip_prefix(beginning.trim_end()));
            for name in lines {
                *found.entry(name.trim().to_owned()).or_default() += 1;
            }
        }
    }
    found
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "lua" || it == "sql" || it == "rs")
}
