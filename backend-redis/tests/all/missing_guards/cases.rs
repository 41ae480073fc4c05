//! What the scripts refuse, and which tokens they give.

use verification::missing_guards::{
    Verdict,
    redis::{LONGEST, SECOND, owner, text},
};

use super::server::{Attempt, Server, Way, above, far_ahead};

/// An attempt in which one thing is changed must be refused.
pub(super) async fn refused(
    server: &mut Server,
    way: Way,
    change: impl FnOnce(&mut Attempt),
) -> Verdict {
    let mut attempt = server.attempt("b").await;
    change(&mut attempt);
    match server.ask(way, &attempt).await {
        Ok(token) => Err(format!("it was granted, with {token}")),
        Err(_) => Ok(()),
    }
}

/// The same attempt without the change is granted. So the refusal comes from the change.
async fn granted(server: &mut Server, way: Way) -> Result<u64, String> {
    let attempt = server.attempt("a").await;
    let granted = server.ask(way, &attempt).await;
    granted.map_err(|word| format!("a free lock: {word}"))
}

pub(super) async fn a_late_request(server: &mut Server, way: Way) -> Verdict {
    granted(server, way).await?;
    server.forget().await;
    let now = server.now().await;
    refused(server, way, |attempt| attempt.late = now - 1).await
}

pub(super) async fn another_run(server: &mut Server, way: Way) -> Verdict {
    server.note("run", &"f".repeat(40)).await;
    refused(server, way, |_| {}).await
}

pub(super) async fn another_replication(server: &mut Server, way: Way) -> Verdict {
    server.note("replid", &"f".repeat(40)).await;
    refused(server, way, |_| {}).await
}

pub(super) async fn a_quarantine(server: &mut Server, way: Way) -> Verdict {
    let until = server.now().await + 20 * SECOND;
    server.note("from", &until.to_string()).await;
    refused(server, way, |_| {}).await
}

/// A client whose handshake was with another server leaves the record alone, and asks again.
pub(super) async fn a_client_with_an_old_handshake(server: &mut Server) -> Verdict {
    let right = server.identity[0].clone();
    server.identity[0] = "f".repeat(40);
    let attempt = server.attempt("b").await;
    let told = server.ask(Way::Short, &attempt).await;
    server.identity[0] = right;
    match told {
        Err(word) if word == "stale" => server.taken("a").await.map(drop),
        other => Err(format!("it was not told that it is stale: {other:?}")),
    }
}

/// The server was a replica for a moment. Neither its record nor its client knows it.
pub(super) async fn a_failover_that_went_unnoticed(server: &mut Server, way: Way) -> Verdict {
    server.replicated = true;
    granted(server, way).await?;
    server.forget().await;
    server.identity[1] = "f".repeat(40);
    server.note("replid", &"f".repeat(40)).await;
    refused(server, way, |_| {}).await
}

pub(super) async fn other_settings(server: &mut Server, way: Way) -> Verdict {
    server.note("longest", &(2 * LONGEST).to_string()).await;
    refused(server, way, |_| {}).await
}

pub(super) async fn another_version(server: &mut Server, way: Way) -> Verdict {
    server.note("version", "2").await;
    refused(server, way, |_| {}).await
}

pub(super) async fn a_repeat_in_another_version(server: &mut Server) -> Verdict {
    granted(server, Way::Short).await?;
    server.note("version", "2").await;
    match server.taken("a").await {
        Err(word) if word == "version" => Ok(()),
        other => Err(format!("it was not refused for the version: {other:?}")),
    }
}

pub(super) async fn a_renewal_in_another_version(server: &mut Server) -> Verdict {
    granted(server, Way::Short).await?;
    server.note("version", "2").await;
    match server.renew("a", 20_000).await {
        -1 => Ok(()),
        answer => Err(format!("it was answered {answer}")),
    }
}

