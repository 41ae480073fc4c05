//! Every mutant is caught by the case meant for it, and that case lets the sound backend pass.

use std::collections::{BTreeMap, BTreeSet};

use conformance_tests::cases::{self, REQUIREMENTS};
use futures_util::future::join_all;
use verification::mutants::{self, Verdict};

use crate::missing_guards::of_the_backends;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_mutant_is_caught_by_its_case() {
    // At the same time: some cases wait until a timeout.
    let verdicts = join_all(mutants::ALL.iter().map(|(flaw, requirement, case)| async move {
        let verdict = mutants::verdict(*flaw, case).await;
        println!("{requirement} {flaw:?} by {case}: {verdict:?}");
        (!matches!(verdict, Verdict::Caught(_)))
            .then(|| format!("\n{flaw:?} by {case}: {verdict:?}"))
    }));
    let passed: Vec<_> = verdicts.await.into_iter().flatten().collect();
    // One line for each, at the end, so that a log that is cut off still has them.
    assert!(passed.is_empty(), "{} mutants are not caught:{}", passed.len(), passed.concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_cases_let_the_sound_backend_pass() {
    let cases: BTreeSet<_> = mutants::ALL.iter().map(|(_, _, case)| *case).collect();
    for case in cases {
        mutants::passes(case).await.unwrap_or_else(|why| panic!("{case}: {why}"));
    }
}

#[test]
fn every_requirement_has_a_variant_that_its_own_case_catches() {
    let tried: BTreeMap<_, _> =
        cases::all().iter().map(|case| (case.name, case.requirement)).collect();
    let of_backends = of_the_backends();
    for wanted in REQUIREMENTS {
        let caught =
            |(_, broken, case): &&(_, &str, &str)| *broken == wanted && tried[case] == wanted;
        let mutants = mutants::ALL.iter().filter(caught).count();
        let of_backends = of_backends.iter().filter(|it| it.requirement == wanted).count();
        println!("{wanted}: {mutants} mutants, {of_backends} scripts and statements");
        assert!(mutants > 0, "no mutant that breaks {wanted} is caught by a case of {wanted}");
    }
}
