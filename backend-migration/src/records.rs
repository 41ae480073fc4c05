//! The records of names (not those of processes, which are in `record`), in two stores.
//!
//! A record is where the processes of its phase have written it: in one store, or in both. So every
//! phase reads both stores, and the record with the higher token counts.

use std::sync::Arc;

use futures_util::future::join;
use lock_core::{
    Backend, Error, ErrorKind, Grant, Init, LockName, Record, RecordRead, RecordWrite, StoreTime,
    WriteOutcome,
};

use crate::both::Pair;

/// The store that a process in an end phase does not use.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) store: Arc<dyn Backend>,
    /// Whether it is the first of the two in the order of acquisition.
    pub(crate) is_first: bool,
}

/// Reads a record for a process that uses one store. The other store may be down meanwhile, or keep
/// no records.
pub(crate) async fn read_from_one(
    own: &dyn Backend,
    other: &Other,
    name: &LockName,
) -> Result<RecordRead, Error> {
    let (read, more) = join(own.read_record(name), other.store.read_record(name)).await;
    let read = read?;
    Ok(match more {
        Ok(more) => merged(read, &more, other.is_first),
        Err(error) if error.kind() == ErrorKind::Unsupported => read,
        // What it would have said is not known.
        Err(_) => {
            let now = read.now;
            read.with_complete_since(now)
        }
    })
}

/// Reads a record for a process that uses both stores, which are in the order of acquisition.
pub(crate) async fn read_from_both(
    stores: &[Arc<dyn Backend>; 2],
    name: &LockName,
) -> Result<RecordRead, Error> {
    let (first, second) = join(stores[0].read_record(name), stores[1].read_record(name)).await;
    Ok(merged(first?, &second?, false))
}

/// What two stores say of a record, on the clock of the one that gave `read`. It is complete for as
/// long as both are: a record may have been in either.
///
/// A grant in both stores writes to the first one first. So of two values of one grant, that of the
/// first store is the later one, and every phase takes it.
fn merged(read: RecordRead, more: &RecordRead, more_is_first: bool) -> RecordRead {
    // Their clocks may differ.
    let on_our_clock = |time: StoreTime| {
        let ago = u64::try_from(more.now.since(time).as_micros()).unwrap_or(u64::MAX);
        StoreTime::from_micros(read.now.as_micros().saturating_sub(ago))
    };
    let since = match more.complete_since {
        StoreTime::EVER => StoreTime::EVER,
        since => on_our_clock(since),
    };
    let since = since.max(read.complete_since);
    let token = |record: &Option<Record>| record.as_ref().map(|record| record.token);
    let (ours, theirs) = (token(&read.record), token(&more.record));
    let record = match &more.record {
        Some(record) if theirs > ours || (theirs == ours && more_is_first) => {
            let written = on_our_clock(record.written);
            Some(Record::new(record.value.clone(), record.token, written))
        }
        _ => read.record,
    };
    RecordRead::new(record, read.now).with_complete_since(since)
}

/// Writes a record to both stores, in the order of acquisition, each with the check that the grant
/// holds the lock there.
///
/// # Errors
/// `OutcomeUnknown` if the first store has it and the second does not: a later holder, whose token
/// is higher, replaces it.
pub(crate) async fn write_to_both(
    stores: &[Arc<dyn Backend>; 2],
    grant: &Grant,
    write: &RecordWrite,
) -> Result<WriteOutcome, Error> {
    let pair = Pair::of(grant)?;
    if stores[0].write_record(&pair.grants[0], write).await? == WriteOutcome::NotHeld {
        return Ok(WriteOutcome::NotHeld);
    }
    let unknown = |why: &str| {
        let message = format!("the record is in one of the two stores only: {why}");
        Error::new(ErrorKind::OutcomeUnknown, message)
    };
    match stores[1].write_record(&pair.grants[1], write).await {
        Ok(WriteOutcome::Written) => Ok(WriteOutcome::Written),
        Ok(WriteOutcome::NotHeld) => Err(unknown("the other has lost the lock")),
        Err(error) if error.is_ambiguous() => Err(error),
        Err(error) => Err(unknown("the other has refused it").with_source(error)),
    }
}

/// Takes the records of a store for complete which the phase does not set up.
///
/// # Errors
/// Those of the store, unless it keeps no records.
pub(crate) async fn set_complete(other: &dyn Backend) -> Result<(), Error> {
    match other.init(&Init::new().with_records_complete(true)).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        set => set.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::FencingToken;

    use super::*;

    fn at(micros: u64) -> StoreTime {
        StoreTime::from_micros(micros)
    }

    fn read(token: u64, written: u64, now: u64, since: u64) -> RecordRead {
        let record =
            Record::new(token.to_string().into(), FencingToken::new(token).unwrap(), at(written));
        let record = Some(record).filter(|_| token > 0);
        RecordRead::new(record, at(now)).with_complete_since(at(since))
    }

    #[test]
    fn the_record_with_the_higher_token_counts_on_our_clock() {
        // The second clock is 1,000 ahead.
        for (one, two, merged_is) in [
            (read(0, 0, 100, 0), read(0, 0, 1_100, 0), read(0, 0, 100, 0)),
            (read(7, 60, 100, 0), read(0, 0, 1_100, 0), read(7, 60, 100, 0)),
            (read(0, 0, 100, 0), read(7, 1_060, 1_100, 0), read(7, 60, 100, 0)),
            (read(7, 60, 100, 0), read(8, 1_070, 1_100, 0), read(8, 70, 100, 0)),
            (read(8, 70, 100, 0), read(7, 1_060, 1_100, 0), read(8, 70, 100, 0)),
            (read(7, 60, 100, 50), read(7, 60, 1_100, 0), read(7, 60, 100, 50)),
            (read(7, 60, 100, 0), read(7, 60, 1_100, 1_050), read(7, 60, 100, 50)),
            (read(7, 60, 100, 40), read(7, 60, 1_100, 1_050), read(7, 60, 100, 50)),
        ] {
            assert_eq!(merged(one, &two, false), merged_is);
        }
    }

    #[test]
    fn of_two_values_of_one_grant_that_of_the_first_store_counts() {
        let (one, two) = (read(7, 61, 100, 0), read(7, 1_060, 1_100, 0));
        assert_eq!(merged(one.clone(), &two, false), one);
        assert_eq!(merged(one, &two, true), read(7, 60, 100, 0));
    }
}
