//! Fencing tokens are used up: another client has set the watermark to the limit.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, Grant, Init, ReleaseOptions, SystemEnv,
};
use tokio::time::{sleep, timeout};

use crate::support::{BOTH, SECOND, WAIT, granted, request_for};

/// Uses up the tokens of a store. `set` sets its watermark. Returns an earlier grant.
async fn use_up(store: &Arc<dyn Backend>, set: impl AsyncFn(u64)) -> Grant {
    let held = granted(store, &request_for("a", SECOND)).await;
    let highest = store.highest_token().await.unwrap().unwrap();
    assert!(highest >= held.token && highest < FencingToken::MAX, "{highest}");
    for limit in [FencingToken::MAX.get(), i64::MAX as u64] {
        set(limit).await;
        assert_eq!(store.highest_token().await.unwrap(), Some(FencingToken::MAX));
        let error =
            store.try_acquire(&request_for(&format!("b {limit}"), SECOND)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let told = error.to_string();
        assert!(
            told.contains("tokens are used up") && told.contains("`leasehold check`"),
            "{told}"
        );
    }
    held
}

/// Asserts that a store without a quarantine refuses to set the tokens back.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
async fn is_refused(store: &Arc<dyn Backend>) {
    let reset = Init::new().with_reset_tokens(true);
    let error = store.init(&reset).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("for one longest lease, drop the tables"), "{error}");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_sets_them_back() {
    use crate::support::postgres::{open_apart, start};

    let server = start().await;
    for strategy in BOTH {
        let store = open_apart(&server, strategy).await;
        let prefix = strategy.to_string().replace('-', "_");
        // Also without a quarantine, `init` waits until the clock is past the old tokens.
        let init = Init::new().with_longest_lease(2 * SECOND).with_quarantine(false);
        store.init(&init).await.unwrap();
        let set = async |limit| {
            server.sql(&format!("UPDATE {prefix}_marker SET watermark = {limit}")).await.unwrap();
        };
        let held = use_up(&store, set).await;
        // Rows with tombstones, and held rows, have tokens, too.
        store.abandon(&request_for("c", SECOND)).await.unwrap();
        let raised = format!("UPDATE {prefix}_locks SET token = {}", i64::MAX);
        server.sql(&raised).await.unwrap();

        let both = Init::new().with_reset_tokens(true).with_first_use(true);
        assert_eq!(store.init(&both).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let began = SystemEnv.now();
        let settings = store.init(&Init::new().with_reset_tokens(true)).await.unwrap();
        assert!(settings.grants_in > SECOND, "{settings:?}");
        assert_eq!(settings.quarantine, Some(false));
        let highest = store.highest_token().await.unwrap().unwrap();
        assert!(highest < FencingToken::MAX, "{highest}");
        // A handoff does not grant anything, either.
        let next = request_for("a", SECOND);
        let handing_over = ReleaseOptions::new().with_next(&next);
        let released = store.release(&held, handing_over).await.unwrap();
        assert!(!matches!(released.next, Some(lock_core::Enqueued::Granted(_))), "{released:?}");
        for name in ["a", "b", "c"] {
            let again = async || {
                let wanted = request_for(name, SECOND);
                loop {
                    match store.try_acquire(&wanted).await.unwrap() {
                        Attempt::Granted(grant) => return grant,
                        _ => sleep(Duration::from_millis(10)).await,
                    }
                }
            };
            let grant = timeout(WAIT, again()).await.unwrap();
            assert!(grant.token > held.token, "{} after {}", grant.token, held.token);
            assert!(SystemEnv.now().since(began) > SECOND, "nothing was waited out");
        }
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn mysql_says_so() {
    use crate::support::mariadb::{made, prefix, start};

    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let set = async |limit| {
            let sql = format!("UPDATE test.{}_settings SET watermark = {limit}", prefix(strategy));
            server.sql(&sql).await.unwrap();
        };
        use_up(&store, set).await;
        is_refused(&store).await;
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite_says_so() {
    use sqlx::{AssertSqlSafe, Executor as _};

    use crate::support::sqlite::{file, open, raw};

    for strategy in BOTH {
        let (_folder, path) = file();
        let store = open(&path, strategy).await;
        let set = async |limit| {
            let sql = format!("UPDATE leasehold_settings SET watermark = {limit}");
            raw(&path).await.execute(AssertSqlSafe(sql)).await.unwrap();
        };
        use_up(&store, set).await;
        is_refused(&store).await;
    }
}
