//! Every store under every fault that applies, once; and the README's table is what came of it.

use std::process::ExitCode;

use conformance_tests::{proof, stores};

fn main() -> ExitCode {
    proof::gate(&stores::all(), stores::connect, include_str!("../../README.md"))
}
