//! Checks the data of a run against the contract.

use std::{collections::BTreeMap, time::Duration};

use lock_core::Instant;

use crate::proof::clients::name_records;
use crate::proof::plan::fault::Fault;
use crate::proof::plan::system_under_test::Guarantee;
use crate::proof::trial::findings::{Finding, RunData};
use conformance_tests::history::{self, Event, History, Holds, Op, Rule, What};

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) lost: u64,
    pub(crate) stale_refused: u64,
    /// Acquisitions that failed with an error of the store.
    pub(crate) errors: u64,
    /// Acquisitions that certainly had a queue entry of their own.
    pub(crate) queued: u64,
    /// The longest time from the end of a validity until the guard reported it.
    pub(crate) reported_late: Duration,
}

/// Returns all violations, and the figures.
pub(crate) fn judge(data: &RunData) -> (Vec<Finding>, Figures) {
    let mut findings = data.findings.clone();
    findings.extend(rules(data));
    findings.extend(served(data));
    findings.extend(idle(data));
    let mut figures = figures(&data.history);
    findings.extend(losses_reported(data, &mut figures));
    (findings, figures)
}

/// The rules of the history checker. Each kind of register is a promise of its own.
fn rules(data: &RunData) -> Vec<Finding> {
    let (history, judges) = (&data.history, |guarantee| data.judges(guarantee));
    let of = |kind: &'static str| -> History {
        let theirs = |event: &&Event| matches!(&event.what, What::Updated { resource, .. } if resource.starts_with(kind));
        history.events().iter().filter(theirs).cloned().collect()
    };
    let all = [
        Rule::WellFormed,
        Rule::Permits,
        Rule::Resurrection,
        Rule::HandOver,
        Rule::Tokens,
        Rule::Exclusion,
    ];
    // Where exclusion is withheld, the order of two valid guards says nothing about their tokens.
    let together = if data.promised.exclusion.holds() { all.len() } else { all.len() - 1 };
    let mut broken = history::check(history, &all[..together]);
    broken.extend(history::check(history, &all[together..]));
    broken.extend(history::check(&of("fenced"), &[Rule::LostUpdate]));
    if judges(Guarantee::Fair) {
        broken.extend(history::check(history, &[Rule::Fairness]));
    }
    let mut findings: Vec<_> = broken
        .into_iter()
        .map(|violation| {
            let guarantee = match violation.rule {
                Rule::Tokens => Guarantee::Tokens,
                Rule::HandOver => Guarantee::HandOver,
                Rule::Resurrection => Guarantee::NoResurrection,
                Rule::LostUpdate => Guarantee::Fence,
                Rule::Fairness => Guarantee::Fair,
                _ => Guarantee::Exclusion,
            };
            Finding { guarantee, what: violation.to_string(), ops: violation.ops }
        })
        .collect();
    let registers = [
        (of("own"), Guarantee::OwnFence),
        (of("unfenced"), Guarantee::Unfenced),
        (name_records::writes(history), Guarantee::Record),
    ];
    for (register, guarantee) in registers {
        let lost = history::check(&register, &[Rule::LostUpdate]);
        findings.extend(lost.into_iter().map(|found| {
            let what = found.to_string();
            Finding { guarantee, what, ops: found.ops }
        }));
    }
    findings
}

