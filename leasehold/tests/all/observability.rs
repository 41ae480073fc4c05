//! docs/observability.md and the dashboard name what there is, and the examples show it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    ErrorKind, LockName,
    metrics::Metrics,
    testing::{Operation, TestStore},
};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _};

const PAGE: &str = include_str!("../../../docs/observability.md");
const DASHBOARD: &str = include_str!("../../../docs/grafana-dashboard.json");

fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(example.exists(), "build it first: cargo build -p leasehold --examples --all-features");
    Command::new(example)
}

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What stands behind each of these marks, up to another character than those of a name.
fn names_behind<'a>(text: &'a str, mark: &'a str) -> BTreeSet<&'a str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c));
    text.split(mark).skip(1).filter_map(move |rest| rest.split(ends).next()).collect()
}

/// Scrapes the example until the locks that it holds have been renewed and waited for in vain.
fn scraped() -> String {
    let mut process =
        example("prometheus").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stdout = process.stdout.take().unwrap();
    let service = Service(process);
    let mut lines = io::BufRead::lines(io::BufReader::new(stdout));
    let url = lines.next().unwrap().unwrap();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let began = std::time::Instant::now();
    loop {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let counts = |series: &str| {
            let line = body.lines().find_map(|line| line.strip_prefix(series));
            line.is_some_and(|value| value.trim().parse::<f64>().unwrap() > 0.0)
        };
        let labels = r#"{store="memory",lock="report",outcome="#;
        if counts(&format!(r#"leasehold_renewals_total{labels}"renewed"}}"#))
            && counts(&format!(r#"leasehold_acquires_total{labels}"busy"}}"#))
            && counts(&format!(r#"leasehold_hold_seconds_count{labels}"released"}}"#))
        {
            drop(service);
            return body.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{body}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn each_metric_of_the_page_of_the_rules_and_of_the_dashboard_is_exported() {
    let body = scraped();
    let exported = names_behind(&body, "# TYPE ");
    let of_the_table: BTreeSet<_> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `leasehold_"))
        .map(|line| line.split('`').nth(1).unwrap())
        .collect();
    assert_eq!(of_the_table, exported);
    // With the types that the table says.
    for line in PAGE.lines().filter(|line| line.starts_with("| `leasehold_")) {
        let columns: Vec<_> = line.split(" | ").collect();
        let (name, kind) = (line.split('`').nth(1).unwrap(), columns[1].split(':').next().unwrap());
        assert!(body.contains(&format!("# TYPE {name} {kind}\n")), "{name} {kind}");
    }
    let rules = PAGE.split("```yaml").nth(1).unwrap().split("```").next().unwrap();
    let mut series = 0;
    for text in [rules, DASHBOARD] {
        let names = names_behind(text, "leasehold_");
        assert!(names.len() > 4, "{names:?}");
        for name in names {
            assert!(body.contains(&format!("\nleasehold_{name}{{")), "leasehold_{name}");
            series += 1;
        }
        for (label, quote) in [("outcome", "\""), ("outcome", "\\\"")] {
            for word in names_behind(text, &format!("{label}={quote}")) {
                assert!(body.contains(&format!("{label}=\"{word}\"")), "{label} {word}");
            }
        }
    }
    assert!(series > 12, "{series}");
    // What the rules leave out is there.
    for reason in ["hold-limit", "closed"] {
        assert!(rules.contains(reason) && body.contains(&format!("reason=\"{reason}\"")));
    }
    // No lock's own name.
    assert!(!body.contains("report/"), "{body}");
}

#[tokio::test]
async fn a_clients_label_is_a_label_of_its_metrics_if_that_is_asked_for() {
    for (metrics, labels) in [
        (Metrics::new(), r#"{store="memory",outcome="acquired"}"#),
        (
            Metrics::new().with_client_label(),
            r#"{store="memory",client="billing",outcome="acquired"}"#,
        ),
    ] {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _local = ::metrics::set_default_local_recorder(&recorder);
        let client = leasehold::connect("memory:?label=billing").await.unwrap();
        let client = client.observed_by(Arc::new(metrics)).unwrap();
        client.lock("job").acquire().await.unwrap().release().await.unwrap();
        let text = recorder.handle().render();
        assert!(text.contains(&format!("leasehold_acquires_total{labels} 1")), "{text}");
    }
}

#[test]
fn the_dashboard_is_one_and_has_a_panel_for_each_metric() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let queries: Vec<_> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    for line in PAGE.lines().filter(|line| line.starts_with("| `leasehold_")) {
        let name = line.split('`').nth(1).unwrap();
        assert!(queries.iter().any(|query| query.contains(name)), "no panel shows {name}");
    }
}

#[test]
fn the_span_of_an_acquire_arrives_below_that_of_its_caller() {
    let output = example("opentelemetry").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let of =
        |name: &str| -> Vec<_> { text.lines().filter(|line| line.starts_with(name)).collect() };
    let (acquires, request) = (of("acquire "), of("request ")[0]);
    let request = request.split(' ').nth(1).unwrap();
    assert_eq!(acquires.len(), 2, "{text}");
    for (acquire, outcome) in acquires.iter().zip(["acquired", "busy"]) {
        let fields = ["name=order-17", "store=memory", "label=", "waited_ms="];
        for field in fields.into_iter().chain([&*format!("outcome={outcome}")]) {
            assert!(acquire.contains(field), "{field} in {acquire}");
        }
        assert!(acquire.contains(&format!(" in {request}:")), "{acquire} is not below {request}");
        assert_eq!(acquire.contains(" token="), outcome == "acquired", "{acquire}");
    }
    assert!(text.contains("a second one is busy: true"), "{text}");
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The levels and fields of the table, as a subscriber gets them.
#[tokio::test(start_paused = true)]
async fn each_event_for_tracing_has_the_level_and_the_fields_of_the_table() {
    let written = Written::default();
    let make = {
        let written = written.clone();
        move || written.clone()
    };
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(make);
    let ours = Targets::new().with_target("leasehold", tracing::Level::TRACE);
    // While there is only one subscriber, a place in the code that another test reaches first, on a
    // thread without any, counts as one that nobody wants to hear of.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let _subscribed =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(ours).with(lines));

    let store = TestStore::new();
    let client = store.client();
    let hour = Duration::from_secs(3600);
    let guard = client.lock("job").acquire().await.unwrap();
    assert!(client.lock("job").try_acquire().await.unwrap().guard().is_none());
    tokio::time::sleep(hour).await;
    store.fail_next(Operation::Renew, ErrorKind::Unavailable);
    tokio::time::sleep(hour).await;
    guard.release().await.unwrap();
    let guard = client.lock("job").acquire().await.unwrap();
    assert!(store.lose(&LockName::new("job").unwrap()));
    guard.lost().await;

    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let mut seen = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["target"], "leasehold");
        let fields: BTreeSet<_> = line.as_object().unwrap().keys().cloned().collect();
        let level = line["level"].as_str().unwrap().to_lowercase();
        seen.insert(line["message"].as_str().unwrap().to_owned(), (level, fields));
    }
    let always = ["timestamp", "level", "message", "target", "name", "label"];
    let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `")).take(8).collect();
    let mut shown = 0;
    for row in rows {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let message = columns[1].trim_matches('`');
        let mut expected: BTreeSet<_> = always.map(str::to_owned).into();
        expected
            .extend(columns[3].split_whitespace().map(|field| field.trim_matches('`').to_owned()));
        if !["requested", "not acquired", "quarantined"].contains(&message) {
            expected.extend(["owner", "token"].map(str::to_owned));
        }
        // The store for tests has no quarantine; backend-redis tries that one.
        let Some((level, fields)) = seen.get(message) else {
            assert_eq!(message, "quarantined", "{text}");
            continue;
        };
        let spans = ["span", "spans"].map(str::to_owned);
        let fields: BTreeSet<_> =
            fields.iter().filter(|field| !spans.contains(field)).cloned().collect();
        assert_eq!((level.as_str(), &fields), (columns[2], &expected), "{message}");
        shown += 1;
    }
    assert_eq!(shown, 7);
}
