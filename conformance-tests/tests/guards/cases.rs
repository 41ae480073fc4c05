//! Cases that are the same for every store, at the URL of its proxy.

use std::time::Duration;

use lock_core::{Env as _, Release, Renewal, SystemEnv};

use super::wire::{LONG, Verdict, first_use, granted, not_granted, request};

pub(crate) fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(crate) async fn a_held_name(url: String) -> Verdict {
    let store = first_use(&url).await;
    granted(&*store, &request("a", LONG)).await?;
    not_granted(&*store, &request("a", LONG)).await
}

pub(crate) async fn a_release_by_another(url: String) -> Verdict {
    let store = first_use(&url).await;
    let mut other = granted(&*store, &request("a", LONG)).await?;
    other.owner = request("a", LONG).owner;
    let _ = store.release(&other, Release::default()).await;
    not_granted(&*store, &request("a", LONG)).await
}

pub(crate) async fn kept_of_an_abandoned(url: String) -> Verdict {
    let store = first_use(&url).await;
    let asked = request("a", LONG);
    let grant = granted(&*store, &asked).await?;
    store.release(&grant, Release { keep: Some(LONG), next: None }).await.map_err(words)?;
    store.abandon(&asked).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub(crate) async fn a_renewal_by_another(url: String) -> Verdict {
    let store = first_use(&url).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    grant.owner = request("a", LONG).owner;
    match store.renew(&[&grant], SystemEnv.now()).await.pop() {
        Some(Renewal::Renewed { .. }) => Err("somebody else's lock was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub(crate) async fn a_late_renewal(url: String) -> Verdict {
    let store = first_use(&url).await;
    let grant = granted(&*store, &request("a", Duration::from_millis(300))).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    match store.renew(&[&grant], SystemEnv.now()).await.pop() {
        Some(Renewal::Renewed { .. }) => Err("an expired lease was renewed".to_owned()),
        _ => Ok(()),
    }
}

/// `lock` begins a transaction that has the row of `a`.
pub(crate) async fn a_batch_with_a_locked_row<T>(
    url: String,
    lock: impl Future<Output = Result<T, String>>,
) -> Verdict {
    let store = first_use(&url).await;
    let locked = granted(&*store, &request("a", LONG)).await?;
    let other = granted(&*store, &request("b", LONG)).await?;
    let _holding = lock.await?;
    let both = [&locked, &other];
    let answers = tokio::time::timeout(LONG / 2, store.renew(&both, SystemEnv.now())).await;
    match answers.as_deref() {
        Ok([Renewal::Unknown(_), Renewal::Renewed { .. }]) => Ok(()),
        Ok(other) => Err(format!("it was answered {other:?}")),
        Err(_) => Err("the whole batch waits for a row that another has".to_owned()),
    }
}

pub(crate) async fn an_abandoned_owner(url: String) -> Verdict {
    let store = first_use(&url).await;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    not_granted(&*store, &given_up).await
}

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
macro_rules! below_the_watermark {
    ($stage:ident, $lead:expr, $watermark:expr) => {{
        let store = first_use(&$stage.url()).await;
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

pub(crate) use {below_the_watermark, stale_write};
