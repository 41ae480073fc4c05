//! The API can be used whole: each type has a name here, and may grow where it says so.

use std::{collections::BTreeSet, fs, path::Path};

/// The names behind `pub use` of this path, in a file of ours.
fn exported(text: &str, from: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for part in text.split(&format!("pub use {from}")).skip(1) {
        let list = part.split(';').next().unwrap();
        let words = list.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }
    names
}

/// Without a name here, a type in a signature can be received and not written down.
#[test]
fn all_that_the_core_exports_has_a_name_in_this_crate() {
    let core = include_str!("../../../lock-core/src/lib.rs");
    let core = core.replace("#[doc(hidden)]\npub use sync", "use sync");
    let here = exported(include_str!("../../src/lib.rs"), "lock_core::");
    let statements = core.split("\npub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let lists = statements.filter_map(|statement| statement.split_once("::"));
    let words = lists.flat_map(|(_, list)| list.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let mut names: BTreeSet<_> = words.filter(|word| !word.is_empty()).map(str::to_owned).collect();
    names.remove("sync"); // of tokio_util::sync::CancellationToken
    assert!(names.len() > 50, "{names:?}");
    assert_eq!(names.difference(&here).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Enums that are complete, so that a `match` of a wrapper or of a user deals with every case.
const COMPLETE: &[&str] = &[
    "Attempt",        // of a backend: a wrapper must deal with each
    "Decision",       // due, not due, or unknown
    "Direction",      // forward or back
    "Enqueued",       // of a backend
    "IfUnknown",      // run or fail
    "Phase",          // the phases of a migration
    "Promise",        // made or not
    "Put",            // of a backend
    "ReleaseOutcome", // held or not
    "Renewal",        // of a backend
    "Signal",         // of a backend
    "Step",           // of an operator
    "TryAcquire",     // acquired or not, and why
    "WithError",      // the lock's or the work's
    "WriteOutcome",   // of a backend
];

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// A field or a case that is added later must not break the programs of users.
#[test]
fn what_may_grow_is_non_exhaustive() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let here = include_str!("../../src/lib.rs").to_owned();
    let names = ["self::", "lock_core::", "backend_sql::", "backend_migration::"];
    let names = names.into_iter().chain([
        "backend_etcd::",
        "backend_object_store::",
        "backend_redis::",
        "backend_redlock::",
        "backend_zookeeper::",
    ]);
    let names: BTreeSet<_> = names.flat_map(|path| exported(&here, path)).collect();
    let mut texts = Vec::new();
    let crates = ["leasehold", "lock-core", "backend-sql", "backend-migration", "backend-redis"];
    let more = ["backend-redlock", "backend-etcd", "backend-object-store", "backend-zookeeper"];
    for name in crates.into_iter().chain(more) {
        sources(&root.join(name).join("src"), &mut texts);
    }
    let (mut complete, mut open) = (BTreeSet::new(), 0);
    for text in &texts {
        for item in text.split("\n\n") {
            let Some(at) = item.find("\npub enum ").or(item.find("\npub struct ")) else {
                continue;
            };
            let (before, line) = (&item[..at], item[at + 1..].lines().next().unwrap());
            let name = line.split(|c: char| !c.is_alphanumeric()).nth(2).unwrap();
            let is_enum = line.starts_with("pub enum");
            let has_fields = item[at..].contains("\n    pub ");
            if !names.contains(name) || !(is_enum || has_fields) {
                continue;
            }
            if before.contains("#[non_exhaustive]") {
                open += 1;
            } else {
                complete.insert(name.to_owned());
            }
        }
    }
    assert!(open > 20, "{open}");
    assert_eq!(complete, COMPLETE.iter().map(|name| (*name).to_owned()).collect());
}

/// What users do with tokens and names: sort them, print them, read them back, keep them in a file.
#[test]
fn tokens_and_names_are_values_like_others() {
    fn value<T>(_: &T)
    where
        T: Ord + std::hash::Hash + std::fmt::Display + std::str::FromStr + Clone + Send + Sync,
        T: serde::Serialize + for<'de> serde::Deserialize<'de> + std::fmt::Debug + 'static,
    {
    }
    value(&leasehold::FencingToken::ZERO);
    value(&leasehold::LockName::new("job").unwrap());
    value(&"0".repeat(32).parse::<leasehold::OwnerId>().unwrap());
    value(&leasehold::OwnerLabel::of_this_process());
}
