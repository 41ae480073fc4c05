//! A release in MySQL gives the lock to the first entry, in one statement.

use std::sync::Arc;

use backend_sql::Strategy;
use lock_core::{
    Backend, FencingToken, Grant, Mode, OwnerId, ReleaseOptions, ReleaseOutcome, Signal, Waiter,
};
use servers::{Mariadb, wait::until};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use crate::support::mariadb::{
    BOTH, WAIT, assert_renewed, busy, counted, enqueue, granted, made, open, prefix, request,
    session, stopped, waiting_for_rows,
};

const THE_LOCK: &str = "locks WHERE true";

/// The entry of an owner.
fn entry_of(owner: OwnerId) -> String {
    format!("queue WHERE owner = '{owner}'")
}

/// A client that holds the lock and has seen that others want it, and another client.
struct Stage {
    holder: Arc<dyn Backend>,
    held: Grant,
    other: Arc<dyn Backend>,
}

impl Stage {
    async fn new(server: &Mariadb, strategy: Strategy) -> Self {
        let (holder, other) = (made(server, strategy).await, open(server, strategy).await);
        let held = granted(&holder, &request("job")).await;
        busy(&holder, &request("job")).await;
        Self { holder, held, other }
    }

    async fn release(&self) {
        release(&self.holder, &self.held).await;
    }

    /// The release, as a task.
    fn releasing(&self) -> tokio::task::JoinHandle<()> {
        let (holder, held) = (Arc::clone(&self.holder), self.held.clone());
        tokio::spawn(async move { release(&holder, &held).await })
    }
}

async fn release(store: &Arc<dyn Backend>, held: &Grant) {
    let released = store.release(held, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

/// The token, owner and label of the row.
async fn row(server: &Mariadb, strategy: Strategy) -> String {
    let columns = "CONCAT_WS(' ', token, owner, label, expires > 0)";
    server.sql(&format!("SELECT {columns} FROM {}_locks", prefix(strategy))).await.unwrap()
}

/// A transaction of somebody else that has locked a row of `job`.
async fn lock(server: &Mariadb, strategy: Strategy, row: &str) -> MySqlConnection {
    let mut foreign = session(server).await;
    let sql =
        format!("BEGIN; SELECT * FROM {}_{row} AND name = 'job' FOR UPDATE", prefix(strategy));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut foreign).await.unwrap();
    foreign
}

async fn pushed(mut waiter: Box<dyn Waiter>) -> Grant {
    match waiter.next().await {
        Signal::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_first_entry_has_the_lock_when_the_release_is_answered() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let ahead = FencingToken::new(stage.held.token.get() + 20_000_000).unwrap();
        let (mut first, second) = (request("job"), request("job"));
        first.floor = ahead;
        let (waiter, _later) =
            (enqueue(&stage.other, &first).await, enqueue(&stage.other, &second).await);
        let before = counted(&server, "Com_update").await;
        stage.release().await;
        assert_eq!(counted(&server, "Com_update").await, before + 1, "{strategy}");
        let expected = format!("{} {} {} 1", ahead.get() + 1, first.owner, first.label.as_str());
        assert_eq!(row(&server, strategy).await, expected);
        let grant = pushed(waiter).await;
        assert_eq!((grant.owner, grant.token.get()), (first.owner, ahead.get() + 1));
        assert!(grant.claim.is_some(), "{grant:?}");
        assert_renewed(&stage.other, &grant).await;
    }
}

/// Where nobody waits, a release costs one statement, too, whatever the client has seen.
#[tokio::test]
async fn a_release_that_finds_nobody_is_one_statement() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        for held in [&stage.held, &granted(&stage.other, &request("other")).await] {
            let store = if held.name == stage.held.name { &stage.holder } else { &stage.other };
            let before = counted(&server, "Com_update").await;
            release(store, held).await;
            assert_eq!(counted(&server, "Com_update").await, before + 1, "{strategy}");
            granted(&stage.other, &request(held.name.as_str())).await;
        }
    }
}

