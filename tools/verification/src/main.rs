//! The command that tries this project's stores, or one of yours, under faults: see
//! `verification::proof`.

use std::process::ExitCode;

use verification::{proof, stores};

fn main() -> ExitCode {
    proof::main(&stores::all(), stores::connect)
}
