//! Runs the suite on a store in memory and on a store in a directory.
#![allow(clippy::unwrap_used)]

mod directory;

use std::{process::ExitCode, sync::Arc};

use conformance_tests::MemoryHarness;

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(MemoryHarness), Arc::new(directory::InAFolder)])
}
