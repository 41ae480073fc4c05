//! `hold`: acquires, prints the token, and holds the lock until stdin ends.

use std::io;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::Guards;
use leasehold::backend::{Env as _, Instant, SystemEnv};
use tokio::sync::oneshot;

use super::lock::{Done, Locked, lost, release, tokens, validity, with_lock};
use super::renewals::Renewals;
use crate::args::{Hold, Lock};
use crate::chosen_store::ChosenStore;
use crate::exit::{self, Failure, LOST, cause};
use crate::show::print_apart;
use crate::supervise::{Deadline, HoldWatcher, Signals, Validity};
use crate::sys;

pub(super) async fn hold(place: &ChosenStore, args: &Hold) -> Result<u8, Failure> {
    check_stdin()?;
    let stdin_ended = stdin_ended()?.shared();
    let given_up = async {
        stdin_ended.clone().await;
        let message = format!("lock {:?} not acquired: stdin ended before", args.lock.name);
        Failure::busy(args.lock.conflict_exit_code, message)
    };
    let work = async |locked: Locked, signals: &mut Signals| {
        let Locked { guards, mut renewals, .. } = locked;
        let latest = renewals.clone();
        let validity = || validity(&guards, &latest, &args.lock);
        let mut watcher = watch(validity());
        let held = tokio::select! {
            biased;
            reason = lost(&guards, &args.lock) => {
                exit::complain(format_args!("lock lost: {reason}"));
                Err(Done::lost(LOST, &guards, true))
            }
            () = ends_soon(validity, &mut renewals, &mut watcher) => {
                exit::complain("lock lost: the store confirmed no renewal in time");
                Err(Done::lost(LOST, &guards, false))
            }
            signal = signals.asked_to_end() => Ok(exit::of_signal(signal)),
            code = print_and_wait(&guards, &args.lock, stdin_ended.clone()) => Ok(code),
        };
        let done = match held {
            Ok(code) => {
                let ends = deadline(validity()).term;
                release_in_time(guards, &args.lock, code, ends).await
            }
            Err(lost) => Err(lost),
        };
        done.unwrap_or_else(|not_released| {
            // It watches until this process has ended.
            std::mem::forget(watcher);
            not_released
        })
    };
    with_lock(place, &args.lock, given_up, async |_| Ok(()), work).await
}

/// When `hold` exits by itself, and when its watcher kills it. It exits as early as `run` kills a
/// job, so that it has said so and exited when the next holder begins.
fn deadline(validity: Validity) -> Deadline {
    Deadline { term: Deadline::of(validity, Duration::ZERO).term, kill: validity.overdue() }
}

/// Starts the process that kills this one if it is stopped or blocked at the deadline.
fn watch(validity: Validity) -> Option<HoldWatcher> {
    let started = HoldWatcher::start(deadline(validity), validity.lease);
    let started = started.inspect_err(|error| {
        let cause = cause(error);
        exit::complain(format_args!("cannot start a process that watches this one: {cause}"));
    });
    started.ok()
}

/// Waits until the validity is about to end, because no renewal was confirmed.
async fn ends_soon(
    validity: impl Fn() -> Validity,
    renewals: &mut Renewals,
    watcher: &mut Option<HoldWatcher>,
) {
    loop {
        let failed = async {
            match watcher {
                Some(watcher) => watcher.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = SystemEnv.sleep_until(deadline(validity()).term) => return,
            Ok(()) = renewals.changed() => match watcher {
                Some(watcher) => watcher.extend(deadline(validity())),
                None => *watcher = watch(validity()),
            },
            // Another one is started with the next renewal, and not in a loop.
            () = failed => *watcher = None,
        }
    }
}

/// Releases. An error if the store has not answered when the validity is about to end: another
/// holder may begin then.
async fn release_in_time(
    guards: Guards,
    args: &Lock,
    code: u8,
    ends: Instant,
) -> Result<Done, Done> {
    tokio::select! {
        biased;
        code = release(guards, args, code, "") => Ok(Done::released(code)),
        () = SystemEnv.sleep_until(ends) => {
            exit::complain("the store did not answer to the release; the lock ends with its lease");
            Err(Done { code, close_limit: Duration::ZERO })
        }
    }
}

/// Prints the tokens, and waits for the end of stdin. Returns the exit code.
async fn print_and_wait(guards: &Guards, args: &Lock, stdin_ended: impl Future<Output = ()>) -> u8 {
    let permit = guards.first().filter(|_| args.permits.is_some());
    let permit = permit.map(|permit| format!(" {}", permit.name())).unwrap_or_default();
    match print_apart(format!("{}{permit}\n", tokens(guards))).await {
        Ok(code) => {
            stdin_ended.await;
            code
        }
        Err(failure) => {
            exit::complain(&failure);
            failure.code
        }
    }
}

/// Refuses a stdin that has already ended. The lock would be released at once, and the script would
/// not notice.
fn check_stdin() -> Result<(), Failure> {
    let unfit = sys::unfit_stdin()
        .map_err(|error| Failure::usage(format_args!("cannot look at stdin: {}", cause(&error))))?;
    let Some(what) = unfit else { return Ok(()) };
    Err(Failure::usage(format_args!(
        "stdin is {what}, and must be a pipe, a socket or a terminal: hold releases the lock when \
         stdin ends; see 'leasehold hold --help'"
    )))
}

/// Reads stdin to its end, on a thread that ends with the process.
fn stdin_ended() -> Result<impl Future<Output = ()>, Failure> {
    let (tell, ended) = oneshot::channel();
    let read = move || {
        // A stdin that cannot be read counts as ended.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = tell.send(());
    };
    thread::Builder::new().spawn(read).map_err(|error| {
        Failure::unavailable(format_args!("cannot start a thread: {}", cause(&error)))
    })?;
    Ok(ended.map(|_| ()))
}
