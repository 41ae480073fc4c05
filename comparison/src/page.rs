//! The report as one page that needs nothing else: no network, no script.

use std::fmt::Write as _;

use crate::{Figure, Measure, Report, plots, table};

const STYLE: &str = include_str!("page.css");

impl Report {
    /// The report as one HTML page.
    ///
    /// # Errors
    /// In words, where a plot cannot be drawn.
    pub fn page(&self) -> Result<String, String> {
        let plots = [plots::distribution(self), plots::scaling(self)];
        let mut page = String::new();
        let written = self.write_page(&mut page, plots.into_iter().collect::<Result<_, _>>());
        written.map(|()| page).map_err(|error| format!("the page cannot be made: {error}"))
    }

    fn write_page(
        &self,
        page: &mut String,
        plots: Result<Vec<String>, Box<dyn std::error::Error>>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let Self { version, processors, seconds, .. } = self;
        write!(
            page,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>Lock stores compared</title><style>{STYLE}</style></head><body>\
             <h1>Lock stores compared</h1>\
             <p>leasehold {version}, {processors} processors, about {seconds} s of measuring in \
             turns. Medians of the rounds; ± is half the distance of their quartiles.</p>"
        )?;
        self.write_figures(page)?;
        for plot in plots? {
            write!(page, "<figure>{plot}</figure>")?;
        }
        self.write_promises(page)?;
        page.push_str("</body></html>\n");
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
                write_cell(page, &store.name, store.figure(measure))?;
            }
            page.push_str("</tr>");
        }
        page.push_str("</tbody></table></div>");
        Ok(())
    }

    fn write_promises(&self, page: &mut String) -> std::fmt::Result {
        page.push_str("<h2>What each promises</h2>");
        for store in &self.stores {
            let promised = &store.guarantees;
            let yes = |holds: bool| if holds { "yes" } else { "no" };
            write!(
                page,
                "<h3>{}</h3><p><code>{}</code></p><dl>\
                 <dt>exclusion</dt><dd>{}</dd><dt>tokens never go back</dt><dd>{}</dd>\
                 <dt>fair queue</dt><dd>{}</dd><dt>waiters woken by push</dt><dd>{}</dd></dl>",
                escaped(&store.name),
                escaped(&store.url),
                escaped(&promised.exclusion.to_string()),
                escaped(&promised.tokens.to_string()),
                yes(promised.fair),
                yes(promised.push),
            )?;
        }
        Ok(())
    }
}

/// The exact value stands beside the rounded one, so that the page can be checked against the JSON.
fn write_cell(page: &mut String, store: &str, figure: Option<&Figure>) -> std::fmt::Result {
    let Some(Figure { measure, median, spread, .. }) = figure else {
        return page.write_str("<td>not measured</td>");
    };
    write!(
        page,
        "<td data-store=\"{}\" data-measure=\"{measure:?}\" data-p50-us=\"{}\"><b>{}</b> p99 {}",
        escaped(store),
        median.p50_us,
        table::time(median.p50_us),
        table::time(median.p99_us)
    )?;
    if !measure.is_slow() {
        write!(page, "<br>{} ±{:.0}%", table::rate(median.per_second), spread * 50.0)?;
    }
    page.write_str("</td>")
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
