//! Changes of the settings that all clients share, while a store is in use. The cases are the same
//! for every database.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Env as _, Error, ErrorKind, Init, LockClient, Renewal, SystemEnv,
};
use tokio::time::timeout;

use super::{BOTH, SECOND, WAIT, busy, granted, request_for};

/// Both strategies, each with tables of its own behind this URL.
pub(crate) async fn change_settings(
    url: &str,
    connect: impl AsyncFn(String) -> Result<Arc<dyn Backend>, Error>,
) {
    let mark = if url.contains('?') { '&' } else { '?' };
    let connect = &connect;
    join_all(BOTH.map(|strategy| async move {
        let prefix = strategy.to_string().replace('-', "_");
        let url = format!("{url}{mark}strategy={strategy}&table_prefix={prefix}");
        let open = async |longest: Option<Duration>| {
            let told = longest.map(|longest| format!("&longest_lease={}s", longest.as_secs()));
            connect(url.clone() + &told.unwrap_or_default()).await
        };
        change_longest_lease(&open).await;
        renew_above_the_longest_lease(&open).await;
    }))
    .await;
}

/// Renewals ask for more than the longest lease, which was lowered since the grants. Each gets the
/// longest lease, and its answer says so.
async fn renew_above_the_longest_lease<Open>(open: Open)
where
    Open: AsyncFn(Option<Duration>) -> Result<Arc<dyn Backend>, Error>,
{
    let (granted_for, lowered, asked) = (10 * SECOND, 20 * SECOND, 60 * SECOND);
    let operator = open(None).await.unwrap();
    let set = async |longest| {
        let init = Init::new().with_longest_lease(longest);
        assert_eq!(operator.init(&init).await.unwrap().longest_lease, longest);
    };
    set(asked).await;
    let store = open(None).await.unwrap();
    let mut grants = Vec::new();
    for name in ["one", "two"] {
        grants.push(granted(&store, &request_for(name, granted_for)).await);
    }
    set(lowered).await;
    let gone = granted(&store, &request_for("gone", granted_for)).await;
    store.force_release(&gone.name).await.unwrap();
    grants.push(gone);
    for grant in &mut grants {
        grant.lease = asked;
    }
    // First all together, with one that is gone; then one alone.
    for count in [3, 1] {
        let batch: Vec<_> = grants.iter().take(count).collect();
        let answers = store.renew(&batch, SystemEnv.now()).await;
        for (grant, answer) in batch.iter().zip(&answers).take(2) {
            match answer {
                Renewal::Renewed { lease, .. } => assert_eq!(*lease, lowered),
                other => panic!("{}: {other:?}", grant.name),
            }
            let state = store.inspect(&grant.name).await.unwrap().unwrap();
            let left = state.holder.unwrap().remaining;
            assert!(left > granted_for && left <= lowered, "{}: {left:?}", grant.name);
        }
        assert!(answers.get(2).is_none_or(|gone| matches!(gone, Renewal::Lost(_))), "{answers:?}");
    }
}

/// Each table is missing once, as after a partial restore, and `init` makes it again. If the
/// database has a quarantine (`waits`), holders may still believe in the lost locks, and nothing is
/// granted before an operator says that no lock is held. `drop` removes a table. A client may be
/// unable to connect without it.
pub(crate) async fn init_makes_missing_tables(
    tables: &[&str],
    connect: impl AsyncFn() -> Result<Arc<dyn Backend>, Error>,
    drop: impl AsyncFn(&str),
    waits: bool,
) {
    for table in tables {
        let store = connect().await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        granted(&store, &request_for(&format!("with {table}"), SECOND)).await;
        store.close().await;
        drop(table).await;
        let store = connect().await.unwrap();
        let settings = store.init(&Init::default()).await.unwrap();
        let name = format!("without {table}");
        if waits {
            assert!(settings.grants_in > 10 * SECOND, "{table}: {settings:?}");
            let held_back = store.try_acquire(&request_for(&name, SECOND)).await.unwrap();
            assert!(matches!(held_back, Attempt::Quarantined(_)), "{table}: {held_back:?}");
            store.init(&Init::new().with_first_use(true)).await.unwrap();
        }
        granted(&store, &request_for(&name, SECOND)).await;
        store.close().await;
    }
}

/// The longest lease is lowered and raised while a lock is held, another client waits for it, and a
/// third holder has died. Old leases run to their end, and their clients go on. A new client with
/// the old setting is refused. The argument of `open` is the longest lease that the client expects.
async fn change_longest_lease<Open>(open: Open)
where
    Open: AsyncFn(Option<Duration>) -> Result<Arc<dyn Backend>, Error>,
{
    let operator = open(None).await.unwrap();
    let set = async |longest| {
        let init = Init::new().with_longest_lease(longest);
        assert_eq!(operator.init(&init).await.unwrap().longest_lease, longest);
    };
    let too_short = Init::new().with_longest_lease(Duration::from_millis(1));
    assert_eq!(operator.init(&too_short).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut before = 6 * SECOND;
    set(before).await;
    for after in [3 * SECOND, 9 * SECOND] {
        let old = open(Some(before)).await.unwrap();
        let holder = LockClient::new(Arc::clone(&old));
        let guard = holder.lock("job").lease(before).acquire().await.unwrap();
        let waiting = LockClient::new(open(Some(before)).await.unwrap());
        let waiter = tokio::spawn(waiting.lock("job").lease(before).acquire());
        let sent = SystemEnv.now();
        let dead = granted(&old, &request_for("dead", before)).await;

        set(after).await;
        let error = open(Some(before)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        for part in [before, after].map(|each| format!("{}s", each.as_secs())) {
            assert!(error.to_string().contains(&part), "{error}");
        }
        let new = open(Some(after)).await.unwrap();
        assert_eq!(new.guarantees().longest_lease, after);
        let longer = request_for("longer", after + SECOND);
        let error = new.try_acquire(&longer).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let busy = busy(&new, &request_for("job", SECOND)).await;
        assert_eq!(busy.token, guard.token());

        let client = LockClient::new(new);
        let next = client.lock("dead").lease(after).wait(WAIT).acquire().await.unwrap();
        assert!(SystemEnv.now().since(sent) >= before, "granted before the lease was over");
        assert!(next.token() > dead.token);
        // It has been renewed meanwhile, as before.
        assert!(guard.is_valid() && !waiter.is_finished());
        let token = guard.token();
        guard.release().await.unwrap();
        let served = timeout(WAIT, waiter).await.unwrap().unwrap().unwrap();
        assert!(served.token() > token);
        served.release().await.unwrap();
        next.release().await.unwrap();
        before = after;
    }
}
