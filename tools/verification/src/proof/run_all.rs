//! Runs every requested fault of every requested store, one after the other.

use std::time::Instant;

use lock_core::{Env as _, SystemEnv};

use super::{
    args::Args,
    plan::{
        fault::Fault,
        profile::Profile,
        system_under_test::{Connect, InQuick, SystemUnderTest},
    },
    results::{report::Report, result::FaultResult},
    trial::run,
};

pub(super) async fn run_all(args: &Args, connect: Connect) -> Vec<Report> {
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

async fn try_one(subject: &SystemUnderTest, args: &Args, seed: u64, connect: Connect) -> Report {
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
            // Every fault runs at least once; after that the time limit counts.
            if rounds > 0 && args.profile.lasts.is_some_and(|lasts| began.elapsed() >= lasts) {
                break;
            }
            attempt(subject, &args.profile, connect, next, &mut report, at).await;
            next += 1;
            // Writes the results so far: a long run may be ended before its end.
            report.lasted_s = began.elapsed().as_secs();
            if let Some(file) = args.json.as_ref().filter(|_| args.profile.lasts.is_some()) {
                let text = serde_json::to_string_pretty(&[&report]).expect("plain data");
                // An error counts only at the end, when the file is written again.
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

/// Runs a fault once.
async fn attempt(
    subject: &SystemUnderTest,
    profile: &Profile,
    connect: Connect,
    seed: u64,
    report: &mut Report,
    at: usize,
) {
    let (began, result) = (Instant::now(), &mut report.faults[at]);
    let told = (result.runs_failed, result.violations.len());
    match run::run(subject, result.fault, seed, profile, connect).await {
        Ok(data) => {
            result.add(subject, &data);
            // A run that broke something has said enough.
            if !result.broke()
                && let Err(why) = data.has_evidence()
            {
                result.fail(format!("seed {seed}: {why}"));
            }
            report
                .promised
                .get_or_insert_with(|| serde_json::to_value(&*data.promised).expect("plain data"));
            if let Some(why) = subject.contradicts(&data.promised) {
                result.fail(why);
            }
        }
        Err(error) => result.fail(format!("seed {seed}: {error}")),
    }
    let word = match result.runs_failed > told.0 {
        true => "NOT RUN",
        false => result.in_short(),
    };
    let took = began.elapsed().as_secs_f64();
    println!("{}, {}, seed {seed}: {word} ({took:.1} s)", subject.name, result.fault);
    // Printed at once: a long run may be ended before its table is printed.
    for why in result.failed.iter().filter(|_| result.runs_failed > told.0) {
        println!("    not run: {why}");
    }
    for violation in &result.violations[told.1..] {
        println!("    VIOLATED, {violation}");
    }
}
