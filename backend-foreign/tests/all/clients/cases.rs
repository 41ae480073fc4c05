//! What must hold between a foreign client and a leasehold client.

use std::{
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{Enqueued, FencingToken, Holder, Init, LockClient, OwnerId, Signal, TryAcquire};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::timeout,
};
use verification::missing_guards::cases::request;

use super::{Library, program::Program};
use crate::server::Server;

const URL: &str = "LEASEHOLD_TEST_HOLDER";
/// In milliseconds: the lease of a holder whose lease will end, and of one whose waiter must be
/// woken before that.
pub(super) const SHORT: &str = "1500";
pub(super) const LONG: &str = "28000";
/// The lease of our holder, which renews it until it is killed.
const HELD: Duration = Duration::from_secs(3);
/// If only the end of the holder's lease wakes a waiter, that takes longer than this.
const WOKEN_WITHIN: Duration = Duration::from_secs(20);
/// How often each side holds the lock, in turn. A foreign client that polls does so every 10 ms in
/// `count`. ShedLock does not wait, so its program tries every 20 ms.
const HOLDS: usize = 100;
/// Between two holds, so that the other side finds the lock free even if it polls.
const PAUSE: Duration = Duration::from_millis(30);
/// Longer than anything takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Ours,
    Theirs,
}

/// A client of each side, on one server.
pub(super) struct Pair {
    pub(super) server: Server,
    pub(super) theirs: Program,
    library: &'static Library,
    pub(super) url: String,
    ours: LockClient,
}

impl Pair {
    /// `None` if the other library cannot be installed here.
    pub(super) async fn start(library: &'static Library) -> Option<Self> {
        let server = Server::start(library.server).await;
        server.make_table().await;
        let theirs = library.start(server.address()).await?;
        let url = server.url(library.layout) + library.options;
        let store = backend_foreign::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        Some(Self { server, theirs, library, url, ours: LockClient::new(store) })
    }

