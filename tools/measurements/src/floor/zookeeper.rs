//! The floor of ZooKeeper: a read, which one server answers alone; a write; and an ephemeral node
//! as the bare lock.

use std::time::Duration;

use async_trait::async_trait;
use leasehold::zookeeper::zookeeper_client::{Acls, Client, CreateMode, CreateOptions};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Floor, Setting, Trouble};

const PATH: &str = "/leasehold compare: floor";
/// As long as the data of a queue entry of leasehold.
const VALUE: &[u8] =
    b"{\"owner\":\"0123456789abcdef0123456789abcdef\",\"label\":\"some.host:12345\",\
                       \"lease\":10000,\"kept\":null}";
/// All nodes end with the session of this client.
const NODE: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

struct ZooKeeper {
    client: Client,
    hosts: Vec<String>,
}

pub(super) async fn open(url: &str) -> Result<Box<dyn Floor>, Trouble> {
    let hosts = url.strip_prefix("zookeeper://").ok_or("not a ZooKeeper URL")?;
    let hosts = hosts.split('/').next().unwrap_or_default();
    let client = Client::connector().with_fail_eagerly().connect(hosts).await?;
    client.create(PATH, VALUE, &NODE).await?;
    Ok(Box::new(ZooKeeper { client, hosts: hosts.split(',').map(str::to_owned).collect() }))
}

/// What a server says of itself. By default this is the only question that it answers.
async fn srvr(host: &str) -> Option<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(host).await?;
        stream.write_all(b"srvr").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    tokio::time::timeout(ANSWER_WITHIN, exchange).await.ok()?.ok()
}

/// A line of that.
fn line<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[async_trait]
impl Floor for ZooKeeper {
    async fn ping(&self) -> Result<(), Trouble> {
        self.client.get_data(PATH).await?;
        Ok(())
    }

    async fn write(&self) -> Result<(), Trouble> {
        self.client.set_data(PATH, VALUE, None).await?;
        Ok(())
    }

    async fn pair(&self, task: usize) -> Result<(), Trouble> {
        let path = format!("{PATH} {task}");
        self.client.create(&path, VALUE, &NODE).await?;
        self.client.delete(&path, None).await?;
        Ok(())
    }

    fn pair_is(&self) -> &'static str {
        "an ephemeral node, made and deleted"
    }

    async fn about(&self) -> Vec<Setting> {
        let Some(answer) = srvr(&self.hosts[0]).await else { return Vec::new() };
        let version = line(&answer, "Zookeeper version").and_then(|it| it.split('-').next());
        let all = [("version", version), ("mode", line(&answer, "Mode"))];
        all.into_iter().filter_map(|(name, value)| Some(Setting::new(name, value?))).collect()
    }

    fn counts(&self) -> Option<&'static str> {
        Some("packets")
    }

    async fn count(&self) -> Option<u64> {
        let mut sum = 0;
        for host in &self.hosts {
            sum += line(&srvr(host).await?, "Received")?.parse::<u64>().ok()?;
        }
        Some(sum)
    }

    async fn close(&self) {
        let _ = self.client.delete(PATH, None).await;
    }
}