pub(super) async fn an_init_in_another_version(server: &mut Server) -> Verdict {
    server.note("version", "2").await;
    match server.set_up("0", "", "").await {
        u64::MAX => Ok(()),
        wait => Err(format!("it was set up, to grant in {wait} µs")),
    }
}

fn waits(wait: u64, whole: u64) -> Verdict {
    match wait == whole {
        true => Ok(()),
        false => Err(format!("it grants again in {wait} µs, not in {whole}")),
    }
}

/// A changed longest lease waits out the longer of the two.
pub(super) async fn a_changed_longest_lease(server: &mut Server) -> Verdict {
    waits(server.set_longest(LONGEST / 2).await, LONGEST)
}

pub(super) async fn a_longer_longest_lease(server: &mut Server) -> Verdict {
    waits(server.set_longest(2 * LONGEST).await, 2 * LONGEST)
}

pub(super) async fn a_quarantine_that_is_turned_on(server: &mut Server) -> Verdict {
    server.note("quarantine", "off").await;
    waits(server.set_up("0", "", "on").await, LONGEST)
}

pub(super) async fn tokens_that_are_set_back(server: &mut Server) -> Verdict {
    waits(server.set_up("2", "", "").await, LONGEST)
}

/// Another client has lowered the longest lease.
pub(super) async fn a_repeat_above_the_longest_lease(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    server.note("longest", &(LONGEST / 2).to_string()).await;
    match server.taken("a").await {
        Ok(token) => Err(format!("it was granted again, with {token}")),
        Err(_) => Ok(()),
    }
}

pub(super) async fn a_renewal_above_the_longest_lease(server: &mut Server) -> Verdict {
    let short = Attempt { lease: 2_000, ..server.attempt("a").await };
    server.ask(Way::Short, &short).await?;
    server.note("longest", "5000000").await;
    assert_eq!(server.renew("a", 20_000).await, 1);
    match server.left().await {
        left if left <= 5_000 => Ok(()),
        left => Err(format!("it ends in {left} ms")),
    }
}

pub(super) async fn a_lease_above_the_longest(server: &mut Server, way: Way) -> Verdict {
    refused(server, way, |attempt| attempt.lease = LONGEST / 1_000 + 1).await
}

pub(super) async fn a_floor_far_ahead(server: &mut Server, way: Way) -> Verdict {
    let now = server.now().await;
    refused(server, way, |attempt| attempt.floor = far_ahead(now)).await
}

pub(super) async fn a_held_lock(server: &mut Server, way: Way) -> Verdict {
    granted(server, Way::Short).await?;
    refused(server, way, |_| {}).await
}

pub(super) async fn an_abandoned_owner(server: &mut Server, way: Way) -> Verdict {
    server.abandon("b").await;
    refused(server, way, |_| {}).await
}

/// The clock went back after a grant. Tokens do not go back.
pub(super) async fn a_clock_that_went_back(server: &mut Server, first: Way, then: Way) -> Verdict {
    let before = granted(server, first).await?;
    server.forget().await;
    server.clock.step(-3_600.0).unwrap();
    above(granted(server, then).await?, before)
}

pub(super) async fn a_token_above_the_floor(server: &mut Server, way: Way) -> Verdict {
    let mut attempt = server.attempt("a").await;
    attempt.floor = server.now().await + 20 * SECOND;
    above(server.ask(way, &attempt).await?, attempt.floor)
}

pub(super) async fn a_repeat(server: &mut Server) -> Verdict {
    let first = server.taken("a").await?;
    match server.taken("a").await {
        Ok(again) if again == first => Ok(()),
        other => Err(format!("{first} was granted before, and then {other:?}")),
    }
}

fn is_long(left: u64) -> Verdict {
    match left > 1_000 {
        true => Ok(()),
        false => Err(format!("it ends in {left} ms")),
    }
}

pub(super) async fn a_repeat_with_a_shorter_lease(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    let short = Attempt { lease: 100, ..server.attempt("a").await };
    server.ask(Way::Short, &short).await?;
    is_long(server.left().await)
}

