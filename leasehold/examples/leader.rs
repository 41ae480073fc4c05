//! Candidates for one leadership: one leads; the others see who it is, and one of them takes over
//! when it ends.
//!
//! ```text
//! for i in 1 2 3; do
//!     cargo run -q -p leasehold --features sqlite --example leader sqlite:locks.db &
//! done; wait
//! ```
//!
//! Kill the leader: another leads when the lease is over. Ctrl-C makes it resign: another leads at
//! once.

use std::time::Duration;

use leasehold::{Error, Leadership};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = leasehold::connect(&url).await?;
    // A leader that crashed is replaced when this is over.
    let election = client.election("scheduler").lease(Duration::from_secs(3));

    // For people to see, and for requests that are passed on to the leader: at most 200 ms old. It
    // is not fit to decide by.
    let mut seen = election.watch(Duration::from_millis(200))?;
    let show = async {
        while seen.changed().await.is_ok() {
            match &*seen.borrow_and_update() {
                Leadership::Held(leader) => println!("{} leads term {}", leader.label, leader.term),
                Leadership::Vacant => println!("nobody leads"),
                other => println!("nobody knows who leads: {other:?}"),
            }
        }
    };

    let lead = election.run(async |leadership| {
        println!("leading, with term {}", leadership.token());
        // The leader's work, which never ends by itself. It sends the term along with what it
        // writes, for a fence to check. If leadership is lost, this future is dropped at its await,
        // and `run` campaigns again.
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });

    tokio::select! {
        ended = lead => ended.map(drop)?,
        () = show => {}
        _ = tokio::signal::ctrl_c() => println!("resigning"),
    }
    client.close().await;
    Ok(())
}
