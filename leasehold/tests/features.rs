//! Each feature alone brings its own client of a store and no other's.
//!
//! Asks cargo itself, so that a dependency that switches another's feature on is noticed too.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeSet, process::Command};

/// The features, and what only they may bring. A new feature fails the tests until it has a row.
const CLIENTS: &[(&str, &[&str])] = &[
    ("etcd", &["etcd-client", "tonic"]),
    ("memory", &[]),
    ("migrate", &[]),
    ("mysql", &["sqlx", "sqlx-core", "sqlx-mysql"]),
    ("postgres", &["sqlx", "sqlx-core", "sqlx-postgres"]),
    ("redis", &["redis"]),
    ("redlock", &["redis"]),
    ("sqlite", &["sqlx", "sqlx-core", "sqlx-sqlite", "libsqlite3-sys"]),
];

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(args)
        .arg("--locked")
        .output()
        .expect("cargo starts");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

/// The packages that a user builds who chooses these features of this package.
fn packages(package: &str, features: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "--package",
        package,
        "--edges",
        "normal",
        "--no-default-features",
        "--features",
        features,
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn features(package: &str) -> BTreeSet<String> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|each| each["name"] == package).unwrap();
    let features = found["features"].as_object().unwrap();
    features.keys().filter(|name| *name != "default").cloned().collect()
}

#[test]
fn each_feature_alone_brings_no_other_client() {
    let clients = || CLIENTS.iter().flat_map(|(_, own)| *own).copied();
    for package in ["leasehold", "leasehold-cli"] {
        for (feature, own) in CLIENTS {
            let packages = packages(package, feature);
            assert!(packages.contains("lock-core"), "{packages:?}");
            for client in own.iter() {
                assert!(packages.contains(*client), "{package}/{feature} is to bring {client}");
            }
            for client in clients().filter(|client| !own.contains(client)) {
                assert!(!packages.contains(client), "{package}/{feature} brings {client}");
            }
        }
        let none = packages(package, "");
        for client in clients() {
            assert!(!none.contains(client), "{package} without features brings {client}");
        }
    }
}

#[test]
fn every_feature_has_a_row_and_the_command_has_the_same() {
    // Which provider of cryptography: of no store.
    let stores = CLIENTS.iter().map(|(feature, _)| *feature);
    let rows: BTreeSet<_> = stores.chain(["tls-ring", "tls-aws-lc"]).map(str::to_owned).collect();
    assert_eq!(features("leasehold"), rows);
    // Of its own: it brings a plotting library.
    let mut of_the_command = features("leasehold-cli");
    assert!(of_the_command.remove("compare"));
    assert_eq!(of_the_command, rows);
}

#[test]
fn the_readme_has_a_row_for_every_store() {
    let readme = include_str!("../../README.md");
    for (feature, _) in CLIENTS {
        assert!(readme.contains(&format!("\n| `{feature}`")), "no row for {feature}");
    }
}
