//! Jobs that run once per period: the client's calls. The rules are tested beside them.

use std::time::Duration;

use lock_core::{
    ClientOptions, Decision, Doubt, DueRun, ErrorKind, IfUnknown, LastRun, LockClient, Once,
    OwnerLabel, RunState,
    testing::{Operation, TestStore},
};

use crate::support::{Fault, Stub, held, soon};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn daily(client: &LockClient) -> Once {
    client.lock("job").once_per(DAY)
}

fn due(decision: Decision) -> DueRun {
    match decision {
        Decision::Due(run) => run,
        other => panic!("{other:?}"),
    }
}

fn not_due(decision: Decision) -> LastRun {
    match decision {
        Decision::NotDue(last) => last,
        other => panic!("{other:?}"),
    }
}

async fn begun(client: &LockClient) -> DueRun {
    due(daily(client).begin().await.unwrap())
}

async fn state_of(client: &LockClient) -> (RunState, u32) {
    let last = client.last_run("job").await.unwrap().unwrap();
    (last.state, last.attempt)
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_a_day() {
    let stub = Stub::new();
    let label = OwnerLabel::new("machine one").unwrap();
    let one = stub.client_with(ClientOptions::new().with_label(label.clone()));
    let other = stub.client();
    assert_eq!(one.last_run("job").await.unwrap(), None);
    let run = begun(&one).await;
    assert_eq!((run.attempt(), run.doubt()), (1, None));
    assert!(run.guard().is_valid());
    assert_eq!(state_of(&other).await, (RunState::Started, 1));
    tokio::time::sleep(HOUR).await;
    let (round, token) = (run.round(), run.guard().token());
    run.succeeded().await.unwrap();
    assert!(stub.becomes_free("job").await);

    let attempts = stub.calls("acquire");
    let last = not_due(daily(&other).begin().await.unwrap());
    assert_eq!((last.state, last.attempt, last.exit_code), (RunState::Done, 1, None));
    assert_eq!((last.label, last.token, last.round, last.began), (label, token, round, round));
    let took = last.ended.unwrap().since(last.began);
    assert!((HOUR..HOUR + SECOND).contains(&took), "{took:?}");
    assert_eq!(stub.calls("acquire"), attempts, "the lock of a job that is not due was acquired");

    tokio::time::sleep(22 * HOUR).await;
    let run = begun(&other).await;
    assert_eq!(run.attempt(), 1);
    assert!(run.round() > round);
    run.succeeded().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_busy_is_not_waited_for_without_a_wait() {
    let stub = Stub::new();
    let guard = held(&stub, "job").await;
    let lock = stub.client().lock("job").wait(Duration::ZERO);
    let error = lock.clone().once_per(DAY).begin().await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    guard.release().await.unwrap();
    due(lock.once_per(DAY).begin().await.unwrap()).succeeded().await.unwrap();
    // A run that counts needs no lock to be seen.
    let _guard = held(&stub, "job").await;
    not_due(stub.client().lock("job").once_per(DAY).begin().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_makes_it_unknown_for_a_period() {
    let store = TestStore::new();
    let client = store.client();
    begun(&client).await.succeeded().await.unwrap();
    tokio::time::sleep(10 * HOUR).await;
    store.lose_records();
    tokio::time::sleep(SECOND).await;
    let unknown = match daily(&client).begin().await.unwrap() {
        Decision::Unknown(unknown) => unknown,
        other => panic!("{other:?}"),
    };
    assert!(matches!(unknown.why, Doubt::Lost { .. }), "{unknown:?}");
    assert_eq!(unknown.last, None);
    let guard = client.lock("job").try_acquire().await.unwrap().guard();
    guard.expect("the lock is free").release().await.unwrap();
    assert_eq!(client.last_run("job").await.unwrap(), None);

    let run = due(daily(&client).if_unknown(IfUnknown::Run).begin().await.unwrap());
    assert_eq!((run.attempt(), run.doubt()), (1, Some(&unknown.why)));
    run.succeeded().await.unwrap();
    not_due(daily(&client).begin().await.unwrap());

    // Without the run, the doubt ends with the period.
    store.lose_records();
    tokio::time::sleep(23 * HOUR).await;
    assert_eq!(begun(&client).await.doubt(), None);
    store.lose_records();
    let complete = lock_core::Init::new().with_records_complete(true);
    client.init(&complete).await.unwrap();
    assert_eq!(begun(&client).await.attempt(), 1);
}

/// There is nothing to accept.
#[tokio::test(start_paused = true)]
async fn a_store_without_records_is_refused_without_advice() {
    let stub = Stub::new();
    stub.forgetful.store(true, std::sync::atomic::Ordering::SeqCst);
    stub.fault("read-record", Fault::Unsupported);
    let error = daily(&stub.client()).begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("it has none") && !text.contains("if-unknown"), "{text}");
    assert_eq!(stub.calls("acquire"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_may_lose_records_is_refused_unless_that_is_accepted() {
    let stub = Stub::new();
    stub.forgetful.store(true, std::sync::atomic::Ordering::SeqCst);
    let client = stub.client();
    let error = daily(&client).begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("not flush each write") && text.contains("--if-unknown"), "{text}");
    assert_eq!(stub.calls("acquire"), 0);
    for then in [IfUnknown::Fail, IfUnknown::Run] {
        let run = due(daily(&client).if_unknown(then).begin().await.unwrap());
        assert_eq!(run.doubt(), None, "nothing was lost");
        run.failed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn options_that_do_not_fit_are_refused_before_the_store_is_asked() {
    let stub = Stub::new();
    let client = stub.client();
    let lock = || client.lock("job");
    for (once, part) in [
        (lock().once_per(Duration::from_millis(10)), "period 10ms must be between 1s and 1year"),
        (lock().once_per(400 * DAY), "must be between 1s and 1year"),
        (lock().shared().once_per(DAY), "exclusive"),
        (lock().at_least(SECOND).once_per(DAY), "at_least 1s"),
        (client.lock("a\nb").once_per(DAY), "control character"),
        (lock().lease(2 * DAY).once_per(DAY), "longest lease"),
    ] {
        let error = once.begin().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
    assert_eq!((stub.calls("acquire"), stub.calls("read-record")), (0, 0));
    for name in ["other", "job"] {
        let guard = match name {
            "job" => lock().shared().acquire().await.unwrap(),
            _ => client.lock(name).acquire().await.unwrap(),
        };
        let error = daily(&client).begin_with(guard).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(stub.calls("read-record"), 0);
        assert!(stub.becomes_free(name).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_of_something_else_is_left_alone() {
    let stub = Stub::new();
    let client = stub.client();
    let guard = client.lock("job").acquire().await.unwrap();
    guard.write_record("line 4711", DAY).await.unwrap();
    guard.release().await.unwrap();
    let error = daily(&client).begin().await.unwrap_err();
    assert_eq!((error.kind(), error.name().unwrap().as_str()), (ErrorKind::Config, "job"));
    assert!(error.to_string().contains("9 bytes"), "{error}");
    // Also if it is written while this client waits for the lock.
    let guard = client.lock("job").acquire().await.unwrap();
    let error = daily(&client).begin_with(guard).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(stub.becomes_free("job").await);
    assert_eq!(client.read_record("job").await.unwrap().record.unwrap().value, b"line 4711");
}

#[tokio::test(start_paused = true)]
async fn calls_without_an_answer_are_repeated() {
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        let stub = Stub::new();
        let client = stub.client();
        for _ in 0..3 {
            // The first read is made without the lock, and is not repeated.
            stub.fault("read-record", fault);
            stub.fault("write-record", fault);
        }
        let run = begun(&client).await;
        assert_eq!((stub.calls("read-record"), stub.calls("write-record")), (4, 4));
        for _ in 0..3 {
            stub.fault("write-record", fault);
        }
        run.succeeded().await.unwrap();
        assert_eq!(state_of(&client).await, (RunState::Done, 1));
    }
}

/// The store restarts while a run ends: the lease is longer than a call may take.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_is_written_for_as_long_as_the_lease_lasts() {
    let stub = Stub::new();
    let call_timeout = SECOND;
    let client = stub.client_with(ClientOptions::new().with_call_timeout(call_timeout));
    let run = begun(&client).await;
    let stalls = ["write-record", "renew", "release"];
    stalls.into_iter().for_each(|operation| stub.stall(operation));
    let resume = async {
        tokio::time::sleep(5 * SECOND).await;
        stalls.into_iter().for_each(|operation| stub.resume(operation));
    };
    let (ended, ()) = futures_util::future::join(run.succeeded(), resume).await;
    ended.unwrap();
    assert_eq!(state_of(&client).await, (RunState::Done, 1));

    tokio::time::sleep(DAY).await;
    let run = begun(&client).await;
    stalls.into_iter().for_each(|operation| stub.stall(operation));
    let error = soon("the end of the lease", run.succeeded()).await.unwrap_err();
    assert!(error.is_ambiguous() || error.kind() == ErrorKind::Lost, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_waited_for_like_its_lock() {
    let store = TestStore::new();
    let client = store.client();
    store.set_available(false);
    let waiting = tokio::spawn(client.lock("job").wait(HOUR).once_per(DAY).begin());
    tokio::time::sleep(60 * SECOND).await;
    store.set_available(true);
    due(soon("the run", waiting).await.unwrap().unwrap()).succeeded().await.unwrap();
    // An error that time does not mend is told at once.
    store.fail_next(Operation::ReadRecord, ErrorKind::Auth);
    let error = daily(&client).begin().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_before_the_run_begins_is_an_error() {
    let stub = Stub::new();
    let client = stub.client();
    let guard = client.lock("job").acquire().await.unwrap();
    client.force_release("job").await.unwrap();
    let error = daily(&client).begin_with(guard).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    assert_eq!(client.last_run("job").await.unwrap(), None);
}
