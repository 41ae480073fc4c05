//! `leasehold run`: acquire, run COMMAND, release.

use std::ffi::OsString;

use humantime::format_duration;
use leasehold::{Blocked, Error, ErrorKind, Guard, LockClient, Quarantined, StoreSettings};

use crate::args::{Run, STORE, Wait};
use crate::exit::{self, Failure, cause};
use crate::place::{LAST_WAIT, Place};
use crate::show;
use crate::supervise::{self, ChildSpec, Ended, Signals};

pub(super) async fn run(place: &Place, args: Run) -> Result<u8, Failure> {
    if place.url().scheme() == "memory" {
        return Err(Failure::usage(
            "the store memory: is in this process alone, so a lock there excludes nobody; \
             name another with --store or LEASEHOLD_STORE",
        ));
    }
    let mut signals = Signals::catch().map_err(|error| {
        Failure::unavailable(format_args!("cannot catch signals: {}", cause(&error)))
    })?;
    let mut client = None;
    let acquired = tokio::select! {
        biased;
        signal = signals.asked_to_end() => Ok(Err(exit::of_signal(signal))),
        acquired = acquire(place, &args, &mut client) => acquired.map(Ok),
    };
    let code = match acquired {
        Ok(Ok(guard)) => Ok(hold(guard, place, args, &mut signals).await),
        Ok(Err(ended_by_signal)) => Ok(ended_by_signal),
        Err(failure) => Err(failure),
    };
    if let Some(client) = client {
        // Gives up a place in the queue, and what was granted to it meanwhile.
        tokio::select! {
            () = client.close() => {}
            () = tokio::time::sleep(LAST_WAIT) => {}
            // Whoever asks twice does not want to wait for a store that hangs.
            _ = signals.asked_to_end() => {}
        }
    }
    code
}

/// Connects, and acquires; the client is left behind for closing also when this is cut short.
async fn acquire(
    place: &Place,
    args: &Run,
    client: &mut Option<LockClient>,
) -> Result<Guard, Failure> {
    if place.is_new() {
        check_for_new_store(args)?;
    }
    let client = client.insert(LockClient::new(place.open().await?));
    let mut lock = client.lock(&args.name).lease(args.lease);
    if !args.at_least.is_zero() {
        lock = lock.at_least(args.at_least);
    }
    if let Wait::AtMost(wait) = args.wait {
        lock = lock.wait(wait);
    }
    let (longest, limit) = (client.guarantees().longest_lease, args.quarantine_wait);
    let lock = lock.wait_for_quarantine(move |quarantine| {
        // Another loss of data begins another quarantine, which is waited for as far as the first might have lasted.
        let limit = limit.unwrap_or(quarantine.remaining.max(longest));
        if !limit.is_zero() {
            exit::complain(format_args!(
                "{}; waiting for its end, at most {} (--quarantine-wait 0s: not at all)",
                in_quarantine(quarantine),
                show::rounded(limit)
            ));
        }
        limit
    });
    lock.acquire().await.map_err(|error| not_acquired(&error, args))
}

