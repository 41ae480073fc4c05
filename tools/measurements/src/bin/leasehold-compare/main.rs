//! The command `leasehold-compare`: it measures stores side by side.

mod args;
mod compare;
mod page_file;
mod tunables;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use leasehold_cli::args::{Parsed, parse, refusal};
use leasehold_cli::exit::Failure;

use self::args::Compare;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match act(&args) {
        Ok(code) => code.into(),
        Err(failure) => failure.report().into(),
    }
}

fn act(args: &[OsString]) -> Result<u8, Failure> {
    // This process holds a lock for another `leasehold-compare`, which kills it.
    if args.get(1).is_some_and(|action| action == "hold") {
        return match parse(args)? {
            Parsed::Cli(cli) => Ok(leasehold_cli::perform(*cli)),
            Parsed::Text(text) => leasehold_cli::print(&text.to_string()),
        };
    }
    let matches = Compare::command().try_get_matches_from(args);
    let args = match matches.and_then(|matches| Compare::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(text) if matches!(text.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return leasehold_cli::print(&text.to_string());
        }
        Err(error) => return Err(refusal(&error, args, "leasehold-compare")),
    };
    // Two threads, as in a program that uses several.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::unavailable(format_args!("cannot start the runtime: {error}")))?;
    let code = runtime.block_on(compare::compare(&args));
    // A look-up of a host name that hangs must not delay the end.
    runtime.shutdown_background();
    code
}
