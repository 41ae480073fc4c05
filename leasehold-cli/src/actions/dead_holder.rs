//! Locks of dead holders in a store that has no clock ([`Guarantees::expiry_is_observed`]).
//!
//! There a lease ends only for a client that looks at the holder for the whole lease. A job that
//! cron starts each minute is a new process each time: with a short `--wait`, each one would find
//! the lock of a killed holder held. So the command looks on until it knows: the holder has shown
//! no sign of life for its lease, and the command acquires the lock; or it has renewed or released
//! the lock, and the lock counts as held, as on every other store.
//!
//! [`Guarantees::expiry_is_observed`]: leasehold::Guarantees::expiry_is_observed

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use leasehold::backend::{Env as _, Instant, SystemEnv};
use leasehold::{Blocked, Error, Guards, Holder, LockClient, LockName};

use super::lock::acquire_once;
use crate::args::{Lock, Wait};
use crate::exit;
use crate::show;
use crate::tunables::LOOK_PART;

/// Acquires within `wait`; if it does not, and a holder turns out to be dead, once more.
pub(super) async fn acquire_or_look(
    client: &LockClient,
    args: &Lock,
    wait: Duration,
) -> Result<Guards, Error> {
    let begin = SystemEnv.now();
    let mut wait = wait;
    loop {
        let error = match acquire_once(client, args, Wait::AtMost(wait)).await {
            Err(error) if matches!(error.blocked(), Some(Blocked::Busy(_))) => error,
            acquired => return acquired,
        };
        let names = blocking(args, &error)?;
        let holders = try_join_all(names.iter().map(|name| holder(client, name))).await?;
        let held = names.iter().zip(holders).filter_map(|(name, holder)| Some((name, holder?)));
        let held: Vec<_> = held.filter(|(_, holder)| !holder.has_no_end()).collect();
        if let Some(longest) = held.iter().map(|(_, holder)| holder.remaining).max() {
            exit::notify(format_args!(
                "lock {:?} is held; looking for at most {} whether its holder is alive, since the store has no clock",
                args.name,
                show::rounded(longest)
            ));
        }
        let looks = held.iter().map(|(name, holder)| is_dead(client, name, holder, begin));
        if !join_all(looks).await.contains(&true) {
            return Err(error);
        }
        wait = Duration::ZERO;
    }
}

/// The locks of which one must become free: the one that was not acquired, or all permits.
fn blocking(args: &Lock, error: &Error) -> Result<Vec<LockName>, Error> {
    match args.permits {
        Some(permits) => {
            (0..permits).map(|slot| LockName::new(format!("{}/{slot}", args.name))).collect()
        }
        None => Ok(vec![error.name().unwrap_or(&args.name).clone()]),
    }
}

async fn holder(client: &LockClient, name: &LockName) -> Result<Option<Holder>, Error> {
    Ok(client.inspect(name).await?.and_then(|state| state.holder))
}

/// Looks until the holder's lease has ended, or the holder was seen to be alive. A store that does
/// not answer shows neither, and the next look comes after the same pause.
async fn is_dead(client: &LockClient, name: &LockName, first: &Holder, begin: Instant) -> bool {
    // The client had not seen the holder before `begin`, so it does not end the lease sooner.
    let dead_from = begin + first.remaining;
    // A holder that renews more often than these looks come is seen to be alive by this.
    let end = SystemEnv.now() + 2 * first.remaining;
    let mut left = first.remaining;
    while SystemEnv.now() < end {
        tokio::time::sleep(first.remaining / LOOK_PART).await;
        match holder(client, name).await {
            Ok(Some(now)) if now.owner == first.owner && now.remaining <= left => {
                left = now.remaining;
            }
            // It has renewed, or another one has the lock.
            Ok(Some(_)) => return false,
            // Before the end of its lease, the holder itself has released the lock.
            Ok(None) => return SystemEnv.now() >= dead_from,
            Err(_) => {}
        }
    }
    false
}
