//! What `run` and `hold` share: how to acquire and release one lock, several locks, or a permit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use humantime::format_duration;
use leasehold::backend::{Env as _, SystemEnv};
use leasehold::{
    Backend, Blocked, ClientOptions, Error, ErrorKind, Guard, Guards, LockClient, LockName,
    Quarantined, StoreSettings, all,
};

use super::renewals::{Renewals, observe, until_confirmed};
use super::{dead_holder, waiting_line};
use crate::args::{Lock, Wait};
use crate::chosen_store::ChosenStore;
use crate::exit::{self, Failure, cause};
use crate::show;
use crate::supervise::{Signals, Validity};
use crate::tunables::{CLOSE_LIMIT, CLOSE_LIMIT_AFTER_LOSS};

/// The locks that the command holds.
pub(super) struct Locked {
    pub(super) client: LockClient,
    pub(super) guards: Guards,
    pub(super) renewals: Renewals,
}

/// The validity as of now. Of several locks, the first to end counts, and the shortest lease.
pub(super) fn validity(guards: &Guards, renewals: &Renewals, args: &Lock) -> Validity {
    // In this order, so that the end is never too late.
    let now = SystemEnv.now();
    let end = now + guards.remaining();
    // The longest lease of the store may have been lowered.
    let lease = renewals.borrow().values().copied().fold(args.lease, Duration::min);
    Validity { end, lease }
}

/// How the work under a lock ended.
pub(super) struct Done {
    /// The exit code.
    pub(super) code: u8,
    /// How long to wait for the releases that the client still has to do.
    pub(super) close_limit: Duration,
}

impl Done {
    /// The lock was released.
    pub(super) fn released(code: u8) -> Self {
        Self { code, close_limit: CLOSE_LIMIT }
    }

    /// A lock was lost. What is lost needs no release. The client releases the other locks, if the
    /// store has answered.
    pub(super) fn lost(code: u8, guards: &Guards, store_answers: bool) -> Self {
        let others = store_answers && guards.iter().any(Guard::is_valid);
        let close_limit = if others { CLOSE_LIMIT_AFTER_LOSS } else { Duration::ZERO };
        Self { code, close_limit }
    }
}

/// Acquires, and runs `work`, which also releases. Returns the exit code. `given_up` ends the wait
/// for the lock. `wanted` looks, with the store reached, whether the lock is wanted at all.
///
/// `work` begins when each grant that the store pushed is confirmed.
pub(super) async fn with_lock(
    place: &ChosenStore,
    args: &Lock,
    given_up: impl Future<Output = Failure>,
    wanted: impl AsyncFnOnce(&LockClient) -> Result<(), Failure>,
    work: impl AsyncFnOnce(Locked, &mut Signals) -> Done,
) -> Result<u8, Failure> {
    if place.url().scheme() == "memory" {
        return Err(Failure::usage(
            "the store memory: exists in this process only, so a lock there excludes nobody; \
             name another with --store or LEASEHOLD_STORE",
        ));
    }
    let mut signals = Signals::catch().map_err(|error| {
        Failure::unavailable(format_args!("cannot catch signals: {}", cause(&error)))
    })?;
    let mut client = None;
    let acquired = tokio::select! {
        biased;
        signal = signals.asked_to_end() => Err(Ok(exit::of_signal(signal))),
        failure = given_up => Err(Err(failure)),
        acquired = acquire(place, args, wanted, &mut client) => acquired.map_err(Err),
    };
    let (code, close_limit) = match acquired {
        Ok(locked) => {
            let Done { code, close_limit } = match confirm(locked, args, &mut signals).await {
                Ok(locked) => work(locked, &mut signals).await,
                Err(done) => done,
            };
            (Ok(code), close_limit)
        }
        Err(ended) => (ended, CLOSE_LIMIT),
    };
    if let Some(client) = client.filter(|_| !close_limit.is_zero()) {
        // Gives the queue entry up, and releases a grant that came meanwhile.
        tokio::select! {
            () = client.close() => {}
            () = tokio::time::sleep(close_limit) => {}
            // After a second signal, do not wait for a store that hangs.
            _ = signals.asked_to_end() => {}
        }
    }
    code
}

/// Waits until the locks are certain.
async fn confirm(mut locked: Locked, args: &Lock, signals: &mut Signals) -> Result<Locked, Done> {
    let Locked { guards, renewals, .. } = &mut locked;
    let asked_to_end = tokio::select! {
        biased;
        reason = lost(guards, args) => {
            let name = &args.name;
            exit::complain(format_args!("lock {name:?} not acquired: its grant was not confirmed: {reason}"));
            return Err(Done::lost(args.conflict_exit_code, guards, true));
        }
        signal = signals.asked_to_end() => signal,
        () = until_confirmed(guards, renewals) => return Ok(locked),
    };
    let code = release(locked.guards, args, exit::of_signal(asked_to_end), "").await;
    Err(Done::released(code))
}