pub(super) async fn a_repeat_after_a_release_that_keeps(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    assert!(server.free("a", "20000").await);
    match server.taken("a").await {
        Ok(_) => Err("what was released is held again".to_owned()),
        Err(_) => Ok(()),
    }
}

pub(super) fn stays(record: &str, whose: &str) -> Verdict {
    match record.starts_with(&owner(whose)) {
        true => Ok(()),
        false => Err(format!("the record of {whose} is now {record:?}")),
    }
}

pub(super) async fn a_release_by_another(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    // So that the release goes the long way.
    server.queue("c").await;
    server.free("b", "").await;
    stays(&server.record().await, "a")
}

pub(super) async fn a_clean_up_by_another(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    server.abandon("b").await;
    stays(&server.record().await, "a")
}

pub(super) async fn a_clean_up_of_what_is_kept(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    assert!(server.free("a", "20000").await);
    server.abandon("a").await;
    stays(&server.record().await, "a")
}

pub(super) async fn a_renewal_of_what_is_gone(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    server.forget().await;
    match server.renew("a", 20_000).await {
        1 => Err("nothing was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub(super) async fn a_renewal_of_what_is_kept(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    assert!(server.free("a", "20000").await);
    match server.renew("a", 20_000).await {
        1 => Err("what was released was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub(super) async fn a_renewal_with_a_shorter_lease(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    assert_eq!(server.renew("a", 100).await, 1);
    is_long(server.left().await)
}

/// How many changes of data the server has counted since its start.
async fn changes(server: &mut Server) -> u64 {
    let said = text(&server.say(&["INFO", "persistence"]).await);
    let field = said.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    field.unwrap().trim().parse().unwrap()
}

fn has_written(before: u64, after: u64) -> Verdict {
    match after > before {
        true => Ok(()),
        false => Err("nothing was written, so WAIT has nothing to wait for".to_owned()),
    }
}

pub(super) async fn a_renewal_that_needs_no_longer_lease(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    let before = changes(server).await;
    assert_eq!(server.renew("a", 100).await, 1);
    has_written(before, changes(server).await)
}

pub(super) async fn a_repeat_that_needs_no_longer_lease(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    let before = changes(server).await;
    let short = Attempt { lease: 100, ..server.attempt("a").await };
    server.ask(Way::Short, &short).await?;
    has_written(before, changes(server).await)
}

pub(super) async fn a_raise_by_another(server: &mut Server) -> Verdict {
    let own = server.taken("a").await?;
    let said = server.raise("b", own + 1).await;
    match server.number().await {
        token if token == own && said == "gone" => Ok(()),
        token => Err(format!("{said}, and {own} became {token}")),
    }
}

pub(super) async fn a_raise_of_what_is_kept(server: &mut Server) -> Verdict {
    let own = server.taken("a").await?;
    assert!(server.free("a", "20000").await);
    match server.raise("a", own + 1).await {
        said if said == "gone" => Ok(()),
        said => Err(format!("what was released was {said}")),
    }
}

pub(super) async fn a_lower_token(server: &mut Server) -> Verdict {
    let own = server.taken("a").await?;
    server.raise("a", own - 1).await;
    match server.number().await {
        token if token == own => Ok(()),
        token => Err(format!("{own} became {token}")),
    }
}

pub(super) async fn a_raise_far_ahead(server: &mut Server) -> Verdict {
    let own = server.taken("a").await?;
    match server.raise("a", far_ahead(own)).await {
        said if said == "floor" => Ok(()),
        said => Err(format!("{said}, far ahead of the clock")),
    }
}

pub(super) async fn the_token_after_a_raise(server: &mut Server) -> Verdict {
    let raised = server.taken("a").await? + 20 * SECOND;
    assert_eq!(server.raise("a", raised).await, "raised");
    assert!(server.free("a", "").await);
    above(server.taken("a").await?, raised)
}
