//! Readers in a SQLite file: each has the end of its own lease.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use backend_sql::Strategy;
use lock_core::{
    Attempt, Backend, Env as _, Grant, Init, LockState, LossReason, Mode, ReleaseOptions,
    ReleaseOutcome, Renewal, SystemEnv,
};
use sqlx::Row as _;

use crate::support::sqlite::{BOTH, assert_renewed, busy, file, open, raw, request};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

async fn reader(store: &Arc<dyn Backend>, lease: Duration) -> Grant {
    let mut request = request("job").with_mode(Mode::Shared);
    request.lease = lease;
    store.try_acquire(&request).await.unwrap().granted().unwrap()
}

async fn state(store: &Arc<dyn Backend>) -> LockState {
    store.inspect(&request("job").name).await.unwrap().unwrap()
}

async fn leave(store: &Arc<dyn Backend>, grant: &Grant) -> ReleaseOutcome {
    store.release(grant, ReleaseOptions::default()).await.unwrap().outcome
}

#[tokio::test]
async fn a_reader_that_crashed_leaves_the_group_when_its_lease_is_over() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let living = reader(&store, LONG).await;
    let dead = reader(&store, SHORT).await;
    tokio::time::sleep(SHORT).await;
    assert_eq!(state(&store).await.readers, Some(1));
    let listed = store.list(None).await.unwrap();
    assert_eq!(listed.locks[0].readers, Some(1));
    let answers = store.renew(&[&dead, &living], SystemEnv.now()).await;
    let [Renewal::Lost(LossReason::TakenOver), Renewal::Renewed { .. }] = answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(leave(&store, &dead).await, ReleaseOutcome::NotHeld);
    busy(&store, &request("job")).await;
    assert_eq!(leave(&store, &living).await, ReleaseOutcome::Released);
    assert!(store.try_acquire(&request("job")).await.unwrap().granted().is_some());
}

#[tokio::test]
async fn a_full_group_has_room_when_readers_of_it_have_crashed() {
    for strategy in BOTH {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        // A busy machine needs long for all of them.
        store.init(&Init::new().with_longest_lease(60 * LONG)).await.unwrap();
        reader(&store, 60 * LONG).await;
        for _ in 1..Mode::MOST_READERS {
            reader(&store, SHORT).await;
        }
        tokio::time::sleep(SHORT).await;
        let late = reader(&store, LONG).await;
        assert_eq!(state(&store).await.readers, Some(2), "{strategy}");
        assert_renewed(&store, &late).await;
        assert_eq!(ends(&path).await.ends.len(), 2, "{strategy}: the dead are still in the row");
    }
}

/// A request that is repeated after its lease is over joins anew.
#[tokio::test]
async fn a_reader_whose_lease_is_over_may_join_again() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    reader(&store, LONG).await;
    let mut again = request("job").with_mode(Mode::Shared);
    again.lease = SHORT;
    for _ in 0..2 {
        assert!(matches!(store.try_acquire(&again).await.unwrap(), Attempt::Granted(_)));
        tokio::time::sleep(SHORT).await;
    }
    assert_eq!(state(&store).await.readers, Some(1));
}

/// By our clock and by others.
#[tokio::test]
async fn a_reader_that_leaves_takes_its_long_lease_along() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let long = reader(&store, LONG).await;
    reader(&store, LONG / 10).await;
    assert_eq!(leave(&store, &long).await, ReleaseOutcome::Released);
    for _clock in ["ours", "another"] {
        let holder = state(&store).await.holder;
        assert!(holder.is_none_or(|holder| holder.remaining <= LONG / 10));
        another_clock(&path, 0).await;
    }
}

/// The ends in the row, and what its clock was when it was written.
struct Ends {
    ends: BTreeMap<String, i64>,
    written: i64,
}

impl Ends {
    /// What was left of a lease when the row was written.
    fn left(&self, grant: &Grant) -> i64 {
        self.ends[&grant.owner.to_string()] - self.written
    }
}

async fn ends(path: &Path) -> Ends {
    let sql = "SELECT readers, expires - lease AS written, expires FROM leasehold_locks";
    let row = sqlx::query(sql).fetch_one(&mut raw(path).await).await.unwrap();
    let ends: BTreeMap<String, i64> = serde_json::from_str(row.get("readers")).unwrap();
    assert_eq!(ends.values().max(), Some(&row.get("expires")), "the lock ends with the latest");
    Ends { ends, written: row.get("written") }
}

/// Makes the row one of a clock that is `ahead` nanoseconds ahead of ours.
async fn another_clock(path: &Path, ahead: i64) {
    let sql = "UPDATE leasehold_locks SET epoch = 'another clock', expires = expires + $1, \
        readers = (SELECT json_group_object(key, value + $1) FROM json_each(readers))";
    sqlx::query(sql).bind(ahead).execute(&mut raw(path).await).await.unwrap();
}

/// Nobody can tell how much later it is by the other clock. So the others have what was left of
/// their leases when the row was last written.
#[tokio::test]
async fn a_reader_of_another_clock_shortens_no_lease_and_keeps_each_end() {
    const DAY: i64 = 86_400_000_000_000;
    for (strategy, ahead) in BOTH.into_iter().flat_map(|it| [(it, DAY), (it, -DAY)]) {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        let long = reader(&store, LONG).await;
        let middle = reader(&store, LONG / 2).await;
        another_clock(&path, ahead).await;
        let left = async |before: &Ends| {
            let after = ends(&path).await;
            for other in [&long, &middle] {
                assert_eq!(after.left(other), before.left(other), "{strategy} {ahead}");
            }
            after
        };

        let before = ends(&path).await;
        let ours = reader(&store, LONG / 4).await;
        assert_eq!(ours.token, long.token);
        assert_eq!(left(&before).await.ends.len(), 3);
        assert!(state(&store).await.holder.unwrap().remaining > LONG / 2);

        another_clock(&path, ahead).await;
        let before = ends(&path).await;
        assert_renewed(&store, &ours).await;
        assert!(left(&before).await.left(&ours) >= before.left(&ours));
        assert!(state(&store).await.holder.unwrap().remaining > LONG / 2);

        another_clock(&path, ahead).await;
        let before = ends(&path).await;
        assert_eq!(leave(&store, &ours).await, ReleaseOutcome::Released);
        assert_eq!(left(&before).await.ends.len(), 2);
        busy(&store, &request("job")).await;
    }
}

/// A renewal prolongs the lease of its reader alone, and shortens none.
#[tokio::test]
async fn a_renewal_of_several_readers_sets_their_ends_alone() {
    let (_folder, path) = file();
    let store = open(&path, Strategy::PrimaryKey).await;
    let silent = reader(&store, LONG).await;
    let (mut one, mut two) = (reader(&store, LONG / 2).await, reader(&store, LONG / 2).await);
    let before = ends(&path).await;
    (one.lease, two.lease) = (LONG, SHORT);
    let answers = store.renew(&[&one, &two], SystemEnv.now()).await;
    assert!(answers.iter().all(|it| matches!(it, Renewal::Renewed { .. })), "{answers:?}");
    let after = ends(&path).await;
    let end = |at: &Ends, grant: &Grant| at.ends[&grant.owner.to_string()];
    assert_eq!(end(&after, &silent), end(&before, &silent));
    assert!(end(&after, &one) > end(&before, &silent));
    assert_eq!(end(&after, &two), end(&before, &two));
}
