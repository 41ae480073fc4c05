//! The holders of a lock around a fault, as SVG: a lane for each process, a bar for each hold, a
//! cross for each reported loss, and a shade for the time of the fault.

use plotters::prelude::*;

use super::plots::{COLOURS, Failed, finish};
use crate::report::Timeline;

const WIDTH: u32 = 900;
const LANE: u32 = 34;
const BESIDES: u32 = 72;

pub(crate) fn plot(timeline: &Timeline) -> Result<String, Failed> {
    let holds = timeline.holds.iter().map(|hold| hold.process);
    let mut processes: Vec<_> =
        holds.chain(timeline.losses.iter().map(|loss| loss.process)).collect();
    processes.sort_unstable();
    processes.dedup();
    if processes.is_empty() {
        return Ok(String::new());
    }
    let ends = timeline.holds.iter().map(|hold| hold.until).chain([timeline.fault[1]]);
    let end = ends.chain(timeline.losses.iter().map(|loss| loss.at)).fold(1.0, f64::max);
    let lanes = processes.len();
    let lane =
        |process: u32| processes.iter().position(|each| *each == process).unwrap_or(0) as f64;
    let mut svg = String::new();
    {
        let size = (WIDTH, LANE * lanes as u32 + BESIDES);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(96)
            .build_cartesian_2d(0.0..end * 1.02, -0.5..lanes as f64 - 0.5)?;
        let [from, to] = timeline.fault;
        let shade =
            Rectangle::new([(from, -0.5), (to, lanes as f64 - 0.5)], RED.mix(0.15).filled());
        chart.draw_series([shade])?;
        chart
            .configure_mesh()
            .disable_mesh()
            .y_labels(lanes)
            .y_label_formatter(&|at| {
                let near = (at.fract().abs() < 0.01 && *at >= -0.01).then(|| at.round() as usize);
                let process = near.and_then(|at| processes.get(at));
                process.map_or(String::new(), |process| format!("process {process}"))
            })
            .x_desc("ms; shaded: the fault; a cross: the guard reported its loss")
            .draw()?;
        for hold in &timeline.holds {
            let (at, colour) = (lane(hold.process), COLOURS[hold.process as usize % COLOURS.len()]);
            let bar = [(hold.from, at - 0.3), (hold.until.max(hold.from + end * 0.001), at + 0.3)];
            chart.draw_series([Rectangle::new(bar, colour.filled())])?;
        }
        let crosses = timeline.losses.iter();
        chart.draw_series(
            crosses.map(|loss| Cross::new((loss.at, lane(loss.process)), 6, RED.stroke_width(3))),
        )?;
        area.present()?;
    }
    Ok(finish(svg, "who held the lock when"))
}
