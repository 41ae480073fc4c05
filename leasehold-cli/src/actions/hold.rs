//! `hold`: acquires, prints the token, and holds the lock until stdin ends.

use std::io;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::Guards;
use leasehold::backend::{Env as _, SystemEnv};
use rustix::fs::{FileType, fstat, major, minor};
use tokio::sync::oneshot;

use super::lock::{Done, Locked, lost, release, tokens, valid_until, with_lock};
use super::renewals::{Renewals, until_confirmed};
use crate::args::{Hold, Lock};
use crate::chosen_store::ChosenStore;
use crate::exit::{self, Failure, LOST, cause};
use crate::show::print_apart;
use crate::supervise::{Deadline, HoldWatcher, Signals, kill_margin};

pub(super) async fn hold(place: &ChosenStore, args: &Hold) -> Result<u8, Failure> {
    check_stdin()?;
    let stdin_ended = stdin_ended()?.shared();
    let given_up = async {
        stdin_ended.clone().await;
        let message = format!("lock {:?} not acquired: stdin ended before", args.lock.name);
        Failure::busy(args.lock.conflict_exit_code, message)
    };
    let work = async |locked: Locked, signals: &mut Signals| {
        let Locked { guards, mut renewals } = locked;
        let mut confirmed = renewals.clone();
        let holds = async {
            // The script begins its work when it has read the token.
            until_confirmed(&guards, &mut confirmed).await;
            print_and_wait(&guards, &args.lock, stdin_ended.clone()).await
        };
        let code = tokio::select! {
            biased;
            reason = lost(&guards, &args.lock) => {
                exit::complain(format_args!("lock lost: {reason}"));
                return Done::lost(LOST, &guards, true);
            }
            () = ends_soon(&guards, args.lock.lease, &mut renewals) => {
                exit::complain("lock lost: the store confirmed no renewal in time");
                return Done::lost(LOST, &guards, false);
            }
            signal = signals.asked_to_end() => exit::of_signal(signal),
            code = holds => code,
        };
        Done::released(release(guards, &args.lock, code, "").await)
    };
    with_lock(place, &args.lock, given_up, work).await
}

/// Waits until the validity is about to end, because no renewal was confirmed. It ends as early as `run`
/// kills a job, so that `hold` has said so and exited when the next holder begins. A watcher kills this
/// process if it is stopped or blocked then.
async fn ends_soon(guards: &Guards, lease: Duration, renewals: &mut Renewals) {
    let margin = kill_margin(lease);
    let deadline = || {
        let end = valid_until(guards);
        Deadline { term: end - margin, kill: end - margin / 2 }
    };
    let start = || match HoldWatcher::start(deadline(), lease) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            let cause = cause(&error);
            exit::complain(format_args!("cannot start a process that watches this one: {cause}"));
            None
        }
    };
    let mut watcher = start();
    loop {
        let failed = async {
            match &mut watcher {
                Some(watcher) => watcher.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = SystemEnv.sleep_until(deadline().term) => return,
            Ok(()) = renewals.changed() => match &mut watcher {
                Some(watcher) => watcher.extend(deadline()),
                None => watcher = start(),
            },
            // Another one is started with the next renewal, and not in a loop.
            () = failed => watcher = None,
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

/// Refuses a stdin that has already ended. The lock would be released at once, and the script would not notice.
fn check_stdin() -> Result<(), Failure> {
    let stat = fstat(io::stdin()).map_err(|error| {
        Failure::usage(format_args!("cannot look at stdin: {}", cause(&error.into())))
    })?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "a file",
        // The device number of /dev/null on Linux.
        FileType::CharacterDevice if (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3) => {
            "/dev/null"
        }
        _ => return Ok(()),
    };
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
