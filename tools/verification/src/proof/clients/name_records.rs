//! The record of each name, as one more register that holders read and write. Here the store itself
//! must refuse the write of a former holder.
//!
//! The client processes record the writes. A write may have no answer, or its process may be killed
//! before the answer. So a process tells what it is about to write, and the judge counts a write
//! without an answer if somebody has read its value.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use lock_core::{
    Error, ErrorKind, Guard, Instant, RecordWrite,
    WriteOutcome::{NotHeld, Written},
};

use super::workload::{Worker, value_of};
use conformance_tests::history::{Acquisition, Event, History, What};

/// What the name of the resource begins with: for a write with an answer, which says whether it was
/// admitted, and for one that is about to be sent, which says whether its guard is valid.
const ANSWERED: &str = "record ";
const SENT: &str = "sent ";

/// Longer than a run.
const KEPT: Duration = Duration::from_secs(86_400);

/// What a holder has read and not yet replaced.
#[derive(Debug)]
pub(super) struct Read {
    began: Instant,
    value: u64,
}

impl Worker {
    /// Reads the record; `None` if the store keeps none, or does not answer.
    pub(super) async fn read_record(&self, guard: &Guard) -> Option<Read> {
        let began = self.recorder.now();
        let record = self.client.read_record(guard.name()).await.ok()?.record;
        let value = record.map_or(Ok([0; 8]), |record| record.value.try_into());
        let value = u64::from_be_bytes(value.expect("a record of this run has eight bytes"));
        Some(Read { began, value })
    }

    /// Writes the record. A holder whose guard is lost has the store refuse the write.
    pub(super) async fn write_record(&self, op: &Acquisition, guard: &Guard, read: Option<Read>) {
        let Some(Read { began, value: read }) = read else { return };
        let wrote = value_of(op);
        let tell = |prefix: &str, admitted| {
            let resource = format!("{prefix}{}", guard.name());
            op.record(What::Updated {
                resource,
                token: guard.token(),
                began,
                read,
                wrote,
                admitted,
            });
        };
        let valid = op.look(guard);
        tell(SENT, valid);
        let value = wrote.to_be_bytes();
        let mut answer = None;
        if valid {
            let write = async { answer = Some(guard.write_record(value, KEPT).await) };
            self.watch(op, guard, write).await;
        } else {
            let write = RecordWrite::new(value, KEPT).expect("a write within the limits");
            let outcome = self.client.backend().write_record(guard.grant(), &write).await;
            answer = Some(match outcome {
                Ok(Written) => Ok(()),
                Ok(NotHeld) => Err(Error::new(ErrorKind::NotHeld, "refused")),
                Err(error) => Err(error),
            });
        }
        match answer {
            Some(Ok(())) => tell(ANSWERED, true),
            Some(Err(error)) if error.kind() == ErrorKind::NotHeld => tell(ANSWERED, false),
            _ => {}
        }
    }
}

/// Whether this is about the write of a record.
pub(crate) fn is_of_a_record(what: &What) -> bool {
    matches!(what, What::Updated { resource, .. }
        if resource.starts_with(ANSWERED) || resource.starts_with(SENT))
}

/// Whether the store has carried out the write of a record.
pub(crate) fn is_written(what: &What) -> bool {
    matches!(what, What::Updated { resource, admitted: true, .. } if resource.starts_with(ANSWERED))
}

/// Whether a former holder sends the write of a record.
pub(crate) fn is_late(what: &What) -> bool {
    matches!(what, What::Updated { resource, admitted: false, .. } if resource.starts_with(SENT))
}

/// The writes of records that the store has carried out, as far as somebody knows.
pub(crate) fn writes(history: &History) -> History {
    let updates = history.events().iter().filter_map(|event| match &event.what {
        What::Updated { resource, read, .. } if is_of_a_record(&event.what) => {
            Some((event, resource, *read))
        }
        _ => None,
    });
    let updates: Vec<_> = updates.collect();
    let seen: HashMap<u64, Instant> =
        updates.iter().rev().map(|(event, _, read)| (*read, event.at)).collect();
    let is_sent = |resource: &str| resource.starts_with(SENT);
    let answered = updates.iter().filter(|(_, resource, _)| !is_sent(resource));
    let answered: HashSet<_> = answered.map(|(event, ..)| event.op).collect();
    let carried_out = updates.into_iter().filter_map(|(event, resource, _)| {
        let mut event: Event = event.clone();
        if is_sent(resource) {
            let What::Updated { resource, wrote, admitted, .. } = &mut event.what else {
                return None;
            };
            if answered.contains(&event.op) {
                return None;
            }
            // It ended at some time before it was read.
            event.at = event.at.max(*seen.get(wrote)?);
            *resource = resource.replacen(SENT, ANSWERED, 1);
            *admitted = true;
        }
        Some(event)
    });
    carried_out.collect()
}

#[cfg(test)]
mod tests {
    use lock_core::FencingToken;

    use super::*;
    use conformance_tests::history::{Op, Rule, check};

    /// A write of this process, which read and wrote these values.
    fn event(process: u32, resource: &str, read: u64, wrote: u64, admitted: bool) -> Event {
        let at = Instant::from_nanos(u64::from(process) * 10);
        let token = FencingToken::new(process.into()).unwrap();
        let (op, resource) = (Op { process, number: 0 }, format!("{resource}job"));
        Event { at, op, what: What::Updated { resource, token, began: at, read, wrote, admitted } }
    }

    fn broken(events: Vec<Event>) -> usize {
        check(&writes(&History::new(events)), &[Rule::LostUpdate]).len()
    }

    #[test]
    fn a_stale_write_that_wins_is_found() {
        let writes =
            |admitted| vec![event(2, ANSWERED, 0, 12, true), event(1, ANSWERED, 0, 11, admitted)];
        assert_eq!(broken(writes(false)), 0);
        assert!(broken(writes(true)) > 0);
    }

    #[test]
    fn a_write_without_an_answer_counts_if_somebody_has_read_it() {
        let sent = |process, read, wrote| event(process, SENT, read, wrote, process > 1);
        let unread = vec![sent(1, 0, 11), sent(2, 0, 12), event(2, ANSWERED, 0, 12, true)];
        assert_eq!(broken(unread.clone()), 0, "nobody knows of the first");
        let late = [unread, vec![event(3, ANSWERED, 11, 13, true)]].concat();
        assert!(broken(late) > 0, "the first came after the second");
        assert_eq!(broken(vec![sent(1, 0, 11), event(2, ANSWERED, 11, 12, true)]), 0);
        // Only another write without an answer knows of it.
        assert_eq!(broken(vec![sent(1, 0, 11), sent(2, 11, 12)]), 0);
    }
}
