//! A web service with axum, of which one process leads: `/healthz` (the process lives), `/readyz`
//! (the store of locks answers), and `/leader` (who leads). At SIGTERM or Ctrl-C it stops to take
//! requests, finishes those that it has, and resigns.
//!
//! ```text
//! cargo run -p leasehold --features sqlite --example web sqlite:locks.db 127.0.0.1:8080
//! ```

use std::{sync::Arc, time::Duration};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use leasehold::{Leadership, LockClient};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

#[derive(Clone, Debug)]
struct App {
    client: LockClient,
    leader: watch::Receiver<Arc<str>>,
}

/// An orchestrator sends no requests while this fails. It does not restart the process for it.
async fn ready(State(app): State<App>) -> (StatusCode, String) {
    match app.client.check().await {
        Ok(check) => (StatusCode::OK, check.warnings().join("\n")),
        // The text may name hosts of the inside; the log has it.
        Err(error) => {
            eprintln!("not ready: {error:#}");
            (StatusCode::SERVICE_UNAVAILABLE, error.kind().to_string())
        }
    }
}

async fn leader(State(app): State<App>) -> String {
    app.leader.borrow().to_string()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:".into());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:0".into());
    let client = leasehold::connect(&url).await?;
    let election = client.election("web").lease(Duration::from_secs(3));

    let mut seen = election.watch(Duration::from_millis(200))?;
    let (tell, leader_seen) = watch::channel(Arc::from("nobody knows"));
    let show = async {
        loop {
            let text = match &*seen.borrow_and_update() {
                Leadership::Held(leader) => format!("{} in term {}", leader.label, leader.term),
                Leadership::Vacant => "nobody".to_owned(),
                _ => "nobody knows".to_owned(),
            };
            tell.send_replace(text.into());
            if seen.changed().await.is_err() {
                return;
            }
        }
    };
    let lead = election.run(async |leadership| {
        println!("leading, with term {}", leadership.token());
        // The leader's work. It is dropped at its await if the leadership is lost.
        std::future::pending::<()>().await
    });

    let app = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .route("/leader", get(leader))
        .with_state(App { client: client.clone(), leader: leader_seen });
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let mut term = signal(SignalKind::terminate())?;
    let asked_to_end = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let serve = axum::serve(listener, app).with_graceful_shutdown(asked_to_end);
    tokio::select! {
        served = serve => served?,
        ended = lead => ended.map(drop)?,
        () = show => {}
    }
    // The next leader need not wait for the end of the lease.
    client.close().await;
    println!("resigned");
    Ok(())
}
