//! The page about mutants is made of the lists by which they are tried. `LEASEHOLD_WRITE_PAGE=1` writes it.
#![allow(clippy::unwrap_used)]

#[path = "core/list.rs"]
mod core;
#[path = "etcd/list.rs"]
mod etcd;
#[path = "left_out/mutant.rs"]
mod mutant;
#[path = "redis_client/list.rs"]
mod redis_client;
#[path = "redlock_client/list.rs"]
mod redlock_client;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use conformance_tests::{mutants, sim};

struct Row {
    requirement: String,
    broken: String,
    /// The file that tries it.
    file: &'static str,
    caught_by: String,
}

/// What every table is about, in the order of the page.
const REQUIREMENTS: &[(&str, &str)] = &[
    ("S1", "one holder at a time"),
    ("S2", "tokens increase"),
    ("S3", "validity is local and pessimistic"),
    ("S4", "only the owner renews and releases"),
    ("S5", "what is lost stays lost"),
    ("S6", "unknown outcomes are resolved"),
    ("L1", "a crashed holder's lock is free within its lease"),
    ("L2", "a waiter is woken, and polls besides"),
    ("L3", "first come, first served"),
    ("L4", "traffic does not grow with the waiters"),
    ("L5", "the holder learns of a loss when validity ends"),
    ("L6", "closing"),
    ("section 2", "fencing tokens, and the fence on the side of the data"),
    ("section 3", "what the client does for every store"),
    ("section 4", "the quarantine after a loss of data"),
    ("section 5", "single stores"),
    ("section 6", "migration between stores"),
    ("section 8", "bad input"),
    ("names", "names are told apart"),
    ("operation", "what operators see and do"),
];

