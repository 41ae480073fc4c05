//! S7: only the holder of a lock writes its record, and the record outlives the lock.

use std::time::Duration;

use lock_core::{
    Backend, ErrorKind, Grant, Init, Listing, LockName, Mode, Record, RecordRead, RecordWrite,
    ReleaseOptions, ReleaseOutcome, StoreTime, WriteOutcome,
};

use super::{cases, pushes, records, shared};
use crate::setting::{Setting, enqueued, eventually, granted, pause, signalled};

cases! {
    "S7" a_record_outlives_its_lock records;
    "S7" a_stale_holder_writes_no_record records;
    "S7" a_released_grant_writes_no_record records;
    "S7" an_expired_grant_writes_no_record records;
    "S7" a_reader_writes_no_record records shared;
    "S7" a_pushed_grant_writes_its_record records pushes;
    "S7" a_repeated_write_changes_nothing records;
    "S7" a_record_holds_any_bytes records;
    "S7" records_of_names_are_kept_apart records;
    "S7" a_record_is_kept_for_its_time records;
    "S7" a_record_has_the_time_of_its_write records;
    "S7" a_record_is_no_lock records;
    "S7" an_operator_says_that_records_are_complete records;
    "S7" a_guard_writes_its_record records;
}

const DAY: Duration = Duration::from_secs(86_400);

fn write_of(value: impl Into<Vec<u8>>) -> RecordWrite {
    RecordWrite::new(value, DAY).expect("a write within the limits")
}

/// Writes, and repeats the call while its outcome is unknown.
async fn write(backend: &dyn Backend, grant: &Grant, write: &RecordWrite) -> WriteOutcome {
    loop {
        match backend.write_record(grant, write).await {
            Err(error) if error.is_retryable() => pause().await,
            outcome => return outcome.expect("an answer"),
        }
    }
}

async fn read(backend: &dyn Backend, name: &LockName) -> RecordRead {
    backend.read_record(name).await.expect("an answer")
}

async fn record_of(backend: &dyn Backend, name: &LockName) -> Option<Record> {
    read(backend, name).await.record
}

async fn a_record_outlives_its_lock(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    assert_eq!(record_of(&*one, &name).await, None, "nobody has written a record");
    let first = granted(&*one, &setting.request(&name)).await;
    assert_eq!(record_of(&*one, &name).await, None, "a lock without a record");
    assert_eq!(write(&*one, &first, &write_of("one")).await, WriteOutcome::Written);
    let held = record_of(&*other, &name).await.expect("the record that was just written");
    assert_eq!((held.value.as_slice(), held.token), (&b"one"[..], first.token));
    one.release(&first, ReleaseOptions::default()).await.unwrap();
    let free = record_of(&*other, &name).await.expect("the record must outlive the release");
    assert_eq!(free, held);
    let second = granted(&*other, &setting.request(&name)).await;
    let taken = record_of(&*one, &name).await.expect("the record must outlive the next grant");
    assert_eq!(taken, held);
    assert_eq!(write(&*other, &second, &write_of("two")).await, WriteOutcome::Written);
    other.force_release(&name).await.unwrap();
    let last = record_of(&*one, &name).await.expect("the record must outlive a forced release");
    assert_eq!((last.value.as_slice(), last.token), (&b"two"[..], second.token));
}

async fn a_stale_holder_writes_no_record(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let stale = granted(&*one, &setting.request(&name)).await;
    assert_eq!(record_of(&*one, &name).await, None);
    one.force_release(&name).await.unwrap();
    let next = granted(&*other, &setting.request(&name)).await;
    // The next holder has read, and not written yet: no token in the record refuses the write.
    assert_eq!(record_of(&*other, &name).await, None);
    assert_eq!(write(&*one, &stale, &write_of("stale")).await, WriteOutcome::NotHeld);
    assert_eq!(record_of(&*other, &name).await, None, "a former holder wrote the record");
    assert_eq!(write(&*other, &next, &write_of("next")).await, WriteOutcome::Written);
    let again = write_of("stale").with_number(2);
    assert_eq!(write(&*one, &stale, &again).await, WriteOutcome::NotHeld);
    let record = record_of(&*other, &name).await.expect("the record of the holder");
    assert_eq!((record.value.as_slice(), record.token), (&b"next"[..], next.token));
}