/// The waiter of that entry is served by its next attempt, which needs no entry.
#[tokio::test]
async fn a_locked_entry_delays_neither_the_release_nor_its_waiter() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let next = request("job");
        let mut waiter = enqueue(&stage.other, &next).await;
        let foreign = lock(&server, strategy, &entry_of(next.owner)).await;
        stage.release().await;
        let waits = tokio::spawn(async move { waiter.next().await });
        waiting_for_rows(&server, 1).await;
        let grant = granted(&stage.other, &next).await;
        assert_renewed(&stage.other, &grant).await;
        assert!(!waits.is_finished(), "{strategy}: the entry was not locked");
        waits.abort();
        foreign.close().await.unwrap();
    }
}

/// A release that waits for the row does not give the lock to an entry that was deleted meanwhile.
#[tokio::test]
async fn one_who_has_left_is_given_nothing() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let (leaves, stays) = (request("job"), request("job"));
        let waiter = enqueue(&stage.other, &leaves).await;
        let next = enqueue(&stage.other, &stays).await;
        let foreign = lock(&server, strategy, THE_LOCK).await;
        let releasing = stage.releasing();
        waiting_for_rows(&server, 1).await;
        // It deletes its entry, and then waits to give back what it may have been granted.
        let leaving = tokio::spawn(waiter.leave());
        waiting_for_rows(&server, 2).await;
        foreign.close().await.unwrap();
        releasing.await.unwrap();
        leaving.await.unwrap().unwrap();
        assert_eq!(pushed(next).await.owner, stays.owner, "{strategy}");
    }
}

/// An abandoned owner whose entry is still there.
#[tokio::test]
async fn an_abandoned_owner_is_given_nothing() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let (given_up, stays) = (request("job"), request("job"));
        let _entry = enqueue(&stage.other, &given_up).await;
        let next = enqueue(&stage.other, &stays).await;
        let foreign = lock(&server, strategy, &entry_of(given_up.owner)).await;
        let store = Arc::clone(&stage.other);
        let abandons = tokio::spawn(async move { store.abandon(&given_up).await });
        // Its tombstone is in the row, and its entry is locked.
        waiting_for_rows(&server, 1).await;
        stage.release().await;
        assert_eq!(pushed(next).await.owner, stays.owner, "{strategy}");
        foreign.close().await.unwrap();
        abandons.await.unwrap().unwrap();
    }
}

/// A release that waits for the row counts the claim window from before that wait. A waiter that
/// was answered `Busy` meanwhile relies on no more than what is left.
#[tokio::test]
async fn a_release_that_waited_leaves_less_of_the_claim_window() {
    let (clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let next = request("job");
        let waiter = enqueue(&stage.other, &next).await;
        let foreign = lock(&server, strategy, THE_LOCK).await;
        let releasing = stage.releasing();
        waiting_for_rows(&server, 1).await;
        clock.step(1.5).unwrap();
        busy(&stage.other, &next).await;
        foreign.close().await.unwrap();
        releasing.await.unwrap();
        let grant = pushed(waiter).await;
        let left = grant.claim.unwrap().as_millis();
        assert!((490..=510).contains(&left), "{strategy}: {left} ms");
        release(&stage.other, &grant).await;
    }
}

/// An attempt without an answer has taken the lock, and nobody has checked its token.
#[tokio::test]
async fn an_unchecked_grant_is_left_to_an_attempt() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let next = request("job");
        let mut waiter = enqueue(&stage.other, &next).await;
        let taken = format!("SET owner = '{}', kept = 2", next.owner);
        server.sql(&format!("UPDATE {}_locks {taken}", prefix(strategy))).await.unwrap();
        assert!(matches!(waiter.next().await, Signal::Recheck), "{strategy}");
    }
}

