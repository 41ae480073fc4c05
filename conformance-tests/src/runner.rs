//! Runs cases over harnesses, and prints the results.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{ErrorKind, Write as _},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, future::join_all, stream};
use lock_core::Guarantees;
use tokio::sync::Semaphore;

use crate::{
    cases::{self, Case},
    child,
    harness::Harness,
    setting::Setting,
};

/// How long a case may take before it counts as hung. Some make a thousand calls, each of which
/// waits for a processor on a busy machine. The second is for `LEASEHOLD_SOAK=1`, under which some
/// cases make more rounds.
const LIMIT: [Duration; 2] = [Duration::from_secs(300), Duration::from_secs(900)];
/// How many cases run at the same time. Each has its own lock names, and most of them wait most of
/// the time.
const AT_ONCE: usize = 4;
/// How many harnesses run at the same time: the next one starts while the last cases of this one
/// run.
const STARTED_AT_ONCE: usize = 2;

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store keeps the promise.
    Passed,
    /// The message of the panic.
    Failed(String),
    /// The case did not end within the limit.
    Hung(Duration),
    /// The case does not apply, for this reason.
    Skipped(&'static str),
}

/// The `main` of a `harness = false` test target: runs every case over every harness.
///
/// Arguments: a part of the names to run (`harness::case`), and `--list`. If no name contains that
/// part, the run fails. The last lines look like those of Rust's own test runner. A child process
/// of a case also starts here, and does its job.
pub fn main(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(spec) = child::ChildSpec::of_this_process() {
        runtime.block_on(spec.run(&harnesses));
        return ExitCode::SUCCESS;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let filter = args.iter().find(|arg| !arg.starts_with('-')).cloned().unwrap_or_default();
    if args.iter().any(|arg| arg == "--list") {
        let of = |harness: &Arc<dyn Harness>| {
            let name = harness.name();
            cases::all().into_iter().map(move |case| format!("{name}::{}: test\n", case.name))
        };
        return print(&harnesses.iter().flat_map(of).collect::<String>());
    }
    let turns = Semaphore::new(AT_ONCE);
    let ran = stream::iter(harnesses.into_iter().map(|harness| run(harness, &filter, &turns)))
        .buffered(STARTED_AT_ONCE)
        .concat();
    let table = Table::of(runtime.block_on(ran));
    if table.harnesses.is_empty() {
        eprintln!("no case has {filter:?} in its name; --list names all cases");
        return ExitCode::FAILURE;
    }
    table.print()
}

/// Prints `text`. It is no error if the reader has closed the pipe, as `head -1` does.
pub fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("cannot write to stdout: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The result of each case of a harness.
type Ran = Vec<(&'static str, &'static str, Outcome)>;

async fn run(harness: Arc<dyn Harness>, filter: &str, turns: &Semaphore) -> Ran {
    let name = harness.name();
    let wanted = |case: &Case| format!("{name}::{}", case.name).contains(filter);
    let chosen: Vec<Case> = cases::all().into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        return Vec::new();
    }
    let started = match harness.start().await {
        Ok(store) => match harness.connect(&store.address).await {
            Ok(backend) => Ok((store, backend.guarantees())),
            Err(error) => Err(error.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    let (store, promised) = match started {
        Ok(started) => started,
        Err(error) => {
            println!("test {name}::start ... FAILED\n    {error}");
            return vec![(name, "start", Outcome::Failed(error))];
        }
    };
    let limit = LIMIT[usize::from(std::env::var_os("LEASEHOLD_SOAK").is_some())];
    let mut ran: Ran = join_all(chosen.iter().map(|case| {
        let setting =
            Setting::new(Arc::clone(&harness), &store.address, case.name, Arc::clone(&promised));
        let skip = skip(case, &promised, &*harness);
        async move {
            let _turn = turns.acquire().await;
            let began = Instant::now();
            let listed = setting.harness().skips().iter().any(|listed| case.is_listed_as(listed));
            let outcome = match skip {
                Some(reason) if listed => Outcome::Skipped(reason),
                Some(reason) => Outcome::Failed(format!(
                    "the case does not apply, since {reason}; if that is right, list the case in Harness::skips"
                )),
                None => match run_case(case, setting, limit).await {
                    Outcome::Failed(why) => {
                        let promise = cases::promise(case.requirement);
                        Outcome::Failed(format!("{why}\n    promised: {}, {promise}", case.requirement))
                    }
                    outcome => outcome,
                },
            };
            let word = match &outcome {
                Outcome::Passed => format!("ok ({:.2} s)", began.elapsed().as_secs_f64()),
                Outcome::Failed(why) => {
                    format!("FAILED ({:.2} s)\n    {why}", began.elapsed().as_secs_f64())
                }
                Outcome::Hung(limit) => format!("FAILED\n    hung: no end within {limit:?}"),
                Outcome::Skipped(reason) => format!("skipped: {reason}"),
            };
            println!("test {name}::{} ... {word}", case.name);
            (name, case.name, outcome)
        }
    }))
    .await;
    for listed in harness.skips() {
        let mut here = chosen.iter().zip(&ran).filter(|(case, _)| case.is_listed_as(listed));
        if here.any(|(_, (.., outcome))| !matches!(outcome, Outcome::Skipped(_))) {
            let why = format!("Harness::skips lists {listed}, but it applies to this store");
            println!("test {name}::{listed} ... FAILED\n    {why}");
            ran.push((name, "listed skips", Outcome::Failed(why)));
        }
    }
    ran
}

fn skip(case: &Case, promised: &Guarantees, harness: &dyn Harness) -> Option<&'static str> {
    case.needs.iter().find_map(|need| (need.check)(promised, harness).err())
}

/// Runs one case. A panic or a hang fails this case only.
pub async fn run_case(case: &Case, setting: Setting, limit: Duration) -> Outcome {
    let task = tokio::spawn((case.run)(setting));
    let abort = task.abort_handle();
    match tokio::time::timeout(limit, task).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => Outcome::Failed(match error.try_into_panic() {
            Ok(panic) => words(&*panic),
            Err(error) => error.to_string(),
        }),
        Err(_) => {
            abort.abort();
            Outcome::Hung(limit)
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// The results by case and harness.
#[derive(Default)]
struct Table {
    cells: BTreeMap<&'static str, BTreeMap<&'static str, Outcome>>,
    harnesses: BTreeSet<&'static str>,
}

impl Table {
    fn of(ran: Ran) -> Self {
        let mut table = Self::default();
        for (harness, case, outcome) in ran {
            table.cells.entry(case).or_default().insert(harness, outcome);
            table.harnesses.insert(harness);
        }
        table
    }

    fn print(&self) -> ExitCode {
        let harnesses: Vec<_> = self.harnesses.iter().copied().collect();
        let width = self.cells.keys().map(|case| case.len()).max().unwrap_or(0);
        println!("\n{:width$}  {}", "case", harnesses.join("  "));
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for (case, row) in &self.cells {
            print!("{case:width$}");
            for harness in &harnesses {
                let cell = match row.get(harness) {
                    Some(Outcome::Passed) => {
                        passed += 1;
                        "ok"
                    }
                    Some(Outcome::Failed(_) | Outcome::Hung(_)) => {
                        failed += 1;
                        "FAILED"
                    }
                    Some(Outcome::Skipped(_)) => {
                        skipped += 1;
                        "skipped"
                    }
                    None => "",
                };
                let column = harness.len();
                print!("  {cell:column$}");
            }
            println!();
        }
        if skipped > 0 {
            println!("\nskipped:");
        }
        for (case, row) in &self.cells {
            for (harness, outcome) in row {
                if let Outcome::Skipped(reason) = outcome {
                    println!("    {harness}::{case}: {reason}");
                }
            }
        }
        if failed > 0 {
            println!("\nfailed:");
        }
        for (case, row) in &self.cells {
            for (harness, outcome) in row {
                match outcome {
                    Outcome::Failed(why) => println!("    {harness}::{case}: {why}"),
                    Outcome::Hung(limit) => {
                        println!("    {harness}::{case}: no end within {limit:?}")
                    }
                    Outcome::Passed | Outcome::Skipped(_) => {}
                }
            }
        }
        let result = if failed == 0 { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {result}. {passed} passed; {failed} failed; {skipped} skipped, each with its reason"
        );
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
