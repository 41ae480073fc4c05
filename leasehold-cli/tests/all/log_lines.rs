//! The lines of the log have the target `leasehold`, by which it is filtered.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn each_line_of_the_log_has_our_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut lines = 0;
    for package in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        let name = package.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("backend-")
            && !["lock-core", "leasehold", "leasehold-cli"].contains(&name)
        {
            continue;
        }
        for file in sources(&package.join("src")) {
            let source = fs::read_to_string(&file).unwrap();
            for level in ["error", "warn", "info", "debug", "trace", "debug_span", "$level"] {
                for (at, call) in source.match_indices(&format!("tracing::{level}!(")) {
                    let fields = source[at + call.len()..].trim_start();
                    let ours = ["target: TARGET", "target: \"leasehold\""];
                    assert!(
                        ours.iter().any(|target| fields.starts_with(target)),
                        "{file:?}: {}",
                        &fields[..40]
                    );
                    lines += 1;
                }
            }
        }
    }
    assert!(lines > 30, "{lines}");
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}
