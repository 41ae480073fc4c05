//! The client's calls for records and for operators, and the store for users' tests.

use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::{
    Backend as _, ClientOptions, ErrorKind, LockName, LossReason, RecordWrite, StoreTime,
    WriteOutcome,
    testing::{Operation, TestStore},
};

use crate::support::{Fault, Stub, soon};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

async fn value_of(stub: &Stub) -> Option<String> {
    let read = stub.memory.read_record(&LockName::new("job").unwrap()).await.unwrap();
    read.record.map(|record| String::from_utf8(record.value).unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_is_out_of_range_does_not_reach_the_store() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    let most = vec![7; RecordWrite::LARGEST];
    let [shortest, longest] = [RecordWrite::SHORTEST_KEPT, RecordWrite::LONGEST_KEPT];
    for (bytes, keep_for) in [
        (RecordWrite::LARGEST + 1, DAY),
        (1, shortest - Duration::from_nanos(1)),
        (1, longest + Duration::from_nanos(1)),
    ] {
        let error = guard.write_record(vec![7; bytes], keep_for).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.name().unwrap().as_str(), "job");
    }
    let error = stub.client().read_record("a\nb").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!((stub.calls("write-record"), stub.calls("read-record")), (0, 0));
    for keep_for in [shortest, longest] {
        guard.write_record(most.clone(), keep_for).await.unwrap();
    }
    // A reader is not alone.
    let reader = stub.client().lock("read").shared().acquire().await.unwrap();
    let error = reader.write_record("done", DAY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(stub.calls("write-record"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_repeated() {
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        let stub = Stub::new();
        let guard = stub.client().lock("job").acquire().await.unwrap();
        for _ in 0..3 {
            stub.fault("write-record", fault);
        }
        guard.write_record("done", DAY).await.unwrap();
        assert_eq!(stub.calls("write-record"), 4, "{fault:?}");
        assert_eq!(value_of(&stub).await.as_deref(), Some("done"));
    }
    // A repeat does not help.
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.fault("write-record", Fault::Refused);
    assert_eq!(guard.write_record("done", DAY).await.unwrap_err().kind(), ErrorKind::Auth);
    assert_eq!((stub.calls("write-record"), guard.is_valid()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn a_write_of_which_nothing_is_heard_ends_in_time_and_cannot_replace_a_later_one() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.stall("write-record");
    let began = tokio::time::Instant::now();
    let error = guard.write_record("first", DAY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(began.elapsed(), 5 * SECOND);
    // What the guard writes next, over a connection that works.
    let second = RecordWrite::new("second", DAY).unwrap().with_number(2);
    let written = stub.memory.write_record(guard.grant(), &second).await.unwrap();
    assert_eq!(written, WriteOutcome::Written);
    // Only now the store carries out the first.
    stub.resume("write-record");
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(value_of(&stub).await.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_write_goes_on() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.stall("write-record");
    assert!(guard.write_record("done", DAY).now_or_never().is_none());
    stub.resume("write-record");
    let written = async {
        while value_of(&stub).await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    soon("the write", written).await;
    assert_eq!(stub.calls("write-record"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_store_refuses_ends_the_guard() {
    let stub = Stub::new();
    let client = stub.client();
    let guard = client.lock("job").acquire().await.unwrap();
    stub.memory.force_release(guard.name()).await.unwrap();
    let error = guard.write_record("done", DAY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().now_or_never(), Some(LossReason::Gone));
    // The next write does not reach the store.
    let error = guard.write_record("done", DAY).await.unwrap_err();
    assert_eq!((error.kind(), stub.calls("write-record")), (ErrorKind::Lost, 1));
    assert_eq!(value_of(&stub).await, None);
    assert!(client.lock("job").try_acquire().await.unwrap().guard().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_been_carried_out_before_the_loss_is_unknown() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.fault("write-record", Fault::AnswerLost);
    let write = guard.write_record("done", DAY);
    let lost = async {
        stub.reached("write-record", 1).await;
        stub.memory.force_release(guard.name()).await.unwrap();
    };
    let (written, ()) = futures_util::future::join(write, lost).await;
    let error = written.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!((stub.calls("write-record"), value_of(&stub).await.as_deref()), (2, Some("done")));
}

#[tokio::test(start_paused = true)]
async fn no_write_is_sent_after_the_validity() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    for operation in ["renew", "release"] {
        stub.stall(operation);
    }
    for _ in 0..100 {
        stub.fault("write-record", Fault::RequestLost);
    }
    let error = guard.write_record("done", DAY).await.unwrap_err();
    assert!(error.is_ambiguous() && !guard.is_valid(), "{error}");
    let sent = stub.calls("write-record");
    tokio::time::sleep(DAY).await;
    assert_eq!(stub.calls("write-record"), sent);
}

#[tokio::test(start_paused = true)]
async fn a_read_ends_even_if_the_store_does_not_answer() {
    let stub = Stub::new();
    let client = stub.client();
    stub.hold("read-record");
    let error = client.read_record("job").await.unwrap_err();
    assert_eq!((error.kind(), error.name().unwrap().as_str()), (ErrorKind::Timeout, "job"));
    stub.let_go("read-record");
    assert_eq!(client.read_record("job").await.unwrap().record, None);
    client.close().await;
    assert_eq!(client.read_record("job").await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test(start_paused = true)]
async fn a_test_can_lose_records_and_let_their_calls_fail() {
    let store = TestStore::new();
    let client = store.client();
    let guard = client.lock("job").acquire().await.unwrap();
    guard.write_record("done", 2 * DAY).await.unwrap();
    tokio::time::sleep(DAY).await;
    let read = client.read_record("job").await.unwrap();
    assert!(read.is_complete_for(DAY) && read.complete_since == StoreTime::EVER);
    let age = read.now.since(read.record.unwrap().written);
    assert!((DAY..DAY + SECOND).contains(&age), "{age:?}");

    store.lose_records();
    tokio::time::sleep(SECOND).await;
    let read = client.read_record("job").await.unwrap();
    assert_eq!(read.record, None);
    assert!(read.is_complete_for(SECOND) && !read.is_complete_for(2 * SECOND), "{read:?}");
    let complete = lock_core::Init::new().with_records_complete(true);
    client.init(&complete).await.unwrap();
    assert!(client.read_record("job").await.unwrap().is_complete_for(DAY));

    store.fail_next(Operation::ReadRecord, ErrorKind::Unavailable);
    let error = client.read_record("job").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    store.fail_next(Operation::WriteRecord, ErrorKind::Auth);
    assert_eq!(guard.write_record("done", DAY).await.unwrap_err().kind(), ErrorKind::Auth);
    guard.write_record("done", DAY).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_even_if_the_store_does_not_answer() {
    let stub = Stub::new();
    let options = ClientOptions::new().with_call_timeout(Duration::from_secs(7));
    let client = stub.client_with(options);
    stub.hold("inspect");
    stub.hold("list");
    for error in [
        client.inspect("job").await.unwrap_err(),
        client.check().await.unwrap_err(),
        client.list().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("within 7s"), "{error}");
        assert!(!error.is_not_acquired(), "{error}");
    }
    stub.let_go("inspect");
    assert_eq!(client.inspect("job").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_name_on_two_pages_of_a_listing_is_listed_once_and_in_order() {
    let stub = Stub::new();
    let client = stub.client();
    let mut guards = Vec::new();
    for name in ["c", "a", "b"] {
        guards.push(client.lock(name).acquire().await.unwrap());
    }
    let names: Vec<_> =
        client.list().await.unwrap().iter().map(|state| state.name.to_string()).collect();
    assert_eq!((names, stub.calls("list")), (vec!["a".into(), "b".into(), "c".into()], 2));
}
