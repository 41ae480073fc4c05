//! A job that runs once, however many machines start it at the same time of day.
//!
//! ```text
//! for i in 1 2 3; do
//!     cargo run -q -p leasehold --features sqlite --example nightly sqlite:locks.db &
//! done; wait
//! ```

use std::time::Duration;

use leasehold::{Error, Fence};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = leasehold::connect(&url).await?;

    // Whatever the job writes to keeps a fence; here it is this process's memory.
    let fence = Fence::new();
    let job = client
        .lock("nightly")
        // Who waited for it would run it again.
        .wait(Duration::ZERO)
        // A store that has lost its data grants nothing for a while: no machine could start the job
        // now.
        .wait_for_quarantine(|quarantine| quarantine.remaining)
        // Nor does a machine run it again whose clock is behind by less than this.
        .at_least(Duration::from_secs(20))
        .with(async |lock| {
            println!("running, with token {}", lock.token());
            for step in 1..=3 {
                // Work that takes a while. If the lock is lost, this future is dropped at its
                // await.
                tokio::time::sleep(Duration::from_millis(100)).await;
                match fence.admit("report", lock.token()) {
                    Ok(()) => println!("step {step} is written"),
                    Err(stale) => println!("step {step} is refused: {stale}"),
                }
            }
        })
        .await;
    match job {
        Err(error) if error.is_busy() => println!("it runs elsewhere: {error}"),
        Err(error) if error.is_lost() => println!("cut short: {error}"),
        done => {
            // The job is done, and is not to be repeated because of this.
            if let Err(error) = done?.release {
                println!("done; the lock was not given back: {error}");
            }
        }
    }
    client.close().await;
    Ok(())
}