/// L2: every waiter is served, and no client gets an error that the fault does not explain.
fn served(data: &RunData) -> Vec<Finding> {
    let holds = Holds::of(&data.history);
    let finding =
        |op: Op, what: String| Finding { ops: vec![op], ..Finding::new(Guarantee::Served, what) };
    let mut findings = Vec::new();
    for attempt in holds.by_name.values().flatten() {
        let killed = data.fault == Fault::ClientKilled && attempt.op.process == 0;
        match attempt.ended {
            None if !killed => {
                findings.push(finding(
                    attempt.op,
                    format!("the acquire of {} never returned", attempt.op),
                ));
            }
            Some(ended) if attempt.hold.is_none() && ended.since(attempt.asked) >= data.wait => {
                let what = format!("{} waited for {:?} and got no lock", attempt.op, data.wait);
                findings.push(finding(attempt.op, what));
            }
            _ => {}
        }
    }
    // On a crowded machine a store may not answer in time. The report counts these errors.
    if data.fault.spares_the_store() && !data.crowded {
        let spared = |op: Op| data.fault == Fault::None || op.process != 0;
        for event in data.history.events().iter().filter(|event| spared(event.op)) {
            if let What::NotAcquired { token: None, why } = &event.what {
                findings.push(finding(
                    event.op,
                    format!("the acquire of {} failed without a fault: {why}", event.op),
                ));
            }
        }
    }
    findings
}

/// L2, L3: if a lock is released while a client waits for it, it is held again within the time that
/// the store promises.
fn idle(data: &RunData) -> Vec<Finding> {
    if data.fault != Fault::None {
        return Vec::new();
    }
    let promised = &data.promised;
    let bound = promised.longest_poll + promised.dead_waiter_delay + data.tolerance;
    let holds = Holds::of(&data.history);
    let released = |op: Op| {
        let back = |event: &&Event| {
            event.op == op && matches!(event.what, What::Released { failed: None })
        };
        data.history.events().iter().find(back).map(|event| event.at)
    };
    let mut findings = Vec::new();
    for attempts in holds.by_name.values() {
        let granted = |attempt: &&history::Attempt| attempt.hold.is_some();
        for free in attempts.iter().filter(granted).filter_map(|attempt| released(attempt.op)) {
            let due = free + bound;
            let next = attempts.iter().filter(granted).filter_map(|attempt| attempt.ended);
            let next = next.filter(|at| *at > free).min();
            if next.is_some_and(|next| next <= due) {
                continue;
            }
            let waited = |attempt: &&history::Attempt| {
                attempt.attaches.is_none()
                    && attempt.asked < free
                    && attempt.ended.is_none_or(|ended| ended > due)
            };
            if let Some(waiter) = attempts.iter().find(waited) {
                let what = format!(
                    "{} waited for a lock that was free for more than {bound:?}",
                    waiter.op
                );
                let finding = Finding::new(Guarantee::Served, what);
                findings.push(Finding { ops: vec![waiter.op], ..finding });
            }
        }
    }
    findings
}

/// L5: a guard reports the end of its validity soon after it. The time in which a process is paused
/// does not count.
fn losses_reported(data: &RunData, figures: &mut Figures) -> Vec<Finding> {
    let mut beliefs: BTreeMap<Op, Instant> = BTreeMap::new();
    let mut findings = Vec::new();
    for event in data.history.events() {
        match &event.what {
            What::Acquired { until: Some(until), .. } | What::Looked { until: Some(until) } => {
                let believed = beliefs.entry(event.op).or_default();
                *believed = (*believed).max(*until);
            }
            What::Lost { .. } | What::GivenUp => {
                // Only the first of these events counts.
                let Some(until) = beliefs.remove(&event.op) else { continue };
                let due = match data.pause {
                    Some((_, resumed)) if event.op.process == 0 && event.at > resumed => {
                        until.max(resumed)
                    }
                    _ => until,
                };
                let late = event.at.since(due);
                figures.reported_late = figures.reported_late.max(late);
                if late > data.tolerance {
                    let what = format!(
                        "the guard of {} reported its loss {late:?} after its validity ended",
                        event.op
                    );
                    let finding = Finding::new(Guarantee::LossReported, what);
                    findings.push(Finding { ops: vec![event.op], ..finding });
                }
            }
            _ => {}
        }
    }
    findings
}

