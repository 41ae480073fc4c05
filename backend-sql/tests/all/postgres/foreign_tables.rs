//! Another role creates tables in a schema of the search path. Our statements use none of them, and
//! a client refuses tables of another role in its own schema.

use backend_sql::postgres::{PostgresFence, connect, schema};
use lock_core::{Error, ErrorKind, FencingToken, Init, LockClient, ReleaseOptions};
use servers::{Postgres, Server as _};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::support::{
    of_the_database,
    postgres::{LEASE, enqueue, granted, request, start, url},
};

const TABLES: [&str; 5] = ["settings", "locks", "queue", "marker", "fence"];

/// The roles of these tests; `hostile` may create in `public`, as everybody might before PostgreSQL
/// 15.
async fn with_roles() -> Postgres {
    let server = start().await;
    let roles = "CREATE ROLE app LOGIN; CREATE ROLE hostile LOGIN; CREATE ROLE owner LOGIN; \
        GRANT CREATE ON SCHEMA public TO PUBLIC; CREATE SEQUENCE ran; GRANT ALL ON ran TO PUBLIC";
    server.sql(roles).await.unwrap();
    server
}

fn of(server: &Postgres, role: &str) -> String {
    format!("postgres://{role}@{}/postgres", server.address())
}

async fn run(server: &Postgres, role: &str, sql: &str) {
    let mut session = PgConnection::connect(&of(server, role)).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut session).await.unwrap();
}

/// Makes the tables in a schema as `hostile`. Each has a trigger that runs as the role that writes
/// to it.
async fn plant(server: &Postgres, in_schema: &str) {
    let made = schema(&format!("{}?table_prefix=leasehold", of(server, "hostile"))).unwrap();
    let made = made.replace("\"public\".", "");
    let mut sql = format!(
        "SET search_path = {in_schema}; {made}; GRANT ALL ON ALL TABLES IN SCHEMA {in_schema} TO PUBLIC; \
         CREATE FUNCTION {in_schema}.trap() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_catalog.nextval('public.ran'); RETURN NEW; END $$;"
    );
    for table in TABLES {
        sql += &format!(
            "CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON leasehold_{table} \
             FOR EACH ROW EXECUTE FUNCTION {in_schema}.trap();"
        );
    }
    run(server, "hostile", &sql).await;
}

/// Locks, grants by a handoff and fences as `app`; whether a trap has run, and how many
/// rows the tables of `public` have.
async fn used(server: &Postgres, options: &str) -> (String, String) {
    let store = connect(&format!("{}?{options}", of(server, "app"))).await.unwrap();
    let grant = granted(&store, &request("job", LEASE)).await;
    let (_, waiter) = enqueue(&store, "job").await;
    waiter.leave().await.unwrap();
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    let guard = LockClient::new(store).lock("job").acquire().await.unwrap();
    let mut session = PgConnection::connect(&of(server, "app")).await.unwrap();
    let fence = PostgresFence::new("leasehold").unwrap();
    fence.create(&mut session).await.unwrap();
    fence.admit(&mut session, "account", guard.token()).await.unwrap();
    guard.release().await.unwrap();
    let ran = server.sql("SELECT is_called FROM ran").await.unwrap();
    let rows = "SELECT count(*) FROM public.leasehold_locks, public.leasehold_fence";
    (ran, server.sql(rows).await.unwrap())
}

#[tokio::test]
async fn tables_in_an_earlier_schema_are_not_used() {
    for options in ["strategy=primary-key", "strategy=optimistic", "prepare=off"] {
        let server = with_roles().await;
        let store = connect(&of(&server, "app")).await.unwrap();
        store.init(&Init::default()).await.unwrap();
        // By default the search path begins with the schema of the role's name.
        let earlier = "CREATE SCHEMA app AUTHORIZATION hostile; GRANT USAGE ON SCHEMA app TO app";
        server.sql(earlier).await.unwrap();
        plant(&server, "app").await;
        assert_eq!(used(&server, options).await, ("f".to_owned(), "1".to_owned()), "{options}");
    }
}

/// That a table is `hostile`'s.
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("\"hostile\""), "{error}");
}

/// A role that reads a view runs its functions.
#[tokio::test]
async fn views_of_another_role_are_not_read() {
    let server = with_roles().await;
    let trap = "CREATE FUNCTION public.trap() RETURNS integer LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_catalog.nextval('public.ran'); RETURN 1; END $$; \
        CREATE VIEW leasehold_settings AS SELECT 1 AS id, '30 s'::interval AS longest_lease, \
            '30 s'::interval AS quarantine, true AS quarantined, trap() AS version; \
        GRANT ALL ON leasehold_settings TO PUBLIC";
    let late = connect(&of(&server, "app")).await.unwrap();
    run(&server, "hostile", trap).await;
    for role in ["app", "postgres"] {
        refused(connect(&of(&server, role)).await);
    }
    refused(late.try_acquire(&request("job", LEASE)).await);
    refused(late.init(&Init::default()).await);
    assert_eq!(server.sql("SELECT is_called FROM ran").await.unwrap(), "f");
    // The trap works.
    run(&server, "app", "SELECT * FROM leasehold_settings").await;
    assert_eq!(server.sql("SELECT is_called FROM ran").await.unwrap(), "t");
}

