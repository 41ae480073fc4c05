//! Runs the suite on a store in memory.

use std::{process::ExitCode, sync::Arc};

use conformance_tests::MemoryHarness;

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(MemoryHarness)])
}
