//! A model of a migration, searched completely. It shows what breaks without each rule.
//!
//! Two processes lock one name again and again while they move forward and back between two stores.
//! The clock of one store is far behind that of the other. One process may be killed at any point.
//! The clocks do not advance, which is the worst case for tokens.

use std::collections::HashSet;

/// The rules. Each can be switched off.
#[derive(Clone, Copy)]
struct Rules {
    /// Both stores have the larger token before the grant is returned.
    write_back: bool,
    /// All processes take the stores in one order, whatever their roles.
    fixed_order: bool,
    /// No process enters a phase while another is two phases away.
    neighbours: bool,
    /// A process that uses only one store requests tokens above those of the other.
    floor: bool,
}

const ALL: Rules = Rules { write_back: true, fixed_order: true, neighbours: true, floor: true };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Broken {
    TwoHolders,
    TokenWentBack,
    Deadlock,
}

const CLOCKS: [u8; 2] = [9, 0];
const GRANTS: u8 = 6;

/// The phases, forward and then back with the roles exchanged: the stores in use, in the order of
/// their roles.
const PATH: [&[usize]; 5] = [&[0], &[0, 1], &[1], &[1, 0], &[0]];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Store {
    holder: Option<usize>,
    token: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    Idle,
    /// Holds so many stores, with the largest token so far.
    Taking(usize, u8),
    /// Raises what was taken, up to this store.
    Raising(usize, u8),
    Holding,
    /// Releases; this many stores are left.
    Leaving(usize),
    /// Was killed. Its leases run out.
    Dead,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    stores: [Store; 2],
    processes: [(usize, At, u8); 2],
    /// The last token that a holder was given.
    last: u8,
    grants: u8,
    kills: u8,
}

impl World {
    fn new() -> Self {
        let process = (0, At::Idle, 0);
        let stores = [Store::default(); 2];
        Self { stores, processes: [process; 2], last: 0, grants: 0, kills: 0 }
    }

    fn order(&self, who: usize, rules: Rules) -> Vec<usize> {
        let mut order = PATH[self.processes[who].0].to_vec();
        if rules.fixed_order {
            order.sort_unstable();
        }
        order
    }

    fn take(&mut self, who: usize, store: usize, above: u8) -> Option<u8> {
        let it = &mut self.stores[store];
        if it.holder.is_some() {
            return None;
        }
        it.token = CLOCKS[store].max(it.token + 1).max(above + 1);
        it.holder = Some(who);
        Some(it.token)
    }

    /// A process learns that it holds the lock.
    fn grant(&mut self, who: usize, token: u8) -> Result<(), Broken> {
        let others = self.processes.iter().filter(|(_, at, _)| *at == At::Holding).count();
        self.processes[who].1 = At::Holding;
        if others > 0 {
            return Err(Broken::TwoHolders);
        }
        if token <= self.last {
            return Err(Broken::TokenWentBack);
        }
        self.last = token;
        self.grants += 1;
        Ok(())
    }

