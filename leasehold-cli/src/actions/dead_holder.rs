//! Locks of dead holders in a store that has no clock ([`Guarantees::expiry_is_observed`]).
//!
//! There a lease ends only for a client that looks at the holder for the whole lease. A job that
//! cron starts each minute is a new process each time: with a short `--wait`, each one would find
//! the lock of a killed holder held. So the command looks on until it knows: the holder has shown
//! no sign of life for its lease, and the command acquires the lock; or it has renewed or released
//! the lock, and the lock counts as held, as on every other store. The rest of a minimum hold ends
//! in the same way, and the lock counts as held, too: the job has run.
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

/// What a look has shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// The holder has renewed or released the lock.
    Alive,
    Dead,
    /// A minimum hold is over, whose holder had released the lock.
    HoldOver,
}

/// A holder of a lock, when this client had not yet seen it.
struct Held {
    name: LockName,
    holder: Holder,
    is_kept: bool,
    unseen_at: Instant,
}

/// Acquires within `wait`; if it does not, and a holder turns out to be dead, once more.
pub(super) async fn acquire_or_look(
    client: &LockClient,
    args: &Lock,
    wait: Duration,
) -> Result<Guards, Error> {
    let mut wait = wait;
    loop {
        let error = match acquire_once(client, args, Wait::AtMost(wait)).await {
            Err(error) if matches!(error.blocked(), Some(Blocked::Busy(_))) => error,
            acquired => return acquired,
        };
        let names = blocking(args, &error)?;
        let held = try_join_all(names.iter().map(|name| held(client, name))).await?;
        let held = held.into_iter().flatten().filter(|held| !held.holder.has_no_end());
        let held: Vec<_> = held.collect();
        if let Some(longest) = held.iter().map(|held| held.holder.remaining).max() {
            exit::notify(format_args!(
                "lock {:?} is held; looking for at most {} whether its holder is alive, since the store has no clock",
                args.name,
                show::rounded(longest)
            ));
        }
        let seen = join_all(held.iter().map(|held| look(client, held))).await;
        if !seen.contains(&Seen::Dead) {
            if seen.contains(&Seen::HoldOver) {
                end_hold(client, args).await;
            }
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

async fn held(client: &LockClient, name: &LockName) -> Result<Option<Held>, Error> {
    let unseen_at = SystemEnv.now();
    let Some(state) = client.inspect(name).await? else { return Ok(None) };
    let (name, is_kept) = (name.clone(), state.kept);
    Ok(state.holder.map(|holder| Held { name, holder, is_kept, unseen_at }))
}

/// Frees a lock whose minimum hold is over for this process alone: the next one has not seen it,
/// and would find it held again.
async fn end_hold(client: &LockClient, args: &Lock) {
    let args = Lock { at_least: Duration::ZERO, ..args.clone() };
    if let Ok(guards) = acquire_once(client, &args, Wait::AtMost(Duration::ZERO)).await {
        // If this fails, the lock is free after its lease, to the next who looks.
        let _ = guards.release().await;
    }
}

/// Looks until the holder's lease has ended, or the holder was seen to be alive. A store that does
/// not answer shows neither, and the next look comes after the same pause.
async fn look(client: &LockClient, held: &Held) -> Seen {
    let Held { name, holder: first, is_kept, unseen_at } = held;
    let over = if *is_kept { Seen::HoldOver } else { Seen::Dead };
    // Its lease does not end sooner for this client.
    let over_from = *unseen_at + first.remaining;
    // A holder that renews more often than these looks come is seen to be alive by this.
    let end = SystemEnv.now() + 2 * first.remaining;
    let mut left = first.remaining;
    while SystemEnv.now() < end {
        tokio::time::sleep(first.remaining / LOOK_PART).await;
        match self::held(client, name).await {
            Ok(Some(Held { holder: now, is_kept: kept, .. }))
                if now.owner == first.owner && kept == *is_kept && now.remaining <= left =>
            {
                left = now.remaining;
            }
            // It has renewed or released, or another one has the lock.
            Ok(Some(_)) => return Seen::Alive,
            // Before the end of its lease, the holder itself has released the lock.
            Ok(None) if SystemEnv.now() < over_from => return Seen::Alive,
            Ok(None) => return over,
            Err(_) => {}
        }
    }
    Seen::Alive
}
