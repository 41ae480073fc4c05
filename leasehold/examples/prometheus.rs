//! Metrics for Prometheus: `GET /metrics` of a service that takes locks.
//!
//! ```text
//! cargo run -p leasehold --features metrics,sqlite --example prometheus \
//!     sqlite:locks.db 127.0.0.1:9464
//! ```
//!
//! docs/observability.md has the metrics, alert rules, and a dashboard.

use std::{error::Error, sync::Arc, time::Duration};

use leasehold::metrics::{Metrics, RATIO, RENEWAL_SLACK, SECONDS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::sleep,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:".into());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:0".into());

    // With buckets, so that the histograms of many processes can be added up.
    let exporter = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
        .set_buckets_for_metric(Matcher::Full(RENEWAL_SLACK.into()), RATIO)?
        .install_recorder()?;

    // The exporter is installed before. Names of locks are no labels, but the part before the `/`
    // is.
    let metrics = Metrics::new()
        .with_lock_label(|name| name.as_str().split_once('/').map(|(group, _)| group.to_owned()));
    let client = leasehold::connect(&url).await?.observed_by(Arc::new(metrics))?;

    // Four locks that are held for long, and four that are held for a moment, by four tasks each
    // that wait for two seconds.
    let (moment, long) = (Duration::from_millis(2_500), Duration::from_secs(3_600));
    let workers = (0..4).map(|task| (format!("worker/{task}"), long));
    let reports = (0..16).map(|task| (format!("report/{}", task % 4), moment));
    for (name, span) in workers.chain(reports) {
        let client = client.clone();
        tokio::spawn(async move {
            loop {
                let lock = client.lock(&*name).lease(Duration::from_secs(3));
                let work = async |_| sleep(span).await;
                if let Err(error) = lock.wait(Duration::from_secs(2)).with(work).await {
                    eprintln!("{error}");
                    sleep(Duration::from_millis(500)).await;
                }
            }
        });
    }
    serve(&TcpListener::bind(address).await?, &exporter).await
}

/// A service that has a web server answers with `exporter.render()` there.
async fn serve(listener: &TcpListener, exporter: &PrometheusHandle) -> Result<(), Box<dyn Error>> {
    println!("http://{}/metrics", listener.local_addr()?);
    loop {
        let (mut connection, _) = listener.accept().await?;
        let body = exporter.render();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close";
        let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        // A scraper that goes away is no reason to end.
        let _ = connection.read(&mut [0; 1024]).await;
        let _ = connection.write_all(answer.as_bytes()).await;
    }
}
