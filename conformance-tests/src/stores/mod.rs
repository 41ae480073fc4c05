//! The stores of this project for the [`proof`](crate::proof), each with servers of its own.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lock_core::{Backend, BoxFuture, Error, Init};

use crate::{
    SetUpError,
    kit::{
        self, Data, Etcd, EtcdOptions, Mariadb, MariadbOptions, Postgres, PostgresOptions, Process,
        Proxy, Redis, RedisOptions, Server,
    },
    proof::{Fault, Guarantee, Stage, Subject, Withheld},
};

/// Opens any store of this project by its URL.
pub fn connect(url: String) -> BoxFuture<Result<Arc<dyn Backend>, Error>> {
    Box::pin(leasehold::open(url))
}

/// Every kind of store.
#[must_use]
pub fn all() -> Vec<Subject> {
    // A database that comes back empty has to be made again by an operator, who restores a backup.
    let but_data_lost: Vec<_> =
        Fault::ALL.iter().copied().filter(|fault| *fault != Fault::DataLost).collect();
    let crashes = [Fault::ServerRestarted, Fault::DataLost];
    let two_holders = |fault| vec![Withheld { fault, guarantee: Guarantee::Exclusion }];
    vec![
        subject("sqlite", Fault::OF_CLIENTS, Vec::new(), || Box::pin(sqlite())),
        subject("redis", Fault::ALL, Vec::new(), || Box::pin(redis(""))),
        subject("redis, quarantine off", &crashes, two_holders(Fault::DataLost), || {
            Box::pin(redis("&quarantine=off"))
        }),
        subject("redlock", Fault::ALL, Vec::new(), || Box::pin(redlock())),
        subject("etcd", &but_data_lost, Vec::new(), || Box::pin(etcd())),
        subject("postgres", &but_data_lost, Vec::new(), || Box::pin(postgres())),
        subject("mysql", &but_data_lost, Vec::new(), || Box::pin(mysql(1))),
        subject(
            "mysql, flushed once a second",
            &[Fault::ServerRestarted],
            two_holders(Fault::ServerRestarted),
            || Box::pin(mysql(0)),
        ),
    ]
}

fn subject(
    name: &str,
    faults: &[Fault],
    withheld: Vec<Withheld>,
    start: fn() -> BoxFuture<Result<Stage, SetUpError>>,
) -> Subject {
    Subject { name: name.to_owned(), faults: faults.to_vec(), withheld, start: Arc::new(start) }
}

/// Makes the store at `url` ready.
async fn made(url: &str) -> Result<(), Error> {
    let store = connect(url.to_owned()).await?;
    store.init(&Init { first_use: true, ..Init::default() }).await?;
    store.close().await;
    Ok(())
}

/// Puts a proxy before a server.
async fn staged(
    server: impl Server + 'static,
    url: impl Fn(SocketAddr) -> String,
) -> Result<Stage, SetUpError> {
    let proxy = Proxy::start(server.address()).await?;
    Ok(Stage {
        url: url(server.address()),
        proxies: Some((url(proxy.address()), vec![proxy])),
        server: Some(Box::new(server)),
        kept: Box::new(()),
    })
}

async fn sqlite() -> Result<Stage, SetUpError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    Ok(Stage::of_clients(format!("sqlite:{}?longest_lease=2s", path.display()), folder))
}

async fn redis(options: &'static str) -> Result<Stage, SetUpError> {
    let server = Redis::start(RedisOptions::new().aof()).await?;
    let url = |at: SocketAddr| format!("redis://{at}?longest_lease=2s{options}");
    made(&url(server.address())).await?;
    staged(server, url).await
}

async fn etcd() -> Result<Stage, SetUpError> {
    let server = Alone(Etcd::single(EtcdOptions::new()).await?);
    let url = |at: SocketAddr| format!("etcd://{at}?longest_lease=2s");
    made(&url(server.address())).await?;
    staged(server, url).await
}

async fn postgres() -> Result<Stage, SetUpError> {
    let server = Postgres::start(PostgresOptions::new()).await?;
    let url = |at: SocketAddr| format!("postgres://postgres@{at}/postgres?longest_lease=2s");
    made(&url(server.address())).await?;
    staged(server, url).await
}

async fn mysql(flush: u8) -> Result<Stage, SetUpError> {
    let server = Mariadb::start(MariadbOptions::new()).await?;
    let options = "ssl-mode=disabled&longest_lease=2s";
    let url = |at: SocketAddr| format!("mysql://root@{at}/test?{options}");
    made(&url(server.address())).await?;
    // After the tables were made, which stay.
    server.sql(&format!("SET GLOBAL innodb_flush_log_at_trx_commit = {flush}")).await?;
    staged(server, url).await
}

async fn redlock() -> Result<Stage, SetUpError> {
    let nodes = Redis::start_many(3, RedisOptions::new().aof()).await?;
    let proxies = try_join_all(nodes.iter().map(|node| Proxy::start(node.address()))).await?;
    let url = |at: Vec<SocketAddr>| {
        let hosts: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
        format!("redlock://{}?longest_lease=2s", hosts.join(","))
    };
    let direct = url(nodes.iter().map(Server::address).collect());
    let proxied = url(proxies.iter().map(Proxy::address).collect());
    made(&direct).await?;
    Ok(Stage {
        url: direct,
        proxies: Some((proxied, proxies)),
        server: Some(Box::new(Majority(nodes))),
        kept: Box::new(()),
    })
}

/// Of three nodes, two: what befalls one alone is no fault of the store.
struct Majority(Vec<Redis>);

#[async_trait]
impl Server for Majority {
    fn process(&self) -> &Process {
        self.0[0].process()
    }

    fn process_mut(&mut self) -> &mut Process {
        self.0[0].process_mut()
    }

    fn address(&self) -> SocketAddr {
        self.0[0].address()
    }

    async fn restart(&mut self, data: Data) -> kit::Result<()> {
        try_join_all(self.0.iter_mut().take(2).map(|node| node.restart(data))).await.map(drop)
    }

    fn pause(&self) -> kit::Result<()> {
        self.0.iter().take(2).try_for_each(Server::pause)
    }

    fn resume(&self) -> kit::Result<()> {
        self.0.iter().take(2).try_for_each(Server::resume)
    }
}

/// A cluster of one member, as a server.
struct Alone(Etcd);

#[async_trait]
impl Server for Alone {
    fn process(&self) -> &Process {
        self.0.members()[0].process()
    }

    fn process_mut(&mut self) -> &mut Process {
        self.0.member_mut(0).process_mut()
    }

    fn address(&self) -> SocketAddr {
        self.0.members()[0].address()
    }

    async fn restart(&mut self, data: Data) -> kit::Result<()> {
        self.0.member_mut(0).restart(data).await
    }
}
