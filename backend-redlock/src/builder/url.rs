//! Reads the URL of a store.

use std::{sync::Arc, time::Duration};

use backend_redis::node;
use lock_core::{Backend, Error, ErrorKind, SeenOptions};
use url::form_urlencoded;

use super::config::RedlockBuilder;

const FORM: &str = "the URL of a Redlock store is redlock://HOST:PORT,HOST:PORT,HOST:PORT?options, with \
                    USER:PASSWORD@ before a host that asks for it, or redlocks:// with TLS";

/// Opens the store that a URL describes:
/// `redlock://HOST:PORT,HOST:PORT,HOST:PORT/DATABASE?options`. Each host may have its own
/// `USER:PASSWORD@` before it. `redlocks://…` is the same with TLS.
///
/// Options: `node_timeout=50ms`, `clock_bound=100ms`, `prefix=leasehold-redlock`, `timeout=1s`; and
/// those of a `redis://` URL, which go to each node, such as `plaintext=on` for passwords without
/// TLS.
///
/// # Errors
/// As [`RedlockBuilder::build`]; `InvalidInput` for a URL that is not of this form. No message
/// shows the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url).map_err(|error| error.at("redlock", "connect"))?.build().await
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// The options of the whole store. The others are passed to each node.
#[derive(Default)]
struct StoreOptions {
    node_timeout: Option<Duration>,
    clock_bound: Option<Duration>,
    prefix: Option<String>,
    timeout: Option<Duration>,
    rest: Vec<String>,
}

impl StoreOptions {
    /// The options that a node's URL does not have.
    const NAMES: &str = "node_timeout, clock_bound, ";

    fn read(query: &str) -> Result<Self, Error> {
        let (mut own, mut given) = (Self::default(), SeenOptions::default());
        // The query may be a part of a password with a `?` that was not encoded. Then no error
        // shows it.
        let secret = query.contains('@');
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((option, value)) = form_urlencoded::parse(pair.as_bytes()).next() else {
                continue;
            };
            let span = || {
                humantime::parse_duration(&value).map_err(|_| {
                    let value = if secret { String::new() } else { format!(" {value:?}") };
                    refuse(format!(
                        "{option}{value} is not allowed; it must be a duration such as 50ms"
                    ))
                })
            };
            match &*option {
                "node_timeout" => own.node_timeout = Some(span()?),
                "clock_bound" => own.clock_bound = Some(span()?),
                "timeout" => own.timeout = Some(span()?),
                "prefix" => own.prefix = Some(value.to_string()),
                _ => {
                    own.rest.push(pair.to_owned());
                    continue;
                }
            }
            given.once(&option)?;
        }
        Ok(own)
    }
}

pub(crate) fn parse(url: &str) -> Result<RedlockBuilder, Error> {
    let (scheme, place) = url.split_once("://").ok_or_else(|| refuse(FORM))?;
    let scheme = match scheme {
        "redlock" => "redis",
        "redlocks" => "rediss",
        _ => return Err(refuse(FORM)),
    };
    if url.contains('#') {
        // Perhaps a `#` in a password that was not encoded.
        return Err(refuse(format!("{FORM}; nothing may follow a #")));
    }
    let (address, query) = place.split_once('?').unwrap_or((place, ""));
    let (hosts, database) = address.split_once('/').unwrap_or((address, ""));
    let own = StoreOptions::read(query)?;
    let rest = own.rest.join("&");
    let mut nodes = Vec::new();
    for host in hosts.split(',') {
        if host.is_empty() {
            return Err(refuse(FORM));
        }
        let node = format!("{scheme}://{host}/{database}?{rest}");
        nodes.push(node::from_url(&node, StoreOptions::NAMES)?);
    }
    let mut builder = RedlockBuilder::new(nodes);
    if let Some(span) = own.node_timeout {
        builder = builder.node_timeout(span);
    }
    if let Some(span) = own.clock_bound {
        builder = builder.clock_bound(span);
    }
    if let Some(span) = own.timeout {
        builder = builder.timeout(span);
    }
    if let Some(prefix) = own.prefix {
        builder = builder.prefix(prefix);
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_own_user() {
        let url = "redlocks://a:hunter2@h1:7001,h2,b:hunter3@h3:7003/2?node_timeout=20ms\
                   &clock_bound=50ms&quarantine=on&prefix=a%2Fb";
        let builder = parse(url).unwrap();
        assert!(!format!("{builder:?}").contains("hunter"));
        let quorum = builder.quorum().unwrap();
        assert_eq!(quorum.nodes[0].server.epoch_key(), "a/b:{0}:epoch");
        let addresses: Vec<_> = quorum.nodes.iter().map(|node| node.address.as_str()).collect();
        assert_eq!(addresses, ["h1:7001", "h2:6379", "h3:7003"]);
        assert_eq!(quorum.options.node_timeout, Some(Duration::from_millis(20)));
        assert_eq!(quorum.options.clock_bound, Duration::from_millis(50));
    }

    #[test]
    fn what_cannot_work_is_refused_with_an_explanation_and_without_the_url() {
        for (url, part) in [
            ("redlock://h1:hunter2", "between 1 and 65535"),
            ("redlock://:hunter2@h1,h2,h3:0?plaintext=on", "port 0"),
            ("redlock://:hunter2@h1,h2,h3?prefix=a%7Bb&plaintext=on", "without braces"),
            ("redlock://:hunter2@h1,h2,h3?prefix=a&prefix=hunter", "prefix is given twice"),
            (
                "redlock://:hunter2@h1,h2,h3?quarantine=on&quarantine=on",
                "quarantine is given twice",
            ),
            ("redlock://:hunter2@h1,h2,h3?prefix=a#hunter", "nothing may follow a #"),
            ("redlock://me:?node_timeout=hunter2@h1,h2,h3", "node_timeout is not allowed"),
            ("redlock://:hunter2@h1", "fewer than three"),
            ("redlock://:hunter2@h1,h2", "fewer than three"),
            ("redlock://:hunter2@h1,h2,h3,h4", "an even number"),
            ("redlock://:hunter2@h1,h2,h1?plaintext=on", "named twice"),
            ("redlock://:hunter2@h1,,h3", "redlock://HOST"),
            ("redlock://localhost:1,:hunter2@h2,localhost:3", "plaintext=on in the URL"),
            ("redlock:hunter2", "redlock://HOST"),
            ("redlock://:hunter2@h1,h2,h3?node_timeout=5", "such as 50ms"),
            ("redlock://:hunter2@h1,h2,h3?node_timeout=2s", "no more than"),
            ("redlock://:hunter2@h1,h2,h3?clock_bound=0s", "between 1ms and 1m"),
            (
                "redlock://:hunter2@h1,h2,h3?longest=3s",
                "unknown option in the URL; it must be one of",
            ),
            ("redlock://h1,h2,h3?hunter2", "unknown option in the URL; it must be one of"),
            ("redlock://h1,h2,h3?password=hunter2", "unknown option in the URL; it must be one of"),
            ("redlock://:hunter2@h1,h2,h3?longest=3s", "key, node_timeout, clock_bound, for"),
        ] {
            let error = parse(url).and_then(RedlockBuilder::quorum).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        }
    }
}
