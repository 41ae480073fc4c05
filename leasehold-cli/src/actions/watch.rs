//! `list --watch`: shows the held locks again and again, with their ages and waiters.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold::{Backend, Error, LockClient, LockState};
use serde_json::json;
use terminal_size::{Height, terminal_size_of};
use tokio::sync::mpsc;

use super::operate::is_lock;
use crate::args::Output;
use crate::chosen_store::{ChosenStore, close};
use crate::exit::{self, Failure, cause};
use crate::json;
use crate::show::{self, print};
use crate::supervise::Signals;
use crate::sys::Keyboard;
use crate::tunables::MOST_INSPECTED;

pub(super) async fn watch(
    place: &ChosenStore,
    interval: Duration,
    output: Output,
) -> Result<u8, Failure> {
    let mut signals = Signals::catch().map_err(|error| {
        Failure::unavailable(format_args!("cannot catch signals: {}", cause(&error)))
    })?;
    let store = place.open().await?;
    let client = LockClient::new(Arc::clone(&store));
    let mut screen = Screen::open();
    let looking = async {
        // If the first read fails, the command fails. Later errors are shown.
        let mut first = true;
        loop {
            let text = match read(&client, &*store).await {
                Ok((locks, now)) if output.json => json::line(&aged(&locks, now))?,
                Ok((locks, now)) => show::watched(&locks, now),
                Err(error) if first => return Err(Failure::of(&error)),
                Err(error) if output.json => json::line(&json!({ "error": format!("{error:#}") }))?,
                Err(error) => format!("{}\n", exit::one_line(&format!("{error:#}"))),
            };
            first = false;
            if !screen.draw(&text, output)? {
                return Ok(0);
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = screen.quit() => return Ok(0),
            }
        }
    };
    let ended = tokio::select! {
        biased;
        signal = signals.asked_to_end() => Ok(exit::of_signal(signal)),
        ended = looking => ended,
    };
    drop(screen);
    close(&*store).await;
    ended
}

/// The held locks, with their waiters if the store knows them, and the store's clock in µs.
async fn read(client: &LockClient, store: &dyn Backend) -> Result<(Vec<LockState>, u64), Error> {
    let mut locks = client.list().await?;
    locks.retain(is_lock);
    for state in locks.iter_mut().filter(|state| state.waiting.is_none()).take(MOST_INSPECTED) {
        if let Some(now) = client.inspect(state.name.clone()).await? {
            state.waiting = now.waiting;
        }
    }
    let ahead = store.clock_difference_micros().await?.unwrap_or(0);
    let here = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros();
    Ok((locks, u64::try_from(here).unwrap_or(0).saturating_add_signed(ahead)))
}

/// A lock with its age, if its token is a time.
#[derive(serde::Serialize)]
struct Aged<'a> {
    #[serde(flatten)]
    state: &'a LockState,
    held_for_ms: Option<u64>,
}

fn aged(locks: &[LockState], now: u64) -> Vec<Aged<'_>> {
    let ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    locks.iter().map(|state| Aged { state, held_for_ms: show::age(state, now).map(ms) }).collect()
}

/// Where the lists are shown: on a terminal, each replaces the last one; elsewhere, one after the
/// other.
struct Screen {
    terminal: Option<(Keyboard, mpsc::UnboundedReceiver<u8>)>,
    drawn: bool,
}

impl Screen {
    fn open() -> Self {
        let both = io::stdin().is_terminal() && io::stdout().is_terminal();
        Self { terminal: both.then(Keyboard::open).and_then(Result::ok), drawn: false }
    }

    /// Shows a list. `false` if nobody reads any more.
    fn draw(&mut self, text: &str, output: Output) -> Result<bool, Failure> {
        let first = !std::mem::replace(&mut self.drawn, true);
        let Some(_) = &self.terminal else {
            let between = if first || output.json { "" } else { "\n" };
            return print(&format!("{between}{text}")).map(|code| code == 0);
        };
        // Starts at the first line and clears the rest. Long lines are cut, not wrapped.
        let rows: usize =
            terminal_size_of(io::stdout()).map_or(24, |(_, Height(rows))| rows.max(3)).into();
        let lines: Vec<_> = text.lines().collect();
        let shown = if lines.len() < rows { lines.len() } else { rows - 2 };
        let mut page = "\x1b[?7l\x1b[H".to_owned();
        for line in &lines[..shown] {
            page += &format!("{line}\x1b[K\r\n");
        }
        if shown < lines.len() {
            page += &format!("and {} more\x1b[K\r\n", lines.len() - shown);
        }
        page += "\x1b[J\x1b[?7h";
        print(&page).map(|code| code == 0)
    }

    /// Waits until the user types q.
    async fn quit(&mut self) {
        let Some((_, keys)) = &mut self.terminal else { return std::future::pending().await };
        while let Some(key) = keys.recv().await {
            if matches!(key, b'q' | b'Q') {
                return;
            }
        }
        // The keyboard is gone. A signal reports the end of the terminal.
        std::future::pending().await
    }
}
