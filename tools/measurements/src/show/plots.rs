//! Plots as SVG. Black becomes the colour of the page's text, so that the plots fit a light and a
//! dark page.

use plotters::prelude::*;

use super::{digits, escaped::escaped};
use crate::{
    measurement::Measure,
    report::{Report, StoreReport},
    sample::QUANTILES,
};

/// An error while a page is made.
pub(crate) type Failed = Box<dyn std::error::Error>;

/// As wide as a telephone, so that a page need not shrink it.
const SIZE: (u32, u32) = (440, 300);
/// The colours of the stores, in their order. They are visible on light and on dark.
pub(crate) const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(23, 190, 207),
];

/// The measurements of handoffs, by the number of waiters.
const SCALING: [(&str, Measure); 5] = [
    ("1 waiting", Measure::Handoff1),
    ("4", Measure::Handoff4),
    ("16", Measure::Handoff16),
    ("64", Measure::Handoff64),
    ("256", Measure::Handoff256),
];

/// The colour of each store, as HTML.
pub(crate) fn legend(report: &Report) -> String {
    let entry = |(at, store): (usize, &StoreReport)| {
        let RGBColor(red, green, blue) = COLOURS[at % COLOURS.len()];
        let name = escaped(&store.name);
        format!("<span style=\"color: rgb({red} {green} {blue})\">■</span> {name}")
    };
    report.stores.iter().enumerate().map(entry).collect::<Vec<_>>().join(" &emsp; ")
}

/// All plots of a report.
pub(crate) fn all(report: &Report) -> Result<Vec<String>, Failed> {
    Ok(vec![
        distribution(report, Measure::Uncontended)?,
        distribution(report, Measure::Handoff16)?,
        scaling(
            report,
            "handoffs per second",
            |store, measure| store.figure(measure).map_or(0.0, |figure| figure.median.per_second),
            digits::rate,
        )?,
        scaling(
            report,
            "99 of 100 handoffs take at most",
            |store, measure| store.figure(measure).map_or(0.0, |figure| figure.median.p99_us),
            digits::time,
        )?,
    ])
}

/// The distribution of the times of a measurement.
fn distribution(report: &Report, measure: Measure) -> Result<String, Failed> {
    let labels = ["10%", "50%", "90%", "99%", "99.9%"];
    let lines = report.stores.iter().map(|store| {
        let figure = store.figure(measure);
        figure.map_or([0.0; QUANTILES.len()], |figure| figure.median.quantiles_us).to_vec()
    });
    let title = format!("{}: part of all that took at most", measure.title());
    plot(&title, &labels, lines, digits::time)
}

fn scaling(
    report: &Report,
    title: &str,
    value: fn(&StoreReport, Measure) -> f64,
    show: fn(f64) -> String,
) -> Result<String, Failed> {
    let lines = report
        .stores
        .iter()
        .map(|store| SCALING.iter().map(|(_, measure)| value(store, *measure)).collect());
    plot(title, &SCALING.map(|(label, _)| label), lines, show)
}

/// Prepares an SVG for a page: in the page's colours, and with a label for screen readers.
pub(crate) fn finish(svg: String, says: &str) -> String {
    let named = format!("<svg role=\"img\" aria-label=\"{says}\" ");
    svg.replace("#000000", "currentColor").replacen("<svg ", &named, 1)
}

/// A plot with one line for each store, on a logarithmic scale. Zero means that there is no value.
fn plot(
    title: &str,
    labels: &[&str],
    lines: impl Iterator<Item = Vec<f64>>,
    show: fn(f64) -> String,
) -> Result<String, Failed> {
    let lines: Vec<_> = lines.collect();
    let values = || lines.iter().flatten().copied().filter(|v| *v > 0.0);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    if low > high {
        return Ok(String::new());
    }
    let (low, high) = (low / 2.0, high * 2.0);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(8)
            .x_label_area_size(28)
            .y_label_area_size(72)
            .build_cartesian_2d(
                -0.5..labels.len() as f64 - 0.5,
                (low..high).log_scale().with_key_points(ticks(low, high)),
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 13))
            .x_labels(labels.len() + 2)
            .x_label_formatter(&|at| {
                let near = (at.fract().abs() < 0.01).then_some(at.round());
                let label = near.filter(|at| *at >= 0.0).and_then(|at| labels.get(at as usize));
                label.map_or(String::new(), |label| (*label).to_owned())
            })
            .y_label_formatter(&|value| show(*value))
            .draw()?;
        for (at, values) in lines.iter().enumerate() {
            let points = values.iter().enumerate().filter(|(_, value)| **value > 0.0);
            let points: Vec<_> = points.map(|(at, value)| (at as f64, *value)).collect();
            let colour = COLOURS[at % COLOURS.len()];
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
        }
        area.present()?;
    }
    Ok(finish(svg, title))
}

/// The part of the scale that stays free of ticks at its top, since the label of a tick there would
/// overlap the caption.
const TOP: f64 = 0.05;

/// 1, 2 and 5 of each power of ten in the range; of a wide range the powers alone.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low > 1e4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    let top = high / (high / low).powf(TOP);
    all.filter(|tick| (low..=top).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_has_a_few_ticks() {
        assert_eq!(ticks(130.0, 2_400.0), [200.0, 500.0, 1_000.0, 2_000.0]);
        assert_eq!(ticks(2.1, 8.4), [5.0]);
        assert_eq!(ticks(0.5, 50_000.0), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
    }

    #[test]
    fn no_tick_overlaps_the_caption() {
        assert_eq!(ticks(130.0, 2_001.0), [200.0, 500.0, 1_000.0]);
        assert_eq!(ticks(0.5, 100_001.0), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        // The narrowest range still has one.
        assert_eq!(ticks(0.5, 2.0), [0.5, 1.0]);
        assert_eq!(ticks(2.01, 8.04), [5.0]);
    }
}
