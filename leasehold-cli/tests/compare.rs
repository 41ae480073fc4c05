//! Stores measured side by side by the command.

#![allow(clippy::unwrap_used)]

mod support;

use support::locks::{Store, failure};

#[test]
fn the_page_shows_the_numbers_of_the_json() {
    let store = Store::new();
    let page = tempfile::NamedTempFile::new().unwrap();
    let path = page.path().to_str().unwrap();
    let report = store.json(&["compare", "--for", "1s", "--page", path]);
    let page = std::fs::read_to_string(path).unwrap();
    let stores = report["stores"].as_array().unwrap();
    let names: Vec<_> = stores.iter().map(|store| store["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["memory", "sqlite"]);
    for store in stores {
        let figures = store["figures"].as_array().unwrap();
        assert!(figures.len() >= 7, "{figures:?}");
        for figure in figures {
            let exact = figure["median"]["p50_us"].as_f64().unwrap();
            assert!(page.contains(&format!("data-p50-us=\"{exact}\"")), "{exact}");
        }
    }
}

#[test]
fn bad_input_is_refused_in_one_line_that_says_what_is_allowed() {
    let store = Store::new();
    for (args, says) in [
        (&["compare", "--for", "10ms"][..], "1s to 3600s"),
        (&["compare", "nothing:"], "unknown scheme"),
        (&["compare", "memory:", "memory:"], "named twice"),
    ] {
        let (code, line) = failure(&store.act(args));
        assert_eq!(code, 64, "{line}");
        assert!(line.contains(says), "{line}");
    }
}
