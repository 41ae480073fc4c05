//! What is forgotten in MySQL, and what is not.

use std::time::Duration;

use crate::support::mariadb::{
    BOTH, WAIT, assert_renewed, cause_a_sweep, granted, made, open, prefix, request, session,
    start, used_once,
};
use backend_sql::Strategy;
use lock_core::{Init, Mode};
use servers::{Clock, Mariadb, MariadbOptions, wait::until};
use sqlx::{AssertSqlSafe, Executor as _};

/// A swept name's token is remembered by the watermark, also where the clock does not help. A row
/// that has tombstones is not swept until no late request can come.
#[tokio::test]
async fn a_sweep_forgets_free_names_and_no_token() {
    let clock = Clock::new().await.unwrap();
    let options = MariadbOptions::new().clock(&clock);
    let quick = options.flag("--innodb-flush-log-at-trx-commit=2");
    let server = Mariadb::start(quick).await.unwrap();
    let store = made(&server, Strategy::PrimaryKey).await;
    // For longer than this takes on any machine.
    let longest = Duration::from_secs(600);
    store.init(&Init::new().with_longest_lease(longest)).await.unwrap();
    let mut wanted = request("held");
    wanted.lease = longest;
    let held = granted(&store, &wanted).await;
    let swept = used_once(&store, &request("swept")).await;
    let late = request("late");
    store.abandon(&late).await.unwrap();
    cause_a_sweep(&store).await;
    let names =
        "SELECT GROUP_CONCAT(name ORDER BY name) FROM primary_key_locks WHERE name <> 'busy'";
    says(&server, names, "held,late").await;
    assert!(store.try_acquire(&late).await.unwrap().granted().is_none());
    clock.step(-3600.0).unwrap();
    assert!(granted(&store, &request("swept")).await.token > swept.token);
    assert_renewed(&store, &held).await;
    clock.step(3.0 * 3600.0).unwrap();
    cause_a_sweep(&store).await;
    says(&server, &names.replace("<> 'busy'", "= 'late'"), "NULL").await;
}

/// Waits until a query has this answer.
async fn says(server: &Mariadb, query: &str, answer: &str) {
    let ask = async || Ok((server.sql(query).await? == answer).then_some(()));
    until(&format!("{query}: {answer}"), WAIT, ask).await.unwrap();
}

/// However often a name is given up, its row stays small, and the last are still kept away.
#[tokio::test]
async fn no_more_than_a_thousand_owners_are_kept_away() {
    let options = MariadbOptions::new().flag("--innodb-flush-log-at-trx-commit=2");
    let server = Mariadb::start(options).await.unwrap();
    let store = made(&server, Strategy::PrimaryKey).await;
    let mut abandoned = Vec::new();
    for _ in 0..1_010 {
        abandoned.push(request("job"));
        // Twice is once.
        for _ in 0..2 {
            store.abandon(&abandoned[abandoned.len() - 1]).await.unwrap();
        }
    }
    let kept = "SELECT LENGTH(buried) / 32 FROM primary_key_locks";
    assert_eq!(server.sql(kept).await.unwrap(), "1000.0000");
    for late in &abandoned[10..] {
        assert!(store.try_acquire(late).await.unwrap().granted().is_none());
    }
    granted(&store, &request("job")).await;
}

/// A client may know a name whose row another has swept.
#[tokio::test]
async fn a_name_is_taken_also_where_its_row_has_gone() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        for _ in 0..2 {
            used_once(&store, &request("job")).await;
            let prefix = prefix(strategy);
            server.sql(&format!("DELETE FROM {prefix}_locks")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn rows_that_cannot_be_read_hold_their_locks_and_hide_no_other() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let table = format!("{}_locks", prefix(strategy));
        let columns = [
            "label = CHAR(7)",
            "label = X'FF07'",
            "owner = 'somebody'",
            "token = -1",
            "token = -9223372036854775808",
            "token = 9223372036854775807, expires = 9223372036854775807",
        ];
        crate::support::damaged_rows_hold_their_locks(
            &store,
            &columns,
            "X'41FF'",
            async |name, columns| {
                let sql = format!("UPDATE {table} SET {columns} WHERE name = '{name}'");
                session(&server).await.execute(AssertSqlSafe(sql)).await.unwrap();
            },
        )
        .await;
    }
}

/// The watermark passes the token of readers who hold for long. Others still join them.
#[tokio::test]
async fn readers_keep_their_token_when_the_watermark_rises() {
    let server = start().await;
    let first = made(&server, Strategy::PrimaryKey).await;
    let reader = || request("shared").with_mode(Mode::Shared);
    let token = granted(&first, &reader()).await.token;
    let raise = format!("UPDATE primary_key_settings SET watermark = {token} + 1000");
    server.sql(&raise).await.unwrap();
    let other = open(&server, Strategy::PrimaryKey).await;
    for store in [&first, &other] {
        assert_eq!(granted(store, &reader()).await.token, token);
    }
}
