//! Another role creates functions and operators in a schema of our search path. Before PostgreSQL
//! 15 every role could do so in `public`. None of them runs as our role.

use backend_sql::postgres::{PostgresFence, connect, schema};
use lock_core::{
    Attempt, Enqueued, Env as _, ErrorKind, FencingToken, Init, ReleaseOptions, ReleaseOutcome,
    Renewal, Signal, SystemEnv,
};
use servers::{Hostile, Postgres, PostgresOptions, Proxy, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::time::timeout;

use crate::support;
use crate::support::postgres::{
    BLOCKED, LEASE, SECOND, WAIT, assert_renewed, cause_a_sweep, enqueue, given, granted, request,
    says, url, used_once,
};

/// The types of all values and columns in our statements.
const TYPES: [&str; 13] = [
    "name",
    "text",
    "text[]",
    "bigint",
    "integer",
    "double precision",
    "boolean",
    "interval",
    "interval[]",
    "timestamptz",
    "timestamptz[]",
    "oid",
    "regclass",
];

/// Runs every statement of a store and of a fence, and the printed schema.
async fn use_all(server: &Postgres, options: &str, pushes: bool) {
    let url = format!("postgres://app@{}/postgres", server.address());
    let to = format!("{url}?table_prefix=app&{options}");
    let store = connect(&to).await.unwrap();
    for _ in 0..2 {
        let init = Init::new().with_longest_lease(LEASE).with_quarantine(true).with_first_use(true);
        store.init(&init).await.unwrap();
    }
    let other = connect(&to).await.unwrap();
    assert_eq!(other.guarantees().push, pushes);
    assert_eq!(store.identity().await.unwrap(), other.identity().await.unwrap());
    store.clock_difference_micros().await.unwrap().unwrap();

    // The lock is free, taken again, waited for, granted by a handoff, asked for, left, kept, and
    // forced.
    for _ in 0..2 {
        used_once(&store, &request("job", LEASE)).await;
    }
    let held = granted(&other, &request("job", LEASE)).await;
    assert_renewed(&other, &held).await;
    let ahead = FencingToken::new(held.token.get() + 1_000_000).unwrap();
    other.raise(&held, ahead).await.unwrap();
    let (waiting, mut waiter) = enqueue(&store, "job").await;
    assert!(store.try_acquire(&waiting).await.unwrap().granted().is_none());
    let next = request("job", LEASE);
    let handing_over = ReleaseOptions::new().with_next(&next);
    let released = other.release(&held, handing_over).await.unwrap();
    let Some(Enqueued::Waiting(mut behind, _)) = released.next else { panic!("{released:?}") };
    match timeout(WAIT, waiter.next()).await.unwrap() {
        Signal::Granted(_) | Signal::Recheck => {}
        other => panic!("not its turn: {other:?}"),
    }
    let grant = granted(&store, &waiting).await;
    let mut floored = request("job", LEASE);
    floored.floor = ahead;
    let mut asks = support::enqueue(&store, &floored).await;
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    let grant = match pushes {
        true => given(&other, &next, &mut behind).await,
        false => granted(&other, &next).await,
    };
    let (_, leaves) = enqueue(&store, "job").await;
    leaves.leave().await.unwrap();
    other.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert!(matches!(timeout(WAIT, asks.next()).await.unwrap(), Signal::Recheck));
    let grant = granted(&store, &floored).await;
    let next = request("job", LEASE);
    let released = store.release(&grant, ReleaseOptions::new().with_next(&next)).await.unwrap();
    let grant = match released.next {
        Some(Enqueued::Granted(grant)) => grant,
        other => panic!("not handed on: {other:?}"),
    };
    assert_eq!(store.list(None).await.unwrap().locks.len(), 1);
    assert!(store.inspect(&grant.name).await.unwrap().is_some());

    // A row that another transaction has is waited for.
    let mut operator = PgConnection::connect(&url).await.unwrap();
    operator.execute("BEGIN; UPDATE app_locks SET version = version").await.unwrap();
    let renewing = {
        let (store, grant) = (std::sync::Arc::clone(&store), grant.clone());
        tokio::spawn(async move { store.renew(&[&grant], SystemEnv.now()).await })
    };
    says(server, BLOCKED, "1").await;
    operator.execute("COMMIT").await.unwrap();
    assert!(matches!(renewing.await.unwrap()[..], [Renewal::Renewed { .. }]));
    store.release(&grant, ReleaseOptions::new().with_keep(SECOND / 10)).await.unwrap();
    let held = granted(&store, &request("other", LEASE)).await;
    assert_eq!(store.force_release(&held.name).await.unwrap(), ReleaseOutcome::Released);
    for _ in 0..2 {
        store.abandon(&request("other", LEASE)).await.unwrap();
    }
    if options.contains("primary-key") {
        cause_a_sweep(&store).await;
        says(server, "SELECT raised > 'epoch' FROM app_marker", "t").await;
    }
    // After a loss, and after the operator's word.
    operator.execute("DELETE FROM app_marker").await.unwrap();
    let attempt = store.try_acquire(&request("lost", LEASE)).await.unwrap();
    assert!(matches!(attempt, Attempt::Quarantined(_)), "{attempt:?}");
    store.init(&Init::new().with_first_use(true)).await.unwrap();

    store.init(&Init::new().with_reset_tokens(true)).await.unwrap();
    store.highest_token().await.unwrap().unwrap();

    let fence = PostgresFence::new("app").unwrap();
    fence.create(&mut operator).await.unwrap();
    fence.admit(&mut operator, "account", held.token).await.unwrap();
    let printed = schema(&format!("{url}?table_prefix=printed")).unwrap();
    sqlx::raw_sql(AssertSqlSafe(printed)).execute(&mut operator).await.unwrap();
    let tables = "DROP TABLE app_locks, app_queue, app_marker, app_settings, app_fence, app_records, \
        printed_locks, printed_queue, printed_marker, printed_settings, printed_fence, printed_records";
    operator.execute(tables).await.unwrap();
    store.close().await;
    other.close().await;
}

/// First with the right to run them, so that a run would be noticed. Then without it: the server
/// then refuses a statement before it begins, even for a function in a branch that is not taken.
#[tokio::test]
async fn functions_and_operators_of_another_role_are_not_run() {
    let options = PostgresOptions::new().line(Hostile::PRELOAD).line(Hostile::TRACK);
    let server = Postgres::start(options).await.unwrap();
    server.sql(Hostile::ROLES).await.unwrap();
    let stores = [("strategy=primary-key", true), ("strategy=optimistic&prepare=off", false)];
    for (options, pushes) in stores {
        use_all(&server, options, pushes).await;
    }
    let seen = Hostile::seen(&server).await.unwrap();
    println!("{seen:?}");
    assert!(seen.functions.len() > 15 && seen.operators.len() > 8);
    assert!(seen.functions.iter().any(|(name, _)| name == "pg_notify"));
    let mut hostile = PgConnection::connect(&url(&server)).await.unwrap();
    hostile.execute(AssertSqlSafe(seen.planted(&TYPES))).await.unwrap();
    for (options, pushes) in stores {
        use_all(&server, options, pushes).await;
    }
    assert_eq!(server.sql(Hostile::RAN).await.unwrap(), "f");
    server.sql(Hostile::REVOKE).await.unwrap();
    for (options, pushes) in stores {
        use_all(&server, options, pushes).await;
    }
    // The trap works: also for our own statements, where a cast is left out on the way.
    let proxy = Proxy::altering(server.address(), &[("1000000::double precision", "1000000")]);
    let proxy = proxy.await.unwrap();
    let address = format!("postgres://app@{}/postgres", proxy.address());
    let store = connect(&address).await.unwrap();
    let error = store.init(&Init::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    for caught in
        ["SELECT date_part('epoch', now()) * 1000", "SELECT array_append('{a}'::text[], 'b'::text)"]
    {
        let app = PgConnection::connect(&format!("postgres://app@{}/postgres", server.address()));
        let error = app.await.unwrap().execute(caught).await.unwrap_err();
        assert!(error.to_string().contains("permission denied"), "{caught}: {error}");
    } // A search path by which not even an exact match would be the server's own.
    let path = "ALTER ROLE app SET search_path = public, pg_catalog";
    server.sql(path).await.unwrap();
    let error =
        connect(&format!("postgres://app@{}/postgres", server.address())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("\"public\" before pg_catalog"), "{error}");
    let address = format!("postgres://app@{}/postgres", server.address());
    let mut session = PgConnection::connect(&address).await.unwrap();
    let error = PostgresFence::new("other").unwrap().create(&mut session).await.unwrap_err();
    assert!(error.to_string().contains("\"public\" before pg_catalog"), "{error}");
}
