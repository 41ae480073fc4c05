//! What answers at the address of a store that could not be opened: a server of another kind, TLS
//! where none was expected, or a proxy. The drivers report only how the bytes went wrong.

use std::time::Duration;

use lock_core::{Error, ErrorKind};
use tokio::{net::TcpStream, time::timeout};

use crate::StoreUrl;

/// How long a question may take. The caller has waited for the store already.
const LIMIT: Duration = Duration::from_millis(500);
/// Of more servers, the first ones are asked.
const MOST_ASKED: usize = 5;

/// HTTP and Redis answer it, both with a refusal. MySQL speaks first.
const GET: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
/// PostgreSQL's question for TLS, which has a short answer.
const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 4, 210, 22, 47];
/// Redis, and a proxy before it that speaks nothing else.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
/// ZooKeeper answers it, or says that its operator does not allow the question.
const SRVR: &[u8] = b"srvr";
/// A TLS handshake with one cipher suite. The answer is a handshake or an alert.
const CLIENT_HELLO: [u8; 50] = {
    let mut hello = [7; 50];
    let head = [22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    let mut at = 0;
    while at < head.len() {
        hello[at] = head[at];
        at += 1;
    }
    // 32 random bytes, no session, the cipher suites, no compression.
    let tail = [0, 0, 2, 192, 47, 1, 0];
    let mut at = 0;
    while at < tail.len() {
        hello[43 + at] = tail[at];
        at += 1;
    }
    hello
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    Redis,
    RedisProxy,
    Http,
    Mysql,
    Postgres,
    Tls,
    ZooKeeper,
}

/// The error, or a better one if something else than the store answers.
pub(crate) async fn explained(url: &StoreUrl, error: Error) -> Error {
    if !error.is_retryable() {
        return error;
    }
    if format!("{error:#}").contains("invalid peer certificate") {
        let option = match kind(url.expose().split(':').next().unwrap_or_default()) {
            Some("postgres") => "sslrootcert",
            Some("mysql") => "ssl-ca",
            _ => "ca",
        };
        let message = format!(
            "the server's certificate is not accepted; give the file of its authority as {option}=FILE in the URL, and the \
             host by a name in the certificate"
        );
        return Error::new(ErrorKind::Config, message).with_source(error);
    }
    let mut unreached = None;
    for place in places(url).into_iter().take(MOST_ASKED) {
        let met = met(&place).await.unwrap_or_else(|why| {
            unreached.get_or_insert(format!("{place}: {why}"));
            None
        });
        if let Some(told) = met.and_then(|met| told(url, met)) {
            // Without the error itself: what the driver made of the answer misleads.
            return Error::new(ErrorKind::Config, format!("{place} {told}"));
        }
    }
    match unreached {
        // Its driver does not say why there is no connection.
        Some(why) if url.scheme() == "zookeeper" => {
            Error::new(error.kind(), why).with_source(error)
        }
        _ => error,
    }
}

/// What is wrong with what was met, and what to do.
fn told(url: &StoreUrl, met: Met) -> Option<String> {
    let (scheme, rest) = url.expose().split_once(':').unwrap_or_default();
    let kind = kind(scheme)?;
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let certified = query.split('&').any(|it| it.starts_with("ca=") || it.starts_with("cert="));
    let tls = scheme.starts_with("rediss") || scheme == "redlocks" || certified;
    Some(match (kind, met) {
        ("postgres", Met::Postgres) | ("mysql", Met::Mysql) => return None,
        ("redis", Met::Redis | Met::RedisProxy) if tls => {
            let plain = scheme.replacen("rediss", "redis", 1).replacen("redlocks", "redlock", 1);
            format!("is a Redis without TLS: use {plain}://, or its port for TLS")
        }
        ("redis", Met::Redis) => return None,
        ("redis", Met::RedisProxy) => {
            "answers PING as a Redis does, and not HELLO 3: a proxy, such as Twemproxy; use the \
             address of the Redis itself"
                .to_owned()
        }
        ("redis", Met::Tls) if !tls => {
            let secure = scheme.replacen("redis", "rediss", 1).replacen("redlock", "redlocks", 1);
            format!("expects TLS: use {secure}://")
        }
        ("etcd" | "zookeeper", Met::Tls) if !tls => {
            "expects TLS: add ca=FILE to the URL".to_owned()
        }
        ("etcd", Met::Http) if tls => {
            "speaks HTTP without TLS: leave ca, cert and key out of the URL".to_owned()
        }
        ("zookeeper", Met::ZooKeeper) if tls => {
            "is a ZooKeeper without TLS: leave ca, cert and key out of the URL, or use its port for TLS"
                .to_owned()
        }
        ("postgres" | "mysql", Met::Tls) => format!(
            "begins with TLS, as a proxy for TLS does, and a {kind} server begins without: use the \
             address of the server itself"
        ),
        ("etcd", Met::Http) | ("zookeeper", Met::ZooKeeper) | (_, Met::Tls) => return None,
        (_, met) => {
            let (what, scheme) = match met {
                Met::Http => ("an HTTP server, such as etcd", "etcd"),
                Met::Mysql => ("a MySQL or MariaDB", "mysql"),
                Met::Postgres => ("a PostgreSQL", "postgres"),
                Met::ZooKeeper => ("a ZooKeeper", "zookeeper"),
                Met::Redis | Met::RedisProxy | Met::Tls => ("a Redis", "redis"),
            };
            format!("answers as {what} does: use {scheme}://, or the address of the {kind} server")
        }
    })
}

fn kind(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "etcd" => "etcd",
        "mysql" | "mariadb" => "mysql",
        "postgres" | "postgresql" => "postgres",
        "zookeeper" => "zookeeper",
        "unix" | "redis+unix" => return None,
        _ if scheme.starts_with("redis") || scheme.starts_with("redlock") => "redis",
        _ => return None,
    })
}

