//! A serializable read, which one member answers alone, and a put.

use async_trait::async_trait;
use etcd_client::{Client, GetOptions};

use super::{Floor, Trouble};

const KEY: &str = "leasehold compare: floor";

struct Etcd(Client);

pub(super) async fn open(url: &str) -> Result<Box<dyn Floor>, Trouble> {
    let hosts = url.strip_prefix("etcd://").ok_or("not an etcd URL")?.trim_end_matches('/');
    let hosts: Vec<_> = hosts.split(',').collect();
    Ok(Box::new(Etcd(Client::connect(hosts, None).await?)))
}

#[async_trait]
impl Floor for Etcd {
    async fn ping(&self) -> Result<(), Trouble> {
        let alone = GetOptions::new().with_serializable();
        self.0.kv_client().get(KEY, Some(alone)).await?;
        Ok(())
    }

    async fn write(&self) -> Result<(), Trouble> {
        self.0.kv_client().put(KEY, "1", None).await?;
        Ok(())
    }

    async fn close(&self) {
        let _ = self.0.kv_client().delete(KEY, None).await;
    }
}
