//! The actions of the command, one file for each; `operate` has those for operators.

mod check;
mod dead_holder;
mod hand_over;
mod hold;
mod lock;
#[cfg(feature = "migrate")]
mod migrate;
mod once;
mod operate;
mod record;
mod renewals;
mod run;
mod schema;
mod shell;
mod waiting_line;
mod watch;

use crate::args::{Action, Cli};
use crate::chosen_store::ChosenStore;
use crate::exit::{Failure, cause};
use crate::{log, stderr};

/// Carries out the action of the arguments, reports its failure on stderr, and returns the exit
/// code.
#[must_use]
pub fn perform(cli: Cli) -> u8 {
    let started = log::start(cli.log_format);
    let done = started.and_then(|()| carry_out(cli));
    let code = done.unwrap_or_else(|failure| failure.report());
    stderr::finish();
    code
}

fn carry_out(cli: Cli) -> Result<u8, Failure> {
    let place = match &cli.action {
        Action::Completions(args) => return shell::completions(args),
        Action::Man(args) => return shell::man(args),
        // A migration has options of its own for its stores.
        Action::Migrate(_) => None,
        _ => Some(ChosenStore::of(cli.store.as_deref(), cli.store_file.as_deref())?),
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
            Failure::unavailable(format_args!("cannot start the runtime: {}", cause(&error)))
        })?;
    let code = runtime.block_on(async {
        match (cli.action, place) {
            #[cfg(feature = "migrate")]
            (Action::Migrate(args), _) => migrate::migrate(&args).await,
            #[cfg(not(feature = "migrate"))]
            (Action::Migrate(_), _) => Err(Failure::usage(
                "this build cannot migrate: add the cargo feature \"migrate\" of the command (cargo install \
                 leasehold-cli --features migrate, with the features of all stores that you use)",
            )),
            (Action::Run(args), Some(place)) => run::run(&place, args).await,
            (Action::Hold(args), Some(place)) => hold::hold(&place, &args).await,
            (Action::Init(args), Some(place)) => operate::init(&place, &args).await,
            (Action::Inspect(args), Some(place)) => operate::inspect(&place, &args).await,
            (Action::Record(args), Some(place)) => record::record(&place, &args).await,
            (Action::List(args), Some(place)) => match args.watch {
                None => operate::list(&place, args.output).await,
                Some(interval) => watch::watch(&place, interval, args.output).await,
            },
            (Action::Acquire(args), Some(place)) => hand_over::acquire(&place, &args).await,
            (Action::Renew(args), Some(place)) => hand_over::renew(&place, &args).await,
            (Action::Release(args), Some(place)) => match (&args.handle_file, &args.name) {
                (Some(file), _) => hand_over::release(&place, file).await,
                (None, Some(name)) => operate::release(&place, name, &args).await,
                (None, None) => Err(Failure::usage("no lock is named")),
            },
            (Action::Schema(output), Some(place)) => schema::schema(place.url(), output),
            (Action::Check(output), Some(place)) => check::check(&place, output).await,
            (_, _) => Err(Failure::usage("no store is named")),
        }
    });
    // A look-up of a host name that hangs must not delay the exit.
    runtime.shutdown_background();
    code
}
