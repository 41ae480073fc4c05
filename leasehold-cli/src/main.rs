//! The `leasehold` command.

use std::process::ExitCode;

use leasehold_cli::args::{Parsed, parse};
use leasehold_cli::{perform, supervise};

fn main() -> ExitCode {
    if let Some(code) = supervise::reentered() {
        return code;
    }
    match parse(std::env::args_os()) {
        // This can fail only if stdout is closed, and then nobody reads it.
        Ok(Parsed::Text(text)) => {
            let _ = text.print();
            ExitCode::SUCCESS
        }
        Ok(Parsed::Cli(cli)) => perform(*cli).into(),
        Err(failure) => failure.report().into(),
    }
}
