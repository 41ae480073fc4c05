//! Copies the sources of `backend-zookeeper` so that one of its guards can be left out when a
//! process begins. Before the line of a guard stands, for each way to break it:
//!
//! ```text
//! // guard: floor | S2 | suite::a_token_is_above_the_floor |
//! //   *token > request.floor && is_recent(token) => true
//! if let Some(token) = known.filter(|token| *token > request.floor && is_recent(token)) {
//! ```
//!
//! the name of the variant, the requirement that it breaks, the test that must then fail, and what
//! of the line is replaced, and by what. Comment lines that begin with three spaces continue it.
//! The markers `NAME/…` are one variant, which breaks several guards.

use std::{env, error::Error, fs, path::Path};

const MARKER: &str = "// guard: ";
const GOES_ON: &str = "//   ";

fn main() -> Result<(), Box<dyn Error>> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../backend-zookeeper/src");
    println!("cargo::rerun-if-changed={}", from.display());
    let out = env::var("OUT_DIR")?;
    let (out, mut variants) = (Path::new(&out), Vec::new());
    if out.join("src").exists() {
        fs::remove_dir_all(out.join("src"))?;
    }
    copy(&from, &out.join("src"), &mut variants)?;
    variants.sort();
    fs::write(out.join("variants.rs"), format!("&{variants:?}"))?;
    Ok(())
}

/// Copies a folder, and adds its variants: their names, requirements and tests.
fn copy(from: &Path, to: &Path, variants: &mut Vec<[String; 3]>) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target, variants)?;
        } else {
            let changed = changed(&fs::read_to_string(&path)?, variants);
            fs::write(target, changed.map_err(|why| format!("{}: {why}", path.display()))?)?;
        }
    }
    Ok(())
}

fn changed(text: &str, variants: &mut Vec<[String; 3]>) -> Result<String, String> {
    let (mut copy, mut guards) = (String::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(marker) = line.trim_start().strip_prefix(MARKER) {
            let mut marker = marker.to_owned();
            let goes_on = |line: &&str| line.trim_start().starts_with(GOES_ON);
            while let Some(more) = lines.next_if(goes_on) {
                marker.extend([" ", more.trim_start().trim_start_matches(GOES_ON).trim_start()]);
            }
            let why = format!("{marker:?} is not `NAME | S1 | TEST | A => B` with a new name");
            guards.push(parse(&marker, variants).ok_or(why)?);
            continue;
        }
        let mut line = line.to_owned();
        if !line.trim_start().starts_with("//") {
            for [name, guard, instead] in guards.drain(..) {
                if line.matches(&guard).count() != 1 {
                    return Err(format!("{name}: the next line does not have {guard:?} once"));
                }
                let either =
                    format!("(if crate::is_missing({name:?}) {{ {instead} }} else {{ {guard} }})");
                line = line.replacen(&guard, &either, 1);
            }
        }
        // The crate has these itself.
        if !line.starts_with("//!") && !line.starts_with("#![") {
            copy.extend([line.as_str(), "\n"]);
        }
    }
    match guards.first() {
        None => Ok(copy),
        Some([name, ..]) => Err(format!("{name}: no line follows")),
    }
}

/// The name of the variant, the guard, and what stands in its place.
fn parse(marker: &str, variants: &mut Vec<[String; 3]>) -> Option<[String; 3]> {
    let parts: Vec<_> = marker.splitn(4, " | ").collect();
    let [guard, requirement, test, change] = parts[..] else { return None };
    let name = guard.split('/').next()?;
    let variant = [name, requirement, test].map(str::to_owned);
    match variants.iter().find(|[other, ..]| other == name) {
        Some(same) if name == guard || *same != variant => return None,
        Some(_) => {}
        None => variants.push(variant),
    }
    let (guard, instead) = change.split_once(" => ")?;
    Some([name, guard.trim(), instead.trim()].map(str::to_owned))
}
