//! The guarantees of one store, or of both, with the assumptions that a migration adds.

use std::sync::Arc;

use lock_core::{Assumption, Backend, Guarantees, Promise, QuarantineUse};

/// In phase `Old` or `New`.
pub(crate) fn of_one(store: &dyn Backend, other: &dyn Backend) -> Guarantees {
    let mut promised = (*store.guarantees()).clone();
    promised.exclusion = both(promised.exclusion, phases());
    promised.tokens = both(promised.tokens, phases());
    promised.shared = both(promised.shared, phases());
    promised.record = records(promised.record, other.guarantees().record.clone());
    // A process in phase `Both` may raise the token of readers that hold the lock to that of its
    // other store.
    promised.one_token_for_readers = false;
    promised.hand_over = false;
    promised
}

/// In phase `Both`.
pub(crate) fn of_both(stores: &[Arc<dyn Backend>; 2]) -> Guarantees {
    let [one, two] = stores.each_ref().map(|store| store.guarantees());
    let mut promised = Guarantees::new(
        one.shortest_lease.max(two.shortest_lease),
        one.longest_lease.min(two.longest_lease),
    );
    promised.exclusion = both(both(one.exclusion.clone(), two.exclusion.clone()), phases());
    promised.tokens = both(both(one.tokens.clone(), two.tokens.clone()), phases());
    promised.shared = both(both(one.shared.clone(), two.shared.clone()), phases());
    promised.record = records(one.record.clone(), two.record.clone());
    promised.most_readers = [one.most_readers, two.most_readers].into_iter().flatten().min();
    promised.lease_step = one.lease_step.max(two.lease_step);
    promised.quarantine = weaker(one.quarantine, two.quarantine);
    // A waiter is woken by the first store or, while it holds the first, by the second.
    promised.push = one.push && two.push;
    promised.fair = false;
    promised.expiry_slack = one.expiry_slack.max(two.expiry_slack);
    promised.expiry_is_observed = one.expiry_is_observed || two.expiry_is_observed;
    let limits = [one.expiries_per_second, two.expiries_per_second];
    promised.expiries_per_second = limits.into_iter().flatten().min();
    promised.longest_poll = one.longest_poll.max(two.longest_poll);
    // If a waiter dies while it holds the first store, its lease there must run out.
    promised.dead_waiter_delay = promised.longest_lease.saturating_add(
        one.dead_waiter_delay.max(two.dead_waiter_delay).max(promised.expiry_slack),
    );
    promised.raise = one.raise && two.raise;
    promised.token_lead = one.token_lead.max(two.token_lead);
    promised.connection = one.connection.min(two.connection);
    // Each store has its own version.
    promised.record_version =
        one.record_version.filter(|_| one.record_version == two.record_version);
    promised
}

fn phases() -> Promise {
    let text = "all processes that share these locks are in neighbouring phases of one migration; \
                each is seen by its record in both stores, unless it uses one of them by a URL of \
                its own";
    let kept = "the two stores do not both lose the record of one process within a third of a \
                longest lease, or a quarantine follows";
    Promise::Holds {
        assuming: vec![
            Assumption::new("neighbouring-phases", text),
            Assumption::new("records-are-kept", kept),
        ],
    }
}

/// Every phase reads the records of both stores.
fn records(one: Promise, two: Promise) -> Promise {
    let text = "a record of a name that nobody writes in phases both and new stays in the old store: processes stay in \
                these phases for as long as such a record counts";
    let stay = Promise::Holds { assuming: vec![Assumption::new("records-are-written-anew", text)] };
    both(both(both(one, two), phases()), stay)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{Init, Memory};

    use super::*;

    fn holds(ids: &[&'static str]) -> Promise {
        Promise::Holds { assuming: ids.iter().map(|id| Assumption::new(id, "")).collect() }
    }

    #[test]
    fn assumptions_add_up_and_a_promise_withheld_by_one_store_is_withheld() {
        assert_eq!(both(holds(&["a", "b"]), holds(&["b", "c"])), holds(&["a", "b", "c"]));
        let withheld = Promise::Withheld { why: "no fsync".into() };
        assert_eq!(both(holds(&["a"]), withheld.clone()), withheld);
        assert_eq!(both(withheld.clone(), holds(&["a"])), withheld);
    }

    #[test]
    fn the_weaker_quarantine_counts() {
        use QuarantineUse::{NotNeeded, Off, On, Unavailable};
        let order = [NotNeeded, On, Unavailable, Off];
        for (at, one) in order.into_iter().enumerate() {
            for (other, two) in order.into_iter().enumerate() {
                assert_eq!(weaker(one, two), order[at.max(other)]);
            }
        }
    }

    #[tokio::test]
    async fn leases_are_limited_by_both_stores_even_after_a_change() {
        let seconds = |longest| Some(Duration::from_secs(longest));
        let stores = [Memory::new(), Memory::new()];
        let parts = stores.clone().map(|store| Arc::new(store) as Arc<dyn Backend>);
        for (old, new, together) in [(5, 20, 5), (30, 20, 20), (30, 30, 30)] {
            for (store, longest) in stores.iter().zip([old, new]) {
                let init = Init::new().with_longest_lease(seconds(longest));
                store.init(&init).await.unwrap();
            }
            let promised = of_both(&parts);
            assert_eq!(Some(promised.longest_lease), seconds(together));
            assert_eq!(Some(of_one(&*parts[1], &*parts[0]).longest_lease), seconds(new));
            assert!(promised.push && promised.raise && !promised.fair);
            let own = parts[0].guarantees();
            for (ours, theirs) in
                [(&promised.exclusion, &own.exclusion), (&promised.tokens, &own.tokens)]
            {
                assert_eq!(*ours, both(theirs.clone(), phases()));
            }
        }
    }
}