/// The tokens, in the order of the names.
pub(super) fn tokens(guards: &Guards) -> String {
    let tokens: Vec<_> = guards.iter().map(|guard| guard.token().to_string()).collect();
    tokens.join(" ")
}

/// Waits until a lock is lost, and returns the reason. It names the lock if that is not clear from
/// NAME.
pub(super) async fn lost(guards: &Guards, args: &Lock) -> String {
    let (which, reason) = guards.lost().await;
    match guards.get(which) {
        Some(guard) if *guard.name() != args.name || guards.len() > 1 => {
            format!("{reason} (lock {:?})", guard.name())
        }
        _ => reason.to_string(),
    }
}

/// Releases, and returns the exit code: `code`, unless a lock was lost. `ended` completes the line
/// on stderr about a loss with what had ended before.
pub(super) async fn release(guards: Guards, args: &Lock, code: u8, ended: &str) -> u8 {
    let released = join_all(guards.into_vec().into_iter().map(Guard::release)).await;
    let errors = || released.iter().filter_map(|result| result.as_ref().err());
    // A loss is more important than other errors.
    match errors().find(|error| is_loss(error)).or_else(|| errors().next()) {
        None => code,
        Some(error) if is_loss(error) => {
            let Failure { code: lost, message, .. } = Failure::of(error);
            exit::complain(format_args!("{message}{ended}"));
            lost
        }
        // The whole work ran under the lock.
        Some(error) => {
            exit::complain(format_args!(
                "{}; the lock ends with its lease, in {} at most",
                Failure::of(error),
                format_duration(args.lease.max(args.at_least))
            ));
            code
        }
    }
}

pub(super) fn is_loss(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Lost | ErrorKind::NotHeld)
}

/// Connects and acquires. The client is in `client`, so that the caller can close it even if this
/// future is dropped.
async fn acquire(
    place: &ChosenStore,
    args: &Lock,
    wanted: impl AsyncFnOnce(&LockClient) -> Result<(), Failure>,
    client: &mut Option<LockClient>,
) -> Result<Locked, Failure> {
    if place.is_new() {
        check_for_new_store(args)?;
    }
    let begin = Instant::now();
    let store = place.open_within(args.wait).await?;
    // The wait for the store is a part of the wait for the lock.
    let left = match args.wait {
        Wait::AtMost(wait) => Wait::AtMost(wait.saturating_sub(begin.elapsed())),
        Wait::Forever => Wait::Forever,
    };
    let (observed, renewals) =
        observe(labelled(&store, place, args)?).map_err(|error| Failure::of(&error))?;
    let client = client.insert(observed);
    wanted(client).await?;
    let acquiring = acquire_by(client, args, left);
    let acquired = if args.wait == Wait::AtMost(Duration::ZERO) {
        acquiring.await
    } else {
        tokio::select! {
            biased;
            acquired = acquiring => acquired,
            never = waiting_line::show(store, args) => match never {},
        }
    };
    match acquired {
        Ok(guards) => Ok(Locked { client: client.clone(), guards, renewals }),
        Err(error) => Err(not_acquired(&error, args)),
    }
}

/// The client, with its label.
fn labelled(
    store: &Arc<dyn Backend>,
    place: &ChosenStore,
    args: &Lock,
) -> Result<LockClient, Failure> {
    let options = match args.label.clone().map_or_else(|| place.url().label(), |own| Ok(Some(own)))
    {
        Ok(Some(label)) => ClientOptions::new().with_label(label),
        Ok(None) => ClientOptions::new(),
        Err(error) => return Err(Failure::of(&error)),
    };
    LockClient::with_options(Arc::clone(store), options).map_err(|error| Failure::of(&error))
}

async fn acquire_by(client: &LockClient, args: &Lock, wait: Wait) -> Result<Guards, Error> {
    match wait {
        Wait::AtMost(wait) if client.guarantees().expiry_is_observed => {
            dead_holder::acquire_or_look(client, args, wait).await
        }
        _ => acquire_once(client, args, wait).await,
    }
}

/// One call of the client.
pub(super) async fn acquire_once(
    client: &LockClient,
    args: &Lock,
    wait: Wait,
) -> Result<Guards, Error> {
    match args.permits {
        Some(permits) => permit(client, args, permits, wait).await.map(Guards::from),
        None => {
            let all = all(args.names().map(|name| lock(client, args, name)));
            match wait {
                Wait::AtMost(wait) => all.wait(wait),
                Wait::Forever => all,
            }
            .acquire()
            .await
        }
    }
}

fn lock(client: &LockClient, args: &Lock, name: &LockName) -> leasehold::Lock {
    let lock = client.lock(name).lease(args.lease);
    let lock = if args.shared { lock.shared() } else { lock };
    let lock = lock.wait_for_quarantine(quarantine_wait(client, args));
    if args.at_least.is_zero() { lock } else { lock.at_least(args.at_least) }
}