async fn a_released_grant_writes_no_record(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let keep = setting.long_lease();
    // A lock that is kept for its minimum hold has an owner in the store.
    for options in [ReleaseOptions::new(), ReleaseOptions::new().with_keep(keep)] {
        let gone = granted(&*backend, &setting.request(&name)).await;
        backend.release(&gone, options).await.unwrap();
        let outcome = write(&*backend, &gone, &write_of("late")).await;
        assert_eq!(outcome, WriteOutcome::NotHeld, "after a release with {options:?}");
        assert_eq!(record_of(&*backend, &name).await, None);
    }
}

async fn an_expired_grant_writes_no_record(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let expired = granted(&*one, &setting.short_request(&name)).await;
    // Nobody takes the lock: what the store has of it is over, and may still be there.
    let held = || async {
        let state = other.inspect(&name).await.unwrap();
        state.is_none_or(|state| state.holder.is_none()).then_some(())
    };
    eventually("the lease is over", setting.patience(), held).await;
    assert_eq!(write(&*one, &expired, &write_of("late")).await, WriteOutcome::NotHeld);
    assert_eq!(record_of(&*one, &name).await, None);
}

async fn a_reader_writes_no_record(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let reader = granted(&*backend, &setting.request(&name).with_mode(Mode::Shared)).await;
    let outcome = write(&*backend, &reader, &write_of("read")).await;
    assert_eq!(outcome, WriteOutcome::NotHeld, "others may hold the lock beside a reader");
    assert_eq!(record_of(&*backend, &name).await, None);
}

async fn a_pushed_grant_writes_its_record(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let request = setting.request(&setting.name("job"));
    let first = granted(&*one, &setting.request(&request.name)).await;
    let (mut entry, busy) = enqueued(&*other, &request).await;
    one.release(&first, ReleaseOptions::default()).await.unwrap();
    // A holder may write before the first renewal confirms a pushed grant.
    let grant = signalled(&*other, &request, &mut *entry, busy).await;
    assert_eq!(write(&*other, &grant, &write_of("pushed")).await, WriteOutcome::Written);
    let record = record_of(&*one, &request.name).await.expect("the record");
    assert_eq!((record.value.as_slice(), record.token), (&b"pushed"[..], grant.token));
    other.release(&grant, ReleaseOptions::default()).await.unwrap();
}

async fn a_repeated_write_changes_nothing(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let grant = granted(&*one, &setting.request(&name)).await;
    let (first, second) = (write_of("first"), write_of("second").with_number(2));
    assert_eq!(write(&*one, &grant, &first).await, WriteOutcome::Written);
    let written = record_of(&*one, &name).await;
    // As if the answer was lost: the process sends the write again over another connection.
    let repeat = write(&*other, &grant, &first).await;
    assert_eq!(repeat, WriteOutcome::Written, "a repeat of the holder's own write");
    assert_eq!(record_of(&*one, &name).await, written, "the repeat changed the record");
    assert_eq!(write(&*one, &grant, &second).await, WriteOutcome::Written);
    let last = record_of(&*one, &name).await;
    assert_eq!(last.as_ref().map(|last| last.value.as_slice()), Some(&b"second"[..]));
    // The store carries out a request that its client has given up before the second write.
    assert_eq!(write(&*other, &grant, &first).await, WriteOutcome::Written);
    assert_eq!(record_of(&*one, &name).await, last, "a late request replaced a later write");
    // The numbers of the next grant begin anew.
    one.release(&grant, ReleaseOptions::default()).await.unwrap();
    let next = granted(&*other, &setting.request(&name)).await;
    assert_eq!(write(&*other, &next, &write_of("next")).await, WriteOutcome::Written);
    let record = record_of(&*one, &name).await.expect("the record of the next grant");
    assert_eq!(record.value, b"next", "the first write of a grant was taken for a repeat");
}

async fn a_record_holds_any_bytes(setting: &Setting) {
    let backend = setting.connect().await;
    let grant = granted(&*backend, &setting.request(&setting.name("job"))).await;
    let all: Vec<u8> = (0..RecordWrite::LARGEST).map(|at| at as u8).collect();
    let values = [all, Vec::new(), vec![0], b"a\0b".to_vec(), vec![255; RecordWrite::LARGEST]];
    for (number, value) in (1..).zip(values) {
        let wanted = write_of(value.clone()).with_number(number);
        assert_eq!(write(&*backend, &grant, &wanted).await, WriteOutcome::Written);
        let record = record_of(&*backend, &grant.name).await.expect("the record");
        assert_eq!(record.value, value, "write {number}");
    }
}