/// What is left out in a test of its own: in a model that searches all orders of events, or by a setting of
/// the store.
const ALONE: &[(&str, &str, &str, &str)] = &[
    (
        "section 4",
        "no quarantine after a failover",
        "backend-redis/tests/sentinel_failover.rs",
        "with_the_quarantine_off_a_failover_gives_a_second_holder_a_larger_token",
    ),
    (
        "section 4",
        "no quarantine on a server that was master twice",
        "backend-redis/tests/sentinel_failover.rs",
        "with_the_quarantine_off_a_server_that_was_master_twice_has_a_second_holder",
    ),
    (
        "section 4",
        "the record of an etcd does not tell of a restore",
        "conformance-tests/tests/guards/etcd.rs",
        "a_restore_is_missed_when_the_record_does_not_tell_of_it",
    ),
    (
        "section 5",
        "Redlock: no quarantine of a node",
        "backend-redlock/tests/faults.rs",
        "with_the_quarantine_off_the_same_admits_a_second_holder",
    ),
    (
        "section 5",
        "Redlock: the same, in every order of messages",
        "backend-redlock/tests/model.rs",
        "without_the_quarantine_two_hold_after_one_crash",
    ),
    (
        "section 5",
        "Redlock: numbers that differ are not written back",
        "backend-redlock/tests/model.rs",
        "without_the_write_back_a_token_repeats",
    ),
    (
        "section 5",
        "Redlock: they are written back over another's lock",
        "backend-redlock/tests/model.rs",
        "written_back_over_another_owner_a_token_repeats",
    ),
    (
        "section 5",
        "Redlock: and to nodes that were not counted",
        "backend-redlock/tests/model.rs",
        "written_back_to_nodes_not_counted_nothing_breaks_while_they_check_whose_lock_it_is",
    ),
    (
        "section 5",
        "Redlock: a node takes what is proposed for its clock",
        "backend-redlock/tests/model.rs",
        "without_the_clock_floor_a_token_repeats_after_one_crash",
    ),
    (
        "section 5",
        "Redlock: a node whose clock is off votes",
        "backend-redlock/tests/model.rs",
        "without_clock_votes_two_hold_after_one_jump",
    ),
    (
        "section 5",
        "Redlock: the rest of a lost lock is given back at once",
        "backend-redlock/tests/model.rs",
        "given_back_as_soon_as_a_majority_has_lost_it_two_hold",
    ),
    (
        "section 5",
        "Redlock: validity is the largest expiry",
        "backend-redlock/tests/model.rs",
        "believed_until_the_largest_expiry_two_hold",
    ),
    (
        "section 5",
        "etcd: one lease for two owners",
        "backend-etcd/tests/shared_lease.rs",
        "etcds_own_lock_call_gives_a_lock_to_all_who_share_a_lease",
    ),
    (
        "section 6",
        "no token is written back",
        "lock-core/tests/migration_model.rs",
        "without_the_write_back_tokens_go_back",
    ),
    (
        "section 6",
        "no fixed order",
        "lock-core/tests/migration_model.rs",
        "without_the_fixed_order_there_is_a_deadlock",
    ),
    (
        "section 6",
        "no records",
        "lock-core/tests/migration_model.rs",
        "without_the_records_there_are_two_holders",
    ),
    (
        "section 6",
        "no floor",
        "lock-core/tests/migration_model.rs",
        "without_the_floor_tokens_go_back",
    ),
    (
        "section 6",
        "each rule of entering a phase",
        "lock-core/tests/migration_entry_model.rs",
        "without_any_of_them_both_ends_believe_at_once",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The guards of one store, out of the list by which they are tried.
fn guards(store: &str, file: &'static str) -> Vec<Row> {
    let text = read(file);
    let listed = text.split("        what: \"").skip(1).map(|entry| {
        let (what, rest) = entry.split_once('"').unwrap();
        let (_, case) = rest.split_once("        case: ").unwrap();
        let case = case.split_once("Box::pin(").map_or(case, |(_, case)| case).trim_start();
        let case = case.trim_start_matches('"');
        let end = case.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap();
        let (requirement, what) = what.split_once(": ").unwrap();
        Row {
            requirement: requirement.to_owned(),
            broken: format!("{store}, without: {what}"),
            file,
            caught_by: case[..end].to_owned(),
        }
    });
    listed.collect()
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (flaw, requirement, case) in mutants::ALL {
        rows.push(Row {
            requirement: (*requirement).to_owned(),
            broken: format!("`{flaw:?}`"),
            file: "conformance-tests/tests/mutants.rs",
            caught_by: (*case).to_owned(),
        });
    }
    for (mutant, requirement, finding) in sim::MUTANTS {
        rows.push(Row {
            requirement: (*requirement).to_owned(),
            broken: format!("`{mutant:?}`"),
            file: "conformance-tests/tests/simulation.rs",
            caught_by: format!("\"{finding}\""),
        });
    }
    for (crate_, list, file) in [
        ("", &core::core()[..], "conformance-tests/tests/core/list.rs"),
        ("etcd, client: ", &etcd::etcd(), "conformance-tests/tests/etcd/list.rs"),
        ("Redis, client: ", redis_client::REDIS, "conformance-tests/tests/redis_client/list.rs"),
        (
            "Redlock, client: ",
            &redlock_client::redlock(),
            "conformance-tests/tests/redlock_client/list.rs",
        ),
    ] {
        rows.extend(list.iter().map(|mutant| Row {
            requirement: mutant.requirement.to_owned(),
            broken: format!("{crate_}{}", mutant.name),
            file,
            caught_by: mutant.case.to_owned(),
        }));
    }
    for (store, file) in [
        ("SQLite", "conformance-tests/tests/guards/sqlite.rs"),
        ("PostgreSQL", "conformance-tests/tests/guards/postgres.rs"),
        ("MySQL", "conformance-tests/tests/guards/mysql.rs"),
        ("Redis", "conformance-tests/tests/guards/redis.rs"),
        ("Redis", "conformance-tests/tests/guards/redis_scripts.rs"),
        ("Redlock", "conformance-tests/tests/guards/redlock.rs"),
        ("Redlock", "conformance-tests/tests/guards/redlock/ends.rs"),
        ("Redlock", "conformance-tests/tests/guards/redlock/quorum.rs"),
        ("etcd", "conformance-tests/tests/guards/etcd.rs"),
    ] {
        let found = guards(store, file);
        assert!(!found.is_empty(), "{file} has no list");
        rows.extend(found);
    }
    for (requirement, broken, file, case) in ALONE {
        assert!(read(file).contains(&format!("fn {case}(")), "there is no {case} in {file}");
        rows.push(Row {
            requirement: (*requirement).to_owned(),
            broken: (*broken).to_owned(),
            file,
            caught_by: (*case).to_owned(),
        });
    }
    rows
}

fn page(rows: &[Row]) -> String {
    let mut text = String::new();
    for (requirement, about) in REQUIREMENTS {
        let _ = writeln!(text, "\n### {requirement}: {about}\n");
        text.push_str("| what is broken | caught by | listed in |\n|---|---|---|\n");
        for row in rows.iter().filter(|row| row.requirement == *requirement) {
            let (folder, name) = row.file.rsplit_once('/').unwrap();
            let short = folder.rsplit_once('/').map_or(folder, |(_, last)| last);
            let _ = writeln!(
                text,
                "| {} | {} | [{short}/{name}](../{}) |",
                row.broken, row.caught_by, row.file
            );
        }
    }
    text
}

#[test]
fn the_page_is_made_of_the_lists_by_which_mutants_are_tried() {
    let rows = rows();
    let made = page(&rows);
    let path = root().join("docs/mutants.md");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("<!-- mutants -->\n").unwrap();
    let (block, tail) = rest.split_once("<!-- /mutants -->").unwrap();
    if std::env::var_os("LEASEHOLD_WRITE_PAGE").is_some() {
        let page = format!("{head}<!-- mutants -->\n{made}\n<!-- /mutants -->{tail}");
        fs::write(&path, page).unwrap();
        return;
    }
    let how = "LEASEHOLD_WRITE_PAGE=1 cargo test -p conformance-tests --test mutants_page";
    assert!(block.trim() == made.trim(), "docs/mutants.md is out of date; made by: {how}");
}

#[test]
fn every_requirement_has_a_mutant_and_every_mutant_its_requirement() {
    let rows = rows();
    let broken: BTreeSet<_> = rows.iter().map(|row| row.requirement.as_str()).collect();
    let known: BTreeSet<_> = REQUIREMENTS.iter().map(|(requirement, _)| *requirement).collect();
    assert_eq!(broken, known);
}
