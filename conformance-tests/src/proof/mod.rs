//! The proof: every kind of store under every fault that applies, with real servers and client
//! processes that are killed and paused, and a table of what held, made only of what was seen.
//!
//! A run starts the store, and some client processes: this program again. Each has tasks that wait and
//! try, hold long and short, cancel their waits and drop their guards, as a seed says. One process, the
//! *victim*, holds a lock, and while it does, one [`Fault`] happens; another process, the *heir*, waits
//! for that lock all the time. Everything that the clients see is recorded on one clock and then held
//! against the contract ([`Guarantee`]). Under each lock two registers are written: one behind a fence,
//! and one that asks for no token, which must lose an update when the holder is paused.
//!
//! What is expected is data ([`Subject::withheld`]): a promise that a store does not make under a fault
//! has to be seen broken, or the run fails. A seed fixes what the clients set out to do; how their
//! steps fall in time is the machine's affair, so that a violation may need several runs to come back.

mod args;
mod dice;
mod fault;
mod judge;
mod part;
mod profile;
mod record;
mod register;
mod report;
mod result;
mod scene;
mod script;
mod soak;
mod subject;
mod tables;
mod timeline;
mod workload;

use std::{process::ExitCode, time::Instant};

use lock_core::{Env as _, SystemEnv};

use self::{
    args::{Args, Wanted},
    profile::Profile,
};
pub use self::{
    fault::Fault,
    report::Report,
    result::{Cell, FaultResult},
    soak::page,
    subject::{
        Absent, Census, Connect, Expected, Guarantee, InQuick, Lasting, OwnFence, Plant, Stage,
        Start, Subject, Withheld,
    },
    tables::matrix,
    timeline::{Held, Timeline, Told},
};
use crate::runner::print;

