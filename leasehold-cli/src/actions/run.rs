//! `run`: acquires, runs COMMAND, and releases.

use std::ffi::OsString;

use leasehold::{DueRun, Guards};

use super::lock::{Done, Locked, lost, release, tokens, validity, with_lock};
use super::once;
use crate::args::{Lock, Run, STORE};
use crate::chosen_store::ChosenStore;
use crate::exit::{self, Failure};
use crate::supervise::{self, ChildSpec, Ended, Signals, Tenure};

pub(super) async fn run(place: &ChosenStore, args: Run) -> Result<u8, Failure> {
    let wanted = async |client: &_| once::refuse_if_not_due(client, &args).await;
    let work =
        async |locked: Locked, signals: &mut Signals| match once::begin(&locked, &args, signals)
            .await
        {
            Ok(due) => job(locked, due, place, &args, signals).await,
            Err(code) if locked.guards.is_valid() => {
                Done::released(release(locked.guards, &args.lock, code, "").await)
            }
            Err(code) => Done::lost(code, &locked.guards, true),
        };
    with_lock(place, &args.lock, std::future::pending(), wanted, work).await
}

/// Runs COMMAND under the lock, records the end of a run that is `due` once per period, and
/// releases the lock.
async fn job(
    mut locked: Locked,
    due: Option<DueRun>,
    place: &ChosenStore,
    args: &Run,
    signals: &mut Signals,
) -> Done {
    let Locked { guards, renewals, .. } = &mut locked;
    let guards = &*guards;
    let latest = renewals.clone();
    let tenure = Tenure {
        validity: || validity(guards, &latest, &args.lock),
        lost: lost(guards, &args.lock),
        renewed: renewals,
    };
    let spec = spec(guards, due.as_ref(), place, args);
    let ended = supervise::run(spec, signals, tenure, args.graces()).await;
    let code = exit::of_job(&ended);
    match ended {
        Ended::Lost { .. } => Done::lost(code, guards, true),
        Ended::NotRenewed { .. } => {
            let renewed_since = renewals.has_changed().unwrap_or(false);
            Done::lost(code, guards, renewed_since)
        }
        _ => {
            let ended = format!("; COMMAND had ended with exit code {code}");
            let code = match due {
                Some(due) => match once::record(due, code).await {
                    Ok(code) => code,
                    Err(lost) => return Done::lost(lost, guards, true),
                },
                None => code,
            };
            Done::released(release(locked.guards, &args.lock, code, &ended).await)
        }
    }
}

fn spec(guards: &Guards, due: Option<&DueRun>, place: &ChosenStore, args: &Run) -> ChildSpec {
    let mut command = args.command.iter().cloned();
    let mut env = environment(guards, &args.lock);
    if let Some(due) = due {
        env.push((ATTEMPT.into(), due.attempt().to_string().into()));
    }
    if args.pass_store {
        env.push((STORE.into(), place.url().expose().into()));
    }
    ChildSpec {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        // The store's URL may contain a password, which the job could print or log. The others may
        // come from a job that has started this one.
        env_remove: [STORE, TOKENS, PERMIT, ATTEMPT].map(OsString::from).into(),
        env,
    }
}

const TOKENS: &str = "LEASEHOLD_TOKENS";
const PERMIT: &str = "LEASEHOLD_PERMIT";
const ATTEMPT: &str = "LEASEHOLD_ATTEMPT";

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
