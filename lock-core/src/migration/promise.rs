//! What two stores promise together.

use std::{sync::Arc, time::Duration};

use super::Migration;
use crate::{Assumption, Guarantees, Promise, QuarantineUse};

impl Migration {
    pub(super) fn promised(&self) -> Arc<Guarantees> {
        if let Some(only) = self.only() {
            let mut promised = (*only.guarantees()).clone();
            promised.exclusion = both(promised.exclusion, phases());
            promised.tokens = both(promised.tokens, phases());
            return Arc::new(promised);
        }
        let [one, two] = [self.stores[0].guarantees(), self.stores[1].guarantees()];
        let mut promised = Guarantees::new(
            one.shortest_lease.max(two.shortest_lease),
            one.longest_lease.min(two.longest_lease),
        );
        promised.exclusion = both(both(one.exclusion.clone(), two.exclusion.clone()), phases());
        promised.tokens = both(both(one.tokens.clone(), two.tokens.clone()), phases());
        promised.lease_step = one.lease_step.max(two.lease_step);
        promised.quarantine = weaker(one.quarantine, two.quarantine);
        promised.expiry_slack = one.expiry_slack.max(two.expiry_slack);
        promised.longest_poll = one.longest_poll.max(two.longest_poll);
        promised.dead_place_delay = Duration::ZERO;
        promised.raise = one.raise && two.raise;
        promised.token_lead = one.token_lead.max(two.token_lead);
        Arc::new(promised)
    }
}

fn phases() -> Promise {
    let text = "all processes are in neighbouring phases of the migration, and a longest lease passes \
                between the last one in a phase and the first one two phases on";
    Promise::Holds { assuming: vec![Assumption::new("neighbouring-phases", text)] }
}

fn both(one: Promise, two: Promise) -> Promise {
    match (one, two) {
        (Promise::Holds { mut assuming }, Promise::Holds { assuming: more }) => {
            for assumption in more {
                if !assuming.contains(&assumption) {
                    assuming.push(assumption);
                }
            }
            Promise::Holds { assuming }
        }
        (withheld @ Promise::Withheld { .. }, _) | (_, withheld) => withheld,
    }
}

fn weaker(one: QuarantineUse, two: QuarantineUse) -> QuarantineUse {
    use QuarantineUse::{NotNeeded, Off, On, Unavailable};
    let either = |which| one == which || two == which;
    [Off, Unavailable, On].into_iter().find(|&which| either(which)).unwrap_or(NotNeeded)
}
