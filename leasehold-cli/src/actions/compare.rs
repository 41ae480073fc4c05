//! `compare`: stores measured side by side.

use comparison::{Plan, Store, Watch, embedded};
use indicatif::{ProgressBar, ProgressStyle};
use leasehold::StoreUrl;

use crate::args::Compare;
use crate::exit::{Failure, cause};
use crate::show::print;

pub(super) async fn compare(args: &Compare) -> Result<u8, Failure> {
    let failed = |error: leasehold::Error| Failure::of(&error);
    let plan = Plan::new(args.span).map_err(failed)?;
    // The folder stays until all is measured.
    let (stores, _folder) = if args.stores.is_empty() {
        let (stores, folder) = embedded().map_err(failed)?;
        (stores, Some(folder))
    } else {
        let urls: Result<Vec<_>, _> = args.stores.iter().map(StoreUrl::new).collect();
        (urls.map_err(failed)?.into_iter().map(Store::new).collect(), None)
    };
    let mut bar = Bar(ProgressBar::no_length());
    let report = comparison::compare(stores, plan, &mut bar).await;
    bar.0.finish_and_clear();
    let report = report.map_err(failed)?;
    if let Some(file) = &args.page {
        let page = report.page().map_err(Failure::unavailable)?;
        std::fs::write(file, page).map_err(|error| {
            Failure::unavailable(format_args!("cannot write {file:?}: {}", cause(&error)))
        })?;
    }
    if !args.output.json {
        return print(&report.to_string());
    }
    let json = serde_json::to_string_pretty(&report)
        .map_err(|error| Failure::unavailable(format_args!("cannot print JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// On a terminal; nothing elsewhere.
struct Bar(ProgressBar);

impl Watch for Bar {
    fn next(&mut self, done: usize, of: usize, store: &str, measure: &str) {
        if self.0.length().is_none() {
            let looks = "{bar:30} {pos}/{len} {msg}";
            if let Ok(style) = ProgressStyle::with_template(looks) {
                self.0.set_style(style);
            }
            self.0.set_length(of as u64);
        }
        self.0.set_position(done as u64);
        self.0.set_message(format!("{store}: {measure}"));
    }
}
