//! Another role may create functions, operators and tables in a schema of the search path. None of
//! its code may run with the rights of a leasehold client.

use lock_core::{Env as _, Error, ErrorKind, Init, Renewal, SystemEnv};
use servers::{Hostile, Postgres, PostgresOptions, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use verification::missing_guards::cases::{LONG, granted, request};

use crate::operations;

/// The types of all values and columns in the statements. ShedLock's columns are VARCHAR. For this
/// type PostgreSQL may prefer another role's operator to its own.
const TYPES: &str = "name|text|text[]|varchar|bigint|smallint|integer|double precision|boolean|\
    interval|interval[]|timestamp|timestamptz|oid|regclass|\"char\"";

async fn start() -> Postgres {
    let options = PostgresOptions::new().line(Hostile::PRELOAD).line(Hostile::TRACK);
    let server = Postgres::start(options).await.unwrap();
    server.sql(Hostile::ROLES).await.unwrap();
    server
}

fn of(server: &Postgres, role: &str) -> String {
    format!("postgres://{role}@{}/postgres", server.address())
}

async fn run(server: &Postgres, role: &str, sql: &str) {
    let mut session = PgConnection::connect(&of(server, role)).await.unwrap();
    session.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
}

/// Runs every statement, and the printed schema.
async fn use_all(server: &Postgres, options: &str) {
    let url = format!("{}?layout=shedlock&table=jobs&{options}", of(server, "app"));
    run(server, "app", &backend_foreign::schema(&url).unwrap()).await;
    let store = backend_foreign::connect(&url).await.unwrap();
    store.init(&Init::new().with_longest_lease(LONG)).await.unwrap();
    operations::use_each(&*store).await;

    // The statement that waits for a row which another transaction has locked.
    let grant = granted(&*store, &request("job", LONG)).await.unwrap();
    let mut operator = PgConnection::connect(&of(server, "app")).await.unwrap();
    operator.execute("BEGIN; UPDATE jobs SET locked_by = locked_by").await.unwrap();
    let waiting = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while server.sql(waits).await.unwrap() == "0" {}
        operator.execute("COMMIT").await.unwrap();
    };
    let batch = [&grant];
    let renewing = store.renew(&batch, SystemEnv.now());
    let (renewed, waited) = tokio::join!(renewing, tokio::time::timeout(LONG, waiting));
    waited.expect("the renewal waits for the row");
    assert!(!matches!(renewed[..], [Renewal::Lost(_)]), "{renewed:?}");

    operator.execute("DROP TABLE jobs, jobs_leasehold, jobs_leasehold_store").await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn functions_and_operators_of_another_role_are_not_run() {
    let server = start().await;
    let each = ["prepare=on", "prepare=off"];
    for options in each {
        use_all(&server, options).await;
    }
    let seen = Hostile::seen(&server).await.unwrap();
    println!("{seen:?}");
    assert!(seen.functions.len() > 10 && seen.operators.contains("!~"), "{seen:?}");
    let types: Vec<_> = TYPES.split('|').collect();
    run(&server, "postgres", &seen.planted(&types)).await;
    for options in each {
        use_all(&server, options).await;
    }
    assert_eq!(server.sql(Hostile::RAN).await.unwrap(), "f");
    server.sql(Hostile::REVOKE).await.unwrap();
    for options in each {
        use_all(&server, options).await;
    }
    // The trap works.
    let mut app = PgConnection::connect(&of(&server, "app")).await.unwrap();
    for caught in ["SELECT 'a'::varchar = 'a'::text", "SELECT date_part('epoch', now()) * 1000"] {
        let error = app.execute(caught).await.unwrap_err();
        assert!(error.to_string().contains("permission denied"), "{caught}: {error}");
    }
}

/// The error must say that a table belongs to `hostile`.
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("\"hostile\""), "{error}");
}

/// `hostile` owns one of the three tables after the other, and gives it a trigger, whose code runs
/// with the rights of each writer. Then `hostile` creates a view, whose functions run with the
/// rights of each reader.
#[tokio::test]
async fn tables_and_views_of_another_role_are_refused() {
    let server = start().await;
    let url = format!("{}?layout=shedlock", of(&server, "app"));
    let early = backend_foreign::connect(&url).await.unwrap();
    let trap = "PERFORM pg_catalog.nextval('public.ran')";
    run(
        &server,
        "hostile",
        &format!(
            "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {trap}; RETURN NEW; END $$; \
             CREATE FUNCTION seen() RETURNS text LANGUAGE plpgsql AS $$ BEGIN {trap}; RETURN 'x'; END $$"
        ),
    )
    .await;
    let made = backend_foreign::schema(&url).unwrap();
    for table in ["shedlock", "shedlock_leasehold", "shedlock_leasehold_store"] {
        let planted = format!(
            "{made} GRANT ALL ON shedlock, shedlock_leasehold, shedlock_leasehold_store TO PUBLIC; \
             CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION trap()"
        );
        run(&server, "hostile", &planted).await;
        // The other two belong to `app`.
        for own in ["shedlock", "shedlock_leasehold", "shedlock_leasehold_store"] {
            if own != table {
                server.sql(&format!("ALTER TABLE {own} OWNER TO app")).await.unwrap();
            }
        }
        refused(backend_foreign::connect(&url).await);
        refused(early.try_acquire(&request("job", LONG)).await);
        refused(early.init(&Init::default()).await);
        let mut session = PgConnection::connect(&of(&server, "app")).await.unwrap();
        let error = session.execute(AssertSqlSafe(made.clone())).await.unwrap_err();
        assert!(error.to_string().contains("\"hostile\""), "{error}");
        let gone = "DROP TABLE shedlock, shedlock_leasehold, shedlock_leasehold_store";
        server.sql(gone).await.unwrap();
    }
    let view = "CREATE VIEW shedlock AS SELECT seen() AS name, now()::timestamp AS lock_until, now()::timestamp AS locked_at, \
                seen() AS locked_by; GRANT ALL ON shedlock TO PUBLIC";
    run(&server, "hostile", view).await;
    refused(backend_foreign::connect(&url).await);
    refused(early.init(&Init::default()).await);
    assert_eq!(server.sql(Hostile::RAN).await.unwrap(), "f");
    // The trap works.
    run(&server, "app", "SELECT * FROM shedlock").await;
    assert_eq!(server.sql(Hostile::RAN).await.unwrap(), "t");
}
