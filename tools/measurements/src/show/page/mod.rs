//! The report as one HTML page, without scripts and without files from the network.

mod faults;

use std::fmt::Write as _;

use super::{
    digits,
    escaped::escaped,
    plots::{self, Failed},
    table,
};
use crate::{
    measurement::Measure,
    report::{Figure, Ratio, Report, StoreReport},
};

const STYLE: &str = include_str!("page.css");

impl Report {
    /// The report as one HTML page.
    ///
    /// # Errors
    /// In words, if a plot cannot be drawn.
    pub fn page(&self) -> Result<String, String> {
        let mut page = String::new();
        let written = self.write_page(&mut page);
        written.map(|()| page).map_err(|error| format!("the page cannot be made: {error}"))
    }

    fn write_page(&self, page: &mut String) -> Result<(), Failed> {
        write!(
            page,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>Lock stores compared</title><style>{STYLE}</style></head><body>\
             <h1>Lock stores compared</h1>"
        )?;
        self.write_machine(page)?;
        self.write_figures(page)?;
        write!(page, "<p>{}</p>", plots::legend(self))?;
        for plot in plots::all(self)? {
            write!(page, "<figure>{plot}</figure>")?;
        }
        self.write_rankings(page)?;
        write_ratios(page, &self.ratios)?;
        self.write_promises(page)?;
        if let Some(proof) = &self.proof {
            faults::write(page, proof)?;
        }
        page.push_str("</body></html>\n");
        Ok(())
    }

    fn write_machine(&self, page: &mut String) -> std::fmt::Result {
        let Self { version, machine, took_seconds, .. } = self;
        write!(
            page,
            "<p>leasehold {version}; {} × {}, {} MiB, {}. Measured for {took_seconds:.0} s, all stores \
             in turn, after a round that warmed up. Medians of the rounds; ± is half the distance \
             of their quartiles. A floor is what the store costs through its own client.</p>",
            machine.processors,
            escaped(machine.processor.as_deref().unwrap_or("unknown")),
            machine.memory_mib,
            escaped(&machine.system)
        )?;
        for warning in machine.warnings() {
            write!(page, "<p><b>{}: these figures say little.</b></p>", escaped(&warning))?;
        }
        for absent in &self.absent {
            let (name, why) = (escaped(&absent.name), escaped(&absent.why));
            write!(page, "<p data-absent=\"{name}\">Not compared: {name}: {why}</p>")?;
        }
        Ok(())
    }

    fn write_figures(&self, page: &mut String) -> std::fmt::Result {
        page.push_str("<h2>Costs</h2><div class=\"wide\"><table><thead><tr><th></th>");
        for store in &self.stores {
            write!(page, "<th>{}</th>", escaped(&store.name))?;
        }
        page.push_str("</tr></thead><tbody>");
        for measure in Measure::ALL {
            write!(page, "<tr><th>{}</th>", measure.title())?;
            for store in &self.stores {
                write_cell(page, store, measure)?;
            }
            page.push_str("</tr>");
        }
        page.push_str("</tbody></table></div>");
        Ok(())
    }

    fn write_rankings(&self, page: &mut String) -> std::fmt::Result {
        if self.rankings.is_empty() {
            return Ok(());
        }
        page.push_str("<h2>Best first</h2><p>“=” where the rounds show no order. A store needs five rounds.</p><ul>");
        for ranking in &self.rankings {
            let places: Vec<_> =
                ranking.places.iter().map(|place| escaped(&place.join(" = "))).collect();
            let (what, places) = (ranking.measure.title(), places.join(" &gt; "));
            write!(page, "<li>{what}: <b>{places}</b></li>")?;
        }
        page.push_str("</ul>");
        Ok(())
    }

    fn write_promises(&self, page: &mut String) -> std::fmt::Result {
        page.push_str("<h2>What each promises</h2>");
        for store in &self.stores {
            let promised = &store.guarantees;
            let yes = |holds: bool| if holds { "yes" } else { "no" };
            write!(page, "<h3>{}</h3><p>", escaped(&store.name))?;
            write!(page, "<code>{}</code>", escaped(&store.url))?;
            for setting in &store.settings {
                let (name, value) = (escaped(&setting.name), escaped(setting.shown()));
                write!(page, ", <span data-setting=\"{name}\">{name} {value}</span>")?;
            }
            write!(
                page,
                "</p><dl><dt>exclusion</dt><dd>{}</dd><dt>tokens never go back</dt><dd>{}</dd>\
                 <dt>fair queue</dt><dd>{}</dd><dt>waiters woken by push</dt><dd>{}</dd>\
                 <dt>the store counts</dt><dd>{}</dd></dl>",
                escaped(&promised.exclusion.to_string()),
                escaped(&promised.tokens.to_string()),
                yes(promised.fair),
                yes(promised.push),
                store.counts.unwrap_or("nothing that can be read"),
            )?;
        }
        Ok(())
    }
}

/// The attributes have the exact values, so that a test can check the page against the JSON.
fn write_cell(page: &mut String, store: &StoreReport, measure: Measure) -> std::fmt::Result {
    let Some(figure) = store.figure(measure) else {
        let missing = store.missing.iter().find(|missing| missing.measure == measure);
        let why = escaped(missing.map_or("", |missing| &missing.why));
        return write!(page, "<td class=\"none\" title=\"{why}\">not measured</td>");
    };
    let Figure { median, .. } = figure;
    let lines = table::lines(figure);
    let (first, others) = lines.split_first().map_or(("", &[][..]), |(a, b)| (a.as_str(), b));
    write!(
        page,
        "<td data-store=\"{}\" data-measure=\"{}\" data-p50-us=\"{}\" data-p99-us=\"{}\" \
         data-per-second=\"{}\"><b>{}</b>",
        escaped(&store.name),
        measure.id(),
        median.p50_us,
        median.p99_us,
        median.per_second,
        first,
    )?;
    others.iter().try_for_each(|line| write!(page, "<br>{line}"))?;
    page.write_str("</td>")
}

fn write_ratios(page: &mut String, ratios: &[Ratio]) -> std::fmt::Result {
    if ratios.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<h2>Beside the floors</h2><div class=\"wide\"><table class=\"text ratios\"><thead><tr><th>store</th>\
         <th>what</th><th>leasehold</th><th>against</th><th></th><th>ratio</th><th>wanted</th>\
         </tr></thead><tbody>",
    );
    for ratio in ratios {
        let wanted = ratio.target.map_or(String::new(), |target| target.to_string());
        let missed = if ratio.met == Some(false) { " <b>missed</b>" } else { "" };
        write!(
            page,
            "<tr><td>{}</td><td>{}, {}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td data-ratio=\"{}\">{}</td><td>{wanted}{missed}</td></tr>",
            escaped(&ratio.store),
            escaped(&ratio.what),
            ratio.unit,
            digits::digits(ratio.figure),
            digits::digits(ratio.floor_figure),
            escaped(&ratio.floor),
            ratio.ratio,
            digits::of_ratio(ratio.ratio),
        )?;
    }
    page.push_str("</tbody></table></div>");
    Ok(())
}
