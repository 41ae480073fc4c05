//! The `main` functions of programs that try stores under faults.

use std::process::ExitCode;

use super::{
    args::{self, Args, Wanted},
    clients::{process, workload},
    plan::system_under_test::{Connect, SystemUnderTest},
    results::{page, report::Report},
    run_all::run_all,
};
use conformance_tests::print;

/// The `main` of the command, with the stores of this project, or of a program of yours. The client
/// processes are this program again and also start here.
#[must_use]
pub fn main(subjects: &[SystemUnderTest], connect: Connect) -> ExitCode {
    with_runtime(connect, |runtime| {
        let args = match args::parse(std::env::args().skip(1), subjects) {
            Ok(Wanted::Run(args)) => args,
            Ok(Wanted::List) => {
                return print(&list(subjects));
            }
            Ok(Wanted::Page(files)) => {
                return match page::read(&files) {
                    Ok(reports) => print(&page::page(subjects, &reports)),
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
        let reports = runtime.block_on(run_all(&args, connect));
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

/// The `main` of a test target: tries each store once under each of its quick faults, and passes
/// the results to `judge`. The arguments are parts of the names of stores to try.
#[must_use]
pub fn tried(
    subjects: &[SystemUnderTest],
    connect: Connect,
    judge: impl FnOnce(&[Report]) -> bool,
) -> ExitCode {
    with_runtime(connect, |runtime| {
        let filters: Vec<String> =
            std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
        let chosen = |subject: &&SystemUnderTest| {
            filters.is_empty() || filters.iter().any(|part| subject.name.contains(part.as_str()))
        };
        let stores: Vec<_> = subjects.iter().filter(chosen).cloned().collect();
        let reports = runtime.block_on(run_all(&Args::quick(stores), connect));
        if judge(&reports) && !reports.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    })
}

fn with_runtime(
    connect: Connect,
    then: impl FnOnce(&tokio::runtime::Runtime) -> ExitCode,
) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) if std::env::var_os(process::CHILD).is_some() => {
            workload::main(&runtime, connect)
        }
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

fn list(subjects: &[SystemUnderTest]) -> String {
    let line = |subject: &SystemUnderTest| {
        let faults: Vec<_> = subject.faults.iter().map(|(fault, _)| fault.name()).collect();
        format!("{}: {}\n", subject.name, faults.join(", "))
    };
    subjects.iter().map(line).collect()
}
