//! Statements that lack a guard: the case that is meant for it has to fail. The guards are named by markers in the SQL files.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod readers;
#[cfg(feature = "sqlite")]
mod sqlite;

/// A fence of one kind in a session of its driver: a lower token after a higher one.
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

/// A name that the store does not know, once its watermark leads its clock: `lead` makes it so, and
/// `watermark` reads it, both in SQL.
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
