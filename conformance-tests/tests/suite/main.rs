//! Runs the suite on a store in memory, on a store in a directory, and on migrations between two
//! stores.
#![allow(clippy::unwrap_used)]

mod directory;
mod migration;

use std::{process::ExitCode, sync::Arc};

use conformance_tests::{Harness, MemoryHarness};

fn main() -> ExitCode {
    let mut all: Vec<Arc<dyn Harness>> =
        vec![Arc::new(MemoryHarness), Arc::new(directory::InAFolder)];
    all.extend(migration::all());
    conformance_tests::main(all)
}
