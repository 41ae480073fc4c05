//! `backend-zookeeper` with its broken variants. A process has at most one: the one that the
//! environment variable [`MISSING`] names.

// The sources are checked in their own crate.
#![allow(clippy::all, clippy::unwrap_used, missing_docs, unused_parens)]

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));

/// The environment variable with the name of the variant.
pub const MISSING: &str = "LEASEHOLD_MISSING_GUARD";

/// The variants: the name of each, the requirement that it breaks, and the test that must fail.
pub const VARIANTS: &[[&str; 3]] = include!(concat!(env!("OUT_DIR"), "/variants.rs"));

/// Whether this guard is missing.
fn is_missing(guard: &str) -> bool {
    static NAME: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var(MISSING).ok());
    NAME.as_deref() == Some(guard)
}
