//! Guards that share one hold.

use std::sync::Arc;

use futures_util::FutureExt as _;
use lock_core::{ErrorKind, LockClient, LossReason};

use super::SECOND;
use crate::support::Stub;

#[tokio::test(start_paused = true)]
async fn only_the_last_of_a_holds_guards_releases_it() {
    let stub = Stub::new();
    let first = stub.client().lock("job").acquire().await.unwrap();
    let second = first.reenter().unwrap();
    let third = second.reenter().unwrap();
    assert_eq!((first.token(), first.owner()), (third.token(), third.owner()));
    first.release().await.unwrap();
    drop(second);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stub.calls("release"), 0);
    assert_eq!(stub.holder("job").await, Some(third.owner()));
    assert!(third.is_valid());
    third.release().await.unwrap();
    assert_eq!(stub.calls("release"), 1);
    assert_eq!(stub.holder("job").await, None);
}

#[tokio::test(start_paused = true)]
async fn every_guard_of_a_hold_learns_of_its_loss() {
    let stub = Stub::new();
    let first = stub.client().lock("job").hold_at_most(SECOND).acquire().await.unwrap();
    let second = first.reenter().unwrap();
    let cancelled = second.cancellation_token();
    assert_eq!(first.lost().await, LossReason::HoldLimit);
    assert_eq!(second.lost().await, LossReason::HoldLimit);
    assert!(cancelled.is_cancelled());
    assert_eq!(second.reenter().unwrap_err().kind(), ErrorKind::Lost);
    // Not only the last one says so.
    for guard in [first, second] {
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

/// A guard that is released while another one ends the hold reports no loss.
#[tokio::test]
async fn guards_of_one_hold_that_are_released_at_once_report_no_loss() {
    let client = LockClient::new(Arc::new(lock_core::Memory::new()));
    let (start, runtime) = (std::sync::Barrier::new(2), tokio::runtime::Handle::current());
    for _ in 0..5_000 {
        let first = client.lock("job").acquire().await.unwrap();
        let second = first.reenter().unwrap();
        let release = |guard: lock_core::Guard| {
            let _context = runtime.enter();
            start.wait();
            guard.release().now_or_never().expect("the store answers at once").unwrap();
        };
        std::thread::scope(|threads| {
            threads.spawn(|| release(first));
            release(second);
        });
    }
}