fn figures(history: &History) -> Figures {
    let mut figures = Figures::default();
    for event in history.events() {
        match &event.what {
            What::Asked { .. } => figures.asked += 1,
            What::Acquired { .. } => figures.granted += 1,
            What::Lost { .. } => figures.lost += 1,
            What::Queued => figures.queued += 1,
            What::NotAcquired { token: None, .. } => figures.errors += 1,
            What::Updated { admitted: false, .. } if !name_records::is_of_a_record(&event.what) => {
                figures.stale_refused += 1;
            }
            _ => {}
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lock_core::{FencingToken, Guarantees, LockName, LossReason, OwnerId};

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn event(second: u64, process: u32, what: What) -> Event {
        Event { at: at(second), op: Op { process, number: 0 }, what }
    }

    fn asked(second: u64, process: u32) -> Event {
        let (name, permits, mode) =
            (LockName::new("job").unwrap(), None, lock_core::Mode::Exclusive);
        event(second, process, What::Asked { name, permits, mode })
    }

    fn acquired(second: u64, process: u32, until: u64) -> Event {
        let token = FencingToken::new(second).unwrap();
        let owner = OwnerId::from_bits(u128::from(process));
        event(second, process, What::Acquired { owner, token, until: Some(at(until)), lock: None })
    }

    fn updated(second: u64, process: u32, kind: &str, read: u64, admitted: bool) -> Event {
        let (resource, token) = (format!("{kind} job"), FencingToken::new(second).unwrap());
        let (began, wrote) = (at(second), second);
        event(second, process, What::Updated { resource, token, began, read, wrote, admitted })
    }

    fn found(fault: Fault, pause: Option<(u64, u64)>, events: Vec<Event>) -> Vec<Guarantee> {
        let second = Duration::from_secs(1);
        let mut promised = Guarantees::new(second, second);
        (promised.fair, promised.hand_over) = (true, true);
        let data = RunData {
            seed: 0,
            fault,
            history: History::new(events),
            promised: Arc::new(promised),
            wait: Duration::from_secs(30),
            pause: pause.map(|(from, to)| (at(from), at(to))),
            around: None,
            freed_after: None,
            findings: Vec::new(),
            happened: String::new(),
            has_own_fence: true,
            has_records: true,
            tolerance: Duration::from_secs(2),
            crowded: false,
        };
        judge(&data).0.into_iter().map(|finding| finding.guarantee).collect()
    }

    #[test]
    fn a_loss_that_is_reported_late_is_found_but_not_of_a_stopped_process() {
        let lost = |second| {
            let lost = event(second, 0, What::Lost { reason: LossReason::Expired });
            vec![asked(1, 0), acquired(2, 0, 3), lost]
        };
        assert!(found(Fault::ServerPaused, None, lost(4)).is_empty());
        assert_eq!(found(Fault::ServerPaused, None, lost(9)), [Guarantee::LossReported]);
        assert!(found(Fault::ClientPaused, Some((2, 8)), lost(9)).is_empty());
        // The guard never reported its loss, and its holder released it long after.
        let kept = vec![asked(1, 0), acquired(2, 0, 3), event(9, 0, What::GivenUp)];
        assert_eq!(found(Fault::HalfCut, None, kept), [Guarantee::LossReported]);
    }

    #[test]
    fn who_is_not_served_is_found() {
        let vain = |second| {
            let token = FencingToken::new(5);
            vec![asked(1, 1), event(second, 1, What::NotAcquired { token, why: "late".into() })]
        };
        assert!(found(Fault::None, None, vain(30)).is_empty());
        assert_eq!(found(Fault::None, None, vain(31)), [Guarantee::Served]);
        assert_eq!(found(Fault::ClientKilled, None, vec![asked(1, 1)]), [Guarantee::Served]);
        assert!(found(Fault::ClientKilled, None, vec![asked(1, 0)]).is_empty(), "it was killed");
    }

    #[test]
    fn an_error_is_found_where_nothing_befell_the_store() {
        let failed = |process| {
            let what = What::NotAcquired { token: None, why: "no connection".into() };
            vec![asked(1, process), event(2, process, what)]
        };
        assert_eq!(found(Fault::ClientPaused, None, failed(1)), [Guarantee::Served]);
        assert!(found(Fault::ClientPaused, None, failed(0)).is_empty());
        assert!(found(Fault::ServerPaused, None, failed(1)).is_empty());
    }

    #[test]
    fn a_lost_update_is_told_by_its_register() {
        let twice =
            |kind, admitted| vec![updated(2, 1, kind, 0, true), updated(3, 0, kind, 0, admitted)];
        assert_eq!(
            found(Fault::ClientPaused, None, twice("unfenced", true)),
            [Guarantee::Unfenced]
        );
        assert_eq!(found(Fault::ClientPaused, None, twice("fenced", true)), [Guarantee::Fence]);
        assert!(found(Fault::ClientPaused, None, twice("fenced", false)).is_empty());
        assert_eq!(found(Fault::ClientPaused, None, twice("own", true)), [Guarantee::OwnFence]);
        assert!(found(Fault::ClientPaused, None, twice("own", false)).is_empty());
        assert_eq!(found(Fault::ClientPaused, None, twice("record", true)), [Guarantee::Record]);
        assert!(found(Fault::ClientPaused, None, twice("record", false)).is_empty());
    }

    #[test]
    fn a_free_lock_that_nobody_gets_is_found() {
        let waits = |second| {
            let released = event(3, 0, What::Released { failed: None });
            vec![asked(1, 0), acquired(2, 0, 3), released, asked(2, 1), acquired(second, 1, 20)]
        };
        assert!(found(Fault::None, None, waits(6)).is_empty());
        assert_eq!(found(Fault::None, None, waits(9)), [Guarantee::Served]);
    }

    #[test]
    fn who_is_passed_over_is_found_where_nothing_befell_the_clients() {
        let passed = vec![
            asked(1, 1),
            event(2, 1, What::Queued),
            asked(3, 0),
            acquired(4, 0, 5),
            acquired(6, 1, 7),
        ];
        assert_eq!(found(Fault::None, None, passed.clone()), [Guarantee::Fair]);
        assert!(found(Fault::ClientPaused, None, passed).is_empty());
    }

    #[test]
    fn a_lock_that_is_attached_twice_is_found() {
        let name = || LockName::new("job").unwrap();
        let attaching = |second, process| {
            let of = Op { process: 0, number: 0 };
            event(second, process, What::Attaching { name: name(), of })
        };
        let with_token = |second, mut event: Event| {
            if let What::Acquired { token, .. } = &mut event.what {
                *token = FencingToken::new(2).unwrap();
            }
            event.at = at(second);
            event
        };
        let attached = |second, process, end| with_token(second, acquired(2, process, end));
        let one = vec![
            asked(1, 0),
            acquired(2, 0, 9),
            event(3, 0, What::GivenUp),
            event(3, 0, What::Detached),
            attaching(4, 1),
            attached(5, 1, 8),
            event(6, 1, What::GivenUp),
            attaching(6, 2),
        ];
        let refused = [one.clone(), vec![event(7, 2, What::NotHeld)]].concat();
        assert!(found(Fault::None, None, refused).is_empty());
        let twice = [one, vec![attached(7, 2, 9)]].concat();
        assert_eq!(found(Fault::None, None, twice), [Guarantee::HandOver]);
    }

    #[test]
    fn two_holders_and_a_token_that_repeats_are_found() {
        let second = |second, until| {
            vec![asked(1, 0), acquired(2, 0, 6), asked(1, 1), acquired(second, 1, until)]
        };
        assert_eq!(found(Fault::ClientKilled, None, second(4, 8))[0], Guarantee::Exclusion);
        assert!(found(Fault::ClientKilled, None, second(6, 8)).is_empty());
    }
}
