//! All ratios that this project wants, in one run: every store of this machine beside its floors
//! (`leasehold compare --local` measures the same), beside other libraries on the same servers, with
//! many tasks and with many processes. What is compared takes turns, round after round.
//!
//! `cargo bench -p benchmarks --bench ratios -- [OPTION…]`
//!
//! - `--for DURATION`: about how long, all together (default: 10m; of less than 5m something is left out,
//!   which the report says);
//! - `--page FILE`, `--json FILE`: the report as a page and as data;
//! - `--holder FILE`: the `leasehold` command, of which a process is to be killed;
//! - `--docs`: writes what docs/choosing-a-backend.md cites: docs/ratios.json and the table between the
//!   page's marks. With `--from FILE`, of what `--json` wrote before, and without another run.
#![allow(clippy::unwrap_used, missing_docs)]

mod duel;
mod of_etcd;
mod of_migration;
mod of_redis;
mod of_redlock;
mod of_sql;

use std::{future::pending, path::Path, time::Duration};

use comparison::{Comparison, Contest, Evidence, Holder, Local, Plan, Store, Watch, embedded};

/// The value of an option.
fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.next().and_then(|_| args.next())
}

fn flag(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

struct Progress;

impl Watch for Progress {
    fn next(&mut self, elapsed: Duration, of: Duration, store: &str, measure: &str) {
        let [elapsed, of] = [elapsed, of].map(|span| span.as_secs_f64());
        eprint!("\r\u{1b}[K{elapsed:.0} of {of:.0} s: {store}: {measure}");
    }
}

async fn contests(stores: &[Store]) -> Vec<Box<dyn Contest>> {
    let mut all = Vec::new();
    for store in stores {
        let (name, url) = (store.name.as_str(), store.url.expose());
        all.extend(match store.url.scheme() {
            "redis" => of_redis::contests(name, url).await,
            "redlock" => of_redlock::contests(name, url).await,
            "etcd" => of_etcd::contests(name, url).await,
            "postgres" => of_sql::postgres(name, url).await,
            _ => Vec::new(),
        });
    }
    let named = |name: &str| stores.iter().find(|store| store.name == name);
    for (from, to) in [("redis", "etcd"), ("sqlite", "postgres")] {
        if let (Some(from), Some(to)) = (named(from), named(to)) {
            all.push(of_migration::contest(from, to));
        }
    }
    all
}

async fn run(span: Duration) {
    // What cannot be written is found out before the measuring.
    let files = ["--page", "--json"]
        .map(|name| option(name).filter(|file| std::fs::write(file, "").map(|()| true).unwrap()));
    let (mut stores, _folder) = embedded().unwrap();
    let mut local = Local::start().await;
    stores.append(&mut local.stores);
    let mut contests = contests(&stores).await;
    let (mut of_mariadb, _servers) = match stores.iter().find(|store| store.name == "mysql") {
        Some(store) => of_sql::mariadb(&store.name).await,
        None => Default::default(),
    };
    contests.append(&mut of_mariadb);
    let comparison = Comparison::new(stores, Plan::new(span).unwrap())
        .absent(local.absent.clone())
        .holder(option("--holder").map(Holder::new))
        .contests(contests);
    let report = comparison.run(&mut Progress, pending()).await.unwrap().unwrap();
    eprintln!();
    print!("{report}");
    let json = serde_json::to_string_pretty(&report).unwrap();
    let [page, data] = files;
    if let Some(file) = page {
        std::fs::write(file, report.page().unwrap()).unwrap();
    }
    if let Some(file) = data {
        std::fs::write(file, &json).unwrap();
    }
    if flag("--docs") {
        write_docs(&json);
    }
}

fn write_docs(json: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let evidence = Evidence::read(json).unwrap();
    let page = docs.join("choosing-a-backend.md");
    let text = evidence.put_into(&std::fs::read_to_string(&page).unwrap()).unwrap();
    std::fs::write(docs.join("ratios.json"), evidence.json().unwrap()).unwrap();
    std::fs::write(page, text).unwrap();
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if runtime.block_on(benchmarks::child()) {
        return;
    }
    // Cargo tests benches, too, by running them: this one is for figures only.
    if !flag("--bench") {
        return;
    }
    if let (true, Some(file)) = (flag("--docs"), option("--from")) {
        return write_docs(&std::fs::read_to_string(file).unwrap());
    }
    let span = option("--for").unwrap_or("10m".to_owned());
    runtime.block_on(run(humantime::parse_duration(&span).unwrap()));
}
