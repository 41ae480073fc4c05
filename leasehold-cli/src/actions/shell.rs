//! `completions` and `man`, generated from the definition of the arguments.

use clap::CommandFactory as _;

use crate::args::{Cli, Completions, Man};
use crate::exit::Failure;
use crate::show::print;

const NAME: &str = "leasehold";

pub(super) fn completions(args: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn man(args: &Man) -> Result<u8, Failure> {
    let mut command = Cli::command();
    // Gives each action its full name and the global options.
    command.build();
    if let Some(action) = &args.action {
        let Some(found) = command.find_subcommand(action) else {
            let all: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
            return Err(Failure::usage(format_args!(
                "there is no action {action:?}; the actions are {}",
                all.join(", ")
            )));
        };
        command = found.clone();
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::unavailable(format_args!("cannot write the page: {error}")))?;
    print(&String::from_utf8_lossy(&page))
}
