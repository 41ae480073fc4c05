//! Simulated worlds, one for each seed: `LEASEHOLD_SIM_SEEDS=n` sets how many seeds,
//! `LEASEHOLD_SIM_SEED=n` replays one seed and prints its log.

use std::env;

use verification::sim::{self, Mutant, Report};

/// How many seeds are tried: usually, and with `LEASEHOLD_SOAK=1`.
const SEEDS: [u64; 2] = [1_000, 30_000];

/// Within how many seeds a mutant must be found.
const MUTANT_SEEDS: u64 = 5_000;

fn replay(seed: u64) -> String {
    format!(
        "replay: LEASEHOLD_SIM_SEED={seed} cargo test -p verification --test all every_seed -- --nocapture"
    )
}

/// Runs a seed; a panic in the core is a finding like any other.
fn run(seed: u64, mutant: Option<Mutant>) -> Report {
    std::panic::catch_unwind(|| sim::run(seed, mutant)).unwrap_or_else(|_| {
        let findings = vec!["a panic; its message is printed above".to_owned()];
        Report { seed, findings, log: String::new(), grants: 0 }
    })
}

#[test]
fn every_seed_keeps_the_contract() {
    if let Ok(seed) = env::var("LEASEHOLD_SIM_SEED") {
        let report = run(seed.parse().expect("LEASEHOLD_SIM_SEED is a number"), None);
        println!("{}", report.log);
        assert!(report.findings.is_empty(), "{}", report.findings.join("\n"));
        return;
    }
    let usual = SEEDS[usize::from(env::var_os("LEASEHOLD_SOAK").is_some())];
    let seeds = env::var("LEASEHOLD_SIM_SEEDS").map_or(usual, |seeds| seeds.parse().unwrap());
    let threads = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let found: Vec<Report> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                scope.spawn(move || {
                    let mine = (1..=seeds).filter(|seed| seed % threads == part);
                    let mut grants = 0;
                    let found: Vec<_> = mine
                        .map(|seed| run(seed, None))
                        .inspect(|report| grants += report.grants)
                        .filter(|report| !report.findings.is_empty())
                        .collect();
                    (grants, found)
                })
            })
            .collect();
        let parts: Vec<_> = parts.into_iter().map(|part| part.join().unwrap()).collect();
        let grants: usize = parts.iter().map(|(grants, _)| grants).sum();
        println!("{seeds} seeds, {grants} guards");
        assert!(
            grants as u64 > seeds,
            "only {grants} guards in {seeds} seeds: the worlds test too little"
        );
        parts.into_iter().flat_map(|(_, found)| found).collect()
    });
    let tell =
        |report: &Report| format!("{}\n{}\n", replay(report.seed), report.findings.join("\n"));
    let first: String = found.iter().take(5).map(tell).collect();
    let seeds: Vec<u64> = found.iter().map(|report| report.seed).collect();
    assert!(found.is_empty(), "{} seeds failed: {seeds:?}\n{first}", found.len());
}

#[test]
fn the_same_seed_gives_the_same_log() {
    for seed in 1..=100 {
        let [one, two] = [run(seed, None), run(seed, None)];
        let differs = one.log.lines().zip(two.log.lines()).find(|(one, two)| one != two);
        assert_eq!(differs, None, "seed {seed}");
        assert!(one.log == two.log && one.log.len() > 1_000, "seed {seed}");
    }
}

/// Every part that is broken on purpose is found, by the finding meant for it.
#[test]
fn every_mutant_is_found() {
    for &(mutant, requirement, finding) in sim::MUTANTS {
        let met = |seed: &u64| {
            let report = run(*seed, Some(mutant));
            report.findings.iter().any(|found| found.contains(finding))
        };
        let seed = (1..=MUTANT_SEEDS).find(met);
        println!("{requirement} {mutant:?}: {finding} at seed {seed:?}");
        assert!(seed.is_some(), "{mutant:?} was not found in {MUTANT_SEEDS} seeds");
    }
}
