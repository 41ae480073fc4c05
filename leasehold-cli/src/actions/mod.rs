//! What each action does.

#[cfg(feature = "compare")]
mod compare;
mod migrate;
mod operate;
mod run;
mod tell;

use crate::args::{Action, Cli};
use crate::exit::{Failure, cause};
use crate::place::Place;

/// Does what the arguments say; the exit code.
///
/// # Errors
///
/// A failure of our own, to be reported on stderr.
pub fn perform(cli: Cli) -> Result<u8, Failure> {
    // A migration and a comparison name their stores themselves.
    let place = match &cli.action {
        Action::Migrate(_) | Action::Compare(_) => None,
        _ => Some(Place::of(cli.store.as_deref())?),
    };
    let runtime = runtime(&cli.action).enable_all().build().map_err(|error| {
        Failure::unavailable(format_args!("cannot start the runtime: {}", cause(&error)))
    })?;
    let code = runtime.block_on(async {
        match (cli.action, place) {
            (Action::Migrate(args), _) => migrate::migrate(&args).await,
            #[cfg(feature = "compare")]
            (Action::Compare(args), _) => compare::compare(&args).await,
            #[cfg(not(feature = "compare"))]
            (Action::Compare(_), _) => Err(Failure::usage(
                "this build cannot compare: add the cargo feature \"compare\" of leasehold-cli",
            )),
            (_, None) => Err(Failure::usage("no store is named")),
            (Action::Run(args), Some(place)) => run::run(&place, args).await,
            (Action::Init(args), Some(place)) => operate::init(&place, &args).await,
            (Action::Inspect(args), Some(place)) => operate::inspect(&place, &args).await,
            (Action::List(output), Some(place)) => operate::list(&place, output).await,
            (Action::Release(args), Some(place)) => operate::release(&place, &args).await,
            (Action::Schema(output), Some(place)) => tell::schema(place.url(), output),
            (Action::Check(output), Some(place)) => tell::check(&place, output).await,
        }
    });
    // A look-up of a host name that hangs must not keep us.
    runtime.shutdown_background();
    code
}

/// One thread is enough, but for a comparison, whose tasks stand for programs that have more.
fn runtime(action: &Action) -> tokio::runtime::Builder {
    #[cfg(feature = "compare")]
    if matches!(action, Action::Compare(_)) {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        return builder;
    }
    let _ = action;
    tokio::runtime::Builder::new_current_thread()
}
