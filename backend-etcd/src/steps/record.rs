//! Records of names. A record is a key that outlives the lock. It has its own etcd lease, and etcd
//! deletes the key when that lease ends.

use etcd_client::{Compare, CompareOp, GetResponse, Txn, TxnOp};
use lock_core::{
    Env as _, Error, ErrorKind, FencingToken, Grant, LockName, Mode, Record, RecordRead,
    RecordWrite, StoreTime, SystemEnv, WriteOutcome,
};

use crate::{
    keys::{entry::Held, settings},
    rpc::{Failure, Lease, gets, incomplete, put, revision, whole_seconds},
    store::Store,
    tunables::TRIES,
};

/// A record as it was read.
struct Stored {
    record: Record,
    number: u64,
    lease: i64,
    modified: i64,
}

/// Reads the record, in a history of the cluster that was observed: otherwise the settings could
/// be those of a restored snapshot, and say nothing of the loss.
pub(crate) async fn read(store: &Store, name: &LockName) -> Result<RecordRead, Error> {
    let key = store.layout.record(name);
    for _ in 0..TRIES {
        let token = store.restore.history_token().await?;
        let reads = [TxnOp::get(key.as_str(), None), store.layout.get_settings()];
        let answer = store.rpc.txn(Txn::new().and_then(reads)).await?;
        let got = gets(&answer);
        let [record, found] = &got[..] else { return Err(incomplete()) };
        store.restore.note_found(found, revision(&answer))?;
        if !store.restore.history.is_same(&store.rpc, &token, &answer) {
            continue;
        }
        let Some((settings, _)) = settings::Record::found(found)? else { continue };
        let record = stored(&key, record)?.map(|stored| stored.record);
        let since = StoreTime::from_micros(settings.records_since);
        return Ok(RecordRead::new(record, now()).with_complete_since(since));
    }
    Err(Error::new(ErrorKind::Unavailable, "the connections to etcd break again and again"))
}

