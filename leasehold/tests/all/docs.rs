//! Links in the docs lead somewhere, and the files and folders that the docs name exist.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All pages: those in the root folder, and those in `docs` and its folders.
pub(crate) fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![root().join("docs")]);
    let mut entries: Vec<_> = std::fs::read_dir(root()).unwrap().collect();
    while let Some(folder) = folders.pop() {
        entries.extend(std::fs::read_dir(folder).unwrap());
        for path in entries.drain(..).map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|kind| kind == "md") {
                pages.push(path);
            } else if path.is_dir() && path.parent() != Some(root()) {
                folders.push(path);
            }
        }
    }
    pages
}

/// The texts between `open` and `close` on one line.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let parts = text.lines().flat_map(move |line| line.split(open).skip(1));
    parts.filter_map(move |part| part.split(close).next())
}

#[test]
fn links_and_paths_in_the_docs_exist() {
    let mut links = 0;
    for page in pages() {
        let doc = page.display();
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();
        for link in between(&text, "](", ')').filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            assert!(target.exists(), "{doc}: {link}");
            if !anchor.is_empty() {
                let headings =
                    std::fs::read_to_string(target).unwrap().to_lowercase().replace(' ', "-");
                assert!(headings.contains(&format!("#-{anchor}\n")), "{doc}: {link}");
            }
            links += 1;
        }
        // Paths in backquotes that begin with a folder of this project.
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
    assert!(links > 60, "{links}");
}
