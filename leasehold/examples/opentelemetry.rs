//! Spans for OpenTelemetry: each acquire is a span below that of the request that it belongs to.
//!
//! ```text
//! cargo run -p leasehold --example opentelemetry
//! ```

use std::{error::Error, time::Duration};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tracing::{Instrument as _, level_filters::LevelFilter};
use tracing_subscriber::{Layer as _, filter::Targets, layer::SubscriberExt as _};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A service has the exporter of opentelemetry-otlp here, in batches.
    let provider = SdkTracerProvider::builder().with_simple_exporter(Stdout).build();
    // The spans of leasehold have the level `debug`.
    let filter =
        Targets::new().with_target("leasehold", LevelFilter::DEBUG).with_default(LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(layer.with_filter(filter)),
    )?;

    let client = leasehold::connect("memory:").await?;
    let request = async {
        let guard = client.lock("order-17").acquire().await?;
        let busy = client.lock("order-17").wait(Duration::from_millis(20)).acquire().await;
        println!("a second one is busy: {}", busy.is_err_and(|error| error.is_busy()));
        guard.release().await
    };
    request.instrument(tracing::info_span!("request")).await?;
    provider.shutdown()?;
    Ok(())
}

/// Writes a line for each span.
#[derive(Debug)]
struct Stdout;

impl SpanExporter for Stdout {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        for span in batch {
            let fields: Vec<_> = span
                .attributes
                .iter()
                .map(|field| format!("{}={}", field.key, field.value))
                .collect();
            let (id, parent) = (span.span_context.span_id(), span.parent_span_id);
            println!("{} {id} in {parent}: {}", span.name, fields.join(" "));
        }
        Ok(())
    }
}
