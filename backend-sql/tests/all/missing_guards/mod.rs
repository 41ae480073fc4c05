//! Statements that lack one guard. The case that is meant for the guard must fail. Markers in the SQL files name the guards.

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
    conformance_tests::missing_guards::cases::{LONG, granted, request, words},
    lock_core::{Backend, Env as _, FencingToken, Grant, Init, ReleaseOptions, SystemEnv},
    std::time::Duration,
};

/// A released grant whose token leads the clock, as if the store's clock had been ahead. It leads for longer than a sweep takes
/// on any machine.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
async fn ahead(store: &dyn Backend) -> Result<Grant, String> {
    let init = Init::new().with_longest_lease(Duration::from_secs(600));
    store.init(&init).await.map_err(words)?;
    let mut asked = request("a", LONG);
    asked.floor = FencingToken::new(SystemEnv.wall_micros() + 590_000_000).unwrap();
    let first = granted(store, &asked).await?;
    store.release(&first, ReleaseOptions::default()).await.map_err(words)?;
    Ok(first)
}

/// Offers a lower token after a higher one to the fence of one database.
macro_rules! stale_write {
    ($fence:ty, $session:ty, $url:expr) => {
        async {
            let fence = <$fence>::new("fenced").unwrap();
            let mut session = <$session>::connect(&$url).await.map_err(words)?;
            fence.create(&mut session).await.map_err(words)?;
            let [one, two] = [1, 2].map(|token| lock_core::FencingToken::new(token).unwrap());
            fence.admit(&mut session, "data", two).await.map_err(words)?.map_err(words)?;
            match fence.admit(&mut session, "data", one).await.map_err(words)? {
                Err(_) => Ok(()),
                Ok(()) => Err("a stale token was admitted".to_owned()),
            }
        }
    };
}

/// Takes a new name while the watermark leads the clock. `lead` raises the watermark, and `watermark` reads it, both in SQL.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! below_the_watermark {
    ($stage:ident, $lead:expr, $watermark:expr) => {{
        let store = first_use($stage).await;
        $stage.server.sql($lead).await.map_err(words)?;
        let watermark = $stage.server.sql($watermark).await.map_err(words)?;
        let watermark: u64 = watermark.parse().map_err(words)?;
        let grant = granted(&*store, &request("new", LONG)).await?;
        match grant.token.get() > watermark {
            true => Ok(()),
            false => Err(format!("token {} came after the watermark {watermark}", grant.token)),
        }
    }};
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
use below_the_watermark;
use stale_write;
