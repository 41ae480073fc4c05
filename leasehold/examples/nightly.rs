//! A job that runs once a day, however many machines start it at the same time of day.
//!
//! ```text
//! for i in 1 2 3; do
//!     cargo run -q -p leasehold --features sqlite --example nightly sqlite:locks.db &
//! done; wait
//! ```

use std::time::Duration;

use leasehold::{Decision, Error, Fence, FencingToken};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = leasehold::connect(&url).await?;
    let nightly = client
        .lock("nightly")
        // This machine is a standby meanwhile: it runs the job if the other machine fails.
        .wait(2 * HOUR)
        .once_per(24 * HOUR);
    match nightly.begin().await {
        Ok(Decision::Due(run)) => {
            println!("attempt {}, with token {}", run.attempt(), run.guard().token());
            // If the lock is lost, the job is dropped at its await, and another machine tries
            // again.
            match run.guard().while_valid(job(run.guard().token())).await {
                Ok(Ok(())) => run.succeeded().await?,
                Ok(Err(error)) => {
                    println!("failed: {error}");
                    run.failed().await?;
                }
                Err(lost) => println!("cut short: {lost}"),
            }
        }
        Ok(Decision::NotDue(last)) => println!("it has run on {}, at {}", last.label, last.began),
        Ok(Decision::Unknown(unknown)) => println!("has it run? {}", unknown.why),
        Err(error) if error.is_busy() => println!("it still runs elsewhere: {error}"),
        Err(error) => return Err(error),
    }
    client.close().await;
    Ok(())
}

/// Work that takes a while.
async fn job(token: FencingToken) -> Result<(), leasehold::Stale> {
    // Whatever the job writes to keeps a fence; here it is this process's memory.
    let fence = Fence::new();
    for step in 1..=3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fence.admit("report", token)?;
        println!("step {step} is written");
    }
    Ok(())
}
