//! The report for a terminal.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use crate::{Figure, Measure, Report};

/// Three digits and a unit that suits.
pub(crate) fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        m if m < 1.0 => (m * 1_000.0, "ns"),
        m if m < 1_000.0 => (m, "µs"),
        m if m < 1_000_000.0 => (m / 1_000.0, "ms"),
        m => (m / 1_000_000.0, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// The same for operations per second.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        r if r < 1_000.0 => format!("{}/s", digits(r)),
        r if r < 1_000_000.0 => format!("{} k/s", digits(r / 1_000.0)),
        r => format!("{} M/s", digits(r / 1_000_000.0)),
    }
}

fn digits(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn cell(figure: Option<&Figure>) -> String {
    let Some(figure) = figure else { return "not measured".to_owned() };
    let Figure { median, spread, times_the_write, .. } = figure;
    let mut cell = format!("{} (p99 {})", time(median.p50_us), time(median.p99_us));
    if !matches!(figure.measure, Measure::Death | Measure::Held) {
        cell += &format!("\n{} ±{:.0}%", rate(median.per_second), spread * 50.0);
    }
    if let Some(times) = times_the_write.filter(|_| figure.measure == Measure::Uncontended) {
        cell += &format!("\n{times:.1} × its write");
    }
    cell
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_BORDERS_ONLY_CONDENSED);
        let names = self.stores.iter().map(|store| store.name.as_str());
        table.set_header(std::iter::once("").chain(names));
        for measure in Measure::ALL {
            let cells = self.stores.iter().map(|store| cell(store.figure(measure)));
            table.add_row(std::iter::once(measure.title().to_owned()).chain(cells));
        }
        let yes = |holds: bool| if holds { "yes" } else { "no" };
        let mut promise = |title: &str, says: fn(&crate::StoreReport) -> bool| {
            let cells = self.stores.iter().map(|store| yes(says(store)).to_owned());
            table.add_row(std::iter::once(title.to_owned()).chain(cells));
        };
        promise("fair", |store| store.guarantees.fair);
        promise("waiters woken by push", |store| store.guarantees.push);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        for store in &self.stores {
            writeln!(f, "{}: {}", store.name, store.url)?;
            writeln!(f, "    exclusion {}", store.guarantees.exclusion)?;
            writeln!(f, "    tokens never go back: {}", store.guarantees.tokens)?;
            if let Some(why) = &store.no_floor {
                writeln!(f, "    no floors: {why}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_unit() {
        assert_eq!([time(0.9), time(12.34), time(5_600.0)], ["900 ns", "12.3 µs", "5.60 ms"]);
        assert_eq!([rate(999.4), rate(1_234_567.0)], ["999/s", "1.23 M/s"]);
    }
}
