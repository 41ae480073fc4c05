//! What the scripts refuse in requests, in the epoch record and in settings.

use backend_redis::Fence;
use lock_core::{Backend, Error, FenceError, FencingToken};
use std::sync::Arc;
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, check, first_use, granted, renewed, request, words},
    redis::{LONGEST, SECOND},
};
use verification::versions::{Versioned, refused};

use super::server::Server;

/// A request is refused that is late, or has a lease or a floor above the longest lease.
pub(super) async fn an_unfit_request(server: &mut Server, what: &str) -> Verdict {
    let mut attempt = server.attempt("b").await;
    let now = server.now().await;
    let (way, what) = what.split_once(' ').unwrap();
    match what {
        "late" => attempt.late = now - 1,
        "lease" => attempt.lease = LONGEST / 1_000 + 1,
        _ => attempt.floor = now + 2 * LONGEST,
    }
    let answer = match way {
        "next" => server.release("e", &attempt).await,
        _ => server.ask(&attempt, "").await,
    };
    refused_with(answer)
}

pub(super) fn refused_with(answer: Result<u64, String>) -> Verdict {
    answer.err().map(drop).ok_or_else(|| "it was granted".to_owned())
}

/// Whether an attempt is refused if this field of the epoch record is another.
pub(super) async fn an_epoch_with_another(server: &mut Server, field: &str) -> Verdict {
    let value = match field {
        "from" => (server.now().await + 20 * SECOND).to_string(),
        "longest" => (2 * LONGEST).to_string(),
        _ => "f".repeat(40),
    };
    server.note(field, &value).await;
    refused_with(server.taken("b").await)
}

/// A client whose handshake was with another server leaves the record alone, and asks again.
pub(super) async fn a_client_with_an_old_handshake(server: &mut Server) -> Verdict {
    let right = std::mem::replace(&mut server.identity[0], "f".repeat(40));
    let told = server.taken("b").await;
    server.identity[0] = right;
    check(told == Err("stale".to_owned()), || format!("it was told {told:?}"))?;
    server.taken("a").await.map(drop)
}

/// The server was a replica for a moment. Neither its record nor its client knows it.
pub(super) async fn a_failover_that_went_unnoticed(server: &mut Server) -> Verdict {
    let attempt = server.attempt("a").await;
    server.ask(&attempt, "0").await?;
    server.forget().await;
    server.identity[1] = "f".repeat(40);
    server.note("replid", &"f".repeat(40)).await;
    refused_with(server.ask(&attempt, "0").await)
}

#[async_trait::async_trait]
impl Versioned for Server {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        backend_redis::connect(&self.url()).await
    }

    async fn plant(&self, version: u64) {
        let version = version.to_string();
        self.server.cli(&["HSET", &self.epoch(), "version", &version]).await.unwrap();
    }

    async fn contents(&self) -> String {
        let mut all = Vec::new();
        for key in self.server.cli(&["KEYS", "*"]).await.unwrap().lines() {
            all.push(format!("{key}: {}", self.server.cli(&["DUMP", key]).await.unwrap()));
        }
        all.sort();
        all.join("\n")
    }
}

pub(super) async fn another_version_is_refused(server: &Server) -> Verdict {
    drop(first_use(server).await);
    refused(server).await;
    Ok(())
}

/// The first try of the release has already given the lock to its next request.
pub(super) async fn a_repeated_release_in_another_version(server: &mut Server) -> Verdict {
    server.note("version", "2").await;
    let next = server.attempt("b").await;
    refused_with(server.release("b", &next).await)
}

/// A changed setting waits out the longer of the old and the new longest lease.
pub(super) async fn an_init_that_starts_a_wait(server: &mut Server, how: &str) -> Verdict {
    let (action, longest, quarantine) = match how {
        "shorter" => ("0", LONGEST / 2, ""),
        "longer" => ("0", 2 * LONGEST, ""),
        "quarantine" => ("0", LONGEST, "on"),
        _ => ("2", LONGEST, ""),
    };
    if how == "quarantine" {
        server.note("quarantine", "off").await;
    }
    let wait = server.set_up(action, &longest.to_string(), quarantine).await;
    check(wait == longest.max(LONGEST), || format!("it grants again in {wait} µs"))
}

/// WAIT covers only what was written.
pub(super) async fn a_call_that_needs_no_longer_lease(server: &Server, call: &str) -> Verdict {
    let store = first_use(server).await;
    let mut asked = request("a", LONG);
    let mut grant = granted(&*store, &asked).await?;
    let changes = async || server.server.info("rdb_changes_since_last_save").await.unwrap();
    let before = changes().await;
    (asked.lease, grant.lease) = (LONG / 10, LONG / 10);
    match call {
        "repeat" => drop(granted(&*store, &asked).await?),
        _ => drop(renewed(&*store, &grant).await),
    }
    check(changes().await != before, || "nothing was written".to_owned())
}

pub(super) async fn a_stale_write(server: &mut Server) -> Verdict {
    let fence = Fence::connect(&server.url()).await.unwrap();
    let [one, two] = [1, 2].map(|token| FencingToken::new(token).unwrap());
    fence.set("data", "new", two).await.map_err(words)?;
    let late = fence.set("data", "late", one).await;
    check(matches!(late, Err(FenceError::Stale(_))), || format!("a stale write: {late:?}"))
}