/// A client that connected before the tables existed checks them before its first use.
#[tokio::test]
async fn tables_that_another_role_makes_after_a_client_connected_are_refused() {
    let server = with_roles().await;
    let store = connect(&of(&server, "app")).await.unwrap();
    plant(&server, "public").await;
    refused(store.try_acquire(&request("job", LEASE)).await);
    refused(store.list(None).await);
    refused(store.init(&Init::default()).await);
    refused(store.init(&Init::new().with_longest_lease(LEASE * 2)).await);
    assert_eq!(server.sql("SELECT is_called FROM ran").await.unwrap(), "f");
}

#[tokio::test]
async fn tables_that_another_role_has_made_before_are_refused() {
    let server = with_roles().await;
    plant(&server, "public").await;
    // A superuser is a member of every role, and is not to run the code of each.
    for role in ["app", "postgres"] {
        refused(connect(&of(&server, role)).await);
        let mut session = PgConnection::connect(&of(&server, role)).await.unwrap();
        let fence = PostgresFence::new("leasehold").unwrap();
        refused(fence.create(&mut session).await);
        let admitting = fence.admit(&mut session, "account", FencingToken::new(1).unwrap()).await;
        refused(admitting.map_err(of_the_database));
        // A transaction of the caller's goes on.
        let mut transaction = session.begin().await.unwrap();
        fence.create(&mut transaction).await.unwrap_err();
        let kept = format!("CREATE TABLE kept_by_{role} ()");
        sqlx::raw_sql(AssertSqlSafe(kept)).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    }
    assert_eq!(server.sql("SELECT is_called FROM ran").await.unwrap(), "f");

    // Some of the tables, or one beside those of ours.
    server.sql("DROP TABLE leasehold_settings, leasehold_locks").await.unwrap();
    refused(connect(&of(&server, "app")).await);
    let left = "SELECT to_regclass('public.leasehold_settings') IS NULL";
    assert_eq!(server.sql(left).await.unwrap(), "t", "nothing is left half-way");
    assert_eq!(server.sql("SELECT is_called FROM ran").await.unwrap(), "f");
}

/// An operator runs the printed SQL by psql, which sends each statement by itself and goes on after
/// an error.
#[tokio::test]
async fn the_printed_schema_stops_at_tables_of_another_role() {
    let server = with_roles().await;
    plant(&server, "public").await;
    let made = schema(&of(&server, "postgres")).unwrap();
    let mut session = PgConnection::connect(&of(&server, "postgres")).await.unwrap();
    let mut errors = Vec::new();
    for part in made.split_inclusive("END $$;") {
        let part = sqlx::raw_sql(AssertSqlSafe(part.to_owned()));
        errors.extend(part.execute(&mut session).await.err().map(|error| error.to_string()));
    }
    assert!(errors[0].contains("\"hostile\""), "{errors:?}");
    assert_eq!(server.sql("SELECT is_called FROM ran").await.unwrap(), "f");
}

#[tokio::test]
async fn tables_of_a_role_that_is_trusted_are_used() {
    for owner in ["postgres", "owner", "app"] {
        let server = with_roles().await;
        let made = connect(&of(&server, owner)).await.unwrap();
        made.init(&Init::default()).await.unwrap();
        // The database's owner, or a role that `app` is a member of by way of another.
        let trust = match owner {
            "owner" => "CREATE ROLE between IN ROLE owner; GRANT between TO app",
            _ => "GRANT ALL ON ALL TABLES IN SCHEMA public TO app",
        };
        server.sql(trust).await.unwrap();
        let store = connect(&of(&server, "app")).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        granted(&store, &request("job", LEASE)).await;
    }
    let server = with_roles().await;
    connect(&of(&server, "owner")).await.unwrap().init(&Init::default()).await.unwrap();
    server.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO app; ALTER DATABASE postgres OWNER TO owner").await.unwrap();
    connect(&of(&server, "app")).await.unwrap().init(&Init::default()).await.unwrap();
    // The owner of their schema, which the operator named.
    let server = with_roles().await;
    let own = "CREATE SCHEMA own AUTHORIZATION owner; GRANT USAGE ON SCHEMA own TO app";
    server.sql(own).await.unwrap();
    let made = connect(&format!("{}?schema=own", of(&server, "owner"))).await.unwrap();
    made.init(&Init::default()).await.unwrap();
    let tables = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA own TO app";
    server.sql(tables).await.unwrap();
    let store = connect(&format!("{}?schema=own", of(&server, "app"))).await.unwrap();
    granted(&store, &request("job", LEASE)).await;
}

#[tokio::test]
async fn a_store_is_in_the_schema_that_is_named() {
    let server = with_roles().await;
    server.sql("CREATE SCHEMA \"Other_1\" AUTHORIZATION app").await.unwrap();
    let store = connect(&format!("{}?schema=Other_1", of(&server, "app"))).await.unwrap();
    store.init(&Init::default()).await.unwrap();
    granted(&store, &request("job", LEASE)).await;
    let rows = "SELECT count(*) FROM \"Other_1\".leasehold_locks";
    assert_eq!(server.sql(rows).await.unwrap(), "1");
    let public = "SELECT to_regclass('public.leasehold_locks') IS NULL";
    assert_eq!(server.sql(public).await.unwrap(), "t");
    let other = connect(&url(&server)).await.unwrap();
    other.init(&Init::default()).await.unwrap();
    assert_ne!(store.identity().await.unwrap(), other.identity().await.unwrap());
    let mut session = PgConnection::connect(&of(&server, "app")).await.unwrap();
    let fence = PostgresFence::in_schema("Other_1", "leasehold").unwrap();
    fence.create(&mut session).await.unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM \"Other_1\".leasehold_fence").await.unwrap(), "0");
}
