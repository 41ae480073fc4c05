//! The lines of the log repeat seldom, however long a trouble lasts.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use lock_core::{ClientOptions, EventKind, LockClient, all};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::{DefaultGuard, NoSubscriber},
};

use crate::support::{Fault, Stub, held};

/// The lines of this thread from INFO up: the message, and the other fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        // While there is only one subscriber, a place in the code that another test reaches first,
        // on a thread without any, counts as one that nobody wants to hear of.
        std::mem::forget(tracing::Dispatch::new(NoSubscriber::new()));
        let guard = tracing::subscriber::set_default(log.clone());
        tracing::callsite::rebuild_interest_cache();
        (log, guard)
    }

    fn count(&self, message: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(message)).count()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target() == "leasehold"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

/// Counts the events of failed renewals.
fn failures(client: &LockClient) -> Arc<Mutex<usize>> {
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    let observer = move |event: &lock_core::Event<'_>| {
        if matches!(event.kind, EventKind::RenewalFailed { .. }) {
            *counted.lock().unwrap() += 1;
        }
    };
    drop(client.clone().observed_by(Arc::new(observer)).unwrap());
    count
}

#[tokio::test(start_paused = true)]
async fn renewals_that_fail_give_one_line_per_quarter_of_the_lease() {
    let (log, _guard) = Log::start();
    let stub = Stub::new();
    let client = stub.client();
    let failures = failures(&client);
    let guard = client.lock("job").lease(Duration::from_secs(10)).acquire().await.unwrap();
    for _ in 0..100 {
        stub.fault("renew", Fault::RequestLost);
    }
    guard.lost().await;
    let (lines, events) = (log.count("renewal failed"), *failures.lock().unwrap());
    assert!((2..=3).contains(&lines), "{lines}: {:?}", log.0);
    assert!(events > 8, "{events}: the observer learns of each");
    assert_eq!(log.count("lock lost"), 1);
}

#[tokio::test(start_paused = true)]
async fn locks_that_fail_together_have_one_line_with_their_number() {
    let (log, _guard) = Log::start();
    let stub = Stub::new();
    let client = stub.client();
    let failures = failures(&client);
    let locks = (0..16).map(|number| client.lock(format!("job-{number}")));
    let _guards = all(locks).acquire().await.unwrap();
    stub.fault("renew", Fault::RequestLost);
    while *failures.lock().unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let failed = *failures.lock().unwrap();
    assert!(failed > 1, "{failed}");
    assert_eq!(log.count("renewal failed"), 1, "{:?}", log.0);
    assert_eq!(log.count(&format!("others={} ", failed - 1)), 1, "{:?}", log.0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_says_once_a_minute_that_it_waits_or_that_the_store_fails() {
    let (log, _guard) = Log::start();
    let stub = Stub::new();
    let _holder = held(&stub, "job").await;
    let client = stub.client_with(ClientOptions::default());
    let waiting = tokio::spawn(async move { client.lock("job").acquire().await });
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(log.count("waiting"), 3, "{:?}", log.0);
    stub.down.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(log.count("attempt failed"), 3, "{:?}", log.0);
    waiting.abort();
}
