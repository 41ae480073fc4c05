//! PostgreSQL after a crash, and with a clock that is set back.

use std::{sync::Arc, time::Duration};

use backend_sql::Strategy;
use lock_core::{Attempt, Blocked, Env as _, Init, LockClient, Request, SystemEnv};
use servers::{Clock, Data, Postgres, PostgresOptions, Server as _};

use crate::support::postgres::{
    BOTH, SECOND, granted, made_apart as made, open_apart as open, start, used_once,
};
use crate::support::{request, request_for};

/// As short as the longest lease of any store here.
fn short(name: &str) -> Request {
    request_for(name, SECOND)
}

/// A crash empties the locks: nothing is granted until every lease that may have been lost is over.
#[tokio::test]
async fn a_crash_is_followed_by_a_quarantine_and_a_clean_restart_is_not() {
    let mut server = start().await;
    for strategy in BOTH {
        let store = open(&server, strategy).await;
        let init = Init::new().with_longest_lease(6 * SECOND);
        assert_eq!(store.init(&init).await.unwrap().grants_in, Duration::ZERO);
        let before = granted(&store, &request_for("job", 6 * SECOND)).await;

        server.restart_cleanly().await.unwrap();
        let store = open(&server, strategy).await;
        let Attempt::Busy(_) = store.try_acquire(&short("job")).await.unwrap() else {
            panic!("a clean restart has lost the lock");
        };

        let crashed = SystemEnv.now();
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, strategy).await;
        let rows = format!("SELECT count(*) FROM {strategy}_locks").replace('-', "_");
        assert_eq!(server.sql(&rows).await.unwrap(), "0", "the fault did not happen");
        let held_back = match store.try_acquire(&short("job")).await.unwrap() {
            Attempt::Quarantined(held_back) => held_back,
            other => panic!("not held back: {other:?}"),
        };
        assert!(held_back.remaining > SECOND && held_back.remaining <= 6 * SECOND);
        let client = LockClient::new(Arc::clone(&store));
        let error = client.lock("job").lease(SECOND).wait(3 * SECOND).acquire().await.unwrap_err();
        assert!(matches!(error.blocked(), Some(Blocked::Quarantined(_))), "{error:?}");
        let guard = client.lock("job").lease(6 * SECOND).acquire().await.unwrap();
        assert!(SystemEnv.now().since(crashed) >= 6 * SECOND);
        assert!(guard.token() > before.token);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn tokens_rise_over_a_clock_that_is_set_back() {
    let clock = Clock::new().await.unwrap();
    let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let first = used_once(&store, &request("job")).await;
        clock.step(-3600.0).unwrap();
        let second = granted(&store, &request("job")).await;
        assert!(second.token > first.token, "{strategy}");
        let ahead = store.clock_difference_micros().await.unwrap().unwrap();
        assert!(ahead < -1_800_000_000, "{ahead}");
        clock.step(3600.0).unwrap();
    }
}

/// If the server answers commits before it flushes them, a crash takes back the last ones. The
/// settings must survive, since they say for how long nothing is granted after the crash.
#[tokio::test]
async fn settings_that_were_answered_outlive_a_crash() {
    let options = PostgresOptions::new().line("synchronous_commit = off");
    let mut server = Postgres::start(options.line("wal_writer_delay = 10s")).await.unwrap();
    let strategy = Strategy::PrimaryKey;
    let settings = "SELECT longest_lease || ' ' || quarantined FROM primary_key_settings";
    for (longest, quarantine, after) in [
        (None, None, "00:00:30 true"),
        (Some(60 * SECOND), None, "00:01:00 true"),
        (None, Some(false), "00:01:00 false"),
        (None, Some(true), "00:01:00 true"),
    ] {
        let store = open(&server, strategy).await;
        // Whatever else there is to be flushed is.
        server.sql("CHECKPOINT").await.unwrap();
        let init = Init::new().with_longest_lease(longest).with_quarantine(quarantine);
        store.init(&init).await.unwrap();
        server.restart(Data::Keep).await.unwrap();
        assert_eq!(server.sql(settings).await.unwrap(), after);
    }
}
