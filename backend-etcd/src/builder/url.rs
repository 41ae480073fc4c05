//! The URL of a store.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind, PLAINTEXT, SeenOptions, unknown_option};
use percent_encoding::percent_decode_str;
use url::Url;

use super::config::EtcdBuilder;

const FORM: &str = "the URL of an etcd store is etcd://HOST:PORT,HOST:PORT?options";

/// Opens the store that a URL describes:
/// `etcd://USER:PASSWORD@HOST:PORT,HOST:PORT?prefix=leasehold/&longest_lease=30s&spare_leases=64&timeout=5s&\
/// plaintext=on&ca=FILE&cert=FILE&key=FILE`. All parts except one host are optional. `ca`, or
/// `cert` and `key`, turn TLS on. Without TLS, a password is sent to another machine only with
/// `plaintext=on`.
///
/// # Errors
/// As [`EtcdBuilder::build`]; `InvalidInput` for a URL of another form; `Config` for a file
/// that cannot be read. No message contains the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url).map_err(|error| error.at("etcd", "connect"))?.build().await
}

pub(crate) fn parse(url: &str) -> Result<EtcdBuilder, Error> {
    let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let form = || refuse(FORM.to_owned());
    let rest = url.strip_prefix("etcd://").ok_or_else(form)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    // A URL has only one host, so each host is parsed as a URL of its own.
    let mut endpoints = Vec::new();
    for host in hosts.split(',') {
        let url = Url::parse(&format!("http://{host}")).map_err(|_| form())?;
        let named = url.host_str().filter(|_| url.path() == "/").ok_or_else(form)?;
        let port = if host.ends_with(":80") { 80 } else { url.port().unwrap_or(2379) };
        endpoints.push(format!("{named}:{port}"));
    }
    let mut builder = EtcdBuilder::new(endpoints);
    if let Some(user) = user {
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(Into::<String>::into);
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let name = decode(name).map_err(|_| form())?;
        builder = builder.user(name, decode(password).map_err(|_| form())?);
    }
    let options = Url::parse(&format!("etcd://host{rest}")).map_err(|_| form())?;
    if !matches!(options.path(), "" | "/") || options.fragment().is_some() {
        return Err(form());
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
        builder = match &*key {
            "prefix" => builder.prefix(value),
            "longest_lease" => builder.longest_lease(duration()?),
            "timeout" => builder.timeout(duration()?),
            "spare_leases" => builder.spare_leases(value.parse().map_err(|_| {
                refuse(format!("{shown} in the URL must be a number from 0 to 1000"))
            })?),
            PLAINTEXT => match &*value {
                "on" => builder.plaintext(true),
                "off" => builder.plaintext(false),
                _ => {
                    let message = format!("{shown} in the URL must be on or off");
                    return Err(refuse(message));
                }
            },
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
                    "prefix, longest_lease, spare_leases, timeout, plaintext, ca, cert, key",
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
    fn a_url_names_members_user_and_options() {
        let builder = parse("etcd://h1:80,[::1]:2380,h3?prefix=a/&timeout=2s").unwrap();
        assert_eq!(builder.endpoints, ["h1:80", "[::1]:2380", "h3:2379"]);
        assert_eq!(builder.prefix, "a/");
        assert_eq!(builder.timeout, Duration::from_secs(2));
        let builder = parse("etcd://me:se%40cret@h1").unwrap();
        assert_eq!(builder.user.as_ref().unwrap().1, "se@cret");
        assert!(!format!("{builder:?}").contains("cret"));
    }

    /// It is refused before anything is sent: these hosts do not exist.
    #[tokio::test]
    async fn a_password_leaves_the_machine_only_encrypted_or_with_plaintext_on() {
        for url in ["h.invalid", "127.0.0.1,h.invalid", "h.invalid?plaintext=off"] {
            let error = connect(&format!("etcd://u:sesame@{url}")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(error.to_string().contains("plaintext=on in the URL"), "{error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
        }
        for (url, security) in [
            ("etcd://h", ConnectionSecurity::Plain),
            ("etcd://u:sesame@h?plaintext=on", ConnectionSecurity::Plain),
            ("etcd://u:sesame@h?ca=/dev/null", ConnectionSecurity::Verified),
            ("etcd://u:sesame@127.0.0.1:1,[::1]:2,localhost", ConnectionSecurity::Local),
        ] {
            assert_eq!(parse(url).unwrap().security(), security, "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_without_their_password() {
        for url in [
            "http://h1",
            "etcd://",
            "etcd://u:sesame@",
            "etcd://u:sesame@h1,,h2",
            "etcd://u:sesame@h1/path",
            "etcd://u:sesame@h1?colour=red",
            "etcd://u:sesame@h1?timeout=soon",
            "etcd://u:sesame@h1?spare_leases=many",
            "etcd://u:sesame@h1:port",
            "etcd://u:sesame@h1?prefix=a&prefix=sesame",
            "etcd://u:?sesame@h1",
            "etcd://h1?sesame",
            "etcd://h1?sesame=1&timeout=1s",
            "etcd://h1?password=sesame",
            "etcd://u:12?timeout=sesame@h1",
            "etcd://u:12?spare_leases=sesame@h1",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
        }
        let error = parse("etcd://u:12?ca=sesame@h1").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }
}
