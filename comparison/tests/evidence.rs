//! The page on how to choose a backend says what its run says, and nothing else.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use comparison::Evidence;

#[test]
fn the_table_of_the_page_is_made_of_the_run_that_is_kept() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let json = std::fs::read_to_string(docs.join("ratios.json")).unwrap();
    let evidence = Evidence::read(&json).unwrap();
    assert_eq!(evidence.json().unwrap(), json, "only what the page needs is kept");
    let page = std::fs::read_to_string(docs.join("choosing-a-backend.md")).unwrap();
    let made = evidence.put_into(&page).unwrap();
    let how = "made by: cargo bench -p benchmarks --bench ratios -- --docs --from FILE";
    assert!(made == page, "{how}\n{}", evidence.block());
}

/// What was measured is named, and each ratio has what it stands against.
#[test]
fn what_is_kept_is_whole() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let json = std::fs::read_to_string(docs.join("ratios.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&json).unwrap();
    let names: Vec<_> = kept["stores"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["memory", "sqlite", "redis", "redlock", "etcd", "postgres", "mysql"]);
    let ratios = kept["ratios"].as_array().unwrap();
    assert!(ratios.iter().all(|ratio| ratio["floor"] != "" && ratio["floor_figure"] != 0.0));
    // What the issues of the backends ask for, by words of the row.
    for (store, what, floor) in [
        ("sqlite", "acquire + release", "an upsert"),
        ("redis", "acquire + release", "SET NX PX"),
        ("redis", "the token's price", "SET NX PX"),
        ("redis", "64 tasks", "mints a token"),
        ("redis", "16 tasks on one name", "rslock, its own pauses"),
        ("redis", "16 tasks on one name", "rslock, the best"),
        ("redis", "16 tasks on one name", "one"),
        ("redis", "8 processes × 4 tasks", "rslock, its own pauses"),
        ("redis", "8 processes × 4 tasks", "rslock, the best"),
        ("redis", "8 processes × 4 tasks", "one"),
        ("redis", "16 tasks hold 10 ms", "one PING"),
        ("redis", "16 tasks hold 10 ms", "rslock, its own pauses"),
        ("redis", "10,000 locks", "a core"),
        ("redlock", "acquire + release", "a PING to all nodes"),
        ("redlock", "64 tasks", "rslock"),
        ("redlock", "16 tasks on one name", "rslock"),
        ("redlock", "per handoff", "one"),
        ("redlock", "two of five nodes paused", "with all five"),
        ("etcd", "acquire", "cheapest write"),
        ("etcd", "acquire + release", "two transactions"),
        ("etcd", "acquire + release", "grant, Lock and revoke"),
        ("etcd", "16 tasks on one name", "grant, Lock and revoke"),
        ("etcd", "8 processes × 4 tasks", "grant, Lock and revoke"),
        ("postgres", "leasehold, primary key", "the bare statements, same pool"),
        ("postgres", "leasehold, optimistic", "the bare statements, same pool"),
        ("postgres", "leasehold, primary key", "logged table"),
        ("postgres", "16 tasks on one name", "sqlx PgAdvisoryLock"),
        ("mysql", "flush 1", "the bare statements, same pool"),
        ("mysql", "flush 2", "the bare statements, same pool"),
        ("redis to etcd", "in Both", "one raise"),
        ("sqlite to postgres", "in Both", "one raise"),
    ] {
        let is = |ratio: &&serde_json::Value| {
            ratio["store"] == store
                && ratio["what"].as_str().unwrap().contains(what)
                && ratio["floor"].as_str().unwrap().contains(floor)
        };
        assert!(ratios.iter().any(|ratio| is(&ratio)), "no ratio: {store}, {what}, {floor}");
    }
}
