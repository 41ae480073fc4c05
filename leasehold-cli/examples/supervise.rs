//! Supervision without a lock, for tests: runs a command as `leasehold run` does.
//!
//! ```text
//! supervise [--lost FIFO] [--grace DURATION] COMMAND [ARGS…]
//! ```
//!
//! The lock counts as lost when another process opens FIFO for writing and closes it.

use std::error::Error;
use std::ffi::OsString;
use std::process::{ExitCode, exit};
use std::time::Duration;

use leasehold_cli::exit;
use leasehold_cli::supervise::{self, ChildSpec, Signals};

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
    let mut grace = Duration::from_secs(10);
    while let Some(option) = args.next_if(|arg| arg.to_string_lossy().starts_with("--")) {
        match option.to_str() {
            Some("--lost") => lost = args.next(),
            Some("--grace") => {
                let text = args.next().ok_or("--grace what?")?;
                grace = humantime::parse_duration(&text.to_string_lossy())?;
            }
            _ => return Err(format!("no such option: {option:?}").into()),
        }
    }
    let program = args.next().ok_or("which command?")?;
    let env = vec![("LEASEHOLD_TOKEN".into(), "42".into())];
    let spec = ChildSpec { program, args: args.collect(), env_remove: Vec::new(), env };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut signals = Signals::catch()?;
        let ended = supervise::run(spec, &mut signals, told(lost), grace).await;
        Ok(exit::of_job(&ended, humantime::format_duration(grace)))
    })
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
