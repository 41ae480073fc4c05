//! The tail of the queue, and heartbeats.

use std::sync::Arc;

use lock_core::{Backend, Enqueued, Grant, ReleaseOptions, Signal};
use servers::wait::until;
use verification::missing_guards::{
    Verdict,
    cases::{LONG, check, enqueue, first_use, granted, not_granted, request, words},
};

use super::{Clients as _, Database as _, OnePostgres};

/// Holds `a`, and returns the holder's store.
async fn held(stage: &OnePostgres) -> Result<(Arc<dyn Backend>, Grant), String> {
    let store = first_use(stage).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    Ok((store, grant))
}

/// SQL that fills the head of the queue of `a` with entries of nobody, which count as alive for an
/// hour.
fn near(count: u32, how: char) -> String {
    format!(
        "UPDATE leasehold_locks SET \
         waiters = ARRAY(SELECT lpad(i::text, 64, '0') || '{how}' FROM generate_series(1, {count}) AS i), \
         alive = array_fill(now() + interval '1 hour', ARRAY[{count}])"
    )
}

/// SQL that adds such an entry of this owner to the table, at this position of the tail.
fn written(owner: char, entered: &str) -> String {
    format!(
        "INSERT INTO leasehold_queue VALUES \
         ('a', repeat('{owner}', 32), {entered}, repeat('{owner}', 64) || '+', now() + interval '1 hour')"
    )
}

/// Somebody waits in the tail, and nobody at the head.
pub(super) async fn an_attempt_before_entries_behind(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    let behind = "UPDATE leasehold_locks SET owner = NULL, waiters = '{}', alive = '{}', far = 5; ";
    stage.sql(&(behind.to_owned() + &written('b', "5"))).await?;
    not_granted(&*store, &request("a", LONG)).await
}

/// As after a lost answer.
pub(super) async fn an_entry_behind_that_asks_again(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    stage.sql(&near(16, '+')).await?;
    let wanted = request("a", LONG);
    let _waiter = enqueue(&*store, &wanted).await?;
    let far = stage.sql("SELECT far FROM leasehold_locks").await?;
    let _again = enqueue(&*store, &wanted).await?;
    stage.says("SELECT far FROM leasehold_locks", &far).await
}

/// The tail has an entry, and the head has room.
pub(super) async fn an_entry_behind_the_tail(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    let queue = near(3, '+') + "; UPDATE leasehold_locks SET far = 5; " + &written('b', "5");
    stage.sql(&queue).await?;
    let _waiter = enqueue(&*store, &request("a", LONG)).await?;
    stage.says("SELECT waiters[4] LIKE 'bbb%' FROM leasehold_locks", "t").await
}

const AT_THE_HEAD: &str = "SELECT cardinality(waiters) FROM leasehold_locks";

pub(super) async fn an_entry_for_a_full_head(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    stage.sql(&near(16, '+')).await?;
    let _waiter = enqueue(&*store, &request("a", LONG)).await?;
    stage.says(AT_THE_HEAD, "16").await
}

/// As after a lost answer.
pub(super) async fn an_entry_that_asks_again(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    let wanted = request("a", LONG);
    let _waiter = enqueue(&*store, &wanted).await?;
    let _again = enqueue(&*store, &wanted).await?;
    stage.says(AT_THE_HEAD, "1").await
}

/// The lease of the holder is over, and the first entry did not take the lock in its turn.
pub(super) async fn an_entry_for_a_lock_that_is_free(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    let free = near(1, '+')
        + "; UPDATE leasehold_locks SET expires = now() - interval '1 hour', turn = now() - interval '1 s'";
    stage.sql(&free).await?;
    let answer = store.enqueue(&request("a", LONG)).await.map_err(words)?;
    check(matches!(answer, Enqueued::Granted(_)), || "a free lock was not granted".to_owned())
}

/// A dead entry stands at the head while another joins the queue.
pub(super) async fn a_release_to_an_entry_behind_a_dead_one(stage: &OnePostgres) -> Verdict {
    let (store, held) = held(stage).await?;
    let dead =
        near(1, '+') + "; UPDATE leasehold_locks SET alive = ARRAY[now() - interval '1 hour']";
    stage.sql(&dead).await?;
    let wanted = request("a", LONG);
    let _waiter = enqueue(&*store, &wanted).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    let ours = format!("SELECT owner = '{}' FROM leasehold_locks", wanted.owner);
    stage.says(&ours, "t").await
}

/// The first entry is old, and has just sent a heartbeat.
fn an_old_entry(how: char) -> String {
    near(1, how)
        + "; UPDATE leasehold_locks SET alive = ARRAY[now() - interval '1 hour'], \
           waiters = ARRAY[repeat('b', 64) || substr(waiters[1], 65)]; "
        + &written('b', "NULL")
}