async fn records_of_names_are_kept_apart(setting: &Setting) {
    let backend = setting.connect().await;
    let names = ["a", "A", "a ", "ä", "{a}", "a%", "a_"].map(|part| setting.name(part));
    for name in &names {
        let grant = granted(&*backend, &setting.request(name)).await;
        assert_eq!(write(&*backend, &grant, &write_of(name.as_str())).await, WriteOutcome::Written);
        backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
    for name in &names {
        let record = record_of(&*backend, name).await.expect("the record");
        assert_eq!(String::from_utf8(record.value).unwrap(), name.as_str());
    }
}

async fn a_record_is_kept_for_its_time(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    let keep_for = RecordWrite::SHORTEST_KEPT;
    let brief = RecordWrite::new("brief", keep_for).unwrap();
    assert_eq!(write(&*backend, &grant, &brief).await, WriteOutcome::Written);
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    let before = read(&*backend, &name).await;
    let mut last = before.clone();
    let written = match before.record {
        Some(record) => record.written,
        // The machine stood still for longer than the record is kept.
        None => return,
    };
    while last.now < written + keep_for {
        assert!(last.record.is_some(), "forgotten after {:?}", last.now.since(written));
        tokio::time::sleep(Duration::from_millis(5)).await;
        last = read(&*backend, &name).await;
    }
}

async fn a_record_has_the_time_of_its_write(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    let before = read(&*backend, &name).await.now;
    assert_eq!(write(&*backend, &grant, &write_of("done")).await, WriteOutcome::Written);
    let after = read(&*backend, &name).await;
    let record = after.record.expect("the record");
    assert!(
        before <= record.written && record.written <= after.now,
        "written at {:?}, between {before:?} and {:?}",
        record.written,
        after.now
    );
    tokio::time::sleep(Duration::from_millis(20)).await;
    let later = read(&*backend, &name).await;
    assert!(later.now > after.now, "the store's clock must run: {later:?}");
    assert_eq!(later.record, Some(record), "a read must change nothing");
}

async fn a_record_is_no_lock(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    assert_eq!(write(&*backend, &grant, &write_of("done")).await, WriteOutcome::Written);
    let state = backend.inspect(&name).await.unwrap().expect("a held name");
    assert_eq!(state.holder.map(|holder| holder.owner), Some(grant.owner));
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    let state = backend.inspect(&name).await.unwrap();
    assert!(state.is_none_or(|state| state.holder.is_none()), "the record is shown as a holder");
    let (mut listing, mut goes_on) = (Listing::new(), true);
    while goes_on {
        let page = backend.list(listing.cursor()).await.unwrap();
        goes_on = listing.goes_on(&page).unwrap();
        let listed = page.locks.iter().any(|state| state.name == name);
        assert!(!listed, "the record is listed as a held lock");
    }
    assert_eq!(backend.force_release(&name).await.unwrap(), ReleaseOutcome::NotHeld);
    let next = granted(&*backend, &setting.request(&name)).await;
    assert!(next.token > grant.token);
}

async fn an_operator_says_that_records_are_complete(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    assert_eq!(write(&*backend, &grant, &write_of("done")).await, WriteOutcome::Written);
    let before = read(&*backend, &name).await;
    assert!(before.complete_since <= before.now, "{before:?}");
    backend.init(&Init::new().with_records_complete(true)).await.unwrap();
    let after = read(&*backend, &name).await;
    assert_eq!(after.complete_since, StoreTime::EVER, "the operator has said so");
    assert_eq!(after.record, before.record);
    let held = backend.inspect(&name).await.unwrap().and_then(|state| state.holder);
    assert_eq!(held.map(|holder| holder.owner), Some(grant.owner), "the lock must stay held");
}

async fn a_guard_writes_its_record(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    let guard = client.lock(&name).lease(setting.long_lease()).acquire().await.unwrap();
    for value in ["started", "done"] {
        guard.write_record(value, DAY).await.unwrap();
        let read = client.read_record(&name).await.unwrap();
        assert_eq!(read.record.expect("the record").value, value.as_bytes());
    }
    for (value, keep_for) in [(1_025, DAY), (1, Duration::ZERO), (1, DAY * 10_000)] {
        let error = guard.write_record(vec![1; value], keep_for).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    client.force_release(&name).await.unwrap();
    let error = guard.write_record("late", DAY).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost), "{error}");
    assert!(!guard.is_valid(), "a guard whose write was refused must be lost");
    let read = client.read_record(&name).await.unwrap();
    assert_eq!(read.record.expect("the record").value, b"done");
}
