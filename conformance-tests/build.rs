//! The sources of `lock-core` once more, with switches in the guards that `tests/core` leaves out one by
//! one. The copy stands in the build folder: nothing of it is in the product.

#![allow(clippy::unwrap_used)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

#[path = "tests/core/list.rs"]
mod list;

fn main() {
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../lock-core/src");
    let target = PathBuf::from(env::var("OUT_DIR").unwrap()).join("core");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=tests/core/list.rs");
    let mut missing = Vec::new();
    for file in files(&source) {
        let name = file.strip_prefix(&source).unwrap().to_owned();
        let mut text = fs::read_to_string(&file).unwrap();
        for mutant in list::CORE.iter().filter(|mutant| Path::new(mutant.file) == name) {
            // Told by the test, so that a change of the core does not break the build of the suite.
            if text.matches(mutant.guard).count() != 1 {
                missing.push(mutant.name);
                continue;
            }
            let switch = format!("crate::left_out({:?})", mutant.name);
            text = text.replace(mutant.guard, &mutant.without.replace("LEFT_OUT", &switch));
        }
        if name == Path::new("lib.rs") {
            // Included in another file: docs of the crate cannot stand there.
            let lines = text.lines().filter(|line| !line.starts_with("//!"));
            text = lines.collect::<Vec<_>>().join("\n");
        }
        let copy = target.join(name);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, text).unwrap();
    }
    let known = |file: &str| source.join(file).exists();
    missing.extend(list::CORE.iter().filter(|it| !known(it.file)).map(|it| it.name));
    let texts = format!(
        "/// Whose text is not in the core, or more than once.\nconst MISSING: &[&str] = &{missing:?};\n"
    );
    fs::write(target.join("missing.rs"), texts).unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all
}
