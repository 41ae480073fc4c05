//! Runs the suite on migrations between two stores.
#![allow(clippy::unwrap_used)]

mod migration;

use std::process::ExitCode;

fn main() -> ExitCode {
    conformance_tests::main(migration::all())
}
