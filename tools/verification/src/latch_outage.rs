//! Tests of every backend with a server: a latch and a leader's word while the store is away.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::Observed;
use lock_core::{Backend, Error, ErrorKind, LockClient};
use servers::{Data, Mode, Proxy, Server};
use tokio::{
    sync::{Mutex, oneshot},
    time::{sleep, timeout},
};

/// The store of these tests allows this lease. It outlasts two polls of a latch.
pub const LEASE: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(60);

/// A fault under which a store gives its clients no answer.
#[async_trait]
pub trait Outage: Send + Sync + 'static {
    /// Begins it.
    async fn begin(&self);
    /// Ends it.
    async fn end(&self);
}

/// The clients are cut off.
#[async_trait]
impl Outage for Proxy {
    async fn begin(&self) {
        self.set(Mode::Cut).await.unwrap();
    }

    async fn end(&self) {
        self.set(Mode::Pass).await.unwrap();
    }
}

/// The server is killed, and then starts with its data.
#[async_trait]
impl<S: Server + 'static> Outage for Mutex<S> {
    async fn begin(&self) {
        self.lock().await.kill().unwrap();
    }

    async fn end(&self) {
        self.lock().await.restart(Data::Keep).await.unwrap();
    }
}

/// Repeats a call until the store has answered it, as the docs tell users.
async fn answered<T>(call: impl AsyncFn() -> Result<T, Error>) -> T {
    let asking = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => {
                    let lost = matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost);
                    assert!(lost || error.is_retryable(), "{error}");
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    };
    timeout(SOON, asking).await.expect("an answer after the outage")
}

/// The store carries out a count or a publication, and goes away before it answers. While it is
/// away, the latch stays closed and nobody is told who leads. After that the part counts once, and
/// the word is there. `connect` makes a client that the outage affects.
pub async fn opens_no_latch(connect: impl AsyncFn() -> Arc<dyn Backend>, outage: Arc<dyn Outage>) {
    a_latch_stays_closed(&connect, &outage).await;
    a_word_is_kept(&connect, &outage).await;
}

async fn a_latch_stays_closed(
    connect: &impl AsyncFn() -> Arc<dyn Backend>,
    outage: &Arc<dyn Outage>,
) {
    let (counter, counts) = Observed::with_record_faults(connect().await);
    let (waiter, reads) = Observed::with_record_faults(connect().await);
    let latch = |backend| LockClient::new(backend).latch("batch", ["a", "b"]).lease(LEASE);
    let (counter, waiter) = (latch(counter), latch(waiter));
    let mut waiting = tokio::spawn(async move { waiter.wait().await });
    let fault = Arc::clone(outage);
    counts.lose_next_write(async move { fault.begin().await });
    let counting = tokio::spawn({
        let counter = counter.clone();
        async move { counter.count_down("a").await }
    });
    let blind = timeout(SOON, reads.failed_reads(2));
    tokio::select! {
        opened = &mut waiting => panic!("the latch was open: {opened:?}"),
        failed = blind => failed.expect("reads without an answer"),
    }
    outage.end().await;
    // If the lock was lost meanwhile, this is an error, and the part is counted all the same.
    let first = timeout(SOON, counting).await.expect("an end of the count").unwrap();
    println!("the count whose answer was lost: {first:?}");
    assert_eq!(answered(async || counter.open_parts().await).await, ["b"]);
    answered(async || counter.count_down("a").await).await;
    assert_eq!(answered(async || counter.open_parts().await).await, ["b"]);
    assert!(!waiting.is_finished(), "a latch with an open part was open");
    answered(async || counter.count_down("b").await).await;
    timeout(SOON, waiting).await.expect("an open latch").unwrap().unwrap();
}

async fn a_word_is_kept(connect: &impl AsyncFn() -> Arc<dyn Backend>, outage: &Arc<dyn Outage>) {
    let (ours, writes) = Observed::with_record_faults(connect().await);
    let (ours, theirs) = (LockClient::new(ours), LockClient::new(connect().await));
    let election = |client: &LockClient| client.election("chief").lease(LEASE);
    let (ours, next) = (election(&ours), election(&theirs));
    let first = answered(async || ours.campaign().await).await;
    let (fault, (begun, away)) = (Arc::clone(outage), oneshot::channel());
    writes.lose_next_write(async move {
        fault.begin().await;
        begun.send(()).unwrap();
    });
    let publishing = tokio::spawn({
        let leader = first.monitor();
        async move { leader.publish("first").await }
    });
    timeout(SOON, away).await.expect("the write").unwrap();
    let unknown = next.word().await.expect_err("an answer without a store");
    assert!(unknown.is_retryable(), "{unknown}");
    outage.end().await;
    let told = timeout(SOON, publishing).await.expect("an end of the publication").unwrap();
    println!("the publication whose answer was lost: {told:?}");
    let word = answered(async || next.word().await).await.expect("the word that was published");
    assert_eq!((&*word.value, word.term), (&b"first"[..], first.token()));
    answered(async || theirs.force_release("chief").await).await;
    let second = answered(async || next.campaign().await).await;
    answered(async || second.monitor().publish("second").await).await;
    let error = first.monitor().publish("late").await.expect_err("a former leader");
    assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost), "{error}");
    let word = answered(async || ours.word().await).await.expect("the word of the next leader");
    assert_eq!((&*word.value, word.term), (&b"second"[..], second.token()));
}