/// The addresses in a URL, without the login.
fn places(url: &StoreUrl) -> Vec<String> {
    let (scheme, rest) = url.expose().split_once(':').unwrap_or_default();
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let hosts = hosts.split(['/', '?']).next().unwrap_or_default();
    let port = match kind(scheme) {
        None => return Vec::new(),
        Some("etcd") => 2379,
        Some("mysql") => 3306,
        Some("postgres") => 5432,
        Some("zookeeper") => 2181,
        Some(_) if scheme.ends_with("+sentinel") => 26379,
        Some(_) => 6379,
    };
    let hosts = hosts.split(',').filter(|host| !host.is_empty());
    let port_of = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:{port}"),
    };
    hosts.map(|host| port_of(host.trim_start_matches("http://"))).collect()
}

/// What answers there. An error says why nothing does.
async fn met(place: &str) -> std::io::Result<Option<Met>> {
    let first = ask(place, GET).await?;
    if first.starts_with(b"HTTP/") {
        // Go's servers say so in HTTP.
        let tls = String::from_utf8_lossy(&first).contains("HTTPS");
        return Ok(Some(if tls { Met::Tls } else { Met::Http }));
    }
    match first[..] {
        [b'+' | b'-', ..] => return Ok(Some(Met::Redis)),
        [21 | 22, 3, ..] => return Ok(Some(Met::Tls)),
        [_, _, _, 0, 10 | 255, ..] => return Ok(Some(Met::Mysql)),
        _ => {}
    }
    if matches!(ask(place, SSL_REQUEST).await?[..], [b'S' | b'N']) {
        return Ok(Some(Met::Postgres));
    }
    if matches!(ask(place, &CLIENT_HELLO).await?[..], [21 | 22, 3, ..]) {
        return Ok(Some(Met::Tls));
    }
    let told = ask(place, SRVR).await?;
    if ["Zookeeper ", "This ZooKeeper ", "srvr "].iter().any(|it| told.starts_with(it.as_bytes())) {
        return Ok(Some(Met::ZooKeeper));
    }
    Ok(ask(place, PING).await?.starts_with(b"+PONG").then_some(Met::RedisProxy))
}

/// Sends this, and reads the first bytes of the answer; none if the server is silent, and an error
/// if nothing listens there.
async fn ask(place: &str, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let stream = timeout(LIMIT, TcpStream::connect(place)).await??;
    let mut answer = vec![0; 128];
    let exchange = async {
        stream.writable().await?;
        // So few bytes fit into an empty buffer.
        stream.try_write(question)?;
        loop {
            stream.readable().await?;
            match stream.try_read(&mut answer) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    };
    let read = timeout(LIMIT, exchange).await;
    answer.truncate(read.map_or(0, |read| read.unwrap_or(0)));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(feature = "redis", feature = "etcd", feature = "postgres", feature = "zookeeper"))]
    fn the_addresses_of_a_url_have_no_login_and_a_port() {
        for (url, found) in [
            ("redis://u:se@cret@h/0?db=1", vec!["h:6379"]),
            ("rediss+sentinel://:x@a,b:7/m", vec!["a:26379", "b:7"]),
            ("etcd://[::1]:2,h", vec!["[::1]:2", "h:2379"]),
            ("postgres://u@[::1]/d", vec!["[::1]:5432"]),
            ("zookeeper://u:x@a,b:7/p", vec!["a:2181", "b:7"]),
            ("unix:/s", vec![]),
            ("redis:", vec![]),
        ] {
            assert_eq!(places(&StoreUrl::new(url).unwrap()), found, "{url}");
        }
    }
}
