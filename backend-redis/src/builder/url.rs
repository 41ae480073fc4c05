//! Reads the URL of a store.

use std::sync::Arc;

use lock_core::{Backend, Error};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::builder::url_query::{database, options, refuse};
use crate::{
    builder::RedisBuilder,
    settings::{Address, SentinelGroup, Topology},
};

const FORM: &str = "the URL of a Redis store is redis://USER:PASSWORD@HOST:PORT/DATABASE?options, \
                    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DATABASE?options, \
                    redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT?options, rediss for redis with \
                    TLS, or unix:PATH?options";

/// Opens the store that a URL describes:
///
/// - `redis://USER:PASSWORD@HOST:PORT/DATABASE?options`, where only the host is needed;
/// - `rediss://…` the same with TLS;
/// - `unix:///PATH?options` or `redis+unix:///PATH?options` for a socket, with options `user`,
///   `password` and `db`;
/// - `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DATABASE?options`, with the hosts
///   of the sentinels and the name under which they watch the master, and options `sentinel_user`
///   and `sentinel_password`; `rediss+sentinel://…` the same with TLS to all;
/// - `redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT?options` with some nodes of a Redis
///   Cluster; `rediss+cluster://…` the same with TLS.
///
/// Options: `prefix=leasehold`, `longest_lease=30s`, `quarantine=on|off`, `timeout=5s`,
/// `allow_eviction=true|false`, `failover_margin=15s`, `wait_replicas=1`, `wait_timeout=500ms`,
/// `late_after=30s`, `plaintext=on|off`; with TLS `ca=FILE`, and `cert=FILE` with `key=FILE`, in
/// PEM.
///
/// A password goes to another machine without TLS only with `plaintext=on`.
///
/// Before the host, percent-encode `@ : / ? # %` in a user and a password. In the value of an
/// option, encode also `+` and `&`, since a `+` there is a space.
///
/// # Errors
/// As [`RedisBuilder::build`]; `InvalidInput` for a URL that is not of this form. No message shows
/// the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url, "").map_err(|error| error.at("redis", "connect"))?.build().await
}

/// Reads a URL. `also` lists the options that a store over several servers has besides.
pub(crate) fn parse(url: &str, also: &str) -> Result<RedisBuilder, Error> {
    let (url, hosts) = single_host(url)?;
    let url = Url::parse(&url).map_err(|_| refuse(FORM))?;
    if url.fragment().is_some() {
        // Perhaps a `#` in a password that was not encoded.
        return Err(refuse(format!("{FORM}; nothing may follow a #")));
    }
    let path = decoded(url.path())?;
    let scheme = url.scheme();
    let socket = matches!(scheme, "unix" | "redis+unix");
    let mut number = path.trim_matches('/');
    let topology = match scheme {
        "unix" | "redis+unix" => {
            let mute = url.host_str().unwrap_or_default().is_empty();
            if !mute || path.is_empty() || path == "/" {
                return Err(refuse(FORM));
            }
            number = "";
            Topology::Single(Address::Unix(path.clone().into()))
        }
        "redis" | "rediss" => {
            let [host] = hosts.as_slice() else { return Err(refuse(FORM)) };
            Topology::Single(address(host, 6379, scheme)?)
        }
        "redis+sentinel" | "rediss+sentinel" => {
            let master;
            (master, number) = number.split_once('/').unwrap_or((number, ""));
            // A `/` in a password that was not encoded.
            if master.contains('@') {
                return Err(refuse(FORM));
            }
            let sentinels: Result<_, _> =
                hosts.iter().map(|host| address(host, 26379, scheme)).collect();
            Topology::Sentinel(SentinelGroup { master: master.to_owned(), sentinels: sentinels? })
        }
        "redis+cluster" | "rediss+cluster" => {
            let nodes: Result<_, _> =
                hosts.iter().map(|host| address(host, 6379, scheme)).collect();
            Topology::Cluster(nodes?)
        }
        _ => return Err(refuse(FORM)),
    };
    let mut builder = RedisBuilder::at(topology);
    if !url.username().is_empty() {
        builder = builder.username(decoded(url.username())?);
    }
    if let Some(password) = url.password() {
        builder = builder.password(decoded(password)?);
    }
    if !number.is_empty() {
        builder = builder.database(database(number)?);
    }
    options(builder, &url, socket, also)
}

/// The URL with its hosts replaced by one, and the original hosts.
fn single_host(url: &str) -> Result<(String, Vec<String>), Error> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok((url.to_owned(), vec![])) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    if hosts.is_empty() {
        return if authority.is_empty() { Ok((url.to_owned(), vec![])) } else { Err(refuse(FORM)) };
    }
    if login.contains('@') {
        return Err(refuse(
            "a user or a password of the URL has an @ in it, which must be percent-encoded as %40; one login \
             is for all hosts",
        ));
    }
    let hosts = hosts.split(',').map(str::to_owned).collect();
    let login = if login.is_empty() { String::new() } else { format!("{login}@") };
    Ok((format!("{scheme}://{login}host{tail}"), hosts))
}

