//! Each feature alone brings its own client of a store and no other's, and needs the Rust that the
//! docs say.
//!
//! Asks cargo itself, so that a dependency that switches another's feature on is noticed too.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// The features, and what only they may bring. A new feature fails the tests until it has a row.
const CLIENTS: &[(&str, &[&str])] = &[
    ("etcd", &["etcd-client", "tonic"]),
    ("foreign", &[]),
    ("memory", &[]),
    ("migrate", &[]),
    ("mysql", &["sqlx", "sqlx-core", "sqlx-mysql"]),
    ("object-store", &["object_store", "reqwest"]),
    ("postgres", &["sqlx", "sqlx-core", "sqlx-postgres"]),
    ("redis", &["redis"]),
    ("redlock", &["redis"]),
    ("sqlite", &["sqlx", "sqlx-core", "sqlx-sqlite", "libsqlite3-sys"]),
    ("zookeeper", &["zookeeper-client"]),
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

/// The packages that a user builds who chooses these features of this package, each as `NAME
/// vVERSION`.
fn tree(package: &str, features: &str) -> BTreeSet<String> {
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
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    tree.lines().map(words).collect()
}

/// Their names.
fn packages(package: &str, features: &str) -> BTreeSet<String> {
    let tree = tree(package, features);
    tree.iter().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn metadata(args: &[&str]) -> Vec<serde_json::Value> {
    let text = cargo(&[&["metadata", "--format-version", "1"], args].concat());
    let mut metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

fn features(package: &str) -> BTreeSet<String> {
    let packages = metadata(&["--no-deps"]);
    let found = packages.iter().find(|each| each["name"] == package).unwrap();
    let features = found["features"].as_object().unwrap();
    features.keys().filter(|name| *name != "default").cloned().collect()
}

/// The minor version of a Rust 1.x.
fn minor(version: &str) -> u32 {
    version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap()
}

/// The lowest Rust of this project's own lines, which chain conditions.
const LANGUAGE: u32 = 88;

/// The Rust that each package asks for, by `NAME vVERSION`.
fn rust_versions() -> BTreeMap<String, u32> {
    let packages = metadata(&[]).into_iter().filter_map(|package| {
        let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap());
        let rust = minor(package["rust_version"].as_str()?);
        Some((format!("{name} v{version}"), rust))
    });
    packages.collect()
}

/// The Rust that a package's dependencies need with these features.
fn needs(package: &str, features: &str, rust: &BTreeMap<String, u32>) -> u32 {
    let itself = format!("{package} v");
    let tree = tree(package, features).into_iter().filter(|each| !each.starts_with(&itself));
    let asked = tree.filter_map(|each| rust.get(&each).copied());
    asked.max().unwrap_or_default().max(LANGUAGE)
}

/// The rows of the table in the front page of the crate's docs: feature, whether it is a default,
/// and its Rust.
fn front_page() -> Vec<(&'static str, bool, u32)> {
    let lines = include_str!("../../src/lib.rs").lines();
    let rows = lines.filter_map(|line| line.strip_prefix("//! | `"));
    rows.map(|row| {
        let (feature, rest) = row.split_once('`').unwrap();
        let rust = rest.trim_end_matches(" |").rsplit(' ').next().unwrap();
        (feature, rest.starts_with(" (default)"), minor(rust))
    })
    .collect()
}

#[test]
fn each_feature_alone_brings_no_other_client() {
    let clients = || CLIENTS.iter().flat_map(|(_, own)| *own).copied();
    for package in ["leasehold", "leasehold-cli"] {
        for (feature, own) in CLIENTS {
            let packages = packages(package, feature);
            assert!(packages.contains("leasehold-core"), "{packages:?}");
            for client in own.iter() {
                assert!(packages.contains(*client), "{package}/{feature} is to bring {client}");
            }
            for client in clients().filter(|client| !own.contains(client)) {
                assert!(!packages.contains(client), "{package}/{feature} brings {client}");
            }
        }
        let none = packages(package, "");
        assert!(!none.contains("metrics"), "{package} without features brings metrics");
        for client in clients() {
            assert!(!none.contains(client), "{package} without features brings {client}");
        }
    }
}

/// The locks of another library come with the stores that are chosen beside them, and with no
/// other.
#[test]
fn shared_locks_bring_no_other_client() {
    for package in ["leasehold", "leasehold-cli"] {
        for (feature, own) in CLIENTS.iter().filter(|(_, own)| !own.is_empty()) {
            let packages = packages(package, &format!("foreign,{feature}"));
            assert!(packages.contains("leasehold-foreign"), "{packages:?}");
            let all = CLIENTS.iter().flat_map(|(_, own)| *own);
            for client in all.filter(|client| !own.contains(client)) {
                assert!(!packages.contains(*client), "{package}/foreign,{feature} brings {client}");
            }
        }
    }
}

#[test]
fn every_feature_has_a_row_and_the_command_has_the_same() {
    // Which provider of cryptography, metrics, and tests of programs: of no store.
    let stores = CLIENTS.iter().map(|(feature, _)| *feature);
    let rows: BTreeSet<_> = stores.chain(["tls-ring", "tls-aws-lc"]).map(str::to_owned).collect();
    let mut of_the_facade = features("leasehold");
    for of_programs in ["blocking", "metrics", "testing"] {
        assert!(of_the_facade.remove(of_programs));
    }
    assert_eq!(of_the_facade, rows);
    assert_eq!(features("leasehold-cli"), rows);
}

#[test]
fn the_front_page_has_a_row_for_every_feature_and_its_rust() {
    let (rows, rust) = (front_page(), rust_versions());
    let shown: BTreeSet<_> = rows.iter().map(|(feature, ..)| (*feature).to_owned()).collect();
    assert_eq!(shown, features("leasehold"));
    let packages = metadata(&["--no-deps"]);
    let this = packages.iter().find(|each| each["name"] == "leasehold").unwrap();
    let defaults = this["features"]["default"].as_array().unwrap();
    for (feature, default, shown) in rows {
        assert_eq!(defaults.iter().any(|each| *each == feature), default, "{feature}");
        assert_eq!(shown, needs("leasehold", feature, &rust), "Rust 1.x of {feature}");
    }
    assert_eq!(defaults.len(), 1, "a default brings a client that not all users want");
}

#[test]
fn metrics_bring_no_exporter() {
    let packages = packages("leasehold", "metrics");
    assert!(packages.contains("metrics"));
    let exporters =
        packages.iter().filter(|it| it.contains("prometheus") || it.contains("telemetry"));
    assert_eq!(exporters.count(), 0);
}

/// A newer Rust than needed would shut users out; an older one would fail in the middle of their
/// build.
#[test]
fn each_crate_asks_for_the_rust_that_it_needs_without_optional_features() {
    let rust = rust_versions();
    for package in metadata(&["--no-deps"]) {
        let [name, version] = ["name", "version"].map(|key| package[key].as_str().unwrap());
        let asked = rust[&format!("{name} v{version}")];
        assert_eq!(asked, needs(name, "", &rust), "rust-version 1.x of {name}");
    }
}

/// In the commands that take too long for a test, too.
#[test]
fn the_docs_name_packages_and_targets_that_there_are() {
    let (packages, mut seen) = (metadata(&["--no-deps"]), 0);
    for page in crate::docs::pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in text.lines().filter(|line| line.contains("cargo ")) {
            let words: Vec<_> = line.split([' ', '`']).collect();
            let after = |option| words.windows(2).find(|pair| pair[0] == option).map(|it| it[1]);
            let Some(name) = after("-p").filter(|name| *name != "CRATE") else { continue };
            // Of a dependency.
            if after("--precise").is_some() {
                continue;
            }
            let package = packages.iter().find(|each| each["name"] == name);
            let package = package.unwrap_or_else(|| panic!("{}: {line}", page.display()));
            for (option, kind) in [("--test", "test"), ("--bench", "bench")] {
                let targets = package["targets"].as_array().unwrap();
                if let Some(name) = after(option) {
                    let mut of_this = targets.iter().filter(|each| each["kind"][0] == kind);
                    assert!(of_this.any(|each| each["name"] == name), "{line}");
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Somebody else's backend is tried without this project's stores and servers.
#[test]
fn the_suite_alone_brings_no_store_and_no_server() {
    let packages = packages("leasehold-conformance-tests", "");
    let stores = CLIENTS.iter().flat_map(|(_, own)| *own).copied();
    for package in stores.chain(["servers", "leasehold", "rcgen"]) {
        assert!(!packages.contains(package), "conformance-tests brings {package}");
    }
}

#[test]
fn the_readme_has_a_row_for_every_store() {
    let readme = include_str!("../../../README.md");
    for (feature, _) in CLIENTS {
        assert!(readme.contains(&format!("\n| [`{feature}`]")), "no row for {feature}");
    }
}
