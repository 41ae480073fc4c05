//! What a list of guards in the sources of a crate is made of; read by `build.rs`, too.

// Each of the readers uses its part.
#![allow(dead_code)]

/// A guard in the sources of a crate, and the case that fails without it.
#[derive(Clone)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// Of the contract (DESIGN.md), or the section that names the guard.
    pub(crate) requirement: &'static str,
    /// In the crate's `src`.
    pub(crate) file: &'static str,
    /// Its text, which stands there once.
    pub(crate) guard: &'static str,
    /// What stands in its place; `LEFT_OUT` is true while this mutant runs.
    pub(crate) without: &'static str,
    /// A test of the target that is made of the copy.
    pub(crate) case: &'static str,
}
