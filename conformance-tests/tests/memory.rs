//! The suite over the in-memory backend.

use std::{process::ExitCode, sync::Arc};

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(conformance_tests::MemoryHarness)])
}