/// The `main` of a program that tries stores: of the command, with the stores of this project, or of
/// one of your own. Its client processes are the program itself and come here too.
#[must_use]
pub fn main(subjects: &[Subject], connect: Connect) -> ExitCode {
    with_runtime(connect, |runtime| {
        let args = match args::parse(std::env::args().skip(1), subjects) {
            Ok(Wanted::Run(args)) => args,
            Ok(Wanted::List) => {
                return print(&list(subjects));
            }
            Ok(Wanted::Page(files)) => {
                return match soak::read(&files) {
                    Ok(reports) => print(&soak::page(subjects, &reports)),
                    Err(why) => {
                        eprintln!("{why}");
                        ExitCode::FAILURE
                    }
                };
            }
            Ok(Wanted::Help) => {
                return print(&format!("{}\n", args::USAGE));
            }
            Err(why) => {
                eprintln!("{why}\n\n{}", args::USAGE);
                return ExitCode::from(2);
            }
        };
        let reports = runtime.block_on(try_all(&args, connect));
        if let Some(file) = &args.json {
            let text = serde_json::to_string_pretty(&reports).expect("plain data");
            if let Err(error) = std::fs::write(file, text) {
                eprintln!("cannot write {}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
        success(&reports)
    })
}

/// The `main` of a test target: every store once, by the quick profile; then the block between
/// `<!-- proof -->` and `<!-- /proof -->` in `page` must be the table of what was seen.
///
/// Arguments are parts of stores' names; with any, the table is not compared.
#[must_use]
pub fn gate(subjects: &[Subject], connect: Connect, page: &str) -> ExitCode {
    tried(subjects, connect, |reports, whole| {
        let table = matrix(subjects, reports, "in the soak");
        println!("\n{table}");
        if whole && between(page).map(str::trim) != Some(table.trim()) {
            println!("the page's table between <!-- proof --> and <!-- /proof --> is not this one");
            return ExitCode::FAILURE;
        }
        success(reports)
    })
}

/// The `main` of a test target that judges the results itself; it is also told whether all stores
/// were tried.
#[must_use]
pub fn tried(
    subjects: &[Subject],
    connect: Connect,
    judge: impl FnOnce(&[Report], bool) -> ExitCode,
) -> ExitCode {
    with_runtime(connect, |runtime| {
        let filters: Vec<String> =
            std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
        let chosen = |subject: &&Subject| {
            filters.is_empty() || filters.iter().any(|part| subject.name.contains(part.as_str()))
        };
        let stores: Vec<_> = subjects.iter().filter(chosen).cloned().collect();
        let whole = stores.len() == subjects.len();
        let args = Args::quick(stores);
        judge(&runtime.block_on(try_all(&args, connect)), whole)
    })
}

fn between(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<!-- proof -->")?;
    rest.split_once("<!-- /proof -->").map(|(block, _)| block)
}

fn with_runtime(
    connect: Connect,
    then: impl FnOnce(&tokio::runtime::Runtime) -> ExitCode,
) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) if std::env::var_os(part::CHILD).is_some() => workload::play(&runtime, connect),
        Ok(runtime) => then(&runtime),
        Err(error) => {
            eprintln!("no runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

fn success(reports: &[Report]) -> ExitCode {
    let right = !reports.is_empty() && reports.iter().all(Report::is_right);
    println!("\nproof: {}", if right { "ok" } else { "FAILED" });
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn list(subjects: &[Subject]) -> String {
    let line = |subject: &Subject| {
        let faults: Vec<_> = subject.faults.iter().map(|(fault, _)| fault.name()).collect();
        format!("{}: {}\n", subject.name, faults.join(", "))
    };
    subjects.iter().map(line).collect()
}

async fn try_all(args: &Args, connect: Connect) -> Vec<Report> {
    let seed = args.seed.unwrap_or_else(|| SystemEnv.random() as u64 >> 16);
    println!("profile {}, seed {seed}", args.profile.name);
    let mut reports = Vec::new();
    for subject in &args.stores {
        let report = try_one(subject, args, seed, connect).await;
        if report.faults.is_empty() {
            println!("{}: nothing of it is in this profile", subject.name);
            continue;
        }
        println!("{}", report.table());
        reports.push(report);
    }
    reports
}

async fn try_one(subject: &Subject, args: &Args, seed: u64, connect: Connect) -> Report {
    let began = Instant::now();
    let wanted = |(fault, quick): &(Fault, InQuick)| match args.faults.is_empty() {
        true => args.profile.lasts.is_some() || *quick == InQuick::Yes,
        false => args.faults.contains(fault),
    };
    let faults = subject.faults.iter().copied().filter(wanted);
    let mut report = Report::new(subject, args.profile.name);
    report.faults = faults.map(|(fault, _)| FaultResult::new(fault)).collect();
    let mut next = seed;
    let mut rounds = 0;
    loop {
        for at in 0..report.faults.len() {
            // Every fault has its turn, and then the time counts.
            if rounds > 0 && args.profile.lasts.is_some_and(|lasts| began.elapsed() >= lasts) {
                break;
            }
            attempt(subject, &args.profile, connect, &mut next, &mut report, at).await;
            // What a long run has seen is not lost with it.
            report.lasted_s = began.elapsed().as_secs();
            if let Some(file) = args.json.as_ref().filter(|_| args.profile.lasts.is_some()) {
                let text = serde_json::to_string_pretty(&[&report]).expect("plain data");
                // It is written again at the end, and then it counts.
                let _ = std::fs::write(file, text);
            }
        }
        rounds += 1;
        let more = args.profile.lasts.is_some_and(|lasts| began.elapsed() < lasts);
        if !more || report.faults.is_empty() {
            return report;
        }
    }
}

/// Runs a fault once, or until it has shown what it must.
async fn attempt(
    subject: &Subject,
    profile: &Profile,
    connect: Connect,
    seed: &mut u64,
    report: &mut Report,
    at: usize,
) {
    for _ in 0..profile.tries {
        let (began, result) = (Instant::now(), &mut report.faults[at]);
        let told = (result.runs_failed, result.violations.len());
        match scene::run(subject, result.fault, *seed, profile, connect).await {
            Ok(shown) => {
                result.add(subject, &shown);
                report.promised.get_or_insert_with(|| {
                    serde_json::to_value(&*shown.promised).expect("plain data")
                });
                if let Some(why) = subject.contradicts(&shown.promised) {
                    result.fail(why);
                }
            }
            Err(error) => result.fail(format!("seed {seed}: {error}")),
        }
        let word = match result.waits_for_a_break() && result.failed.is_none() {
            true => "not yet seen to break",
            false if result.runs_failed > told.0 => "NOT RUN",
            false => result.in_short(),
        };
        let took = began.elapsed().as_secs_f64();
        println!("{}, {}, seed {seed}: {word} ({took:.1} s)", subject.name, result.fault);
        // At once: a long run may be ended before its table is printed.
        for why in result.failed.iter().filter(|_| result.runs_failed > told.0) {
            println!("    not run: {why}");
        }
        for violation in &result.violations[told.1..] {
            println!("    VIOLATED, {violation}");
        }
        *seed += 1;
        if result.runs_failed > told.0 || !result.waits_for_a_break() {
            return;
        }
    }
}