async fn permit(
    client: &LockClient,
    args: &Lock,
    permits: u32,
    wait: Wait,
) -> Result<Guard, Error> {
    let mut permit = client.semaphore(&args.name, permits).lease(args.lease);
    if !args.at_least.is_zero() {
        permit = permit.at_least(args.at_least);
    }
    if let Wait::AtMost(wait) = wait {
        permit = permit.wait(wait);
    }
    permit.wait_for_quarantine(quarantine_wait(client, args)).acquire().await
}

/// Returns how long to wait for a quarantine, and writes a line about the wait.
fn quarantine_wait(
    client: &LockClient,
    args: &Lock,
) -> impl Fn(&Quarantined) -> Duration + Send + Sync + 'static {
    let (longest, limit) = (client.guarantees().longest_lease, args.quarantine_wait);
    move |quarantine| {
        // Another loss of data may begin a longer quarantine, of at most one longest lease.
        let limit = limit.unwrap_or(quarantine.remaining.max(longest));
        if !limit.is_zero() {
            exit::notify(format_args!(
                "{}; waiting for its end, at most {} (--quarantine-wait 0s: not at all)",
                in_quarantine(quarantine),
                show::rounded(limit)
            ));
        }
        limit
    }
}

/// Refuses options that a new store would refuse, before its directory is created.
fn check_for_new_store(args: &Lock) -> Result<(), Failure> {
    let longest = StoreSettings::DEFAULT_LONGEST_LEASE;
    let too_long = [("lease", args.lease), ("at-least", args.at_least)]
        .into_iter()
        .find(|(_, span)| *span > longest);
    too_long.map_or(Ok(()), |(option, span)| {
        Err(Failure::usage(format_args!(
            "--{option} {} is longer than the longest lease of a new store, {}",
            format_duration(span),
            format_duration(longest)
        )))
    })
}

fn not_acquired(error: &Error, args: &Lock) -> Failure {
    let why = match error.blocked() {
        Some(Blocked::Busy(busy)) => match &busy.holder {
            Some(holder) => {
                let by = if args.permits.is_some() { "all are held, one by" } else { "held by" };
                format!("{by} {}", show::holder(holder))
            }
            None => "the store hands it to another waiter".to_owned(),
        },
        Some(Blocked::Quarantined(quarantined)) => in_quarantine(quarantined),
        // A lock was lost during the wait for the others. Nothing has run.
        _ if error.is_lost() => {
            return Failure::busy(args.conflict_exit_code, Failure::of(error));
        }
        _ => return Failure::of(error),
    };
    let in_time = match args.wait {
        Wait::AtMost(wait) if !wait.is_zero() => format!(" within {}", format_duration(wait)),
        _ => String::new(),
    };
    let what = match args.permits {
        Some(permits) => format!("none of the {permits} permits of {:?}", args.name),
        // Of several locks, the one that was not acquired.
        None => format!("lock {:?} not", error.name().unwrap_or(&args.name)),
    };
    let message = format!("{what} acquired{in_time}: {why}");
    Failure::busy(args.conflict_exit_code, message)
}

fn in_quarantine(quarantine: &Quarantined) -> String {
    format!(
        "the store is in quarantine and grants nothing for another {}: {}",
        show::rounded(quarantine.remaining),
        show::why_quarantined(quarantine)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::FencingToken;

    use super::*;
    use crate::args::{Action, Parsed, Run, parse};
    use crate::exit::{NOT_ACQUIRED, UNAVAILABLE};

    fn refusal(options: &[&str], blocked: Option<Blocked>) -> Failure {
        let args = ["leasehold", "run"].iter().chain(options).chain(&["job", "--", "true"]);
        let Ok(Parsed::Cli(cli)) = parse(args) else { panic!("{options:?}") };
        let Action::Run(Run { lock, .. }) = cli.action else { panic!("{options:?}") };
        let error = Error::new(ErrorKind::Timeout, "not acquired in time");
        let error = match blocked {
            Some(blocked) => error.blocked_by(blocked),
            None => error,
        };
        not_acquired(&error, &lock)
    }

    #[test]
    fn a_quarantine_is_shown_with_its_cause_and_its_end() {
        let quarantined = Quarantined::new(Duration::from_secs(12), "the data was lost");
        let failure = refusal(&["--wait", "3s"], Some(Blocked::Quarantined(quarantined)));
        assert_eq!(failure.code, NOT_ACQUIRED);
        for word in
            ["\"job\"", "within 3s", "quarantine", "12s", "the data was lost", "init --first-use"]
        {
            assert!(failure.message.contains(word), "{word} in {failure}");
        }
    }

    #[test]
    fn a_store_that_does_not_show_the_holder_is_still_busy() {
        let busy = leasehold::Busy::new(None, FencingToken::ZERO, Duration::from_secs(1));
        let failure = refusal(&["--conflict-exit-code", "9"], Some(Blocked::Busy(busy)));
        assert_eq!(failure.code, 9);
        assert!(failure.message.contains("another waiter"), "{failure}");
    }

    #[test]
    fn a_store_that_did_not_answer_is_unreachable_and_not_busy() {
        assert_eq!(refusal(&["--wait", "3s"], None).code, UNAVAILABLE);
    }
}
