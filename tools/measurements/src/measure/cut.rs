//! Cuts the network to a store: a proxy on the loopback interface stands in front of each of its
//! hosts.

use std::net::SocketAddr;

use futures_util::future::try_join_all;
use leasehold::StoreUrl;
use servers::{Mode, Proxy};

pub(crate) struct CutStore {
    pub(crate) url: StoreUrl,
    proxies: Vec<Proxy>,
}

/// The schemes whose clients connect only to the hosts of the URL, with their default ports.
/// Sentinels and clusters name other hosts.
const PORTS: [(&str, u16); 7] = [
    ("redis", 6379),
    ("redlock", 6379),
    ("etcd", 2379),
    ("zookeeper", 2181),
    ("postgres", 5432),
    ("postgresql", 5432),
    ("mysql", 3306),
];

impl CutStore {
    pub(crate) async fn to(url: &StoreUrl) -> Result<Self, String> {
        let scheme = url.scheme();
        let port = PORTS.iter().find(|(name, _)| *name == scheme).map(|(_, port)| *port);
        let port = port.ok_or_else(|| cannot_cut(scheme).to_owned())?;
        let (before, hosts, behind) = parts(url.expose()).ok_or("its URL names no host")?;
        let upstream = try_join_all(hosts.iter().map(|host| resolve(host, port))).await?;
        let proxies = try_join_all(upstream.into_iter().map(Proxy::start)).await;
        let proxies = proxies.map_err(|error| format!("there is no proxy: {error}"))?;
        let place = |(host, proxy): (&&str, &Proxy)| {
            let user = host.rsplit_once('@').map_or("", |(user, _)| user);
            let at = if user.is_empty() { "" } else { "@" };
            format!("{user}{at}{}", proxy.address())
        };
        let places: Vec<_> = hosts.iter().zip(&proxies).map(place).collect();
        let url = StoreUrl::new(format!("{before}{}{behind}", places.join(",")));
        Ok(Self { url: url.map_err(|error| error.to_string())?, proxies })
    }

    /// From now on no bytes arrive on either side, and the connections stay open.
    pub(crate) async fn cut(&self) -> Result<(), String> {
        self.set(Mode::BlackHole).await
    }

    pub(crate) async fn mend(&self) -> Result<(), String> {
        self.set(Mode::Pass).await
    }

    async fn set(&self, mode: Mode) -> Result<(), String> {
        let set = try_join_all(self.proxies.iter().map(|proxy| proxy.set(mode))).await;
        set.map(drop).map_err(|error| format!("the proxy cannot be switched: {error}"))
    }
}

fn cannot_cut(scheme: &str) -> &'static str {
    match scheme {
        "memory" | "sqlite" | "unix" => "there is no network to it",
        "s3" | "gs" | "az" => "its URL names a bucket in the place of a host",
        "rediss" | "redlocks" => "behind a proxy its certificate would name another host",
        _ => "its clients connect to more than the hosts of the URL",
    }
}

/// Splits a URL into the text before the hosts, the hosts with their users, and the text after
/// them.
fn parts(url: &str) -> Option<(&str, Vec<&str>, &str)> {
    let start = url.find("://")? + 3;
    let length = url[start..].find(['/', '?']).unwrap_or(url.len() - start);
    let (before, rest) = url.split_at(start);
    let (hosts, behind) = rest.split_at(length);
    (!hosts.is_empty()).then(|| (before, hosts.split(',').collect(), behind))
}

async fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let place = host.rsplit_once('@').map_or(host, |(_, place)| place);
    let named = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = if named { place.to_owned() } else { format!("{place}:{port}") };
    let found = tokio::net::lookup_host(&place).await;
    let found = found.map_err(|_| "its host's name is not known".to_owned())?.next();
    found.ok_or_else(|| "its host has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, before, hosts, behind) in [
            ("redis://h", "redis://", &["h"][..], ""),
            ("etcd://a:1,b:2/?x=y", "etcd://", &["a:1", "b:2"], "/?x=y"),
            ("mysql://u:p@h:1/d?x=y", "mysql://", &["u:p@h:1"], "/d?x=y"),
        ] {
            assert_eq!(parts(url), Some((before, hosts.to_vec(), behind)));
        }
        assert_eq!(parts("sqlite:a.db"), None);
    }
}
