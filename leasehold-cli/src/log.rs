//! The log on stderr: the library's warnings, and with JSON also the events of locks.

use std::io::{self, Write};

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::LogFormat;
use crate::exit::{Failure, cause};
use crate::{exit, json, show, stderr};

/// The target of all our lines. Those of our dependencies are not logged, because they may show
/// what must stay secret, such as the text of a statement.
const OURS: &str = "leasehold";

/// Starts the log, and the thread that writes it. The JSON format, which is for programs, also has
/// each event of a lock. Only the first call of a process has an effect.
///
/// # Errors
///
/// If no thread can be started.
pub(crate) fn start(format: LogFormat) -> Result<(), Failure> {
    stderr::start(exit::lines_are_missing).map_err(|error| {
        Failure::unavailable(format_args!("cannot start a thread: {}", cause(&error)))
    })?;
    let ours = |level| Targets::new().with_target(OURS, level);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false);
    let lines = lines.with_writer(move || Escaping(format));
    let lines = match format {
        LogFormat::Text => lines.with_filter(ours(LevelFilter::WARN)).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            lines
                .with_current_span(false)
                .with_span_list(false)
                .with_filter(ours(LevelFilter::DEBUG))
                .boxed()
        }
    };
    if tracing_subscriber::registry().with(lines).try_init().is_ok() {
        exit::complain_as_events(format == LogFormat::Json);
    }
    Ok(())
}

/// Writes an event to stderr, with invisible characters escaped: the event may contain texts of a
/// server or another client.
struct Escaping(LogFormat);

impl Write for Escaping {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let shown = match self.0 {
            LogFormat::Text => show::seen(line),
            LogFormat::Json => json::seen(line),
        };
        stderr::write(format!("{shown}\n"));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