/// `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`, with TLS if the scheme begins with `rediss`. No error
/// repeats the text: it may be a part of a password.
fn address(text: &str, default: u16, scheme: &str) -> Result<Address, Error> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or_else(|| refuse(FORM))?;
            // The zone of an IPv6 address follows a %, which is percent-encoded.
            (decoded(address)?, port)
        }
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (host.to_owned(), port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(port) if port.contains(':') => {
            return Err(refuse("an IPv6 address of the URL stands in brackets: [::1]:6379"));
        }
        _ if host.is_empty() => return Err(refuse(FORM)),
        Some("") => default,
        None if port.is_empty() => default,
        port => port.and_then(|port| port.parse().ok()).ok_or_else(|| {
            refuse("the port of a host in the URL is not allowed; must be between 1 and 65535")
        })?,
    };
    Ok(if scheme.starts_with("rediss") {
        Address::Tls(host, port)
    } else {
        Address::Tcp(host, port)
    })
}

fn decoded(text: &str) -> Result<String, Error> {
    let text = percent_decode_str(text).decode_utf8();
    Ok(text.map_err(|_| refuse("a part of the URL is not UTF-8"))?.into_owned())
}

#[cfg(test)]
mod tests {
    use lock_core::{ConnectionSecurity, ErrorKind};

    use super::*;
    use crate::connection::socket::Socket;

    fn parse(url: &str) -> Result<RedisBuilder, Error> {
        super::parse(url, "")
    }

    #[test]
    fn all_parts_of_a_url_are_read() {
        let url = "rediss://me:hunter%402@[::1]:7000/3?prefix=app&longest_lease=1m&quarantine=off\
                   &timeout=2s&allow_eviction=true";
        let builder = parse(url).unwrap();
        let set = &builder.settings;
        assert!(
            matches!(&set.topology, Topology::Single(Address::Tls(host, 7000)) if host == "::1"),
            "{set:?}"
        );
        assert_eq!(set.login.password.as_deref(), Some("hunter@2"));
        assert_eq!((set.database, set.quarantine), (3, Some(false)));
        assert!(!format!("{builder:?}").contains("hunter"));
        let socket = parse("unix:///run/redis.sock?db=2").unwrap().settings;
        assert!(
            matches!(socket.topology, Topology::Single(Address::Unix(path)) if path.as_os_str() == "/run/redis.sock")
        );
    }

    #[test]
    fn several_hosts_are_read_and_sentinels_with_logins_of_their_own() {
        let url = "redis+sentinel://me:hunter2@a,b:7000,[::1]:7001/main/2?sentinel_user=s\
                   &sentinel_password=hunter3&failover_margin=9s";
        let builder = parse(url).unwrap();
        assert!(!format!("{builder:?}").contains("hunter"), "{builder:?}");
        let set = &builder.settings;
        let Topology::Sentinel(group) = &set.topology else { panic!("{set:?}") };
        let addresses = [("a", 26379), ("b", 7000), ("::1", 7001)];
        assert_eq!(group.sentinels, addresses.map(|(host, port)| Address::Tcp(host.into(), port)));
        assert_eq!((&*group.master, set.database), ("main", 2));
        assert_eq!(set.sentinel_login.password.as_deref(), Some("hunter3"));
        assert_eq!(set.login.password.as_deref(), Some("hunter2"));
        let cluster = parse("redis+cluster://a,b:7000").unwrap().settings.topology;
        let nodes = [("a", 6379), ("b", 7000)].map(|(host, port)| Address::Tcp(host.into(), port));
        assert!(matches!(&cluster, Topology::Cluster(seeds) if *seeds == nodes), "{cluster:?}");
        let zone = parse("redis://[fe80::1%25eth0]:1").unwrap().settings.topology;
        assert!(matches!(&zone, Topology::Single(Address::Tcp(host, 1)) if host == "fe80::1%eth0"));
        zone.check().unwrap();
        let tls = parse("rediss+sentinel://a/main").unwrap().settings.topology;
        assert!(tls.tls(), "{tls:?}");
    }

    #[test]
    fn a_password_goes_unencrypted_only_if_allowed() {
        for (url, link) in [
            ("redis://:hunter2@h?plaintext=on", ConnectionSecurity::Plain),
            ("redis://me@h", ConnectionSecurity::Plain),
            ("rediss://:hunter2@h", ConnectionSecurity::Verified),
            ("redis://:hunter2@localhost", ConnectionSecurity::Local),
            ("redis://:hunter2@[::1]", ConnectionSecurity::Local),
            ("unix:/s?password=hunter2", ConnectionSecurity::Local),
            ("redis+cluster://:hunter2@127.0.0.1:1,127.0.0.1:2", ConnectionSecurity::Local),
        ] {
            let settings = parse(url).unwrap().settings;
            settings.check().unwrap();
            assert_eq!(settings.topology.security(), link, "{url}");
        }
    }

