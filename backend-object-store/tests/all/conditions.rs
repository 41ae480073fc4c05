//! What a store must do, and what nobody may do to its objects.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use backend_object_store::{
    Objects,
    cas::{CasBackend, CasOptions, CasStore, Object, Put, Version},
};
use lock_core::{
    Attempt, Backend as _, Env as _, Error, ErrorKind, Init, Instant, Mutex, ReleaseOptions,
    ReleaseOutcome, Renewal, async_trait,
};
use object_store::{ObjectStoreExt as _, memory::InMemory, path::Path};

use super::support::{
    Client, LEASE, TestEnv, clocks, is_lost, is_renewed, job, open, reach, unavailable,
};

#[tokio::test]
async fn a_store_that_ignores_a_condition_is_refused() {
    // At the first connect, and at a later one.
    for is_used in [false, true] {
        for (ignored, named) in [(true, "If-Match"), (false, "If-None-Match")] {
            let (memory, clocks) = (Arc::new(InMemory::new()), clocks());
            if is_used {
                open(&reach(&memory), &clocks).await.unwrap();
            }
            let bucket = reach(&memory);
            *bucket.ignores.lock() = Some(ignored);
            let error = open(&bucket, &clocks).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(&format!("ignores {named}:")), "{error}");
        }
    }
}

/// docs/backends/object-store.md says what a connect costs.
#[tokio::test]
async fn a_connect_to_a_store_in_use_changes_only_the_probe() {
    let memory = Arc::new(InMemory::new());
    open(&reach(&memory), &clocks()).await.unwrap();
    let object =
        async |key: &str| memory.get(&Path::from(key)).await.unwrap().bytes().await.unwrap();
    let before = [object("settings").await, object("probe").await];
    let bucket = reach(&memory);
    open(&bucket, &clocks()).await.unwrap();
    assert_eq!(object("settings").await, before[0]);
    assert_ne!(object("probe").await, before[1]);
    assert_eq!(bucket.reads.load(SeqCst), 3);
    assert_eq!(bucket.writes.load(SeqCst), 3, "two of them are refused");
}

/// As on stores with a server: a running client takes over what `init` has set.
#[tokio::test]
async fn a_client_that_runs_learns_of_another_longest_lease_within_a_minute() {
    let memory = Arc::new(InMemory::new());
    let (holder, operator) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = holder.acquire().await.expect("it is free");
    let (shorter, longer) = (LEASE / 2, 4 * LEASE);
    operator.backend.init(&Init::new().with_longest_lease(shorter)).await.unwrap();
    let start = holder.now();
    while holder.now().since(start) <= Duration::from_secs(60) {
        holder.clocks.pass(LEASE / 3);
        assert!(is_renewed(&holder.renew(&grant).await));
    }
    let renewal = holder.renew(&grant).await;
    assert!(matches!(renewal, Renewal::Renewed { lease, .. } if lease == shorter), "{renewal:?}");
    assert_eq!(holder.backend.guarantees().longest_lease, shorter);

    let other = Client::of(&memory).await;
    operator.backend.init(&Init::new().with_longest_lease(longer)).await.unwrap();
    let mut request = other.request();
    request.lease = longer;
    let error = other.backend.try_acquire(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    other.clocks.pass(Duration::from_secs(60));
    assert!(other.backend.try_acquire(&request).await.is_ok());
}

#[tokio::test]
async fn a_deleted_object_is_a_loss_and_is_not_made_again() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    let grant = client.acquire().await.expect("it is free");
    memory.delete(&Path::from("locks/job")).await.unwrap();
    assert!(is_lost(&client.renew(&grant).await));
    let released = client.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    assert!(client.backend.inspect(&job()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_object_of_another_program_is_held_until_an_operator_frees_it() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    memory.put(&Path::from("locks/job"), "hello".into()).await.unwrap();
    let attempt = client.backend.try_acquire(&client.request()).await.unwrap();
    let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
    assert!(busy.holder.is_some_and(|holder| holder.is_unreadable() && holder.has_no_end()));
    // An attempt that is given up needs no mark there: its late writes fail anyway.
    client.backend.abandon(&client.request()).await.unwrap();
    let kept = memory.get(&Path::from("locks/job")).await.unwrap().bytes().await.unwrap();
    assert_eq!(kept, "hello");
    let freed = client.backend.force_release(&job()).await.unwrap();
    assert_eq!(freed, ReleaseOutcome::Released);
    assert!(client.acquire().await.is_some());
    // The last key of a page is one that no lock has.
    memory.put(&Path::parse("locks/~%/a").unwrap(), "hello".into()).await.unwrap();
    let page = client.backend.list(None).await.unwrap();
    assert_eq!(page.locks.len(), 1);
    let page = client.backend.list(page.next).await.unwrap();
    assert!(page.locks.is_empty() && page.next.is_none(), "the listing ends");
    memory.put(&Path::from("settings"), "hello".into()).await.unwrap();
    let error = open(&client.bucket, &client.clocks).await.unwrap_err();
    assert!(error.to_string().contains("choose another prefix"), "{error}");
}

/// An older client in a store that was upgraded.
#[tokio::test]
async fn a_client_of_an_older_version_is_refused_by_each_call() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    let held = client.acquire().await.unwrap();
    let settings = Path::from("settings");
    let text = memory.get(&settings).await.unwrap().bytes().await.unwrap();
    let later = String::from_utf8(text.to_vec()).unwrap();
    let later = later.replace("\"version\":1", "\"version\":2");
    memory.put(&settings, later.into()).await.unwrap();
    client.clocks.pass(Duration::from_secs(60));
    for _ in 0..2 {
        let error = client.backend.try_acquire(&client.request()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let Renewal::Unknown(error) = client.renew(&held).await else {
            panic!("a renewal by a client of an older version");
        };
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let error = client.backend.inspect(&held.name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let error = client.backend.force_release(&held.name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
}

/// A store that takes one write a second to an object. Google says that its store does.
#[derive(Debug)]
struct OnceASecond {
    inner: Objects,
    env: TestEnv,
    last: Mutex<HashMap<String, Instant>>,
    refused: AtomicU64,
}

#[async_trait]
impl CasStore for OnceASecond {
    async fn get(&self, key: &str) -> Result<Option<Object>, Error> {
        self.inner.get(key).await
    }

    async fn put_if(
        &self,
        key: &str,
        bytes: Vec<u8>,
        expected: Option<&Version>,
    ) -> Result<Put, Error> {
        let last = self.last.lock().get(key).copied();
        let now = self.env.now();
        if last.is_some_and(|last| now.since(last) < Duration::from_secs(1)) {
            self.refused.fetch_add(1, SeqCst);
            return Err(unavailable());
        }
        let put = self.inner.put_if(key, bytes, expected).await?;
        if put != Put::Refused {
            self.last.lock().insert(key.to_owned(), now);
        }
        Ok(put)
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
        self.inner.list(prefix, after).await
    }
}

#[tokio::test]
async fn a_connect_waits_for_a_store_that_takes_one_write_a_second() {
    let env = TestEnv(clocks());
    let store = Arc::new(OnceASecond {
        inner: Objects::new(Arc::new(InMemory::new()), "").unwrap(),
        env: env.clone(),
        last: Mutex::default(),
        refused: AtomicU64::new(0),
    });
    let mut options = CasOptions::new("object-store");
    options.env = Arc::new(env);
    CasBackend::open(Arc::clone(&store) as _, options).await.unwrap();
    assert!(store.refused.load(SeqCst) > 0, "it has refused requests");
}
