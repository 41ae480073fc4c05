//! The URL of a store.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind, PLAINTEXT, SeenOptions, unknown_option};
use percent_encoding::percent_decode_str;
use url::Url;

use super::config::ZooKeeperBuilder;

const FORM: &str = "the URL of a ZooKeeper store is zookeeper://HOST:PORT,HOST:PORT/PREFIX?options";

/// Opens the store that a URL describes:
/// `zookeeper://USER:PASSWORD@HOST:PORT,HOST:PORT/leasehold?longest_lease=30s&tick=2s&timeout=5s&\
/// plaintext=on&auth=sasl&acl=creator&ca=FILE&cert=FILE&key=FILE`. All parts except one host are
/// optional. `ca` turns TLS on. Without TLS, a password is sent to another machine only with
/// `plaintext=on`.
///
/// # Errors
/// As [`ZooKeeperBuilder::build`]; `InvalidInput` for a URL of another form; `Config` for a file
/// that cannot be read. No message contains the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url).map_err(|error| error.at("zookeeper", "connect"))?.build().await
}

pub(crate) fn parse(url: &str) -> Result<ZooKeeperBuilder, Error> {
    let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let form = || refuse(FORM.to_owned());
    let rest = url.strip_prefix("zookeeper://").ok_or_else(form)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    // A URL has only one host, so each host is parsed as a URL of its own.
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        let url = Url::parse(&format!("http://{host}")).map_err(|_| form())?;
        let named = url.host_str().filter(|_| url.path() == "/").ok_or_else(form)?;
        let port = if host.ends_with(":80") { 80 } else { url.port().unwrap_or(2181) };
        servers.push(format!("{named}:{port}"));
    }
    let mut builder = ZooKeeperBuilder::new(servers);
    let decode = |text: &str| {
        percent_decode_str(text).decode_utf8().map(Into::<String>::into).map_err(|_| form())
    };
    if let Some(user) = user {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        builder = builder.user(decode(name)?, decode(password)?);
    }
    let options = Url::parse(&format!("zookeeper://host{rest}")).map_err(|_| form())?;
    if options.fragment().is_some() {
        return Err(form());
    }
    if !matches!(options.path(), "" | "/") {
        builder = builder.prefix(decode(options.path())?);
    }
    // If a password contains a `?` that is not encoded, a part of it is among the options.
    let secret = rest.contains('@');
    let read = |key: &str, file: &str| {
        std::fs::read(file).map_err(|error| {
            let file = if secret { "" } else { file };
            let message = format!("the file of {key} in the URL cannot be read: {file}");
            Error::new(ErrorKind::Config, message).with_source(error)
        })
    };
    let (mut certificate, mut private) = (None, None);
    let mut given = SeenOptions::default();
    for (key, value) in options.query_pairs() {
        given.once(&key)?;
        let shown = if secret { key.to_string() } else { format!("{key}={value}") };
        let duration = || {
            humantime::parse_duration(&value)
                .map_err(|_| refuse(format!("{shown} in the URL is not a duration such as 30s")))
        };
        let either = |one: &str, other: &str| match &*value {
            value if value == one => Ok(true),
            value if value == other => Ok(false),
            _ => Err(refuse(format!("{shown} in the URL must be {one} or {other}"))),
        };
        builder = match &*key {
            "longest_lease" => builder.longest_lease(duration()?),
            "tick" => builder.tick(duration()?),
            "timeout" => builder.timeout(duration()?),
            PLAINTEXT => builder.plaintext(either("on", "off")?),
            "auth" => builder.sasl(either("sasl", "digest")?),
            "acl" => builder.own_nodes(either("creator", "open")?),
            "ca" => builder.tls(read(&key, &value)?),
            "cert" => {
                certificate = Some(read(&key, &value)?);
                builder
            }
            "key" => {
                private = Some(read(&key, &value)?);
                builder
            }
            _ => {
                return Err(unknown_option(
                    options.query().unwrap_or_default(),
                    &key,
                    "longest_lease, tick, timeout, plaintext, auth, acl, ca, cert, key",
                ));
            }
        };
    }
    match (certificate, private) {
        (None, None) => Ok(builder),
        (Some(certificate), Some(key)) => Ok(builder.client_certificate(certificate, key)),
        _ => Err(refuse("cert and key in the URL need each other".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use lock_core::ConnectionSecurity;

    use super::*;

    #[test]
    fn a_url_names_servers_user_prefix_and_options() {
        let builder = parse("zookeeper://h1:80,[::1]:2182,h3/a/b?timeout=2s").unwrap();
        assert_eq!(builder.servers, ["h1:80", "[::1]:2182", "h3:2181"]);
        assert_eq!(builder.prefix, "/a/b");
        assert_eq!(builder.timeout, Duration::from_secs(2));
        let builder = parse("zookeeper://me:se%40cret@h1").unwrap();
        assert_eq!(builder.user.as_ref().unwrap().1, "se@cret");
        assert_eq!(builder.prefix, ZooKeeperBuilder::DEFAULT_PREFIX);
        assert!(!format!("{builder:?}").contains("cret"));
    }

    /// It is refused before anything is sent: these hosts do not exist.
    #[tokio::test]
    async fn a_password_leaves_the_machine_only_encrypted_or_with_plaintext_on() {
        for url in ["h.invalid", "127.0.0.1,h.invalid", "h.invalid?plaintext=off"] {
            let error = connect(&format!("zookeeper://u:sesame@{url}")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(error.to_string().contains("plaintext=on in the URL"), "{error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
        }
        for (url, security) in [
            ("zookeeper://h", ConnectionSecurity::Plain),
            ("zookeeper://u:sesame@127.0.0.1,h?ca=/dev/null", ConnectionSecurity::Verified),
            ("zookeeper://u:sesame@127.0.0.1:1,[::1]:2,localhost", ConnectionSecurity::Local),
        ] {
            assert_eq!(parse(url).unwrap().security(), security, "{url}");
        }
    }

    #[tokio::test]
    async fn other_urls_are_refused_without_their_password() {
        for url in [
            "http://h1",
            "zookeeper://",
            "zookeeper://u:sesame@",
            "zookeeper://u:sesame@h1,,h2",
            "zookeeper://u:sesame@127.0.0.1//path",
            "zookeeper://u:sesame@127.0.0.1/zookeeper",
            "zookeeper://u:sesame@h1?colour=red",
            "zookeeper://u:sesame@h1?timeout=soon",
            "zookeeper://u:sesame@h1?acl=mine",
            "zookeeper://127.0.0.1?acl=creator",
            "zookeeper://127.0.0.1?auth=sasl",
            "zookeeper://u:sesame@127.0.0.1?auth=tls",
            "zookeeper://127.0.0.1?tick=0s",
            "zookeeper://127.0.0.1?longest_lease=9s",
            "zookeeper://127.0.0.1?timeout=2h",
            "zookeeper://u:sesame@h1:port",
            "zookeeper://u:sesame@h1?tick=1s&tick=sesame",
            "zookeeper://u:?sesame@h1",
            "zookeeper://h1?sesame=1&timeout=1s",
            "zookeeper://u:12?timeout=sesame@h1",
        ] {
            let error = connect(url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
        }
        let error = connect("zookeeper://u:12?ca=sesame@h1").await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }
}
