//! Every mutant is caught by the case meant for it, and that case lets the sound backend pass.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use conformance_tests::mutants::{self, Verdict};
use futures_util::future::join_all;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_mutant_is_caught_by_its_case() {
    // Side by side: some wait for what never comes.
    let verdicts = join_all(mutants::ALL.iter().map(|(flaw, requirement, case)| async move {
        let verdict = mutants::verdict(*flaw, case).await;
        println!("{requirement} {flaw:?} by {case}: {verdict:?}");
        (flaw, case, verdict)
    }));
    let mut verdicts = verdicts.await;
    verdicts.retain(|(_, _, verdict)| !matches!(verdict, Verdict::Caught(_)));
    assert!(verdicts.is_empty(), "not caught: {verdicts:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_cases_let_the_sound_backend_pass() {
    let cases: BTreeSet<_> = mutants::ALL.iter().map(|(_, _, case)| *case).collect();
    for case in cases {
        mutants::passes(case).await.unwrap_or_else(|why| panic!("{case}: {why}"));
    }
}

#[test]
fn every_requirement_has_a_mutant() {
    let broken: BTreeSet<_> = mutants::ALL.iter().map(|(_, requirement, _)| *requirement).collect();
    for wanted in ["S1", "S2", "S3", "S4", "S5", "S6", "L1", "L2", "L3", "L4", "L5", "L6"] {
        assert!(broken.contains(wanted), "no mutant breaks {wanted}");
    }
}