/// What a store would refuse that is not there yet: told before its directory is made.
fn check_for_new_store(args: &Run) -> Result<(), Failure> {
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

fn not_acquired(error: &Error, args: &Run) -> Failure {
    let why = match error.blocked() {
        Some(Blocked::Busy(busy)) => match &busy.holder {
            Some(holder) => format!("held by {}", show::holder(holder)),
            None => "it is being handed to another".to_owned(),
        },
        Some(Blocked::Quarantined(quarantined)) => format!(
            "{}; if nobody can hold a lock, `leasehold init --first-use` ends it",
            in_quarantine(quarantined)
        ),
        _ => return Failure::of(error),
    };
    let in_time = match args.wait {
        Wait::AtMost(wait) if !wait.is_zero() => format!(" within {}", format_duration(wait)),
        _ => String::new(),
    };
    let message = format!("lock {:?} not acquired{in_time}: {why}", args.name);
    Failure { code: args.conflict_exit_code, message }
}

fn in_quarantine(quarantine: &Quarantined) -> String {
    format!(
        "the store is in quarantine and grants nothing for another {}: {}",
        show::rounded(quarantine.remaining),
        quarantine.why
    )
}

/// Runs COMMAND under the lock, and releases it; the exit code.
async fn hold(guard: Guard, place: &Place, args: Run, signals: &mut Signals) -> u8 {
    let mut command = args.command.into_iter();
    let mut env = environment(&guard);
    if args.pass_store {
        env.push((STORE.into(), place.url().expose().into()));
    }
    let spec = ChildSpec {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        // It may hold a password, which a job may print, log or hand on.
        env_remove: vec![STORE.into()],
        env,
    };
    let lost = async { guard.lost().await.to_string() };
    let ended = supervise::run(spec, signals, lost, args.grace).await;
    let code = exit::of_job(&ended, format_duration(args.grace));
    if matches!(ended, Ended::Lost { .. }) {
        return code;
    }
    match guard.release().await {
        Ok(()) => code,
        Err(error) if matches!(error.kind(), ErrorKind::Lost | ErrorKind::NotHeld) => {
            let Failure { code: lost, message } = Failure::of(&error);
            exit::complain(format_args!("{message}; COMMAND had ended with exit code {code}"));
            lost
        }
        // COMMAND was covered to its end.
        Err(error) => {
            exit::complain(format_args!(
                "{}; the lock ends with its lease, in {} at most",
                Failure::of(&error),
                format_duration(args.lease.max(args.at_least))
            ));
            code
        }
    }
}

fn environment(guard: &Guard) -> Vec<(OsString, OsString)> {
    vec![
        ("LEASEHOLD_NAME".into(), guard.name().as_str().into()),
        ("LEASEHOLD_TOKEN".into(), guard.token().to_string().into()),
        ("LEASEHOLD_OWNER".into(), guard.owner().to_string().into()),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::FencingToken;

    use super::*;
    use crate::args::{Action, Parsed, parse};
    use crate::exit::{NOT_ACQUIRED, UNAVAILABLE};

    fn refusal(options: &[&str], blocked: Option<Blocked>) -> Failure {
        let args = ["leasehold", "run"].iter().chain(options).chain(&["job", "--", "true"]);
        let Ok(Parsed::Cli(cli)) = parse(args) else { panic!("{options:?}") };
        let Action::Run(args) = cli.action else { panic!("{options:?}") };
        let error = Error::new(ErrorKind::Timeout, "not acquired in time");
        let error = match blocked {
            Some(blocked) => error.blocked_by(blocked),
            None => error,
        };
        not_acquired(&error, &args)
    }

    #[test]
    fn a_quarantine_is_told_with_its_reason_and_its_end() {
        let quarantined =
            Quarantined { remaining: Duration::from_secs(12), why: "the data was lost".into() };
        let failure = refusal(&["--wait", "3s"], Some(Blocked::Quarantined(quarantined)));
        assert_eq!(failure.code, NOT_ACQUIRED);
        for word in
            ["\"job\"", "within 3s", "quarantine", "12s", "the data was lost", "init --first-use"]
        {
            assert!(failure.message.contains(word), "{word} in {failure}");
        }
    }

    #[test]
    fn a_store_that_does_not_tell_the_holder_is_still_busy() {
        let busy = leasehold::Busy {
            holder: None,
            token: FencingToken::ZERO,
            retry_after: Duration::from_secs(1),
        };
        let failure = refusal(&["--conflict-exit-code", "9"], Some(Blocked::Busy(busy)));
        assert_eq!(failure.code, 9);
        assert!(failure.message.contains("handed to another"), "{failure}");
    }

    #[test]
    fn a_store_that_did_not_answer_is_unreachable_and_not_busy() {
        assert_eq!(refusal(&["--wait", "3s"], None).code, UNAVAILABLE);
    }
}
