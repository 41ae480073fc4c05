//! The page about the soak says what its results say, and nothing else.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use conformance_tests::{
    proof::{self, Report},
    stores,
};

#[test]
fn the_page_is_made_of_the_results_that_are_kept() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let files = std::fs::read_dir(docs.join("soak")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    let mut reports: Vec<Report> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        reports.extend(serde_json::from_str::<Vec<Report>>(&text).unwrap());
    }
    let subjects = stores::all();
    assert_eq!(reports.len(), subjects.len(), "one file for each store");
    let made = proof::page(&subjects, &reports);
    assert!(
        !made.contains("not run"),
        "the README says of what has no result that it is in the soak"
    );
    let page = std::fs::read_to_string(docs.join("soak.md")).unwrap();
    let (_, rest) = page.split_once("<!-- soak -->").unwrap();
    let (block, _) = rest.split_once("<!-- /soak -->").unwrap();
    assert_eq!(
        block.trim(),
        made.trim(),
        "made by: cargo run -p conformance-tests -- --page docs/soak/*.json"
    );
}
