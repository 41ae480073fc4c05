//! The report as text for a terminal.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::digits::{digits, of_ratio, rate, time};
use crate::{
    measurement::Measure,
    report::{Figure, Missing, Ratio, Report, StoreReport},
};

/// The lines of a cell.
pub(crate) fn lines(figure: &Figure) -> Vec<String> {
    let Figure { measure, median, spread, .. } = figure;
    if measure.is_once() {
        return vec![time(median.p50_us)];
    }
    if measure.is_held() {
        let percent = median.processor_percent.unwrap_or_default();
        let mut lines = vec![format!("{percent:.2}% of a core")];
        lines.extend(median.counted_per_second.map(|count| format!("{} counted", rate(count))));
        return lines;
    }
    let mut lines = vec![
        time(median.p50_us),
        format!("p99 {}", time(median.p99_us)),
        format!("{} ±{:.0}%", rate(median.per_second), spread * 50.0),
    ];
    lines.extend(median.counted_per_operation.map(|count| format!("{} counted", digits(count))));
    if *measure == Measure::Uncontended {
        let times = figure.times_the_write;
        lines.extend(times.map(|times| format!("{times:.1} × write")));
    }
    lines
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let processor = machine.processor.as_deref().unwrap_or("unknown");
        let Self { version, took_seconds, .. } = self;
        writeln!(
            f,
            "leasehold {version}, {} × {processor}, {} MiB, {}; measured for {took_seconds:.0} s",
            machine.processors, machine.memory_mib, machine.system
        )?;
        for warning in machine.warnings() {
            writeln!(f, "{warning}: these figures say little")?;
        }
        writeln!(f, "{}", costs(self))?;
        for store in &self.stores {
            write_store(f, store)?;
        }
        for absent in &self.absent {
            writeln!(f, "{}: not compared: {}", absent.name, absent.why)?;
        }
        write_rankings(f, self)?;
        write_ratios(f, &self.ratios)
    }
}

fn costs(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_BORDERS_ONLY_CONDENSED);
    let names = report.stores.iter().map(|store| store.name.as_str());
    table.set_header(std::iter::once("").chain(names));
    for measure in Measure::ALL {
        let cell = |store: &StoreReport| {
            store.figure(measure).map_or("-".to_owned(), |figure| lines(figure).join("\n"))
        };
        let cells = report.stores.iter().map(cell);
        table.add_row(std::iter::once(measure.title().to_owned()).chain(cells));
    }
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    let mut promise = |title: &str, says: fn(&StoreReport) -> bool| {
        let cells = report.stores.iter().map(|store| yes(says(store)).to_owned());
        table.add_row(std::iter::once(title.to_owned()).chain(cells));
    };
    promise("fair", |store| store.guarantees.fair);
    promise("waiters woken by push", |store| store.guarantees.push);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn write_store(f: &mut fmt::Formatter<'_>, store: &StoreReport) -> fmt::Result {
    writeln!(f, "{}: {}", store.name, store.url)?;
    let settings: Vec<_> =
        store.settings.iter().map(|it| format!("{} {}", it.name, it.shown())).collect();
    if !settings.is_empty() {
        writeln!(f, "    {}", settings.join(", "))?;
    }
    writeln!(f, "    exclusion {}", store.guarantees.exclusion)?;
    writeln!(f, "    tokens never go back: {}", store.guarantees.tokens)?;
    match &store.no_floor {
        Some(why) => writeln!(f, "    no floors: {why}")?,
        None => {
            let counts = store.counts.unwrap_or("nothing that can be read");
            writeln!(f, "    the store counts: {counts}")?;
        }
    }
    let floorless = |it: &&Missing| !(store.no_floor.is_some() && it.measure.is_floor());
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for missing in store.missing.iter().filter(floorless) {
        match by_reason.iter_mut().find(|(why, _)| *why == missing.why) {
            Some((_, titles)) => titles.push(missing.measure.title()),
            None => by_reason.push((&missing.why, vec![missing.measure.title()])),
        }
    }
    for (why, titles) in by_reason {
        writeln!(f, "    not measured: {}: {why}", titles.join("; "))?;
    }
    Ok(())
}

fn write_rankings(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    if report.rankings.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nbest first, \"=\" where the rounds show no order (a store needs five rounds):")?;
    for ranking in &report.rankings {
        let places: Vec<_> = ranking.places.iter().map(|place| place.join(" = ")).collect();
        writeln!(f, "  {}: {}", ranking.measure.title(), places.join(" > "))?;
    }
    Ok(())
}

fn write_ratios(f: &mut fmt::Formatter<'_>, ratios: &[Ratio]) -> fmt::Result {
    if ratios.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nleasehold's figures divided by the floors of this run:")?;
    for ratio in ratios {
        let Ratio { store, what, figure, floor, floor_figure, unit, .. } = ratio;
        let (figure, other) = (digits(*figure), digits(*floor_figure));
        writeln!(
            f,
            "  {store}, {what}: {figure} against {other} ({floor}; {unit}): {}{}",
            of_ratio(ratio.ratio),
            wanted(ratio)
        )?;
    }
    Ok(())
}

/// The target, and whether it was met.
fn wanted(ratio: &Ratio) -> String {
    match (ratio.target, ratio.met) {
        (Some(target), Some(true)) => format!(", target: {target}"),
        (Some(target), _) => format!(", target: {target}, missed"),
        _ => String::new(),
    }
}
