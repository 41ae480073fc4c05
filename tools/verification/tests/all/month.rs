//! A job that runs once a day, for 30 simulated days, by one seed a month.

use std::collections::BTreeSet;

use verification::sim::{CALLS, MONTH_MUTANTS, Month, Planted, Step, month};

/// How many months are tried: usually, and with `LEASEHOLD_SOAK=1`.
const SEEDS: [u64; 2] = [30, 3_000];

fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=SEEDS[usize::from(std::env::var_os("LEASEHOLD_SOAK").is_some())]
}

fn months(flushes: bool) -> Vec<Month> {
    let months: Vec<_> = seeds()
        .map(|seed| {
            let month = month(seed, flushes, None);
            let findings = month.findings.join("\n");
            assert!(month.findings.is_empty(), "seed {seed}:\n{}\n{findings}", month.log);
            month
        })
        .collect();
    let sum = |of: fn(&Month) -> u64| months.iter().map(of).sum::<u64>();
    println!(
        "{} months: {} runs succeeded, {} of them were forgotten, {} doubts, {} further attempts",
        months.len(),
        sum(|month| month.done as u64),
        sum(|month| month.lost as u64),
        sum(|month| month.doubts.into()),
        sum(|month| month.repeats.into()),
    );
    months
}

#[test]
fn one_run_succeeds_each_day() {
    let months = months(true);
    assert!(months.iter().all(|month| month.done == 30 && month.doubts == 0 && month.repeats > 0));
    // Processes have died at each step of each call, the store has stood still, and it has carried
    // out writes of former holders.
    let happened: BTreeSet<_> = months.iter().flat_map(|month| &month.happened).collect();
    for call in CALLS {
        for step in [Step::Sent, Step::Arrived, Step::CarriedOut] {
            assert!(happened.contains(&(call, step, Planted::Death)), "{call} {step:?}");
        }
    }
    for step in [Step::Sent, Step::Arrived, Step::CarriedOut] {
        let at_a_write = &("write-record", step, Planted::Standstill);
        assert!(happened.contains(at_a_write), "{happened:?}");
    }
    assert!(happened.contains(&("write-record", Step::Arrived, Planted::Delay)));
}

#[test]
fn what_a_store_has_lost_is_unknown_and_no_answer_is_wrong() {
    let months = months(false);
    assert!(months.iter().map(|month| month.lost).sum::<usize>() > 10, "no run was forgotten");
    assert!(months.iter().all(|month| month.doubts > 0));
}

#[test]
fn the_same_seed_gives_the_same_month() {
    for seed in 1..=3 {
        let [one, two] = [month(seed, false, None), month(seed, false, None)];
        assert!(one.log == two.log && one.log.len() > 1_000, "seed {seed}");
    }
}

#[test]
fn every_mutant_is_found_within_some_months() {
    for &(mutant, finding) in MONTH_MUTANTS {
        let met = |seed: &u64| {
            let found = [true, false].map(|flushes| month(*seed, flushes, Some(mutant)).findings);
            found.concat().iter().any(|found| found.contains(finding))
        };
        let seed = (1..=200).find(met);
        println!("{mutant:?}: {finding:?} at seed {seed:?}");
        assert!(seed.is_some(), "{mutant:?} was not found");
    }
}
