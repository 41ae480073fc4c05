//! `run`: acquires, runs COMMAND, and releases.

use std::ffi::OsString;

use humantime::format_duration;
use leasehold::Guards;

use super::lock::{lost, release, tokens, with_lock};
use crate::args::{Lock, Run, STORE};
use crate::chosen_store::ChosenStore;
use crate::exit::{self, Failure};
use crate::supervise::{self, ChildSpec, Ended, Signals};

pub(super) async fn run(place: &ChosenStore, args: Run) -> Result<u8, Failure> {
    let work =
        async |guards: Guards, signals: &mut Signals| job(guards, place, &args, signals).await;
    with_lock(place, &args.lock, std::future::pending(), work).await
}

/// Runs COMMAND under the lock, and releases it. Returns the exit code.
async fn job(guards: Guards, place: &ChosenStore, args: &Run, signals: &mut Signals) -> u8 {
    let mut command = args.command.iter().cloned();
    let mut env = environment(&guards, &args.lock);
    if args.pass_store {
        env.push((STORE.into(), place.url().expose().into()));
    }
    let spec = ChildSpec {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        // The store's URL may contain a password, which the job could print or log. The other two may come from a job that has
        // started this one.
        env_remove: [STORE, TOKENS, PERMIT].map(OsString::from).into(),
        env,
    };
    let lost = lost(&guards, &args.lock);
    let ended = supervise::run(spec, signals, lost, args.grace).await;
    let code = exit::of_job(&ended, format_duration(args.grace));
    if matches!(ended, Ended::Lost { .. }) {
        return code;
    }
    release(guards, &args.lock, code, &format!("; COMMAND had ended with exit code {code}")).await
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
