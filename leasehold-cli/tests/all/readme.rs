//! The README's lines from an empty project to the first program, in their order.
//!
//! `cargo add` does what it says. The test does not build twice what is built already: here
//! `cargo install` installs the command of the tests, and `cargo run` runs the program as a part of
//! this test. With LEASEHOLD_SOAK=1 cargo does both.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use servers::{Postgres, PostgresOptions, Redis, RedisOptions, Server as _};

use crate::support::command;
use crate::support::docs::{self, Shell};

/// The README's program, to the letter.
mod first_program {
    include!("first_program.rs");

    std::thread_local! {
        static URL: std::cell::OnceCell<String> = const { std::cell::OnceCell::new() };
    }

    /// Stands for the crate, and connects to another URL than that of the README.
    mod leasehold {
        pub(super) use ::leasehold::Error;

        pub(super) async fn connect(url: &str) -> Result<::leasehold::LockClient, Error> {
            assert_eq!(url, "redis://localhost");
            let here = super::URL.with(|here| here.get().unwrap().clone());
            ::leasehold::connect(here).await
        }
    }

    /// Runs it with this URL, in a thread of its own.
    pub(super) fn run(url: &str) {
        let url = url.to_owned();
        let program = std::thread::spawn(|| {
            URL.with(|here| here.set(url).unwrap());
            main()
        });
        program.join().unwrap().unwrap();
    }
}

/// A shell with a clone of this repository beside the user's projects, without the command.
fn newcomer() -> Shell {
    let shell = Shell::new();
    symlink(docs::root(), shell.store.beside("CLONE")).unwrap();
    let home = shell.store.directory().to_str().unwrap();
    let installed = format!("{home}/.cargo/bin/leasehold");
    fs::remove_file(&installed).unwrap();
    // The compiler beside this cargo, so that no rustup is asked for one, which might install it.
    let cargo = Path::new(env!("CARGO"));
    let variable = |name| std::env::var(name).unwrap();
    let mut script = format!(
        "export PATH='{}:{}' HOME='{}' RUSTUP_AUTO_INSTALL=0 CARGO_NET_OFFLINE=true\n",
        cargo.parent().unwrap().display(),
        variable("PATH"),
        variable("HOME"),
    );
    if let Ok(folder) = std::env::var("CARGO_HOME") {
        script += &format!("export CARGO_HOME='{folder}'\n");
    }
    let cargo = cargo.display();
    if in_the_soak() {
        let target = env!("CARGO_TARGET_TMPDIR");
        script +=
            &format!("export CARGO_INSTALL_ROOT='{home}/.cargo' CARGO_TARGET_DIR='{target}'\n");
    } else {
        // The package and its features exist.
        script += &format!(
            "case $1,$2 in install,--path)\n\
             '{cargo}' tree --locked --depth 0 --manifest-path \"$3/Cargo.toml\" $4 $5 || exit\n\
             exec ln -sf '{}' '{installed}'\n\
             esac\n",
            command(),
        );
    }
    shell.program("cargo", &format!("{script}exec '{cargo}' \"$@\""));
    shell
}

fn in_the_soak() -> bool {
    std::env::var_os("LEASEHOLD_SOAK").is_some()
}

/// Runs a line in the project, with the README's program in it.
fn in_the_project(shell: &Shell, url: &str, line: &str) {
    if line == "cargo run" && !in_the_soak() {
        return first_program::run(url);
    }
    let program = include_str!("first_program.rs").replace("redis://localhost", url);
    fs::write(shell.store.beside("first/src/main.rs"), program).unwrap();
    let told = shell.ok(&format!("cd first; {line}"));
    assert!(line != "cargo run" || told.starts_with("locked, with fencing token "), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_the_readme_lead_to_the_first_program() {
    let program = docs::block("README.md", "#[tokio::main]");
    assert_eq!(program, include_str!("first_program.rs").trim_end());
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let on_redis = format!("redis://{}", redis.address());
    // A Redis that has been up for 30 s needs no such call.
    Shell::new().ok(&format!("leasehold --store {on_redis} init --first-use"));
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    postgres.sql("CREATE ROLE me LOGIN").await.unwrap();
    postgres.sql("CREATE DATABASE app OWNER me").await.unwrap();
    let shell = newcomer();
    shell.ok(&docs::block("README.md", "cargo new first"));
    in_the_project(&shell, &on_redis, "cargo run");
    let shell = shell.with("localhost", &postgres.address().to_string());
    for line in docs::block("README.md", "cargo install --path").lines() {
        in_the_project(&shell, &shell.here("postgres://me@localhost/app"), line);
    }
}

#[test]
fn the_command_is_built_as_its_page_says() {
    let shell = newcomer();
    let lines = docs::block("docs/cli.md", "# The stores that you use");
    shell.ok(&format!("cd CLONE\n{lines}\nleasehold --version"));
}
