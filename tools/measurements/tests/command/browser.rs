//! A page in a real browser: Debian's chromium, without a screen and without a network.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A page in the browser.
pub(crate) struct Shown {
    /// Its document, as HTML again.
    pub(crate) dom: String,
    /// The lines on its console.
    pub(crate) console: Vec<String>,
}

fn chromium(page: &Path, args: &[&str]) -> std::process::Output {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command
        // As root it has no sandbox, and a container has little shared memory.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--enable-logging=stderr"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(args)
        .arg(format!("file://{}", page.display()));
    let output = command.output().expect("chromium: run scripts/install-test-servers");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

pub(crate) fn open(page: &Path) -> Shown {
    let output = chromium(page, &["--dump-dom"]);
    let log = String::from_utf8_lossy(&output.stderr);
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    Shown { dom: String::from_utf8(output.stdout).unwrap(), console }
}

/// Asserts that a telephone, 420 points wide, shows the costs of all stores at once, and that no
/// labels of a plot overlap.
pub(crate) fn fits_a_telephone(page: &Path) {
    // A window has at least 500 points, a frame may have less.
    let script = r"
        const frame = document.querySelector('iframe'), shown = frame.contentDocument;
        const table = shown.querySelector('.wide');
        const texts = [...shown.querySelectorAll('svg')].map(plot => [...plot.querySelectorAll('text')]);
        const overlaps = texts.map(labels => labels.filter((label, at) => labels.slice(at + 1).some(other => {
            const a = label.getBoundingClientRect(), b = other.getBoundingClientRect();
            return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        })).length);
        document.body.dataset.seen = [frame.contentWindow.innerWidth, table.scrollWidth - table.clientWidth,
            ...overlaps, Math.min(...texts.map(labels => labels.length))].join(' ');
    ";
    let html = std::fs::read_to_string(page).unwrap().replace('&', "&amp;").replace('"', "&quot;");
    let framed = page.with_extension("framed.html");
    let frame = "style='width: 420px; height: 2000px; border: 0'";
    let text = format!(
        "<!doctype html><html><body><iframe {frame} srcdoc=\"{html}\"></iframe>\
         <script>onload = () => {{ {script} }}</script></body></html>"
    );
    std::fs::write(&framed, text).unwrap();
    let dom = open(&framed).dom;
    let seen = attribute(&dom, "data-seen").unwrap();
    let seen: Vec<i64> = seen.split(' ').map(|number| number.parse().unwrap()).collect();
    let [width, hidden, ref overlaps @ .., labels] = seen[..] else { panic!("{seen:?}") };
    assert_eq!((width, hidden), (420, 0), "width, and how much of the table it hides");
    assert_eq!(overlaps, [0; 4], "overlapping labels of each plot");
    // The title, the names below and at least one value beside.
    assert!(labels >= 7, "{labels} labels");
}

/// The page as a picture, in one colour scheme.
fn picture(page: &Path, dark: bool) -> Vec<u8> {
    let file = tempfile::Builder::new().suffix(".png").tempfile().unwrap();
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    let to = format!("--screenshot={}", file.path().display());
    chromium(page, &[&scheme, &to, "--window-size=1200,2000"]);
    std::fs::read(file.path()).unwrap()
}

/// Asserts that a browser shows this report, all of it and nothing else.
pub(crate) fn shows(page: &Path, report: &Value) {
    let Shown { dom, console } = open(page);
    assert!(console.is_empty(), "{console:?}");
    let cells: Vec<_> =
        dom.split("<td ").skip(1).filter_map(|part| part.split("</td>").next()).collect();
    let mut measured = 0;
    for store in report["stores"].as_array().unwrap() {
        for figure in store["figures"].as_array().unwrap() {
            let is = |cell: &&&str| {
                attribute(cell, "data-store") == store["name"].as_str()
                    && attribute(cell, "data-measure") == figure["measure"].as_str()
            };
            let cell = cells.iter().find(is).unwrap_or_else(|| panic!("no cell for {figure}"));
            for (name, key) in [
                ("data-p50-us", "p50_us"),
                ("data-p99-us", "p99_us"),
                ("data-per-second", "per_second"),
            ] {
                let shown: f64 = attribute(cell, name).unwrap().parse().unwrap();
                let exact = figure["median"][key].as_f64().unwrap();
                assert!(same(shown, exact), "{key}: {exact} in {cell}");
            }
            let held = figure["measure"].as_str().unwrap().starts_with("held");
            // The visible text is the same number, rounded.
            let (seen, exact) = match held {
                true => (percent(cell), figure["median"]["processor_percent"].as_f64().unwrap()),
                false => (micros(cell), figure["median"]["p50_us"].as_f64().unwrap()),
            };
            assert!((seen - exact).abs() <= exact * 0.006 + 0.006, "{seen} for {exact} in {cell}");
            measured += 1;
        }
    }
    assert_eq!(cells.iter().filter(|cell| cell.contains("data-p50-us")).count(), measured);
    let ratios: Vec<f64> =
        cells.iter().filter_map(|cell| attribute(cell, "data-ratio")?.parse().ok()).collect();
    let exact = report["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), exact.len());
    for (shown, ratio) in ratios.into_iter().zip(exact) {
        assert!(same(shown, ratio["ratio"].as_f64().unwrap()), "{shown} for {ratio}");
    }
    let proof = || report["proof"].as_array().into_iter().flatten();
    for store in proof() {
        for fault in store["faults"].as_array().unwrap() {
            let is = |cell: &&&str| {
                attribute(cell, "data-proof") == store["store"].as_str()
                    && attribute(cell, "data-fault") == fault["fault"].as_str()
            };
            let cell = cells.iter().find(is).unwrap_or_else(|| panic!("no cell for {fault}"));
            assert_eq!(attribute(cell, "data-granted"), Some(&*fault["granted"].to_string()));
            assert_eq!(attribute(cell, "data-lost"), Some(&*fault["lost"].to_string()));
        }
    }
    let timelines = proof().flat_map(|store| {
        store["faults"].as_array().unwrap().iter().filter(|fault| !fault["timeline"].is_null())
    });
    assert_eq!(dom.matches("<svg").count(), 4 + timelines.count());
    assert_eq!(dom.matches("</svg>").count(), dom.matches("<svg").count());
    let (light, dark) = (picture(page, false), picture(page, true));
    assert!(light.len() > 10_000 && dark.len() > 10_000 && light != dark);
}

/// But for the last digit, which the reader of JSON may get wrong.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.abs() * 1e-12
}

fn attribute<'a>(cell: &'a str, name: &str) -> Option<&'a str> {
    cell.split_once(&format!("{name}=\""))?.1.split('"').next()
}

/// The first bold text of a cell.
fn bold(cell: &str) -> &str {
    cell.split_once("<b>").unwrap().1.split("</b>").next().unwrap()
}

fn micros(cell: &str) -> f64 {
    let (number, unit) = bold(cell).split_once(' ').unwrap();
    let unit = match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        other => panic!("{other} in {cell}"),
    };
    number.parse::<f64>().unwrap() * unit
}

fn percent(cell: &str) -> f64 {
    bold(cell).split_once('%').unwrap().0.parse().unwrap()
}