    /// Both sides, in turn, add to a number that only the lock protects.
    pub(super) async fn alternates(&mut self) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("number");
        std::fs::write(&file, "0 nobody").unwrap();
        self.theirs.ask(&format!("count job {} {HOLDS}", file.display())).await;
        let (mut done, mut last) = (0, FencingToken::ZERO);
        while done < HOLDS {
            let guard =
                timeout(PATIENCE, self.ours.lock("job").lease(Duration::from_secs(20)).acquire());
            let guard = guard.await.expect("the leasehold client is served").unwrap();
            assert!(guard.token() > last, "{} came after {last}", guard.token());
            last = guard.token();
            let text = std::fs::read_to_string(&file).unwrap();
            let (number, who) = text.split_once(' ').expect("the file is written by one at a time");
            if who != "ours" {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let number: usize = number.parse().unwrap();
                std::fs::write(&file, format!("{} ours", number + 1)).unwrap();
                done += 1;
            }
            guard.release().await.unwrap();
            tokio::time::sleep(PAUSE).await;
        }
        let counted =
            timeout(PATIENCE, self.theirs.answer()).await.expect("the foreign client is served");
        assert_eq!(counted, "counted");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(&format!("{} ", 2 * HOLDS)), "{text} after {HOLDS} holds of each");
    }

    /// The holder that blocks an attempt.
    async fn blocking_holder(&self, name: &str) -> Holder {
        match self.ours.lock(name).try_acquire().await.unwrap() {
            TryAcquire::Busy(busy) => busy.holder.expect("a holder"),
            other => panic!("{name} should have been busy: {other:?}"),
        }
    }

    pub(super) async fn we_wait_for_them(&mut self) {
        assert_eq!(self.theirs.does(&format!("acquire waited {LONG}")).await, "got");
        let holder = self.blocking_holder("waited").await;
        let label = format!("a {} client: ", self.library.layout);
        assert!(holder.label.as_str().starts_with(&label), "{holder:?}");
        let waiting = tokio::spawn(self.ours.lock("waited").acquire());
        // By now it waits, or it will find the lock free. Both are correct.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished(), "the lock was given while they held it");
        assert_eq!(self.theirs.does("release waited").await, "released");
        let guard = timeout(WOKEN_WITHIN, waiting).await.expect("woken before the lease ends");
        guard.unwrap().unwrap().release().await.unwrap();
    }

    /// If a foreign release sends a message. A waiter of the backend itself does not poll, so only
    /// a message can wake it.
    pub(super) async fn their_message_wakes_us(&mut self) {
        let store = Arc::clone(self.ours.backend());
        if !store.guarantees().push {
            return;
        }
        assert_eq!(self.theirs.does(&format!("acquire woken {LONG}")).await, "got");
        let wanted = request("woken", Duration::from_secs(20));
        let Enqueued::Waiting(mut waiter, _) = store.enqueue(&wanted).await.unwrap() else {
            panic!("the lock was given while they held it");
        };
        let early = timeout(Duration::from_millis(300), waiter.next()).await;
        assert!(early.is_err(), "woken while they held it: {early:?}");
        assert_eq!(self.theirs.does("release woken").await, "released");
        let woken = timeout(PATIENCE, waiter.next()).await.expect("their release wakes ours");
        assert!(matches!(woken, Signal::Recheck), "{woken:?}");
        waiter.leave().await.unwrap();
    }

    pub(super) async fn they_wait_for_us(&mut self) {
        let lease: u64 = LONG.parse().unwrap();
        let lock = self.ours.lock("theirs").lease(Duration::from_millis(lease));
        let guard = lock.acquire().await.unwrap();
        self.theirs.ask(&format!("acquire theirs {LONG}")).await;
        let early = timeout(Duration::from_millis(1500), self.theirs.answer()).await;
        assert!(early.is_err(), "they got the lock while we held it");
        guard.release().await.unwrap();
        let got = timeout(WOKEN_WITHIN, self.theirs.answer()).await;
        assert_eq!(got.expect("woken before the lease ends"), "got");
        assert_eq!(self.theirs.does("release theirs").await, "released");
    }

    /// Their lease has ended, and a leasehold client has the lock.
    pub(super) async fn they_release_late(&mut self) {
        assert_eq!(self.theirs.does(&format!("acquire late {SHORT}")).await, "got");
        let ours = timeout(PATIENCE, self.ours.lock("late").acquire()).await;
        let guard = ours.expect("their lease ends").unwrap();
        assert_eq!(self.theirs.does("release late").await, "lost");
        let state = self.ours.inspect("late").await.unwrap().expect("it is held");
        assert_eq!(state.holder.expect("by us").owner, guard.owner());
        guard.release().await.unwrap();
    }

    /// ShedLock's lockAtLeastFor.
    pub(super) async fn they_keep_it_for_a_minimum_hold(&mut self) {
        let least = Duration::from_secs(5);
        let holder = loop {
            let began = Instant::now();
            assert_eq!(self.theirs.does(&format!("least kept {LONG} 5000")).await, "got");
            assert_eq!(self.theirs.does("release kept").await, "released");
            match self.ours.lock("kept").try_acquire().await.unwrap() {
                TryAcquire::Busy(busy) => break busy.holder.expect("a holder"),
                // The machine was so slow that the minimum hold has ended.
                TryAcquire::Acquired(guard) if began.elapsed() >= least => {
                    guard.release().await.unwrap();
                }
                other => panic!("it was not kept: {other:?}"),
            }
        };
        assert!(holder.remaining <= least, "{holder:?}");
        let guard = timeout(PATIENCE, self.ours.lock("kept").acquire()).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }

    pub(super) async fn they_hold_without_an_end(&mut self) {
        assert_eq!(self.theirs.does("acquire endless 0").await, "got");
        let key = if self.library.layout == "redis-py" { "endless" } else { "lock:endless" };
        assert_eq!(self.server.redis(&["PTTL", key]).await, "-1");
        let holder = self.blocking_holder("endless").await;
        assert!(holder.has_no_end() && holder.owner == OwnerId::FOREIGN, "{holder:?}");
        // The attempt did not set an expiry.
        assert_eq!(self.server.redis(&["PTTL", key]).await, "-1");
        assert_eq!(self.theirs.does("release endless").await, "released");
        let guard = timeout(PATIENCE, self.ours.lock("endless").acquire()).await.unwrap().unwrap();
        let left: i64 = self.server.redis(&["PTTL", key]).await.parse().unwrap();
        assert!(left > 0, "a lock of ours ends in {left} ms");
        guard.release().await.unwrap();
    }

    pub(super) async fn a_killed_holder_leaves_the_lock(&mut self, side: Side) {
        if side == Side::Theirs {
            assert_eq!(self.theirs.does(&format!("acquire killed {SHORT}")).await, "got");
            self.theirs.kill().await;
            let ours = timeout(PATIENCE, self.ours.lock("killed").acquire()).await;
            ours.expect("their lease ends").unwrap().release().await.unwrap();
            return;
        }
        let mut holder = Command::new(std::env::current_exe().unwrap());
        let test = "clients::a_holder_to_be_killed";
        holder.args([test, "--exact", "--ignored", "--nocapture"]).env(URL, &self.url);
        let mut holder = holder.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap().expect("it holds the lock").contains("held") {}
        // A waiter of python-redis-lock tries again after its own lease.
        self.theirs.ask("acquire killed 10000").await;
        let early = timeout(HELD + Duration::from_millis(500), self.theirs.answer()).await;
        assert!(early.is_err(), "they got the lock while our holder renewed it");
        holder.kill().await.unwrap();
        let got = timeout(PATIENCE, self.theirs.answer()).await;
        assert_eq!(got.expect("our lease ends"), "got");
        assert_eq!(self.theirs.does("release killed").await, "released");
    }

    pub(super) async fn tokens_rise_on_both_sides(&mut self) {
        let mut last = 0;
        for round in 0..20 {
            let line = format!("fenced fenced {LONG}");
            let answer = timeout(PATIENCE, self.theirs.does(&line)).await;
            let answer = answer.expect("their client is served");
            let theirs: u64 = answer.strip_prefix("got ").expect("a token").parse().unwrap();
            assert!(theirs > last, "Redisson's token {theirs} came after {last} in round {round}");
            assert_eq!(self.theirs.does("release fenced").await, "released");
            let guard =
                timeout(PATIENCE, self.ours.lock("fenced").acquire()).await.unwrap().unwrap();
            last = guard.token().get();
            assert!(last > theirs, "our token {last} came after {theirs} in round {round}");
            guard.release().await.unwrap();
        }
    }
}

/// Runs in a separate process.
pub(super) async fn hold_until_killed() {
    let Ok(url) = std::env::var(URL) else { return };
    let client = LockClient::new(backend_foreign::connect(&url).await.unwrap());
    let guard = client.lock("killed").lease(HELD).acquire().await.unwrap();
    println!("held");
    panic!("lost before it was killed: {}", guard.lost().await);
}