pub(super) async fn an_attempt_behind_an_old_entry(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    let free = an_old_entry('-') + "; UPDATE leasehold_locks SET owner = NULL";
    stage.sql(&free).await?;
    enqueue(&*store, &request("a", LONG)).await.map(drop)
}

const OF_B: &str = "SELECT owner = repeat('b', 32) FROM leasehold_locks";

pub(super) async fn a_release_to_an_old_entry(stage: &OnePostgres) -> Verdict {
    let (store, held) = held(stage).await?;
    stage.sql(&an_old_entry('+')).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    stage.says(OF_B, "t").await
}

/// The entry has sent no heartbeat yet.
pub(super) async fn a_release_to_a_new_entry(stage: &OnePostgres) -> Verdict {
    let (store, held) = held(stage).await?;
    let new = "UPDATE leasehold_locks SET waiters = ARRAY[repeat('b', 64) || '+'], \
               alive = ARRAY[now() + interval '1 hour']";
    stage.sql(new).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    stage.says(OF_B, "t").await
}

/// An entry that had moved to the head is gone, but its row still exists.
pub(super) async fn a_queue_that_moves_on(stage: &OnePostgres) -> Verdict {
    let (store, held) = held(stage).await?;
    let queue = near(3, '+') + "; UPDATE leasehold_locks SET far = 20, moved = 10; ";
    let queue = queue + &written('b', "5") + "; " + &written('c', "20");
    stage.sql(&queue).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    let last = "SELECT waiters[3] LIKE 'ccc%' AND cardinality(waiters) = 3 AND far IS NULL \
                FROM leasehold_locks";
    stage.says(last, "t").await
}

/// The refill waits for the row while another entry joins the tail.
pub(super) async fn a_queue_that_moves_on_while_one_enters(stage: &OnePostgres) -> Verdict {
    let (store, _held) = held(stage).await?;
    let wanted = request("a", LONG);
    let _waiter = enqueue(&*store, &wanted).await?;
    stage.sql("UPDATE leasehold_locks SET far = 5, moved = 5").await?;
    let enters = format!("BEGIN; UPDATE leasehold_locks SET far = 6; {}", written('b', "6"));
    let mut session = stage.session(&enters).await?;
    let asking = tokio::spawn(async move { store.try_acquire(&wanted).await.map(drop) });
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let blocked = || async { Ok((stage.server.sql(blocked).await? == "1").then_some(())) };
    until("the queue to be moved on", LONG, blocked).await.map_err(words)?;
    sqlx::raw_sql("COMMIT").execute(&mut session).await.map_err(words)?;
    asking.await.map_err(words)?.map_err(words)?;
    stage.says("SELECT far FROM leasehold_locks", "6").await
}

pub(super) async fn one_of_two_behind_leaves(stage: &OnePostgres) -> Verdict {
    let (store, _) = held(stage).await?;
    stage.sql(&near(16, '+')).await?;
    let one = enqueue(&*store, &request("a", LONG)).await?;
    let _other = enqueue(&*store, &request("a", LONG)).await?;
    one.leave().await.map_err(words)?;
    stage.says("SELECT count(*) FROM leasehold_queue", "1").await
}

/// Any role of the database may send this.
pub(super) async fn a_forged_message(stage: &OnePostgres) -> Verdict {
    let (_, _held) = held(stage).await?;
    let other = stage.open().await;
    let wanted = request("a", LONG);
    let mut waiter = enqueue(&*other, &wanted).await?;
    let forge = format!(
        "SELECT pg_notify('leasehold_' || substr(waiters[1], 33, 32), '{}+') FROM leasehold_locks",
        wanted.owner
    );
    // Twice: its client may not listen yet when the first message is sent, and checks once when it
    // begins to.
    for _ in 0..2 {
        stage.sql(&forge).await?;
        match tokio::time::timeout(LONG, waiter.next()).await.map_err(words)? {
            Signal::Recheck => not_granted(&*other, &wanted).await?,
            other => return Err(format!("it was notified of {other:?}")),
        }
    }
    Ok(())
}

/// The grant by a release is not confirmed in time.
pub(super) async fn a_late_confirmation(stage: &OnePostgres) -> Verdict {
    let (store, held) = held(stage).await?;
    let wanted = request("a", LONG);
    let other = stage.open().await;
    let mut waiter = enqueue(&*other, &wanted).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    tokio::time::timeout(LONG, waiter.next()).await.map_err(words)?;
    let given = store.inspect(&held.name).await.map_err(words)?.ok_or("no row")?;
    stage.clock.step(LONG.as_secs_f64()).unwrap();
    let grant = granted(&*other, &wanted).await?;
    check(grant.token > given.token, || "what was over was renewed".to_owned())
}
