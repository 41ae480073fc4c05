//! The pages of the docs, and a shell in which what they print is tried to the letter.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::Running;
use super::locks::Store;

/// The root folder of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The texts of README.md and of the pages in `docs` and its folders, by their names.
pub fn pages() -> BTreeMap<String, String> {
    let (mut paths, mut folders) = (vec![root().join("README.md")], vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(kind) if kind == "md" => paths.push(path),
                _ => {}
            }
        }
    }
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// A block between lines of backquotes.
pub struct Block {
    pub language: String,
    pub text: String,
}

impl Block {
    /// Whether a reader would copy it to a shell, a crontab, systemd or Kubernetes.
    pub fn is_of_commands(&self) -> bool {
        const PROGRAMS: [&str; 7] =
            ["leasehold ", "cargo ", "scripts/", "redis-cli ", "psql ", "docker ", "kubectl "];
        match self.language.as_str() {
            "sh" | "bash" | "console" | "crontab" => return true,
            "ini" => return self.text.contains("[Service]"),
            "yaml" => return self.text.contains("kind: "),
            // For Windows: scripts/check-ports runs it.
            "bat" => return false,
            "" | "text" | "lua" | "sql" | "toml" => {}
            language => assert!(language.starts_with("rust"), "a block in {language}"),
        }
        // A line with a bracket or a character that nobody types is not for copying.
        let typed = |line: &&str| line.is_ascii() && !line.contains('[');
        for line in self.text.lines().filter(typed) {
            let is_command = PROGRAMS.iter().any(|program| line.starts_with(program));
            assert!(!is_command, "a command in a block that is not sh: {line}");
        }
        false
    }
}

/// The blocks of a page.
pub fn blocks(text: &str) -> Vec<Block> {
    let text = format!("\n{text}");
    assert!(!text.contains(" ```"), "an indented block");
    let parts: Vec<_> = text.split("\n```").collect();
    assert_eq!(parts.len() % 2, 1, "a block has no end");
    let parted = parts.iter().skip(1).step_by(2).map(|block| block.split_once('\n').unwrap());
    parted.map(|(language, text)| Block { language: language.into(), text: text.into() }).collect()
}

/// The only block of a page that begins so.
///
/// `every_block_of_commands_is_run_or_listed` looks for calls of this function in the sources of
/// the tests, so both arguments are literals.
pub fn block(page: &str, beginning: &str) -> String {
    let mut found = blocks(&pages()[page]);
    found.retain(|block| block.text.starts_with(beginning));
    assert_eq!(found.len(), 1, "blocks of {page} that begin with {beginning:?}");
    found.remove(0).text
}

/// The first text between backquotes on docs/cli.md that begins so.
pub fn quoted(beginning: &str) -> &'static str {
    let page = include_str!("../../../../docs/cli.md");
    let (_, from) = page.split_once(&format!("`{beginning}")).unwrap();
    let start = page.len() - from.len() - beginning.len();
    page[start..].split('`').next().unwrap()
}

/// A shell script that can be run.
pub fn program(path: &Path, script: &str) {
    // By a process of its own: what another test forks meanwhile would keep a file that is written
    // here open, and nobody can run such a one.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written = Command::new("sh").args(["-c", write]).arg(path).arg(script).status().unwrap();
    assert!(written.success());
}

/// A shell in a folder of its own, which is also its home. It finds `leasehold` there, as
/// `cargo install` puts it, and its environment is that of a job of cron.
pub struct Shell {
    pub store: Store,
    words: Vec<(String, String)>,
}

impl Shell {
    pub fn new() -> Self {
        let store = Store::new();
        fs::create_dir_all(store.beside(".cargo/bin")).unwrap();
        symlink(super::command(), store.beside(".cargo/bin/leasehold")).unwrap();
        Self { store, words: Vec::new() }
    }

    /// Here a word of the docs, such as `redis://host`, means this.
    #[must_use]
    pub fn with(mut self, word: &str, here: &str) -> Self {
        self.words.push((word.to_owned(), here.to_owned()));
        self
    }

    /// A program of the user, in the home and on the PATH.
    pub fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.store.beside(name);
        program(&path, script);
        path
    }

    /// A text of the docs, with the words of this place.
    pub fn here(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, here)| text.replace(word, here))
    }

    /// A program in this place, with a store of its own.
    pub fn command(&self, program: &str) -> Command {
        let home = self.store.directory();
        let path = format!("{0}/.cargo/bin:{0}:/usr/bin:/bin", home.display());
        let mut command = super::new_session();
        command.arg(program).env_clear().env("PATH", path).env("HOME", home);
        command.env("LEASEHOLD_STORE", self.store.url()).current_dir(home).stdin(Stdio::null());
        command
    }

    /// Starts commands of the docs.
    pub fn start(&self, script: &str) -> Running {
        Running::start(self.command("sh").args(["-euc", &self.here(script)]))
    }

    /// Runs commands of the docs.
    pub fn run(&self, script: &str) -> Output {
        self.command("sh").args(["-euc", &self.here(script)]).output().unwrap()
    }

    /// Runs commands of the docs, which must succeed; their stdout.
    pub fn ok(&self, script: &str) -> String {
        let output = self.run(script);
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}
