//! Makes the copy of a crate's sources with a switch in each guard of a list; a part of `build.rs`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::mutant::Mutant;

/// Copies the sources of the crate in the folder `name` into the build folder, under the same name.
/// A test target includes `lib.rs` of it, and `missing.rs`, and has `mod left_out`.
pub(crate) fn copy(name: &str, mutants: &[Mutant]) {
    let source =
        Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("..").join(name).join("src");
    let target = PathBuf::from(env::var("OUT_DIR").unwrap()).join(name);
    println!("cargo::rerun-if-changed={}", source.display());
    let mut missing = Vec::new();
    for file in files(&source).into_iter().filter(|file| !file.ends_with("fuzz.rs")) {
        let name = file.strip_prefix(&source).unwrap().to_owned();
        let mut text = fs::read_to_string(&file).unwrap();
        for mutant in mutants.iter().filter(|mutant| Path::new(mutant.file) == name) {
            // Told by the test, so that a change of the crate does not break the build of the suite.
            if text.matches(mutant.guard).count() != 1 {
                missing.push(mutant.name);
                continue;
            }
            let switch = format!("crate::left_out::is({:?})", mutant.name);
            text = text.replace(mutant.guard, &mutant.without.replace("LEFT_OUT", &switch));
        }
        // Fuzz runs share a file that is not copied.
        text = text.replace("#[cfg(test)]\nmod fuzz;\n", "");
        if name == Path::new("lib.rs") {
            // Included in another file: docs of the crate cannot stand there.
            let lines = text.lines().filter(|line| !line.starts_with("//!"));
            text = lines.collect::<Vec<_>>().join("\n");
        }
        let copy = target.join(name);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, text).unwrap();
    }
    missing.extend(mutants.iter().filter(|it| !source.join(it.file).exists()).map(|it| it.name));
    let texts = format!(
        "/// Whose text is not in the crate, or more than once.\nconst MISSING: &[&str] = &{missing:?};\n"
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
