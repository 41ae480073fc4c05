//! `run --once-per`: whether COMMAND is due, and the record of its run.

use humantime::format_duration;
use leasehold::{Decision, DueRun, Error, IfUnknown, LastRun, LockClient, Once, RunState};

use super::lock::{Locked, is_loss};
use crate::args::{IfUnknown as Then, Run};
use crate::exit::{self, Failure, LOST, UNAVAILABLE};
use crate::show;
use crate::supervise::Signals;

/// What `--once-per` and its options ask for; `None` without them.
fn wanted(client: &LockClient, args: &Run) -> Option<Once> {
    let once = client.lock(&args.lock.name).lease(args.lock.lease).once_per(args.once_per?);
    let once = if args.at_most_once { once.at_most_once() } else { once };
    Some(match args.if_unknown {
        Some(Then::Run) => once.if_unknown(IfUnknown::Run),
        Some(Then::Fail) => once.if_unknown(IfUnknown::Fail),
        None => once,
    })
}

/// Fails if COMMAND has run, or the store cannot remember that it has. This needs no lock.
pub(super) async fn refuse_if_not_due(client: &LockClient, args: &Run) -> Result<(), Failure> {
    let Some(once) = wanted(client, args) else { return Ok(()) };
    match once.not_due().await {
        Ok(None) => Ok(()),
        Ok(Some(last)) => Err(not_due(&once, &last, args)),
        Err(error) => Err(Failure::of(&error)),
    }
}

/// Begins the run, and tells the store so. Otherwise says why not, and returns the exit code.
pub(super) async fn begin(
    locked: &Locked,
    args: &Run,
    signals: &mut Signals,
) -> Result<Option<DueRun>, u8> {
    let Some(once) = wanted(&locked.client, args) else { return Ok(None) };
    // A second guard of the lock: the first one stays with the command until the job has ended.
    let guard = locked.guards.first().map(leasehold::Guard::reenter).transpose();
    let begun = async {
        match guard? {
            Some(guard) => once.clone().begin_with(guard).await.map(Some),
            None => Ok(None),
        }
    };
    let decision = tokio::select! {
        biased;
        decision = begun => decision,
        signal = signals.asked_to_end() => return Err(exit::of_signal(signal)),
    };
    let name = &args.lock.name;
    let within = args.once_per.map(format_duration).map(|period| period.to_string());
    let unknown =
        format!("it is unknown whether {name:?} has run within {}", within.unwrap_or_default());
    let failure = match decision {
        Ok(None) => return Ok(None),
        Ok(Some(Decision::Due(run))) => {
            if let Some(why) = run.doubt() {
                exit::notify(format_args!("{unknown}: {why}; it runs now"));
            }
            return Ok(Some(run));
        }
        Ok(Some(Decision::NotDue(last))) => not_due(&once, &last, args),
        Ok(Some(Decision::Unknown(it))) => {
            let last = it.last.map_or_else(String::new, |last| format!("; before, {}", ran(&last)));
            let why = it.why;
            Failure::unavailable(format_args!("{unknown}: {why}{last}; --if-unknown run runs it"))
        }
        Err(error) => not_begun(&error, args),
    };
    Err(failure.report())
}

/// The failure of a run that has not begun.
fn not_begun(error: &Error, args: &Run) -> Failure {
    let Failure { code, message, .. } = Failure::of(error);
    let message = format!("COMMAND was not started: {message}");
    if is_loss(error) {
        Failure::busy(args.lock.conflict_exit_code, message)
    } else {
        Failure::new(code, message)
    }
}

/// Records the exit code of COMMAND, and returns that of leasehold; as an error, if the lock was
/// lost.
pub(super) async fn record(due: DueRun, code: u8) -> Result<u8, u8> {
    let Err(error) = due.exited(code).await else { return Ok(code) };
    let Failure { message, .. } = Failure::of(&error);
    let ended = format!("COMMAND had ended with exit code {code}");
    if is_loss(&error) {
        exit::complain(format_args!("{message}; {ended}, which is not recorded"));
        return Err(LOST);
    }
    exit::complain(format_args!(
        "{message}; {ended}, and this may not be recorded: the next job may run again"
    ));
    Ok(if code == 0 { UNAVAILABLE } else { code })
}

fn not_due(once: &Once, last: &LastRun, args: &Run) -> Failure {
    let (name, ran, again) = (&args.lock.name, ran(last), once.due_again(last));
    let message = format!("{name:?} is not due: {ran}; it is due again at {again}");
    Failure::busy(args.done_exit_code, message)
}

/// When and where a run took place.
fn ran(last: &LastRun) -> String {
    let attempt = match last.attempt {
        1 => String::new(),
        attempt => format!(" (attempt {attempt})"),
    };
    let (began, by) = (last.began, show::quoted(&last.label));
    match (last.state, last.ended) {
        (RunState::Done, Some(ended)) => format!("{by} ran it from {began} to {ended}{attempt}"),
        (RunState::Failed, Some(ended)) => {
            format!("it failed on {by}, from {began} to {ended}{attempt}")
        }
        _ => format!("{by} began it at {began}{attempt}"),
    }
}
