//! Supervision without a lock, for tests: runs a command as `leasehold run` does.
//!
//! ```text
//! supervise [--lost FIFO] [--grace DURATION] [--shutdown DURATION] COMMAND [ARGS…]
//! ```
//!
//! The lock counts as lost when another process opens FIFO for writing and closes it.

use std::error::Error;
use std::ffi::OsString;
use std::process::{ExitCode, exit};
use std::time::Duration;

use leasehold::backend::{Env as _, SystemEnv};
use leasehold_cli::exit;
use leasehold_cli::supervise::{self, ChildSpec, Graces, Signals, Tenure, Validity};
use tokio::sync::watch;

/// The lease of the lock, which is never renewed. No test runs so long.
const LEASE: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    if let Some(code) = supervise::reentered() {
        return code;
    }
    match start() {
        // Not by returning: a thread may still wait for the fifo.
        Ok(code) => exit(code.into()),
        Err(error) => {
            exit::complain(error);
            exit::USAGE.into()
        }
    }
}

fn start() -> Result<u8, Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).peekable();
    let mut lost = None;
    let (mut lost_grace, mut shutdown) = (Duration::from_secs(1), None);
    while let Some(option) = args.next_if(|arg| arg.to_string_lossy().starts_with("--")) {
        match option.to_str() {
            Some("--lost") => lost = args.next(),
            Some("--grace") => lost_grace = span(args.next())?,
            Some("--shutdown") => shutdown = Some(span(args.next())?),
            _ => return Err(format!("no such option: {option:?}").into()),
        }
    }
    let program = args.next().ok_or("which command?")?;
    let env = vec![("LEASEHOLD_TOKEN".into(), "42".into())];
    let spec = ChildSpec { program, args: args.collect(), env_remove: Vec::new(), env };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut signals = Signals::catch()?;
        let validity = Validity { end: SystemEnv.now() + LEASE, lease: LEASE };
        let graces = Graces { not_renewed: Duration::ZERO, lost: lost_grace, shutdown };
        let (_renew, mut renewed) = watch::channel(());
        let tenure = Tenure { validity: || validity, renewed: &mut renewed, lost: told(lost) };
        Ok(exit::of_job(&supervise::run(spec, &mut signals, tenure, graces).await))
    })
}

fn span(value: Option<OsString>) -> Result<Duration, Box<dyn Error>> {
    Ok(humantime::parse_duration(&value.ok_or("how long?")?.to_string_lossy())?)
}

async fn told(fifo: Option<OsString>) -> String {
    match fifo {
        Some(fifo) => {
            // Reading blocks until there is a writer, and ends with the last one.
            let _ = tokio::task::spawn_blocking(move || std::fs::read(fifo)).await;
            "told so".to_owned()
        }
        None => std::future::pending().await,
    }
}
