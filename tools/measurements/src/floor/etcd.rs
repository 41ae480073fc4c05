//! The floor of etcd: a serializable read, which one member answers alone; a put; and two
//! transactions as the bare lock.

use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, Compare, CompareOp, DeleteOptions, GetOptions, Txn, TxnOp};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Floor, Setting, Trouble};

const KEY: &str = "leasehold compare: floor";
/// As long as the value of a queue entry of leasehold.
const VALUE: &str = "{\"owner\":\"0123456789abcdef0123456789abcdef\",\"label\":\"some.host:12345\",\
                     \"offset\":1760000000000000,\"granted\":true,\"kept\":false}";
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

struct Etcd {
    client: Client,
    hosts: Vec<String>,
}

pub(super) async fn open(url: &str) -> Result<Box<dyn Floor>, Trouble> {
    let hosts = url.strip_prefix("etcd://").ok_or("not an etcd URL")?;
    let hosts = hosts.split('/').next().unwrap_or_default();
    let hosts: Vec<_> = hosts.split(',').map(str::to_owned).collect();
    Ok(Box::new(Etcd { client: Client::connect(&hosts, None).await?, hosts }))
}

impl Etcd {
    /// The metrics of a member, in Prometheus's format: over HTTP on the port for clients.
    async fn metrics(host: &str) -> Option<String> {
        let exchange = async {
            let mut stream = TcpStream::connect(host).await?;
            let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        tokio::time::timeout(ANSWER_WITHIN, exchange).await.ok()?.ok()
    }
}

#[async_trait]
impl Floor for Etcd {
    async fn ping(&self) -> Result<(), Trouble> {
        let alone = GetOptions::new().with_serializable();
        self.client.kv_client().get(KEY, Some(alone)).await?;
        Ok(())
    }

    async fn write(&self) -> Result<(), Trouble> {
        self.client.kv_client().put(KEY, VALUE, None).await?;
        Ok(())
    }

    async fn pair(&self, task: usize) -> Result<(), Trouble> {
        let key = format!("{KEY} {task}");
        let free = Compare::version(key.as_str(), CompareOp::Equal, 0);
        let take = Txn::new().when([free]).and_then([TxnOp::put(key.as_str(), VALUE, None)]);
        self.client.kv_client().txn(take).await?;
        let held = Compare::version(key.as_str(), CompareOp::Equal, 1);
        let give = Txn::new().when([held]).and_then([TxnOp::delete(key.as_str(), None)]);
        self.client.kv_client().txn(give).await?;
        Ok(())
    }

    fn pair_is(&self) -> &'static str {
        "two transactions: one compares and puts, one compares and deletes"
    }

    async fn about(&self) -> Vec<Setting> {
        let mut about = Vec::new();
        if let Ok(status) = self.client.maintenance_client().status().await {
            about.push(Setting::new("version", status.version()));
        }
        if let Ok(list) = self.client.cluster_client().member_list().await {
            about.push(Setting::new("members", list.members().len().to_string()));
        }
        about
    }

    fn counts(&self) -> Option<&'static str> {
        Some("gRPC messages")
    }

    async fn count(&self) -> Option<u64> {
        let mut sum = 0.0;
        for host in &self.hosts {
            let metrics = Self::metrics(host).await?;
            let received = |line: &str| {
                let rest = line.strip_prefix("grpc_server_msg_received_total{")?;
                rest.rsplit(' ').next()?.parse::<f64>().ok()
            };
            sum += metrics.lines().filter_map(received).sum::<f64>();
        }
        Some(sum as u64)
    }

    async fn close(&self) {
        let all = DeleteOptions::new().with_prefix();
        let _ = self.client.kv_client().delete(KEY, Some(all)).await;
    }
}
