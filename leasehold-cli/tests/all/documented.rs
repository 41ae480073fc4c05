//! Every command that README.md and the docs print is run to the letter by a test, with only the
//! hosts and the user's own programs replaced. These are the commands that no other file tries.

use rustix::process::Signal;
use servers::{
    Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Redis, RedisOptions,
    Server as _, ZooKeeper, ZooKeeperOptions,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};

use crate::support::docs::{self, Shell};

/// The blocks of commands that no test of this program runs, and why.
const NOT_RUN: [(&str, &str, &str); 8] = [
    ("README.md", "cargo run -- run", "scripts/check-first-command runs it"),
    ("README.md", "scripts/test", "it runs this test"),
    ("docs/choosing-a-backend.md", "cargo run --release", "measures for minutes"),
    ("docs/fault-matrix.md", "cargo run -p verification", "the proof's tests run a sample of it"),
    ("docs/measurements.md", "# leasehold beside", "measures for hours"),
    ("docs/migration-soak.md", "LEASEHOLD_SOAK=1 cargo test", "runs for hours"),
    (
        "docs/systems.md",
        "cargo run -- run",
        "scripts/check-ports-command runs it, in a build for Windows",
    ),
    ("docs/soak.md", "scripts/soak", "runs for hours"),
];

/// The arguments of the calls of `docs::block` in a source.
fn claims(source: &str) -> Vec<(String, String)> {
    let calls = source.split("docs::block(").skip(1).map(|call| call.splitn(5, '"').collect());
    let literals = calls.filter_map(|parts: Vec<_>| match parts[..] {
        ["", page, ", ", beginning, _] => Some((page, beginning)),
        _ => None,
    });
    literals.map(|(page, beginning)| (page.to_owned(), beginning.to_owned())).collect()
}

