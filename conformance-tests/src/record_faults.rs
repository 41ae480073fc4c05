//! Faults at the records of one connection: a case decides what happens before a write, and which
//! answers are lost.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{BoxFuture, Error, ErrorKind, Mutex};
use tokio::sync::watch;

/// The faults of one connection. Made by
/// [`Observed::with_record_faults`](crate::Observed::with_record_faults).
#[derive(Default)]
pub struct RecordFaults {
    no_reads: AtomicBool,
    before_write: Mutex<Option<BoxFuture>>,
    after_write: Mutex<Option<BoxFuture>>,
    failed_reads: watch::Sender<u64>,
    failed_writes: watch::Sender<u64>,
}

impl RecordFaults {
    /// Sets whether the answers to reads are lost from now on.
    pub fn lose_reads(&self, lost: bool) {
        self.no_reads.store(lost, Ordering::SeqCst);
    }

    /// Runs this before the next write is sent.
    pub fn before_next_write(&self, then: impl Future<Output = ()> + Send + 'static) {
        *self.before_write.lock() = Some(Box::pin(then));
    }

    /// Runs this once the store has carried out the next write. The answer to this write is lost.
    pub fn lose_next_write(&self, then: impl Future<Output = ()> + Send + 'static) {
        *self.after_write.lock() = Some(Box::pin(then));
    }

    /// Waits until so many more reads have failed.
    pub async fn failed_reads(&self, more: u64) {
        wait_for(&self.failed_reads, more).await;
    }

    /// Waits until so many more writes have failed in the store.
    pub async fn failed_writes(&self, more: u64) {
        wait_for(&self.failed_writes, more).await;
    }

    pub(crate) fn of_read<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        let answer = match self.no_reads.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Unavailable, "the test has lost the answer")),
            false => answer,
        };
        if answer.is_err() {
            self.failed_reads.send_modify(|failed| *failed += 1);
        }
        answer
    }

    pub(crate) async fn before_write(&self) {
        let then = self.before_write.lock().take();
        if let Some(then) = then {
            then.await;
        }
    }

    pub(crate) async fn of_write<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if answer.is_err() {
            self.failed_writes.send_modify(|failed| *failed += 1);
        }
        let then = answer.is_ok().then(|| self.after_write.lock().take()).flatten();
        let Some(then) = then else { return answer };
        then.await;
        Err(Error::new(ErrorKind::OutcomeUnknown, "the test has lost the answer"))
    }
}

async fn wait_for(failed: &watch::Sender<u64>, more: u64) {
    let mut failed = failed.subscribe();
    let wanted = *failed.borrow() + more;
    failed.wait_for(|failed| *failed >= wanted).await.expect("the connection lives");
}
