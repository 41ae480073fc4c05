//! What each action does.

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
    let place = Place::of(cli.store.as_deref())?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
            Failure::unavailable(format_args!("cannot start the runtime: {}", cause(&error)))
        })?;
    let code = runtime.block_on(async {
        match cli.action {
            Action::Run(args) => run::run(&place, args).await,
            Action::Init(args) => operate::init(&place, &args).await,
            Action::Inspect(args) => operate::inspect(&place, &args).await,
            Action::List(output) => operate::list(&place, output).await,
            Action::Release(args) => operate::release(&place, &args).await,
            Action::Schema(output) => tell::schema(place.url(), output),
            Action::Check(output) => tell::check(&place, output).await,
        }
    });
    // A look-up of a host name that hangs must not keep us.
    runtime.shutdown_background();
    code
}