/// A crash may take back a grant that a client has read and the server has not flushed. The removal
/// of the entry is flushed after it.
#[tokio::test]
async fn a_waiter_relies_on_its_grant_when_its_entry_is_removed() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let next = request("job");
        let waiter = enqueue(&stage.other, &next).await;
        let removal = Removal::stopped(&server, strategy).await;
        stage.release().await;
        let waits = tokio::spawn(pushed(waiter));
        removal.is_awaited(&server, 1).await;
        assert!(!waits.is_finished(), "{strategy}");
        removal.goes_on().await;
        assert_eq!(waits.await.unwrap().owner, next.owner);
    }
}

/// The holder after it releases the lock before that entry is removed, and so gives the lock to an
/// owner that needs it no more.
#[tokio::test]
async fn a_holder_gives_back_what_its_own_entry_was_given() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let (first, second) = (request("job"), request("job"));
        let _waiters = (enqueue(&stage.holder, &first).await, enqueue(&stage.other, &second).await);
        stage.release().await;
        let removal = Removal::stopped(&server, strategy).await;
        // Attempts confirm what a release granted, and remove the entries in the background.
        let held = granted(&stage.holder, &first).await;
        let holder = Arc::clone(&stage.holder);
        let releasing = tokio::spawn(async move { release(&holder, &held).await });
        let is_served = async || {
            let row = row(&server, strategy).await;
            Ok(row.contains(&second.owner.to_string()).then_some(()))
        };
        until("the second to have the lock", WAIT, is_served).await.unwrap();
        let held = granted(&stage.other, &second).await;
        let other = Arc::clone(&stage.other);
        let releasing_next = tokio::spawn(async move { release(&other, &held).await });
        let is_back = async || {
            let row = row(&server, strategy).await;
            Ok(row.contains(&first.owner.to_string()).then_some(()))
        };
        until("the first entry to have the lock", WAIT, is_back).await.unwrap();
        removal.is_awaited(&server, 2).await;
        removal.goes_on().await;
        releasing.await.unwrap();
        releasing_next.await.unwrap();
        granted(&stage.other, &request("job")).await;
    }
}

#[tokio::test]
async fn a_readers_entry_starts_to_share_the_lock() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let stage = Stage::new(&server, strategy).await;
        let [first, second] = [0, 1].map(|_| request("job").with_mode(Mode::Shared));
        let [mut waiter, mut next] =
            [enqueue(&stage.other, &first).await, enqueue(&stage.other, &second).await];
        stage.release().await;
        assert!(row(&server, strategy).await.contains(&OwnerId::READERS.to_string()), "{strategy}");
        assert!(matches!(waiter.next().await, Signal::Recheck), "{strategy}");
        let grant = granted(&stage.other, &first).await;
        assert_renewed(&stage.other, &grant).await;
        assert!(matches!(next.next().await, Signal::Recheck), "{strategy}");
        let joined = granted(&stage.other, &second).await;
        assert_eq!(joined.token, grant.token, "{strategy}");
        busy(&stage.other, &request("job")).await;
    }
}

/// Each removal of an entry waits as long as this session has a lock of the server.
struct Removal(MySqlConnection);

impl Removal {
    async fn stopped(server: &Mariadb, strategy: Strategy) -> Self {
        let trigger = format!(
            "CREATE TRIGGER slow_{0} BEFORE DELETE ON {0}_queue FOR EACH ROW \
             DO GET_LOCK('removal', 60) + RELEASE_LOCK('removal')",
            prefix(strategy)
        );
        server.sql(&trigger).await.unwrap();
        let mut session = session(server).await;
        sqlx::raw_sql("DO GET_LOCK('removal', 60)").execute(&mut session).await.unwrap();
        Self(session)
    }

    async fn is_awaited(&self, server: &Mariadb, by: usize) {
        let waits = "SELECT COUNT(*) FROM information_schema.processlist \
                     WHERE state = 'User lock' AND info LIKE '%removal%'";
        let reached = async || Ok((server.sql(waits).await? == by.to_string()).then_some(()));
        until("removals to wait", WAIT, reached).await.unwrap();
    }

    async fn goes_on(mut self) {
        sqlx::raw_sql("DO RELEASE_LOCK('removal')").execute(&mut self.0).await.unwrap();
    }
}
