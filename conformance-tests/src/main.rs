//! The command that tries this project's stores, or one of yours, under faults: see
//! `conformance_tests::proof`.

use std::process::ExitCode;

use conformance_tests::{proof, stores};

fn main() -> ExitCode {
    proof::main(&stores::all(), stores::connect)
}
