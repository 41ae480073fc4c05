//! One acquire, hold and release on the store of a URL, for the script `lines-of-an-acquire`. With
//! `init` it makes the store ready, and with `connect` it only connects.

use std::{env, error::Error, time::Duration};

use leasehold::{Init, connect};

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("give the URL of a store")?;
    let only = env::args().nth(2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect(url.as_str()).await?;
        match only.as_deref() {
            Some("init") => {
                client.init(&Init::default().with_first_use(true)).await?;
            }
            Some(_) => {}
            None => {
                let guard = client.lock("job").lease(Duration::from_secs(2)).acquire().await?;
                // For as long as it takes to be renewed once.
                tokio::time::sleep(Duration::from_secs(1)).await;
                guard.release().await?;
            }
        }
        client.close().await;
        Ok(())
    })
}