#[test]
fn every_block_of_commands_is_run_or_listed() {
    let tests = docs::root().join("leasehold-cli/tests/all");
    let files = std::fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let sources = files.map(|path| std::fs::read_to_string(path).unwrap());
    let mut known: Vec<_> = sources.flat_map(|source| claims(&source)).collect();
    known.extend(NOT_RUN.map(|(page, beginning, _)| (page.to_owned(), beginning.to_owned())));
    for (page, text) in docs::pages() {
        for block in docs::blocks(&text).iter().filter(|block| block.is_of_commands()) {
            let is_it =
                |(of, begins): &(String, String)| *of == page && block.text.starts_with(begins);
            assert!(known.iter().any(is_it), "{page}: no test runs this block: {}", block.text);
        }
    }
    for (page, beginning, _) in NOT_RUN {
        let blocks = docs::blocks(&docs::pages()[page]);
        let found = blocks.iter().filter(|block| block.text.starts_with(beginning)).count();
        assert_eq!(found, 1, "blocks of {page} that begin with {beginning:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_with_several_locks_and_permits_run() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}", redis.address());
    let shell = Shell::new();
    shell.program("export", "echo \"$LEASEHOLD_PERMIT\"");
    let first = format!("leasehold --store {url} inspect --json account/17 | tr -d '\\n'; echo");
    shell.program("transfer", &format!("echo \"$LEASEHOLD_TOKENS\"; {first}"));
    shell.program("report", "echo \"$LEASEHOLD_NAME\"");
    let on_redis = format!("export LEASEHOLD_STORE={url}\n");
    shell.ok(&format!("{on_redis}leasehold init --first-use"));
    for block in [
        docs::block("docs/cli.md", "leasehold run --permits 3"),
        docs::block("docs/several-locks.md", "# LEASEHOLD_PERMIT is"),
    ] {
        let told = shell.ok(&format!("{on_redis}{block}"));
        let [permit, tokens, first, report @ ..] = &told.lines().collect::<Vec<_>>()[..] else {
            panic!("{told}");
        };
        // As the comments of the second block say.
        assert!(["exports/0", "exports/1", "exports/2"].contains(permit), "{told}");
        let first: serde_json::Value = serde_json::from_str(first).unwrap();
        assert!(tokens.starts_with(&format!("{} ", first["token"])), "{told}");
        assert_eq!(report.contains(&"data"), block.contains("./report"), "{told}");
    }
}

#[test]
fn the_commands_of_operators_do_what_stands_beside_them() {
    let shell = Shell::new();
    let held = || {
        let job = "leasehold run NAME -- sh -c 'echo $LEASEHOLD_TOKEN; exec sleep 1000'";
        let holder = shell.start(&format!("exec {job}"));
        let token = holder.line();
        (holder, token)
    };
    let (mut holder, _) = held();
    for line in docs::block("docs/cli.md", "leasehold list").lines() {
        let command = line.split(" #").next().unwrap().trim();
        if command.contains(" --watch ") {
            let mut watch = shell.start(&format!("exec {command}"));
            while !watch.line().ends_with(" NAME") {}
            watch.signal(Signal::INT);
            assert_eq!(watch.code(), 130);
            continue;
        }
        let mut command = command.to_owned();
        if command.contains(" --token ") {
            let (next, token) = held();
            holder = next;
            // The number in the page stands for the token that `inspect` has shown.
            command = command.replace("17957438", &token);
        }
        let told = shell.ok(&command);
        let shown = match command.split(' ').nth(1).unwrap() {
            "list" => " NAME\n",
            "inspect" => "held by",
            "record" => "  record  ",
            "release" => {
                assert_eq!(holder.code(), 79);
                "taken from"
            }
            "check" => "exclusion",
            "init" => "longest lease",
            action => panic!("what does {action} show?"),
        };
        assert!(told.contains(shown), "{line}: {told}");
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let shell = Shell::new();
    for line in docs::block("docs/cli.md", "leasehold completions").lines() {
        let begins = if line.contains("completions") { "_leasehold()" } else { ".TH leasehold" };
        let told = shell.ok(line);
        assert!(told.contains(begins), "{line}: {told}");
    }
}

#[test]
fn the_lines_of_the_page_about_observability_are_printed() {
    let shell = Shell::new();
    shell.program("COMMAND", "echo it runs");
    let lines = docs::block("docs/observability.md", "leasehold run --log-format");
    let mut commands = lines.lines().map(|line| line.split(" #").next().unwrap().trim());
    let mut next = || commands.next().unwrap_or_default();
    let ran = shell.run(next());
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "it runs\n");
    let events = String::from_utf8(ran.stderr).unwrap();
    let events =
        events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let messages: Vec<_> = events.map(|event| event["message"].clone()).collect();
    assert_eq!(messages, ["acquired", "released"]);
    let mut watch = shell.start(&format!("exec {}", next()));
    assert!(watch.line().contains("HELD FOR"));
    watch.signal(Signal::INT);
    assert_eq!(watch.code(), 130);
    let check: serde_json::Value = serde_json::from_str(&shell.ok(next())).unwrap();
    assert!(check["guarantees"].is_object(), "{check}");
    assert_eq!(next(), "");
}

#[cfg(feature = "migrate")]
#[test]
fn the_steps_of_a_migration_are_told() {
    let other = Shell::new();
    let shell = Shell::new();
    let to = format!("--to {}", shell.store.url());
    let shell = shell.with("--to TO", &to);
    let shell = shell.with("--from FROM", &format!("--from {}", other.store.url()));
    let block = docs::block("docs/migration.md", "leasehold migrate status");
    let told = shell.ok(&block);
    assert!(told.contains("no process is seen") && told.contains("migrate:old?"), "{told}");
}

/// The page shows what a client of version 1, and one of version 2, say of the other's store.
#[tokio::test]
async fn a_store_of_another_version_is_refused_as_the_page_shows() {
    let shell = Shell::new();
    shell.ok("leasehold init");
    let lines = docs::block("docs/upgrades.md", "the store's records have version");
    let mut lines = lines.lines();
    let newer = lines.next().unwrap().to_owned();
    let older = lines.next().unwrap().replace("version 1", "version 0");
    let older = older.replace("knows version 2", "knows version 1");
    assert_eq!(lines.next(), None);
    for (version, line) in [(2, newer), (0, older)] {
        let sql = format!("UPDATE leasehold_settings SET version = {version}");
        let mut file = SqliteConnection::connect(&shell.store.url()).await.unwrap();
        file.execute(AssertSqlSafe(sql)).await.unwrap();
        file.close().await.unwrap();
        let told = String::from_utf8(shell.run("leasehold list").stderr).unwrap();
        assert!(told.starts_with(&format!("leasehold: wrong configuration: {line}")), "{told}");
    }
}

/// The commands in the sentences and tables of the pages. One without an option or a name only
/// mentions an action.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_in_a_sentence_runs() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let postgres = Postgres::start(PostgresOptions::new().line("fsync = on")).await.unwrap();
    let mysql = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    let on_postgres = format!("postgres://postgres@{}/postgres", postgres.address());
    let mut tried = 0;
    for (page, text) in docs::pages() {
        let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let commands = quoted.filter(|text| {
            let whole = text.contains(" --") || text.contains(" NAME");
            text.starts_with("leasehold ") && whole && !text.contains(['…', '['])
        });
        let commands: Vec<_> = commands.collect();
        let is_on_zookeeper = page.ends_with("/zookeeper.md") || page.ends_with("-curator.md");
        if commands.is_empty() {
            continue;
        }
        let redis = Redis::start(RedisOptions::new()).await.unwrap();
        let on_redis = format!("redis://{}", redis.address());
        let shell = Shell::new();
        shell.program("COMMAND", ":");
        let url = match &*page {
            "docs/backends/etcd.md" => format!("etcd://{}", etcd.endpoints()[0]),
            _ if is_on_zookeeper => format!("zookeeper://{}", zookeeper.endpoints()[0]),
            "docs/backends/mysql.md" => format!("mysql://root@{}/test", mysql.address()),
            "docs/backends/postgres.md" | "docs/upgrades.md" => on_postgres.clone(),
            "docs/coming-from-shedlock.md" => format!("{on_postgres}?layout=shedlock"),
            "docs/backends/redis.md" => on_redis.clone(),
            _ => shell.store.url(),
        };
        let shell = shell.with("redis://host", &on_redis).with("URL", &url);
        let shell = shell.with("postgres://me@host/db", &on_postgres);
        for command in commands {
            if command.contains("--shared") {
                // SQLite has no shared locks.
                let on_redis = format!("export LEASEHOLD_STORE={on_redis}\n");
                shell.ok(&format!("{on_redis} leasehold init --first-use; {command}"));
            } else {
                shell.ok(command);
            }
            tried += 1;
        }
    }
    assert!(tried >= 30, "only {tried} commands were found");
}
