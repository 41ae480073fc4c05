//! A model of how the two end phases are entered, searched completely. It shows what breaks without
//! each rule of the record.
//!
//! One process of phase `Old` and one of phase `New` enter, work and leave again and again. Each
//! uses another store, so they must never believe a lock at the same time. At any moment one store
//! may lose its data, or a process its record, but not both stores. Time passes at any speed.

use std::collections::HashSet;

/// The rules. Each can be switched off.
#[derive(Clone, Copy)]
struct Rules {
    /// The record is written to both stores, not only to the own one.
    both_stores: bool,
    /// The records of others are read after the own record was written, not only before.
    read_last: bool,
    /// Nothing is acquired before that read.
    counts_when_read: bool,
    /// No lock is believed for longer than the record.
    capped: bool,
    /// While a lock is believed, the record in the other store stays.
    stays: bool,
}

const ALL: Rules =
    Rules { both_stores: true, read_last: true, counts_when_read: true, capped: true, stays: true };

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Away,
    /// Has read that no process is in the other end phase.
    Read,
    /// Has written to the other store.
    Half,
    /// Has written to both.
    Written,
    /// Has read the first of the two stores again.
    Checked,
    Entered,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Process {
    at: At,
    /// In which stores its record is.
    records: [bool; 2],
    /// Whether it does not know yet that its record in its own store is lost.
    trusts: bool,
    /// Whether it believes a lock.
    believes: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    processes: [Process; 2],
    losses: u8,
}

impl World {
    fn new() -> Self {
        let process = Process { at: At::Away, records: [false; 2], trusts: false, believes: false };
        Self { processes: [process; 2], losses: 1 }
    }

    fn both_believe(&self) -> bool {
        self.processes.iter().all(|process| process.believes)
    }

    /// All possible next states. Each process uses the store with its own number.
    fn next(&self, rules: Rules) -> Vec<Self> {
        let mut all = Vec::new();
        for who in 0..2 {
            let change = |change: &dyn Fn(&mut Process)| {
                let mut next = self.clone();
                change(&mut next.processes[who]);
                next
            };
            let (it, other) = (self.processes[who], self.processes[1 - who]);
            let nobody = |stores: &[usize]| stores.iter().all(|store| !other.records[*store]);
            match it.at {
                At::Away if nobody(&[0, 1]) => all.push(change(&|it| it.at = At::Read)),
                At::Read => all.push(change(&|it| {
                    (it.at, it.records[1 - who]) = (At::Half, rules.both_stores);
                })),
                At::Half => all.push(change(&|it| {
                    (it.at, it.records[who], it.trusts) = (At::Written, true, true);
                })),
                At::Written if !rules.read_last => all.push(change(&|it| it.at = At::Entered)),
                // The two stores are read one after the other.
                At::Written if nobody(&[0]) => all.push(change(&|it| it.at = At::Checked)),
                At::Checked if nobody(&[1]) => all.push(change(&|it| it.at = At::Entered)),
                At::Written | At::Checked if !nobody(&[0, 1]) => all.push(change(&give_up)),
                _ => {}
            }
            let may = it.at == At::Entered
                || (!rules.counts_when_read && matches!(it.at, At::Written | At::Checked));
            if may && it.trusts && !it.believes {
                all.push(change(&|it| it.believes = true));
            }
            if it.believes {
                all.push(change(&|it| it.believes = false));
            }
            // It leaves, or is killed and its records run out, at any time.
            if it.at == At::Entered {
                all.push(change(&give_up));
            }
            // It learns that its record in its own store is lost, and then enters again.
            if it.trusts && !it.records[who] {
                all.push(change(&|it| it.trusts = false));
            }
            let entering = matches!(it.at, At::Written | At::Checked | At::Entered);
            if !it.trusts && entering && !(rules.stays && it.believes) {
                all.push(change(&|it| {
                    let believes = it.believes;
                    give_up(it);
                    it.believes = believes;
                }));
            }
            // Its record ends because it is not renewed, for example while the process is paused.
            // Without the cap, it still believes a lock then.
            if it.trusts && it.records != [false; 2] {
                all.push(change(&|it| {
                    let believes = it.believes && !rules.capped;
                    give_up(it);
                    it.believes = believes;
                }));
            }
        }
        // One store loses its data.
        if self.losses > 0 {
            for store in 0..2 {
                let mut next = self.clone();
                next.losses -= 1;
                for process in &mut next.processes {
                    process.records[store] = false;
                }
                all.push(next);
            }
        }
        all
    }
}

/// Has no record and believes nothing any more.
fn give_up(it: &mut Process) {
    *it = Process { at: At::Away, records: [false; 2], trusts: false, believes: false };
}

/// Whether both may believe at the same time, and the number of states.
fn search(rules: Rules) -> (bool, usize) {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new()]);
    let mut two = false;
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        two |= world.both_believe();
        open.extend(world.next(rules));
    }
    (two, seen.len())
}

#[test]
fn with_all_rules_the_ends_exclude_each_other() {
    let (two, worlds) = search(ALL);
    println!("{worlds} states");
    assert!(!two);
    assert!(worlds > 100, "{worlds}");
}

#[test]
fn without_any_of_them_both_ends_believe_at_once() {
    for (name, rules) in [
        ("both stores", Rules { both_stores: false, ..ALL }),
        ("read last", Rules { read_last: false, ..ALL }),
        ("counts when read", Rules { counts_when_read: false, ..ALL }),
        ("capped", Rules { capped: false, ..ALL }),
        ("stays", Rules { stays: false, ..ALL }),
    ] {
        assert!(search(rules).0, "{name} is not needed");
    }
}
