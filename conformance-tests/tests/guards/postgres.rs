//! PostgreSQL: guards in its statements.

mod marker;

use std::time::Duration;

use conformance_tests::kit::{Clock, Postgres, PostgresOptions, Proxy, Server as _};
use leasehold::postgres::PostgresFence;
use lock_core::{Backend, Enqueued, Env as _, Release, Renewal, Request, Signal, SystemEnv, Turn};
use sqlx::{Connection as _, PgConnection, postgres::PgListener};

use self::marker::{
    a_place_in_quarantine, a_raise_that_was_not_heard_of,
    a_release_to_a_place_in_a_copied_database, a_release_with_a_next_in_a_copied_database,
    a_row_left_behind_in_a_copied_database, a_row_that_was_looked_at, an_attempt_after_a_crash,
    an_attempt_after_the_table_was_made_anew, an_attempt_in_a_copied_database,
};
use super::{
    cases::{
        a_batch_with_a_locked_row, a_held_name, a_late_renewal, a_release_by_another,
        an_abandoned_owner, below_the_watermark, kept_of_an_abandoned, stale_write, words,
    },
    wire::{
        Guard, LONG, Stage, Verdict, above, first_use, granted, not_granted, open, request, try_all,
    },
};

struct OnePostgres {
    server: Postgres,
    proxy: Proxy,
    clock: Clock,
}

impl OnePostgres {
    /// As the driver knows it.
    fn plain(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.proxy.address())
    }

    fn url(&self) -> String {
        self.plain() + "?timeout=30s"
    }
}

