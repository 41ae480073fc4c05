//! Runs the stores under faults, and compares the results with the table in `docs/fault-matrix.md`.
//! Then runs stores that are broken on purpose; each must be caught.
//!
//! Each fault is tried on one store, and each store under at least one fault. With
//! `LEASEHOLD_SOAK=1` every store is run under every quick fault.
#![allow(clippy::unwrap_used)]

mod mutants;

use std::{path::Path, process::ExitCode};

use verification::{
    proof::{self, Fault, InQuick, NOT_TRIED, SystemUnderTest},
    stores,
};

const PAGE: &str = "../../docs/fault-matrix.md";

fn sample(mut stores: Vec<SystemUnderTest>) -> Vec<SystemUnderTest> {
    let quick = |store: &SystemUnderTest| {
        let quick = store.faults.iter().filter(|(_, quick)| *quick == InQuick::Yes);
        quick.map(|(fault, _)| *fault).collect::<Vec<_>>()
    };
    let mut chosen = vec![Vec::new(); stores.len()];
    for (turn, fault) in Fault::ALL.iter().enumerate() {
        let those = (0..stores.len()).filter(|at| quick(&stores[*at]).contains(fault));
        let those: Vec<_> = those.collect();
        if !those.is_empty() {
            chosen[those[turn % those.len()]].push(*fault);
        }
    }
    for (store, chosen) in stores.iter_mut().zip(chosen) {
        let chosen = if chosen.is_empty() {
            quick(store).into_iter().rev().take(1).collect()
        } else {
            chosen
        };
        store.faults.retain(|(fault, _)| chosen.contains(fault));
    }
    stores
}

fn main() -> ExitCode {
    let stores = match std::env::var_os("LEASEHOLD_SOAK") {
        Some(_) => stores::all(),
        None => sample(stores::all()),
    };
    let broken = mutants::subjects();
    let all: Vec<_> = stores.iter().chain(&broken).cloned().collect();
    proof::tried(&all, mutants::connect, |reports| {
        let of_stores = |report: &&proof::Report| stores.iter().any(|it| it.name == report.store);
        let (sound, broken): (Vec<_>, Vec<_>) = reports.iter().partition(of_stores);
        let (sound, broken): (Vec<_>, Vec<_>) =
            (sound.into_iter().cloned().collect(), broken.into_iter().cloned().collect());
        let right = sound.iter().all(proof::Report::is_right);
        let table = proof::matrix(&stores::all(), &sound, NOT_TRIED);
        println!("\n{table}");
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let page = std::fs::read_to_string(page).unwrap();
        // One store alone has a table of its own.
        let wrong = if sound.len() > 1 { proof::contradictions(&page, &table) } else { Vec::new() };
        wrong.iter().for_each(|line| println!("docs/fault-matrix.md says otherwise: {line}"));
        let caught = mutants::are_caught(&broken);
        println!("\nproof: {}", if right && caught { "ok" } else { "FAILED" });
        right && caught && wrong.is_empty()
    })
}
