//! Records of names.

use lock_core::{
    Error, FencingToken, Grant, LockName, Record, RecordRead, RecordWrite, StoreTime, WriteOutcome,
};
use redis::Value;

use crate::{
    scripts::{self, Arguments, reply},
    store::{Store, unreadable},
};

pub(super) async fn read(store: &Store, name: &LockName) -> Result<RecordRead, Error> {
    let bucket = store.keys.bucket(name);
    let keys = [store.keys.epoch(bucket), store.keys.record(name)];
    let answer = store.run(bucket, &scripts::READ_RECORD, &keys, &Arguments::default()).await?;
    let parts = reply::list(answer)?;
    let [record, now, since] = parts.as_slice() else { return Err(reply::not_understood()) };
    let record = match record {
        Value::BulkString(record) => {
            Some(read_value(record).ok_or_else(|| unreadable::record(&keys[1]))?)
        }
        _ => None,
    };
    let now = StoreTime::from_micros(reply::number(now)?);
    let since = StoreTime::from_micros(reply::number(since)?);
    let unnoticed = store.guarantees.may_lose_records_unnoticed();
    Ok(RecordRead::new(record, now).with_complete_since(if unnoticed { now } else { since }))
}

/// Reads "token number written", and on the next line the value.
fn read_value(record: &[u8]) -> Option<Record> {
    let line = record.iter().position(|byte| *byte == b'\n')?;
    let mut head = std::str::from_utf8(&record[..line]).ok()?.split(' ');
    let token = FencingToken::new(head.next()?.parse().ok()?)?;
    let written = StoreTime::from_micros(head.nth(1)?.parse().ok()?);
    Some(Record::new(record[line + 1..].to_vec(), token, written))
}

pub(super) async fn write(
    store: &Store,
    grant: &Grant,
    write: &RecordWrite,
) -> Result<WriteOutcome, Error> {
    let bucket = store.keys.bucket(&grant.name);
    let (lock, record) = (store.keys.lock(&grant.name), store.keys.record(&grant.name));
    let keys = [store.keys.epoch(bucket), lock, record];
    let own = scripts::record_write(grant, write, store.promised().record.holds());
    match reply::number(&store.run(bucket, &scripts::WRITE_RECORD, &keys, &own).await?)? {
        1 => Ok(WriteOutcome::Written),
        0 => Ok(WriteOutcome::NotHeld),
        _ => Err(reply::not_understood()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_whatever_bytes_it_has() {
        let record = read_value(b"7 2 1800000000000000\na \n\xff").unwrap();
        assert_eq!((record.token.get(), record.value.as_slice()), (7, &b"a \n\xff"[..]));
        assert_eq!(record.written.as_micros(), 1_800_000_000_000_000);
        for bad in [&b""[..], b"7 2 1", b"7 2\n", b"x 2 1\n", b"7 2 \xff\n"] {
            assert!(read_value(bad).is_none(), "{bad:?}");
        }
    }
}
