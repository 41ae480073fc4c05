//! What the docs name is there: files, folders, and items of this crate.

#![allow(clippy::unwrap_used)]

use std::path::Path;

const DOCS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/choosing-a-backend.md",
    "docs/migration.md",
    "docs/security.md",
    "SECURITY.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What stands between two marks, which are on one line.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let parts = text.lines().flat_map(move |line| line.split(open).skip(1));
    parts.filter_map(move |part| part.split(close).next())
}

#[test]
fn what_the_docs_link_to_is_there() {
    let mut links = 0;
    for doc in DOCS {
        let text = std::fs::read_to_string(root().join(doc)).unwrap();
        let folder = root().join(doc).parent().unwrap().to_owned();
        for link in between(&text, "](", ')').filter(|link| !link.starts_with("http")) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = folder.join(file);
            assert!(file.is_empty() || target.exists(), "{doc}: {link}");
            if !place.is_empty() {
                let heads =
                    std::fs::read_to_string(target).unwrap().to_lowercase().replace(' ', "-");
                assert!(heads.contains(&format!("#-{place}\n")), "{doc}: {link}");
            }
            links += 1;
        }
        // Those that begin with a folder of this project, in backquotes.
        let quoted = text.split('`').skip(1).step_by(2);
        for path in quoted.filter(|path| path.contains('/') && !path.contains([' ', '*', '$', '<']))
        {
            let first = path.split('/').next().unwrap_or_default();
            if !first.is_empty() && root().join(first).is_dir() && !path.contains("NAME") {
                assert!(root().join(path).exists(), "{doc}: {path}");
                links += 1;
            }
        }
    }
    assert!(links > 20, "{links}");
}
