//! The blocking API, on threads without a runtime. `memory:` is one store in a process, so each
//! test has a name of its own.

use std::time::Duration;

use leasehold::{
    ErrorKind, LockName, RunState,
    blocking::{self, Decision, DueRun},
};

#[test]
fn a_guard_that_is_dropped_has_released_the_lock() {
    let client = blocking::connect("memory:").unwrap();
    let guard = client.lock("dropped").acquire().unwrap();
    assert!(guard.is_valid() && guard.remaining() > Duration::ZERO);
    assert!(client.lock("dropped").try_acquire().unwrap().is_none());
    drop(guard);
    let again =
        client.lock("dropped").try_acquire().unwrap().expect("a drop waits for the release");
    again.release().unwrap();
    client.close().unwrap();
}

#[test]
fn a_lock_is_renewed_while_its_thread_works() {
    let client = blocking::connect("memory:").unwrap();
    let guard = client.lock("renewed").lease(Duration::from_secs(6)).acquire().unwrap();
    let mut last = guard.remaining();
    loop {
        // This thread runs nothing that could renew it.
        std::thread::sleep(Duration::from_millis(20));
        let left = guard.remaining();
        assert!(guard.is_valid());
        if left > last {
            break;
        }
        last = left;
    }
    guard.release().unwrap();
}

#[test]
fn a_record_outlives_its_lock() {
    let client = blocking::connect("memory:").unwrap();
    let guard = client.lock("recorded").acquire().unwrap();
    guard.write_record("done", Duration::from_secs(60)).unwrap();
    let token = guard.token();
    guard.release().unwrap();
    let record = client.read_record("recorded").unwrap().record.unwrap();
    assert_eq!((record.value, record.token), (b"done".to_vec(), token));
}

#[test]
fn a_lock_is_handed_over() {
    let client = blocking::connect("memory:").unwrap();
    let guard = client.lock("handed over").acquire().unwrap();
    let (token, owner) = (guard.token(), guard.owner());
    let lock = guard.detach().unwrap();
    let guard = client.attach(&lock).unwrap();
    assert!(guard.is_valid() && guard.token() == token && guard.owner() != owner);
    assert_eq!(client.attach(&lock).unwrap_err().kind(), ErrorKind::NotHeld);
    guard.release().unwrap();
}

#[test]
fn a_job_runs_once_per_period() {
    let client = blocking::connect("memory:").unwrap();
    let daily = || client.lock("daily").once_per(Duration::from_secs(86_400));
    let due = |decision: Decision| -> DueRun {
        let Decision::Due(run) = decision else { panic!("{decision:?}") };
        assert!(run.is_valid() && run.doubt().is_none());
        run
    };
    assert!(client.last_run("daily").unwrap().is_none());
    let first = due(daily().begin().unwrap());
    let (round, token) = (first.round(), first.token());
    assert!(client.lock("daily").try_acquire().unwrap().is_none(), "the run holds the lock");
    first.failed().unwrap();
    let second = due(daily().begin().unwrap());
    assert!(second.token() > token);
    assert_eq!((second.attempt(), second.round()), (2, round));
    second.succeeded().unwrap();
    let Decision::NotDue(last) = daily().begin().unwrap() else { panic!("it has run") };
    assert_eq!((last.state, last.attempt), (RunState::Done, 2));
    assert_eq!(client.last_run("daily").unwrap(), Some(last));
    // A start counts.
    let once = || client.lock("once").once_per(Duration::from_secs(86_400)).at_most_once();
    drop(due(once().begin().unwrap()));
    let Decision::NotDue(last) = once().begin().unwrap() else { panic!("it has begun") };
    assert_eq!(last.state, RunState::Started);
}

#[test]
fn work_whose_lock_was_taken_is_told() {
    let client = blocking::connect("memory:").unwrap();
    let name = LockName::new("taken").unwrap();
    let force = client.clone();
    let error = client.lock("taken").with(|guard| {
        futures(force.client().backend().force_release(&name)).unwrap();
        guard.token()
    });
    let kind = error.unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::Lost | ErrorKind::NotHeld), "{kind}");
    let seven = client.lock("taken").with(|_| 7).unwrap();
    assert_eq!(seven, 7);
}

fn futures<T>(call: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(call)
}

#[tokio::test]
async fn a_blocking_call_in_an_async_task_is_refused() {
    let error = blocking::connect("memory:").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("async"), "{error}");
}
