//! `run`: acquires, runs COMMAND, and releases.

use std::ffi::OsString;

use leasehold::Guards;

use super::lock::{Done, Locked, lost, release, tokens, validity, with_lock};
use crate::args::{Lock, Run, STORE};
use crate::chosen_store::ChosenStore;
use crate::exit::{self, Failure};
use crate::supervise::{self, ChildSpec, Ended, Signals, Tenure};

pub(super) async fn run(place: &ChosenStore, args: Run) -> Result<u8, Failure> {
    let work =
        async |locked: Locked, signals: &mut Signals| job(locked, place, &args, signals).await;
    with_lock(place, &args.lock, std::future::pending(), work).await
}

/// Runs COMMAND under the lock, and releases it.
async fn job(mut locked: Locked, place: &ChosenStore, args: &Run, signals: &mut Signals) -> Done {
    let Locked { guards, renewals } = &mut locked;
    let guards = &*guards;
    let latest = renewals.clone();
    let tenure = Tenure {
        validity: || validity(guards, &latest, &args.lock),
        lost: lost(guards, &args.lock),
        renewed: renewals,
    };
    let ended = supervise::run(spec(guards, place, args), signals, tenure, args.graces()).await;
    let code = exit::of_job(&ended);
    match ended {
        Ended::Lost { .. } => Done::lost(code, guards, true),
        Ended::NotRenewed { .. } => {
            let renewed_since = renewals.has_changed().unwrap_or(false);
            Done::lost(code, guards, renewed_since)
        }
        _ => {
            let ended = format!("; COMMAND had ended with exit code {code}");
            Done::released(release(locked.guards, &args.lock, code, &ended).await)
        }
    }
}

fn spec(guards: &Guards, place: &ChosenStore, args: &Run) -> ChildSpec {
    let mut command = args.command.iter().cloned();
    let mut env = environment(guards, &args.lock);
    if args.pass_store {
        env.push((STORE.into(), place.url().expose().into()));
    }
    ChildSpec {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        // The store's URL may contain a password, which the job could print or log. The other two
        // may come from a job that has started this one.
        env_remove: [STORE, TOKENS, PERMIT].map(OsString::from).into(),
        env,
    }
}

const TOKENS: &str = "LEASEHOLD_TOKENS";
const PERMIT: &str = "LEASEHOLD_PERMIT";

fn environment(guards: &Guards, args: &Lock) -> Vec<(OsString, OsString)> {
    let mut env = vec![("LEASEHOLD_NAME".into(), args.name.as_str().into())];
    if let Some(first) = guards.first() {
        env.push(("LEASEHOLD_TOKEN".into(), first.token().to_string().into()));
        env.push(("LEASEHOLD_OWNER".into(), first.owner().to_string().into()));
        if args.permits.is_some() {
            env.push((PERMIT.into(), first.name().as_str().into()));
        }
    }
    if !args.also.is_empty() {
        env.push((TOKENS.into(), tokens(guards).into()));
    }
    env
}
