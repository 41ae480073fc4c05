//! A fenced resource loses no update and admits no stale write.
//!
//! Every write replaces a value that its writer had read. So the admitted writes form one chain
//! from the first value, 0. If two writes read the same value, one update was lost.

use std::collections::{BTreeMap, HashMap};

use lock_core::{FencingToken, Instant};

use super::{Rule, Violation};
use crate::history::{History, Op, What};

#[derive(Clone, Copy)]
struct Write {
    op: Op,
    token: FencingToken,
    began: Instant,
    ended: Instant,
    read: u64,
    wrote: u64,
}

pub(super) fn check(history: &History, found: &mut Vec<Violation>) {
    let mut resources: BTreeMap<&str, Vec<Write>> = BTreeMap::new();
    for event in history.events() {
        if let What::Updated { resource, token, began, read, wrote, admitted: true } = &event.what {
            let (op, ended) = (event.op, event.at);
            let (token, began, read, wrote) = (*token, *began, *read, *wrote);
            let write = Write { op, token, began, ended, read, wrote };
            resources.entry(resource).or_default().push(write);
        }
    }
    for (resource, writes) in resources {
        chain(resource, &writes, found);
    }
}

fn chain(resource: &str, writes: &[Write], found: &mut Vec<Violation>) {
    let mut blame = |what: String, ops: Vec<Op>| {
        found.push(Violation::new(Rule::LostUpdate, format!("{resource:?}: {what}"), ops));
    };
    let mut by_read: HashMap<u64, Write> = HashMap::new();
    for write in writes {
        if let Some(other) = by_read.insert(write.read, *write) {
            let what = format!("{} and {} both updated {}", other.op, write.op, write.read);
            blame(what, vec![other.op, write.op]);
        }
    }
    let mut last: Option<Write> = None;
    let mut latest_begin = Instant::default();
    // Each write is removed, so that the loop also ends for a circle.
    while let Some(write) = by_read.remove(&last.map_or(0, |last| last.wrote)) {
        if let Some(last) = last.filter(|last| write.token < last.token) {
            let what = format!(
                "a write with the stale token {} was admitted after {}",
                write.token, last.token
            );
            blame(what, vec![last.op, write.op]);
        }
        if write.ended < latest_begin {
            let what =
                format!("the write of {} ended before the write that it built on began", write.op);
            blame(what, vec![write.op]);
        }
        latest_begin = latest_begin.max(write.began);
        last = Some(write);
    }
    let mut rest: Vec<_> = by_read.into_values().collect();
    rest.sort_by_key(|write| write.ended);
    for write in rest {
        let what = format!("{} updated {}, which nobody had written", write.op, write.read);
        blame(what, vec![write.op]);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::samples::*, *};
    use crate::history::check;

    fn updates(list: &[(u64, u64, u64, u64)]) -> usize {
        let mut sample = Sample::new();
        for (at, value, read, wrote) in list {
            sample = write(sample, (*at, *value, *read, *wrote), true);
        }
        broken(sample)
    }

    fn write(
        sample: Sample,
        (nanos, value, read, wrote): (u64, u64, u64, u64),
        yes: bool,
    ) -> Sample {
        sample.ask(nanos).event(
            nanos + 2,
            What::Updated {
                resource: "r".into(),
                token: token(value),
                began: at(nanos),
                read,
                wrote,
                admitted: yes,
            },
        )
    }

    fn broken(sample: Sample) -> usize {
        check(&sample.history(), &[Rule::LostUpdate]).len()
    }

    #[test]
    fn a_chain_of_updates_is_clean() {
        assert_eq!(updates(&[(10, 1, 0, 11), (20, 1, 11, 12), (30, 5, 12, 13)]), 0);
    }

    #[test]
    fn a_lost_update_is_found() {
        assert!(updates(&[(10, 1, 0, 11), (20, 2, 0, 12)]) > 0);
        // The first is gone without a trace.
        assert!(updates(&[(10, 1, 0, 11), (20, 2, 11, 12), (30, 3, 11, 13), (40, 4, 13, 14)]) > 0);
        assert!(updates(&[(10, 1, 5, 11)]) > 0, "nobody wrote 5");
    }

    #[test]
    fn an_admitted_stale_write_is_found_and_a_refused_one_is_not_blamed() {
        assert_eq!(updates(&[(10, 2, 0, 11), (20, 1, 11, 12)]), 1);
        let first = write(Sample::new(), (10, 2, 0, 11), true);
        assert_eq!(broken(write(first, (20, 1, 0, 12), false)), 0);
    }

    #[test]
    fn a_write_built_on_what_was_not_yet_written_is_found() {
        assert_eq!(updates(&[(20, 1, 0, 11), (10, 1, 11, 12)]), 1);
    }
}
