//! Every mutant is caught by the case meant for it, and that case lets the sound backend pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use conformance_tests::cases::{self, REQUIREMENTS};
use futures_util::future::join_all;
use verification::mutants::{self, Verdict};

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
    let listed = lists_of_the_backends();
    for wanted in REQUIREMENTS {
        let caught =
            |(_, broken, case): &&(_, &str, &str)| *broken == wanted && tried[case] == wanted;
        let mutants = mutants::ALL.iter().filter(caught).count();
        let of_backends = listed.iter().filter(|what| what.starts_with(wanted)).count();
        println!("{wanted}: {mutants} mutants, {of_backends} scripts and statements");
        assert!(mutants > 0, "no mutant that breaks {wanted} is caught by a case of {wanted}");
    }
    let known =
        |what: &String| REQUIREMENTS.iter().any(|known| what.starts_with(&format!("{known}: ")));
    let unknown: Vec<_> = listed.iter().filter(|what| !known(what)).collect();
    assert!(
        listed.len() > 100 && unknown.is_empty(),
        "{} variants listed by the backends; these name no requirement: {unknown:#?}",
        listed.len()
    );
}

/// The names of the backends' broken variants (`what: "…"`, or `"…"` in `variants!`). The backends'
/// own test programs run them.
fn lists_of_the_backends() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let backends = ["etcd", "redis", "redlock", "sql"];
    let list = |backend| root.join(format!("backend-{backend}/tests/all/missing_guards"));
    let mut open: Vec<_> = backends.map(list).into_iter().filter(|path| path.exists()).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(path).unwrap();
            let mut in_list = false;
            for line in text.lines() {
                in_list = (in_list || line == "variants! {") && line != "}";
                let what = if in_list {
                    line.strip_prefix("    \"")
                } else {
                    line.trim().strip_prefix("what: \"")
                };
                found.extend(what.map(str::to_owned));
            }
        }
    }
    found
}