    /// All possible next steps of `who`.
    fn next(&self, who: usize, rules: Rules) -> Result<Vec<Self>, Broken> {
        let mut all = Vec::new();
        let (step, at, floor) = self.processes[who];
        let order = self.order(who, rules);
        match at {
            At::Idle => {
                if self.grants < GRANTS {
                    let mut next = self.clone();
                    if let Some(token) = next.take(who, order[0], floor) {
                        next.processes[who].1 = At::Taking(1, token);
                        all.push(next);
                    }
                }
                all.extend(self.advance(who, step, rules));
            }
            At::Taking(count, token) if count == order.len() => {
                let mut next = self.clone();
                if rules.write_back && count == 2 {
                    next.processes[who].1 = At::Raising(0, token);
                } else {
                    next.grant(who, token)?;
                }
                all.push(next);
            }
            At::Taking(count, token) => {
                // If the second store is busy, the process keeps the first and waits.
                let mut next = self.clone();
                if let Some(second) = next.take(who, order[count], 0) {
                    next.processes[who].1 = At::Taking(count + 1, token.max(second));
                    all.push(next);
                }
            }
            At::Raising(store, token) => {
                let mut next = self.clone();
                next.stores[store].token = next.stores[store].token.max(token);
                if store == 1 {
                    next.grant(who, token)?;
                } else {
                    next.processes[who].1 = At::Raising(1, token);
                }
                all.push(next);
            }
            At::Holding => {
                let mut next = self.clone();
                next.processes[who].1 = At::Leaving(order.len());
                all.push(next);
            }
            At::Leaving(left) => {
                let mut next = self.clone();
                next.stores[order[left - 1]].holder = None;
                next.processes[who].1 = if left == 1 { At::Idle } else { At::Leaving(left - 1) };
                all.push(next);
            }
            At::Dead => {
                // Its leases run out in any order, and its record after them.
                let held = (0..2).filter(|store| self.stores[*store].holder == Some(who));
                let mut none = true;
                for store in held {
                    none = false;
                    let mut next = self.clone();
                    next.stores[store].holder = None;
                    all.push(next);
                }
                if none {
                    let mut next = self.clone();
                    next.processes[who].1 = At::Idle;
                    all.push(next);
                }
            }
        }
        if self.kills == 0 && at != At::Dead {
            let mut next = self.clone();
            (next.processes[who].1, next.kills) = (At::Dead, 1);
            all.push(next);
        }
        Ok(all)
    }

    /// Enters the next phase, if no process is two phases away from it.
    fn advance(&self, who: usize, step: usize, rules: Rules) -> Option<Self> {
        let stores = PATH.get(step + 1)?;
        let other = PATH[self.processes[1 - who].0];
        if rules.neighbours && !stores.iter().any(|store| other.contains(store)) {
            return None;
        }
        let mut next = self.clone();
        // The other store's clock has passed all that was granted there alone.
        let floor = match stores {
            [only] if rules.floor => self.stores[1 - only].token,
            _ => 0,
        };
        next.processes[who] = (step + 1, At::Idle, floor);
        Some(next)
    }

    /// Whether a process holds a store and waits for another.
    fn has_waiter(&self) -> bool {
        self.processes.iter().any(|(_, at, _)| matches!(at, At::Taking(..)))
    }
}

/// Searches all reachable states. Returns everything that breaks, and the number of states.
fn search(rules: Rules) -> (HashSet<Broken>, usize) {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new()]);
    let mut broken = HashSet::new();
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let mut all = Vec::new();
        let mut ended = false;
        for who in 0..2 {
            match world.next(who, rules) {
                Ok(next) => all.extend(next),
                Err(why) => {
                    broken.insert(why);
                    ended = true;
                }
            }
        }
        // A killed process is no way out of a deadlock.
        let alive = ended || all.iter().any(|next| next.kills == world.kills);
        if !alive && world.has_waiter() {
            broken.insert(Broken::Deadlock);
        }
        open.extend(all);
    }
    (broken, seen.len())
}

#[test]
fn with_all_rules_nothing_breaks() {
    let (broken, worlds) = search(ALL);
    println!("{worlds} states");
    assert!(broken.is_empty(), "{broken:?}");
    assert!(worlds > 10_000, "{worlds}");
}

#[test]
fn without_the_write_back_tokens_go_back() {
    let broken = search(Rules { write_back: false, ..ALL }).0;
    assert_eq!(broken, HashSet::from([Broken::TokenWentBack]));
}

#[test]
fn without_the_fixed_order_there_is_a_deadlock() {
    let broken = search(Rules { fixed_order: false, ..ALL }).0;
    assert_eq!(broken, HashSet::from([Broken::Deadlock]));
}

#[test]
fn without_the_records_there_are_two_holders() {
    assert!(search(Rules { neighbours: false, ..ALL }).0.contains(&Broken::TwoHolders));
}

#[test]
fn without_the_floor_tokens_go_back() {
    let broken = search(Rules { floor: false, ..ALL }).0;
    assert_eq!(broken, HashSet::from([Broken::TokenWentBack]));
}
