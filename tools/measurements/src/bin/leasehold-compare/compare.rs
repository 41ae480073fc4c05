//! One comparison: the stores, the run, the report.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leasehold::StoreUrl;
use leasehold_cli::exit::{self, Failure, cause};
use leasehold_cli::print;
use leasehold_cli::supervise::Signals;
use measurements::{Comparison, Holder, Local, Plan, Proof, Report, Store, Watch, embedded};
use tokio::sync::oneshot;

use crate::args::Compare;
use crate::page_file::PageFile;
use crate::tunables::{COMPARE, COMPARE_LOCAL};

pub(crate) async fn compare(args: &Compare) -> Result<u8, Failure> {
    let failed = |error: leasehold::Error| Failure::of(&error);
    let span = args.span.unwrap_or(if args.local { COMPARE_LOCAL } else { COMPARE });
    let plan = Plan::new(span).map_err(failed)?;
    // Read before the measurements, which take a while.
    let proof = args.proof.as_deref().map(read_proof).transpose()?;
    let page = args.page.as_deref().map(PageFile::open).transpose()?;
    let urls: Result<Vec<_>, _> = args.stores.iter().map(StoreUrl::new).collect();
    let mut stores: Vec<_> = urls.map_err(failed)?.into_iter().map(Store::new).collect();
    let mut signals = Signals::catch().map_err(|error| {
        Failure::unavailable(format_args!("cannot catch signals: {}", cause(&error)))
    })?;
    // The folder of the SQLite file, kept until the end.
    let mut kept = None;
    if stores.is_empty() {
        let (without_servers, folder) = embedded().map_err(failed)?;
        stores = without_servers;
        kept = Some(folder);
    }
    // The servers, kept until the end. They also end if a signal or a panic ends this process.
    let mut local = None;
    if args.local {
        let started = tokio::select! {
            biased;
            signal = signals.asked_to_end() => return Ok(exit::of_signal(signal)),
            started = Local::start() => local.insert(started),
        };
        stores.append(&mut started.stores);
    }
    let absent = local.as_ref().map_or_else(Vec::new, |local| local.absent.clone());
    let comparison = Comparison::new(stores, plan).absent(absent).holder(holder());
    let mut bar = Bar::new();
    let (stop, asked) = oneshot::channel();
    let run = comparison.run(&mut bar, async { asked.await.unwrap_or_default() });
    let (report, ended_by) = until_ended(run, stop, &mut signals).await;
    bar.0.finish_and_clear();
    let report = report.transpose().map_err(failed)?.flatten();
    drop((local, kept));
    match (report, ended_by) {
        (Some(report), _) => show(&report.with_proof(proof), page, args),
        (None, signal) => Ok(signal.map_or(1, exit::of_signal)),
    }
}

/// Runs to the end, or until a signal stops the run; returns the result and the signal. A second
/// signal ends the run at once, since the user does not want to wait for a store that hangs.
async fn until_ended<T>(
    run: impl Future<Output = T>,
    stop: oneshot::Sender<()>,
    signals: &mut Signals,
) -> (Option<T>, Option<i32>) {
    let mut run = pin!(run);
    let first = tokio::select! {
        biased;
        signal = signals.asked_to_end() => signal,
        ended = &mut run => return (Some(ended), None),
    };
    // The receiver lives as long as the run.
    let _ = stop.send(());
    tokio::select! {
        biased;
        signal = signals.asked_to_end() => (None, Some(signal)),
        ended = run => (Some(ended), Some(first)),
    }
}

/// This command, which also holds a lock in a process that is killed.
fn holder() -> Option<Holder> {
    std::env::current_exe().ok().map(Holder::new)
}

fn read_proof(file: &Path) -> Result<Proof, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format_args!("cannot read {file:?}: {}", cause(&error))))?;
    Proof::read(&text).map_err(|why| Failure::usage(format_args!("{file:?}: {why}")))
}

fn show(report: &Report, page: Option<PageFile>, args: &Compare) -> Result<u8, Failure> {
    if let Some(file) = page {
        file.write(&report.page().map_err(Failure::unavailable)?)?;
    }
    if !args.json {
        return print(&report.to_string());
    }
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| Failure::unavailable(format_args!("cannot print JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// A progress bar on stderr, if that is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        // It draws nothing if stderr is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}% {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Watch for Bar {
    fn next(&mut self, elapsed: Duration, of: Duration, store: &str, measure: &str) {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.0.set_length(millis(of));
        self.0.set_position(millis(elapsed.min(of)));
        self.0.set_message(format!("{store}: {measure}"));
    }
}
