//! `--wait` on a terminal: who holds the lock, since when, and how long this has waited, on one
//! line that is written again and again.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use humantime::format_duration;
use leasehold::{Backend, LockName, LockState};
use terminal_size::{Width, terminal_size_of};

use crate::args::Lock;
use crate::tunables::{INSPECT_EVERY, WAITING_LINE_EVERY};
use crate::{show, stderr};

/// Shows the line until this is dropped, which erases it. Shows nothing if stderr is no terminal.
pub(super) async fn show(store: Arc<dyn Backend>, args: &Lock) -> Infallible {
    // The name of a permit that is in the way is not known.
    if !io::stderr().is_terminal() || args.permits.is_some() {
        return std::future::pending().await;
    }
    let line = WaitingLine;
    let begin = Instant::now();
    let mut holder = None;
    let mut inspected: Option<Instant> = None;
    loop {
        // The first second shows nothing: most waits are over by then.
        tokio::time::sleep(WAITING_LINE_EVERY).await;
        if inspected.is_none_or(|at| at.elapsed() >= INSPECT_EVERY) {
            inspected = Some(Instant::now());
            // If the store does not answer, the last answer stays.
            if let Ok(Ok(found)) =
                tokio::time::timeout(INSPECT_EVERY, first_held(&*store, args)).await
            {
                holder = found;
            }
        }
        line.draw(holder.as_ref(), args, begin.elapsed());
    }
}

/// The first of the locks that is held, and since when.
async fn first_held(
    store: &dyn Backend,
    args: &Lock,
) -> Result<Option<(LockState, SystemTime)>, leasehold::Error> {
    for name in args.names() {
        let Some(state) = store.inspect(name).await?.filter(|state| state.holder.is_some()) else {
            continue;
        };
        let ahead = store.clock_difference_micros().await?.unwrap_or(0);
        let here = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
        let now = u64::try_from(here).unwrap_or(0).saturating_add_signed(ahead);
        let age = show::age(&state, now).unwrap_or_default();
        return Ok(Some((state, SystemTime::now() - age)));
    }
    Ok(None)
}

/// The line on the terminal.
struct WaitingLine;

impl WaitingLine {
    fn draw(&self, held: Option<&(LockState, SystemTime)>, args: &Lock, waited: Duration) {
        let text = text(held, &args.name, waited);
        // A longer line would be wrapped, and could not be erased.
        let width = terminal_size_of(io::stderr()).map_or(80, |(Width(width), _)| width.into());
        stderr::show_status(Some(text.chars().take(width - 1).collect()));
    }
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        stderr::show_status(None);
    }
}

fn text(held: Option<&(LockState, SystemTime)>, name: &LockName, waited: Duration) -> String {
    let waited = format_duration(Duration::from_secs(waited.as_secs()));
    let Some((state, since)) = held else {
        return format!("leasehold: waiting for {:?} for {waited}", name.as_str());
    };
    let holder = state.holder.as_ref().map(|holder| show::quoted(&holder.label));
    let age = since.elapsed().unwrap_or_default().as_secs();
    let age = if age == 0 {
        String::new()
    } else {
        format!(" for {}", format_duration(Duration::from_secs(age)))
    };
    format!(
        "leasehold: waiting for {waited}: {:?} is held by {}{age}",
        state.name.as_str(),
        holder.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use leasehold::{FencingToken, Holder, OwnerId, OwnerLabel};

    use super::*;

    #[test]
    fn the_line_names_the_holder_and_both_times() {
        let name = LockName::new("job").unwrap();
        let waited = Duration::from_millis(61_900);
        assert_eq!(text(None, &name, waited), "leasehold: waiting for \"job\" for 1m 1s");
        let label = OwnerLabel::new("host:1").unwrap();
        let holder = Holder::new(OwnerId::from_bits(1), label, Duration::from_secs(9));
        let state = LockState::new(name.clone(), Some(holder), FencingToken::ZERO);
        let since = SystemTime::now() - Duration::from_secs(7_200);
        let text = text(Some(&(state, since)), &name, waited);
        assert!(
            text.starts_with("leasehold: waiting for 1m 1s: \"job\" is held by \"host:1\" for 2h"),
            "{text}"
        );
    }
}