/// Writes the record, in one transaction with the check that the grant holds its lock. Only the
/// holder of the lock writes, so the record mostly is as it was just read.
pub(crate) async fn write(
    store: &Store,
    grant: &Grant,
    held: &Held,
    write: &RecordWrite,
) -> Result<WriteOutcome, Error> {
    if grant.mode == Mode::Shared {
        return Ok(WriteOutcome::NotHeld);
    }
    let key = store.layout.record(&grant.name);
    let mut before = stored(&key, &read_one(store, &key).await?)?;
    let (_, mut same) = held.as_granted();
    for _ in 0..TRIES {
        if before.as_ref().is_some_and(|seen| seen.is_of(grant, write)) {
            return Ok(WriteOutcome::Written);
        }
        let (lease, is_new) = lease_of(store, before.as_ref(), write).await?;
        same.push(Compare::mod_revision(
            key.as_str(),
            CompareOp::Equal,
            before.as_ref().map_or(0, |seen| seen.modified),
        ));
        // Nothing is written beside settings of another version.
        same.push(store.restore.settings().unchanged(&store.layout));
        let reads = [TxnOp::get(held.key(), None), TxnOp::get(key.as_str(), None)];
        let txn = Txn::new()
            .when(std::mem::take(&mut same))
            .and_then([put(&key, value_of(grant, write), lease.id)])
            .or_else(reads.into_iter().chain([store.layout.get_settings()]).collect::<Vec<_>>());
        let answer = match store.rpc.txn(txn).await {
            // The lease of an old record has ended since it was extended.
            Err(Failure::LeaseGone) => None,
            answer => Some(answer?),
        };
        if answer.as_ref().is_some_and(|answer| answer.succeeded()) {
            if let Some(old) = before.filter(|_| is_new) {
                forget_lease(store, old.lease).await;
            }
            return Ok(WriteOutcome::Written);
        }
        if is_new {
            forget_lease(store, lease.id).await;
        }
        let (entry, found) = match answer {
            Some(answer) => {
                let got = gets(&answer);
                let [entry, found, settings] = &got[..] else { return Err(incomplete()) };
                store.restore.note_found(settings, revision(&answer))?;
                (entry.clone(), found.clone())
            }
            None => (read_one(store, held.key()).await?, read_one(store, &key).await?),
        };
        before = stored(&key, &found)?;
        same = match held.as_found(&entry) {
            Some((entry, same)) if !entry.kept => same,
            // It may be the earlier request of this write that was carried out.
            _ if before.as_ref().is_some_and(|seen| seen.is_of(grant, write)) => {
                return Ok(WriteOutcome::Written);
            }
            _ => return Ok(WriteOutcome::NotHeld),
        };
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the record again and again"))
}

impl Stored {
    /// Whether it is this write, or a later one of the same grant.
    fn is_of(&self, grant: &Grant, write: &RecordWrite) -> bool {
        self.record.token == grant.token && self.number >= write.number
    }
}

async fn read_one(store: &Store, key: &str) -> Result<GetResponse, Error> {
    let answer = store.rpc.txn(Txn::new().and_then([TxnOp::get(key, None)])).await?;
    gets(&answer).pop().ok_or_else(incomplete)
}

/// The lease by which the record will live, and whether it is new. The lease of the record before
/// is extended if it is as long, so that a name that is written often has one lease.
///
/// It begins before the record says that it was written, by one call at most, and is longer by as
/// much.
async fn lease_of(
    store: &Store,
    before: Option<&Stored>,
    write: &RecordWrite,
) -> Result<(Lease, bool), Error> {
    let keep_for = write.keep_for + store.rpc.limit;
    if let Some(seen) = before.filter(|seen| seen.lease != 0)
        && let Some(lease) = store.keepalives.extend(seen.lease).await?
        && lease.ttl.as_secs() == whole_seconds(keep_for)
    {
        return Ok((lease, false));
    }
    Ok((store.rpc.grant(keep_for).await?, true))
}

/// Ends a lease that no key uses any more. If that fails, it ends by itself.
async fn forget_lease(store: &Store, lease: i64) {
    if lease != 0
        && let Err(failure) = store.rpc.revoke(lease).await
    {
        let error = Error::from(failure);
        tracing::trace!(target: "leasehold", %error, "a lease of a record is left behind");
    }
}

/// The value of a key: "token number written", and on the next line the record.
fn value_of(grant: &Grant, write: &RecordWrite) -> Vec<u8> {
    let head = format!("{} {} {}\n", grant.token, write.number, now().as_micros());
    [head.as_bytes(), &write.value].concat()
}

fn stored(key: &str, got: &GetResponse) -> Result<Option<Stored>, Error> {
    let Some(pair) = got.kvs().first() else { return Ok(None) };
    let (record, number) = parse(pair.value()).ok_or_else(|| {
        let message = format!("the key {key} has no record as this version writes it; delete it");
        Error::new(ErrorKind::Config, message)
    })?;
    Ok(Some(Stored { record, number, lease: pair.lease(), modified: pair.mod_revision() }))
}

fn parse(value: &[u8]) -> Option<(Record, u64)> {
    let line = value.iter().position(|byte| *byte == b'\n')?;
    let mut head = std::str::from_utf8(&value[..line]).ok()?.split(' ');
    let mut next = || head.next()?.parse::<u64>().ok();
    let (token, number, written) = (FencingToken::new(next()?)?, next()?, next()?);
    let written = StoreTime::from_micros(written);
    Some((Record::new(value[line + 1..].to_vec(), token, written), number))
}

/// The time by the clock of this machine, since etcd does not show its own.
fn now() -> StoreTime {
    StoreTime::from_micros(SystemEnv.wall_micros())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_record_is_parsed_whatever_bytes_it_has() {
        let (record, number) = parse(b"7 2 1800000000000000\na \n\xff").unwrap();
        assert_eq!((record.token.get(), number), (7, 2));
        assert_eq!(
            (record.written.as_micros(), &record.value[..]),
            (1_800_000_000_000_000, &b"a \n\xff"[..])
        );
        for bad in
            [&b""[..], b"7 2 1", b"7 2\n", b"x 2 1\n", b"7 2 \xff\n", b"9007199254740992 1 1\n"]
        {
            assert!(parse(bad).is_none(), "{bad:?}");
        }
    }
}
