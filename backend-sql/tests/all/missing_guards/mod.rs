//! Statements that lack one guard. The case that is meant for the guard must fail. Markers in the
//! SQL files name the guards.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod common;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod entries;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod readers;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(any(feature = "mysql", feature = "sqlite"))]
use {
    lock_core::{Backend, Env as _, FencingToken, Grant, Init, SystemEnv},
    std::time::Duration,
    verification::missing_guards::cases::{LONG, request, words},
};

/// A released grant whose token leads the clock, as if the store's clock had been ahead. It leads
/// for longer than a sweep takes on any machine.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
async fn ahead(store: &dyn Backend) -> Result<Grant, String> {
    let init = Init::new().with_longest_lease(Duration::from_secs(600));
    store.init(&init).await.map_err(words)?;
    let mut asked = request("a", LONG);
    asked.floor = FencingToken::new(SystemEnv.wall_micros() + 590_000_000).unwrap();
    let first = entries::used_once(store, &asked).await?;
    Ok(first)
}

/// Offers a lower token after a higher one to the fence of one database.
macro_rules! stale_write {
    ($fence:ty, $session:ty, $url:expr) => {
        async move {
            let fence = <$fence>::new("fenced").unwrap();
            let mut session = <$session>::connect(&$url).await.map_err(words)?;
            fence.create(&mut session).await.map_err(words)?;
            let [one, two] = [1, 2].map(|token| lock_core::FencingToken::new(token).unwrap());
            fence.admit(&mut session, "data", two).await.map_err(words)?;
            match fence.admit(&mut session, "data", one).await {
                Err(lock_core::FenceError::Stale(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        }
    };
}

use stale_write;
