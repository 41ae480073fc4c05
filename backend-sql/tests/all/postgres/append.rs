//! The plain append of an entry does what an attempt does: both run on the same rows.

use backend_sql::Strategy;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::support::postgres::{LEASE, granted, made, request, start, url};

/// A statement as it is sent, from the record of all statements.
fn statement(name: &str) -> String {
    let record = include_str!("../../../src/postgres/statements.sql");
    let (_, rest) = record.split_once(&format!("-- {name}(")).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once(";\n").unwrap().0.to_owned()
}

/// Values of the columns, by which a row may differ. The entry that asks is of owner `a`.
const STATES: [(&str, &[&str]); 5] = [
    (
        "owner, expires, kept",
        &[
            "repeat('b', 32), '2999-01-01', false",
            "repeat('b', 32), '2999-01-01', true",
            "repeat('b', 32), '2000-01-01', false",
            "NULL, '2999-01-01', false",
            "repeat('0', 32), '2999-01-01', false",
            "repeat('a', 32), '2999-01-01', false",
            "repeat('a', 32), '2999-01-01', true",
        ],
    ),
    (
        "waiters, alive",
        &[
            "NULL, NULL",
            "'{}', '{}'",
            "ARRAY[repeat('c', 64) || '+'], ARRAY['2999-01-01'::timestamptz]",
            "ARRAY[repeat('c', 64) || '+'], ARRAY['2000-01-01'::timestamptz]",
            "ARRAY[repeat('d', 64) || '+'], ARRAY['2000-01-01'::timestamptz]",
            "ARRAY[repeat('c', 64) || '+', repeat('a', 64) || '+'], \
             ARRAY['2999-01-01'::timestamptz, '2999-01-01']",
            "array_fill(repeat('c', 64) || '+', ARRAY[15]), \
             array_fill('2999-01-01'::timestamptz, ARRAY[15])",
            "array_fill(repeat('c', 64) || '+', ARRAY[16]), \
             array_fill('2999-01-01'::timestamptz, ARRAY[16])",
        ],
    ),
    ("far", &["NULL", "5"]),
    ("turn", &["NULL", "'2000-01-01'"]),
    (
        "buried, buried_at",
        &["NULL, NULL", "ARRAY[repeat('a', 32)], ARRAY['2000-01-01'::timestamptz]"],
    ),
];

/// All columns, and the tail. The new entry's own time counts from the clock.
const ROW: &str = "SELECT concat_ws('|', l.owner, l.label, l.token, l.version, l.expires, l.kept, \
    l.store, l.itself, l.readers, l.client, l.waiters, l.alive[:cardinality(l.alive) - 1], \
    l.alive[cardinality(l.alive)] BETWEEN clock_timestamp() AND clock_timestamp() + interval '2 h', \
    l.far, l.moved, l.turn, l.buried, l.buried_at, \
    (SELECT string_agg(concat_ws(',', q.owner, q.entered, q.entry), ';') FROM leasehold_queue AS q)) \
    FROM leasehold_locks AS l";

/// Runs a statement on the row in this state, and undoes that. Returns the row and the answer.
async fn run(session: &mut PgConnection, state: &str, execute: &str) -> (String, Option<String>) {
    let mut step = session.begin().await.unwrap();
    step.execute(AssertSqlSafe(state.to_owned())).await.unwrap();
    let answer = sqlx::raw_sql(AssertSqlSafe(execute.to_owned()));
    let answer = answer.fetch_optional(&mut *step).await.unwrap();
    let answer = answer.map(|row| {
        let columns = ["name", "owner", "label", "token", "version", "kept", "waiting", "first"];
        let also = ["position", "granted", "behind"];
        let text = |name: &&str| {
            use sqlx::{Row as _, ValueRef as _};
            let value = row.try_get_raw(*name).unwrap();
            let text = (!value.is_null()).then(|| value.as_str().unwrap().to_owned());
            format!("{name}: {text:?}")
        };
        columns.iter().chain(&also).map(text).collect::<Vec<_>>().join(", ")
    });
    let row = sqlx::query_scalar(ROW).fetch_one(&mut *step).await.unwrap();
    step.rollback().await.unwrap();
    (row, answer)
}

#[tokio::test]
async fn a_plain_append_does_what_an_attempt_does() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    granted(&store, &request("job", LEASE)).await;
    store.close().await;
    let mut session = PgConnection::connect(&url(&server)).await.unwrap();
    let prepare = format!(
        "PREPARE append(text, text, text, interval) AS {}; \
         PREPARE attempt(text, text, text, interval, bigint, text, interval, interval, interval) AS {}; \
         INSERT INTO leasehold_queue (name, owner, alive) VALUES ('job', repeat('d', 32), '2999-01-01')",
        statement("append"),
        statement("attempt")
    );
    session.execute(AssertSqlSafe(prepare)).await.unwrap();
    let append = "EXECUTE append('job', repeat('a', 32), repeat('a', 64) || '+', '1 h')";
    let attempt = "EXECUTE attempt('job', repeat('a', 32), 'label', '10 s', 1, \
        repeat('a', 64) || '+', '1 s', '1 h', '1 h')";
    let mut states = vec![String::new()];
    for (columns, values) in STATES {
        let with = |state: &String| {
            let set = |values: &&str| format!("{state}, ({columns}) = ROW({values})");
            values.iter().map(set).collect::<Vec<_>>()
        };
        states = states.iter().flat_map(with).collect();
    }
    let mut appended = 0;
    for state in states {
        let state = format!("UPDATE leasehold_locks SET version = 7{state}");
        let (row, answer) = run(&mut session, &state, append).await;
        if answer.is_some() {
            assert_eq!((row, answer), run(&mut session, &state, attempt).await, "{state}");
            appended += 1;
        }
    }
    // Three holders that are others, four queues with room, and either turn.
    assert_eq!(appended, 3 * 4 * 2);
}