    #[tokio::test]
    async fn a_master_that_a_sentinel_names_elsewhere_gets_no_password_unencrypted() {
        let settings = parse("redis+sentinel://:hunter2@localhost/main").unwrap().settings;
        settings.check().unwrap();
        let master = Address::Tcp("h".into(), 6379);
        let by = tokio::time::Instant::now() + settings.timeout;
        let login = settings.login(redis::ProtocolVersion::RESP3, by).await.unwrap();
        let opened = Socket::open(&settings, &master, &login, Default::default()).await;
        let error = opened.err().unwrap();
        assert_eq!(error.kind(), redis::ErrorKind::InvalidClientConfig, "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }

    #[test]
    fn what_cannot_work_is_refused_without_showing_it() {
        for (url, part) in [
            ("redis://:hunter2@/0", "redis://USER"),
            ("redis://:hunter2@a,b/0", "redis://USER"),
            ("redis://u:hunter2", "between 1 and 65535"),
            ("redis://:hunter2@h:65536", "between 1 and 65535"),
            ("redis://:hunter2@h:0", "port 0"),
            ("redis://:hunter2@@h", "%40"),
            ("redis://:hunter2@::1", "in brackets: [::1]:6379"),
            ("redis://:hunter2@[::1", "redis://USER"),
            ("redis://:hunter2@[::1]6379", "between 1 and 65535"),
            ("redis://:hunter2@[::z]", "an IPv6 address"),
            ("redis://u%3Ahunter2%40h", "host of the store"),
            ("redis+sentinel://a:hunter2@h1,b:hunter3@h2/main", "%40"),
            ("redis://:hunter2@h?timeout=1s&prefix=a&timeout=hunter", "timeout is given twice"),
            ("unix:/s?password=hunter2&password=hunter3", "password is given twice"),
            ("redis://me:?timeout=hunter2@h", "timeout is not allowed"),
            ("redis://me:?quarantine=hunter2@h", "quarantine is not allowed"),
            ("redis://me:?wait_replicas=hunter2@h", "wait_replicas is not allowed"),
            ("rediss://me:?ca=hunter2@h", "the file of ca"),
            ("redis+sentinel://:hunter2@a,,b/main", "redis://USER"),
            ("redis+sentinel://:hunter2@a,b", "name is empty"),
            (
                "redis://:hunter2@h?sentinel_user=hunter",
                "unknown option \"sentinel_user\" in the URL; it must be one of",
            ),
            ("redis+sentinel://:hunter2@a/main/x", "between 0 and"),
            ("redis+sentinel://me:1/hunter2@a", "redis://USER"),
            ("redis+cluster://:hunter2@", "redis://USER"),
            ("redis://:hunter2@h?wait_replicas=-1", "between 0 and 4294967295"),
            ("redis://:hunter2@h?wait_timeout=1s", "wait_replicas of 1 or more"),
            ("redis://:hunter2@h?wait_replicas=1&wait_timeout=5s", "less than the timeout, 5s"),
            ("redis+cluster://:hunter2@a,b/1", "only database 0"),
            ("redis://:hunter2@h/x", "between 0 and"),
            ("redis://me:1#hunter2@h", "nothing may follow a #"),
            ("redis://:hunter2@h?longest=3s", "unknown option in the URL; it must be one of"),
            ("redis://h?hunter2", "unknown option in the URL; it must be one of"),
            ("redis://h?hunter2=1&timeout=1s", "unknown option in the URL; it must be one of"),
            ("redis://h?password=hunter2", "unknown option in the URL; it must be one of"),
            ("unix:/s?password=a&hunter2", "unknown option in the URL; it must be one of"),
            ("redis://me:?hunter2@h", "unknown option in the URL; it must be one of"),
            ("redis://:hunter2@h?quarantine=yes", "on or off"),
            ("redis://:hunter2@h?timeout=5", "such as 30s"),
            ("rediss://:hunter2@h?cert=/dev/null", "both or neither"),
            ("redis://:hunter2@h?prefix=a%7Bb", "without braces"),
            ("redis://:hunter2@h?longest_lease=1ms", "between 10ms and 7days"),
            (
                "redis://:hunter2@h?longest_lease=1s+1us",
                "lease 1s 1us is not allowed; must be a multiple",
            ),
            ("rediss://:hunter2@h?ca=/dev/null", "one or more certificates in PEM"),
            ("redis://:hunter2@h", "plaintext=on in the URL"),
            ("redis://me:hunter2@10.0.0.1?plaintext=off", "plaintext=on in the URL"),
            ("redis+cluster://:hunter2@localhost,h", "plaintext=on in the URL"),
            ("redis+sentinel://h/main?sentinel_password=hunter2", "plaintext=on in the URL"),
        ] {
            let error = parse(url).and_then(|builder| builder.settings.check()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        }
    }
}