#[async_trait::async_trait]
impl Stage for OnePostgres {
    async fn start(texts: &[(&str, &str)]) -> Self {
        let clock = Clock::new().await.unwrap();
        let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
        let proxy = Proxy::altering(server.address(), texts).await.unwrap();
        Self { server, proxy, clock }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

const GUARDS: &[Guard<OnePostgres>] = &[
    Guard {
        what: "S1: a name that is held is not granted",
        texts: &[(
            "WHERE (l.owner IS NULL OR l.expires <= pg_catalog.clock_timestamp()) AND l.waiters IS NULL",
            "WHERE l.waiters IS NULL",
        )],
        case: |stage| Box::pin(a_held_name(stage.url())),
    },
    Guard {
        what: "S1: a name that is held is not granted to a place",
        texts: &[("f.free AND EXISTS (SELECT", "EXISTS (SELECT")],
        case: |stage| Box::pin(a_place_for_a_held_name(stage)),
    },
    Guard {
        what: "L3: a place behind another is not granted what is free",
        texts: &[("r.grants AND q.places[1] IS NOT DISTINCT FROM $6", "r.grants")],
        case: |stage| Box::pin(a_second_place_for_a_free_name(stage)),
    },
    Guard {
        what: "section 4: every grant waits for the quarantine of the marker",
        texts: &[("AND m.grants_from <= pg_catalog.clock_timestamp()", "")],
        case: |stage| Box::pin(an_attempt_after_a_crash(stage)),
    },
    Guard {
        what: "section 4: every grant finds the marker to be of this database",
        texts: &[(
            "m.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''),",
            "m.store = coalesce(nullif(m.store, ''),",
        )],
        case: |stage| Box::pin(an_attempt_in_a_copied_database(stage)),
    },
    Guard {
        what: "section 4: every grant finds the marker in the table that it was made in",
        texts: &[("m.itself = m.tableoid AND m.grants_from", "m.grants_from")],
        case: |stage| Box::pin(an_attempt_after_the_table_was_made_anew(stage)),
    },
    Guard {
        what: "section 4: a quarantine is as long as its client knows a lease to have been",
        texts: &[("THEN greatest(quarantine, $1)", "THEN quarantine")],
        case: |stage| Box::pin(a_raise_that_was_not_heard_of(stage)),
    },
    Guard {
        what: "section 4: a grant of a row that was looked at waits for the quarantine",
        texts: &[(
            "AND m.grants_from <= pg_catalog.clock_timestamp())\nRETURNING token",
            ")\nRETURNING token",
        )],
        case: |stage| Box::pin(a_row_that_was_looked_at(stage)),
    },
    Guard {
        what: "section 4: a place waits for the quarantine",
        texts: &[("AND m.grants_from <= pg_catalog.clock_timestamp()) AS grants", ") AS grants")],
        case: |stage| Box::pin(a_place_in_quarantine(stage)),
    },
    Guard {
        what: "section 4: a row that was left behind is of this database",
        texts: &[(
            "$2 <> ALL (l.buried))\n    AND l.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''),",
            "$2 <> ALL (l.buried))\n    AND l.store = coalesce(nullif(l.store, ''),",
        )],
        case: |stage| Box::pin(a_row_left_behind_in_a_copied_database(stage)),
    },
    Guard {
        what: "section 4: what a release hands to the next of its process is of this database",
        texts: &[(
            "$3 <> ALL (l.buried))\n    AND l.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''),",
            "$3 <> ALL (l.buried))\n    AND l.store = coalesce(nullif(l.store, ''),",
        )],
        case: |stage| Box::pin(a_release_with_a_next_in_a_copied_database(stage)),
    },
    Guard {
        what: "section 4: what a release gives to a place is of this database",
        texts: &[(
            "'') <> ALL (l.buried))\n    AND l.store = coalesce(nullif(pg_catalog.current_setting('leasehold.here', true), ''),",
            "'') <> ALL (l.buried))\n    AND l.store = coalesce(nullif(l.store, ''),",
        )],
        case: |stage| Box::pin(a_release_to_a_place_in_a_copied_database(stage)),
    },
    Guard {
        what: "L2: a release that gives the lock to a place tells its client",
        texts: &[("'leasehold_' || client,", "'elsewhere' || client,")],
        case: |stage| Box::pin(a_release_is_told(stage, false)),
    },
    Guard {
        what: "L2: a release that leaves it to a place to ask tells its client",
        texts: &[(
            "pg_notify('leasehold_' || pg_catalog.substr(waiters",
            "pg_notify('elsewhere' || pg_catalog.substr(waiters",
        )],
        case: |stage| Box::pin(a_release_is_told(stage, true)),
    },
    Guard {
        what: "L2: who is told nothing and looks finds what it was given, also with others behind it",
        texts: &[(
            "CASE\n        WHEN owner IS NOT NULL AND expires > pg_catalog.clock_timestamp() THEN owner",
            "CASE\n        WHEN false THEN owner",
        )],
        case: |stage| Box::pin(a_release_to_one_who_looks(stage)),
    },
    Guard {
        what: "section 5: a token is computed from the locked row, not from EXCLUDED",
        texts: &[(
            "greatest((pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000::double precision)::bigint, l.token + 1, $5),\n    owner = $2, label = $3, version = l.version + 1, expires = pg_catalog.clock_timestamp() + $4, kept = false,\n    store = excluded",
            "excluded.token,\n    owner = $2, label = $3, version = l.version + 1, expires = pg_catalog.clock_timestamp() + $4, kept = false,\n    store = excluded",
        )],
        case: |stage| Box::pin(an_attempt_that_waits_for_the_row(stage)),
    },
    Guard {
        what: "S2: a name that is not there gets a token above the watermark",
        texts: &[("m.watermark + 1, $5), 1,", "$5), 1,")],
        case: |stage| Box::pin(a_name_below_the_watermark(stage)),
    },
    Guard {
        what: "S2: an attempt that has waited for a minute makes no row by the watermark of before",
        texts: &[(
            "RETURNING token / (pg_catalog.clock_timestamp() BETWEEN pg_catalog.now() AND pg_catalog.now() + interval '30 seconds')::integer",
            "RETURNING token",
        )],
        case: |stage| Box::pin(an_attempt_that_waits_for_a_new_row(stage)),
    },
    Guard {
        what: "S2: a sweep forgets only tokens that the watermark covers",
        texts: &[(
            "AND l.token <= m.watermark AND m.raised + interval '1 minute' <= pg_catalog.clock_timestamp()",
            "",
        )],
        case: |stage| Box::pin(a_token_over_a_sweep(stage)),
    },
    Guard {
        what: "S4: only the owner releases",
        texts: &[("name = $1 AND owner = $2 AND expires", "name = $1 AND $2 <> '' AND expires")],
        case: |stage| Box::pin(a_release_by_another(stage.url())),
    },
    Guard {
        what: "S5: a renewal does not bring an expired lease back",
        texts: &[(
            "WHERE NOT l.kept AND l.expires > pg_catalog.clock_timestamp()",
            "WHERE NOT l.kept",
        )],
        case: |stage| Box::pin(a_late_renewal(stage.url())),
    },
    Guard {
        what: "S5: nor does one that waited for its row",
        texts: &[("AND NOT l.kept AND l.expires > pg_catalog.clock_timestamp()", "AND NOT l.kept")],
        case: |stage| Box::pin(a_renewal_that_waits_for_the_row(stage)),
    },
    Guard {
        what: "L5: a renewal does not wait for a row that another transaction has",
        texts: &[("FOR UPDATE OF l SKIP LOCKED", "FOR UPDATE OF l")],
        case: |stage| Box::pin(a_batch_with_a_locked_row(stage.url(), a_locked_row(stage))),
    },
    Guard {
        what: "S6: an abandoned owner finds its tombstone",
        texts: &[("(l.buried IS NULL OR $2 <> ALL (l.buried))", "true")],
        case: |stage| Box::pin(an_abandoned_owner(stage.url())),
    },
    Guard {
        what: "S6: to abandon an owner does not end what it keeps",
        texts: &[("l.owner = $2 AND NOT l.kept THEN NULL", "l.owner = $2 THEN NULL")],
        case: |stage| Box::pin(kept_of_an_abandoned(stage.url())),
    },
    Guard {
        what: "section 2: the fence refuses a lower token",
        texts: &[("SET token = greatest(f.token, $2)", "SET token = $2")],
        case: |stage| Box::pin(a_stale_write(stage)),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_postgres_is_missed_when_it_is_left_out() {
    try_all(GUARDS).await;
}

async fn place(store: &dyn Backend, wanted: &Request) -> Result<Box<dyn Turn>, String> {
    match store.enqueue(wanted).await.map_err(words)? {
        Enqueued::Waiting(turn, _) => Ok(turn),
        other => Err(format!("no place: {other:?}")),
    }
}

async fn a_place_for_a_held_name(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    granted(&*store, &request("a", LONG)).await?;
    place(&*store, &request("a", LONG)).await.map(drop)
}

/// The first has a floor, so that it is told to ask and does not.
async fn a_second_place_for_a_free_name(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let mut first = request("a", LONG);
    first.floor = held.token;
    let _first = place(&*store, &first).await?;
    let second = request("a", LONG);
    let _second = place(&*store, &second).await?;
    store.release(&held, Release::default()).await.map_err(words)?;
    // However slow this machine is, it is still heard of.
    let keep = "UPDATE leasehold_locks SET heard = ARRAY[now() + interval '1 hour', now()]";
    stage.server.sql(keep).await.map_err(words)?;
    not_granted(&*store, &second).await
}

/// A place that is given the lock by the release, or one that `asks`, since whoever releases knows of no
/// floor. Without the message it is found by the poll behind it.
async fn a_release_is_told(stage: &mut OnePostgres, asks: bool) -> Verdict {
    let store = first_use(&stage.url()).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let waiter = open(&stage.url()).await;
    let mut wanted = request("a", LONG);
    if asks {
        wanted.floor = held.token;
    }
    let mut turn = place(&*waiter, &wanted).await?;
    let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
    let channel = stage.server.sql(channel).await.map_err(words)?;
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut told = PgListener::connect(&address).await.map_err(words)?;
    told.listen(&channel).await.map_err(words)?;
    store.release(&held, Release::default()).await.map_err(words)?;
    // Whatever was sent before this comes before it.
    let end = format!("SELECT pg_notify('{channel}', 'end')");
    stage.server.sql(&end).await.map_err(words)?;
    let message = told.recv().await.map_err(words)?;
    if !message.payload().starts_with(&wanted.owner.to_string()) {
        return Err("nobody was told of the release".to_owned());
    }
    let signal = tokio::time::timeout(LONG, turn.next()).await.map_err(words)?;
    match (asks, signal) {
        (false, Signal::Granted(grant)) => above(&held, &grant),
        (true, Signal::Recheck) => Ok(()),
        (_, other) => Err(format!("it was told {other:?}")),
    }
}

/// Of two places the first is given the lock, and nothing is told.
async fn a_release_to_one_who_looks(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let waiter = open(&(stage.url() + "&listen=off")).await;
    let mut turn = place(&*waiter, &request("a", LONG)).await?;
    let _behind = place(&*waiter, &request("a", LONG)).await?;
    store.release(&held, Release::default()).await.map_err(words)?;
    // However slow this machine is, it is not taken away before the look.
    let keep = "UPDATE leasehold_locks SET expires = expires + interval '1 hour'";
    stage.server.sql(keep).await.map_err(words)?;
    match tokio::time::timeout(LONG, turn.next()).await {
        Ok(Signal::Recheck) => Ok(()),
        other => Err(format!("it looked, and saw {other:?}")),
    }
}

async fn an_attempt_that_waits_for_the_row(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    let first = granted(&*store, &request("a", LONG)).await?;
    store.release(&first, Release::default()).await.map_err(words)?;
    // Another client, which does not know the row's version.
    let other = open(&stage.url()).await;
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut session = PgConnection::connect(&address).await.map_err(words)?;
    let mut holding = session.begin().await.map_err(words)?;
    // As if the lock had changed hands meanwhile, with a token that leads the clock.
    let lead =
        "UPDATE leasehold_locks SET token = token + 5000000 WHERE name = 'a' RETURNING token";
    let token: i64 = sqlx::query_scalar(lead).fetch_one(&mut *holding).await.map_err(words)?;
    let asked = request("a", LONG);
    let attempt = tokio::spawn(async move { granted(&*other, &asked).await });
    waits_for_a_row(stage, || attempt.is_finished()).await?;
    holding.commit().await.map_err(words)?;
    let grant = attempt.await.map_err(words)??;
    match grant.token.get() > token.cast_unsigned() {
        true => Ok(()),
        false => Err(format!("token {} came after {token}", grant.token)),
    }
}

async fn an_attempt_that_waits_for_a_new_row(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut session = PgConnection::connect(&address).await.map_err(words)?;
    let mut holding = session.begin().await.map_err(words)?;
    let row = "INSERT INTO leasehold_locks (name, token, version, expires, kept) \
               VALUES ('a', 1, 1, now(), false)";
    sqlx::query(row).execute(&mut *holding).await.map_err(words)?;
    let attempt = tokio::spawn(async move { granted(&*store, &request("a", LONG)).await });
    waits_for_a_row(stage, || attempt.is_finished()).await?;
    // As after a sweep that has forgotten this token, which leads the clock.
    let lead = "UPDATE leasehold_marker SET watermark = \
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 3600000000";
    stage.server.sql(lead).await.map_err(words)?;
    let watermark = "SELECT watermark FROM leasehold_marker";
    let watermark = stage.server.sql(watermark).await.map_err(words)?;
    let watermark: u64 = watermark.parse().map_err(words)?;
    stage.clock.step(61.0).unwrap();
    holding.rollback().await.map_err(words)?;
    let grant = attempt.await.map_err(words)??;
    match grant.token.get() > watermark {
        true => Ok(()),
        false => Err(format!("token {} came after the watermark {watermark}", grant.token)),
    }
}

/// A transaction that has changed the row of `a`: who waits for it looks at the row anew.
async fn a_locked_row(stage: &OnePostgres) -> Result<PgConnection, String> {
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut session = PgConnection::connect(&address).await.map_err(words)?;
    let lock = "BEGIN; UPDATE leasehold_locks SET version = version WHERE name = 'a'";
    sqlx::raw_sql(lock).execute(&mut session).await.map_err(words)?;
    Ok(session)
}

/// It gets its row when the lease is over.
async fn a_renewal_that_waits_for_the_row(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let mut holding = a_locked_row(stage).await?;
    let (renewed, sent) = (grant.clone(), SystemEnv.now());
    let renewing = tokio::spawn(async move { store.renew(&[&renewed], sent).await.pop() });
    waits_for_a_row(stage, || renewing.is_finished()).await?;
    stage.clock.step(LONG.as_secs_f64()).unwrap();
    sqlx::query("COMMIT").execute(&mut holding).await.map_err(words)?;
    match renewing.await.map_err(words)? {
        Some(Renewal::Lost(_)) => Ok(()),
        other => Err(format!("the lease was over, and it was answered {other:?}")),
    }
}

/// Ends when some statement waits for a row that another transaction has.
async fn waits_for_a_row(stage: &OnePostgres, ended: impl Fn() -> bool) -> Verdict {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while stage.server.sql(waits).await.map_err(words)? == "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if ended() {
            return Err("the attempt did not wait".to_owned());
        }
    }
    Ok(())
}

async fn a_token_over_a_sweep(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(&stage.url()).await;
    let first = granted(&*store, &request("a", LONG)).await?;
    store.release(&first, Release::default()).await.map_err(words)?;
    stage.clock.step(-3_600.0).unwrap();
    // A client sweeps once in a thousand releases.
    for _ in 0..1_001 {
        let grant = granted(&*store, &request("busy", LONG)).await?;
        store.release(&grant, Release::default()).await.map_err(words)?;
    }
    above(&first, &granted(&*store, &request("a", LONG)).await?)
}

async fn a_name_below_the_watermark(stage: &mut OnePostgres) -> Verdict {
    let lead = "UPDATE leasehold_marker SET watermark = \
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 5000000";
    below_the_watermark!(stage, lead, "SELECT watermark FROM leasehold_marker")
}

async fn a_stale_write(stage: &mut OnePostgres) -> Verdict {
    stale_write!(PostgresFence, PgConnection, stage.plain()).await
}
