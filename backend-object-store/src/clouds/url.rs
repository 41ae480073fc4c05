//! Reads the URL of a store.

use std::time::Duration;

use lock_core::{Error, ErrorKind, PLAINTEXT, SeenOptions, check_span, unknown_option};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::tunables::{TIMEOUT, TIMEOUTS};

const FORM: &str = "the URL of an object store is s3://BUCKET/PREFIX?options, gs://BUCKET/PREFIX or \
                    az://CONTAINER/PREFIX, without credentials: these come from the environment";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cloud {
    #[default]
    Amazon,
    Google,
    Azure,
}

/// Where the objects are.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) cloud: Cloud,
    pub(super) bucket: String,
    pub(super) prefix: String,
    pub(super) region: Option<String>,
    pub(super) account: Option<String>,
    pub(super) endpoint: Option<Url>,
    pub(super) timeout: Duration,
    pub(super) longest_lease: Option<Duration>,
    pub(super) plaintext: bool,
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

pub(super) fn parse(text: &str) -> Result<Place, Error> {
    // No message shows the URL: it may have a password, although it may not.
    let url = Url::parse(text).map_err(|_| refuse(FORM))?;
    let (cloud, own) = match url.scheme() {
        "s3" => (Cloud::Amazon, "region, endpoint"),
        "gs" => (Cloud::Google, "endpoint"),
        "az" => (Cloud::Azure, "account, endpoint"),
        _ => return Err(refuse(FORM)),
    };
    let is_plain = url.username().is_empty() && url.password().is_none() && url.port().is_none();
    let bucket = url.host_str().filter(|_| is_plain && url.fragment().is_none());
    let bucket = bucket.ok_or_else(|| refuse(FORM))?.to_owned();
    let prefix = percent_decode_str(url.path().trim_matches('/')).decode_utf8();
    let prefix = prefix.map_err(|_| refuse("the prefix in the URL must be UTF-8, percent-encoded"));
    let prefix = prefix?.into_owned();
    let mut place = Place { cloud, bucket, prefix, timeout: TIMEOUT, ..Place::default() };
    let mut given = SeenOptions::default();
    for (option, value) in url.query_pairs() {
        given.once(&option)?;
        match (&*option, cloud) {
            ("region", Cloud::Amazon) => place.region = Some(value.to_string()),
            ("account", Cloud::Azure) => place.account = Some(value.to_string()),
            ("endpoint", _) => {
                let named = "endpoint in the URL";
                place.endpoint = Some(endpoint(ErrorKind::InvalidInput, named, &value)?);
            }
            ("timeout", _) => {
                place.timeout = duration("timeout", &value)?;
                check_span("timeout", place.timeout, TIMEOUTS[0], TIMEOUTS[1])?;
            }
            ("longest_lease", _) => place.longest_lease = Some(duration("longest_lease", &value)?),
            (PLAINTEXT, _) => {
                place.plaintext = match &*value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(refuse("plaintext in the URL must be on or off")),
                }
            }
            _ => {
                let query = url.query().unwrap_or_default();
                let allowed = format!("{own}, timeout, longest_lease, plaintext");
                return Err(unknown_option(query, &option, allowed));
            }
        }
        if value.is_empty() {
            return Err(refuse(format!("{option} in the URL must not be empty")));
        }
    }
    Ok(place)
}

/// The URL of a server: a scheme, a place and perhaps a path.
pub(super) fn endpoint(kind: ErrorKind, named: &str, value: &str) -> Result<Url, Error> {
    let url = Url::parse(value).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    let message = format!("{named} must be http://HOST:PORT or https://HOST:PORT");
    url.ok_or_else(|| Error::new(kind, message))
}

fn duration(option: &str, value: &str) -> Result<Duration, Error> {
    humantime::parse_duration(value)
        .map_err(|_| refuse(format!("{option} in the URL must be a duration such as 5s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_place() {
        let place =
            parse("s3://b-1/a/b/?region=eu-west-1&endpoint=http%3A%2F%2Fh%3A9000/&timeout=2s")
                .unwrap();
        assert_eq!((place.cloud, &*place.bucket, &*place.prefix), (Cloud::Amazon, "b-1", "a/b"));
        assert_eq!(place.region.as_deref(), Some("eu-west-1"));
        assert_eq!(place.endpoint.unwrap().as_str(), "http://h:9000/");
        assert_eq!(place.timeout, Duration::from_secs(2));
        assert_eq!(parse("gs://b").unwrap().prefix, "");
        assert_eq!(parse("s3://b/a%20b/%C3%A4%2525").unwrap().prefix, "a b/ä%25");
        let upper = parse("s3://b?endpoint=HTTP://H:9000").unwrap();
        assert_eq!(upper.endpoint.unwrap().as_str(), "http://h:9000/");
        assert_eq!(parse("az://b/p?account=me").unwrap().account.as_deref(), Some("me"));
    }

    #[test]
    fn what_cannot_work_is_refused_without_the_url() {
        for (url, part) in [
            ("s3:", "s3://BUCKET"),
            ("s3:///p", "s3://BUCKET"),
            ("s3://key:hunter2@b", "without credentials"),
            ("s3://b#hunter2", "s3://BUCKET"),
            ("s3://b?secret=hunter2", "must be one of region, endpoint"),
            ("gs://b?region=x", "must be one of endpoint, timeout"),
            ("s3://b?region=x&region=y", "region is given twice"),
            ("s3://b?endpoint=http://me:hunter2@h", "must be http://HOST:PORT"),
            ("s3://b?endpoint=ftp://h", "must be http://HOST:PORT"),
            ("s3://b?endpoint=http://h%23hunter2", "must be http://HOST:PORT"),
            ("s3://b?endpoint=", "must be http://HOST:PORT"),
            ("s3://b?region=", "region in the URL must not be empty"),
            ("az://b?account=", "account in the URL must not be empty"),
            ("s3://b/%ff", "must be UTF-8"),
            ("s3://b?timeout=5", "such as 5s"),
            ("s3://b?timeout=5min", "between 100ms and 1m"),
            ("s3://b?longest_lease=x", "longest_lease in the URL must be a duration"),
            ("s3://b?plaintext=yes", "on or off"),
            ("http://b", "s3://BUCKET"),
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error:?}").contains("hunter"), "{error:?}");
        }
    }
}
