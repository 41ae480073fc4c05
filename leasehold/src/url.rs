//! The checked URL of a store, which does not show its passwords.

use std::{fmt, str::FromStr};

use lock_core::{Error, ErrorKind, OwnerLabel};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::schemes::{self, Scheme};

/// The URL of a store, such as `memory:` or `sqlite:/var/lib/app/locks.db`.
///
/// The scheme is known and compiled in. The backend checks the rest when it connects. `Display` and
/// `Debug` leave out what may be a password. There is no `Serialize`, so that a configuration in a
/// log shows no password either.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Checks `url` and wraps it. White space around it is left out, with a warning.
    ///
    /// # Errors
    /// `InvalidInput` for a missing or unknown scheme, or a control character; `Unsupported` if the
    /// scheme's backend is not compiled in, naming the feature to add. The messages show the scheme
    /// and nothing after it.
    pub fn new(url: impl AsRef<str>) -> Result<Self, Error> {
        let given = url.as_ref();
        let url = given.trim_ascii();
        if url.len() < given.len() {
            tracing::warn!(target: "leasehold", "the URL of the store begins or ends with white space, which is left out; was it read from a file?");
        }
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        if let Some(bad) = url.chars().find(|c| c.is_control()) {
            return refuse(format!(
                "the store URL contains the control character {bad:?}; write it percent-encoded"
            ));
        }
        let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme))
        else {
            let what = if url.is_empty() { "is empty" } else { "has no scheme" };
            return refuse(format!(
                "the store URL {what}; it must be one of {}",
                schemes::allowed()
            ));
        };
        // Schemes are the same in upper and lower case (RFC 3986).
        let scheme = scheme.to_ascii_lowercase();
        schemes::find(&scheme)?;
        Ok(Self(format!("{scheme}:{rest}")))
    }

    /// The part before the first colon, in lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// The whole URL, with its passwords.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The value of one of our own options, which the store does not see, and the URL without it.
    /// Each may be given once.
    pub(crate) fn split_off(&self, option: &str) -> Result<(Self, Option<String>), Error> {
        let Some((place, query)) = self.0.split_once('?') else { return Ok((self.clone(), None)) };
        let is_it = |pair: &&str| pair.split_once('=').is_some_and(|(key, _)| key == option);
        let (ours, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(is_it);
        if ours.len() > 1 {
            let message = format!("{option} is given twice in the URL; it must be given once");
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let value = ours.first().and_then(|pair| pair.split_once('='));
        let value = value.map(|(_, value)| {
            percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned()
        });
        let query =
            if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        Ok((Self(format!("{place}{query}")), value))
    }

    /// The label in the option `label` of the URL, if there is one. [`connect`](crate::connect())
    /// gives it to the client.
    ///
    /// # Errors
    /// `InvalidInput` for a label that is not allowed.
    pub fn label(&self) -> Result<Option<OwnerLabel>, Error> {
        Ok(self.labelled()?.1)
    }

    /// The label of the option `label`, which each kind of store has, and the URL without it.
    pub(crate) fn labelled(&self) -> Result<(Self, Option<OwnerLabel>), Error> {
        let (url, label) = self.split_off("label")?;
        Ok((url, label.map(OwnerLabel::new).transpose()?))
    }

    pub(crate) fn row(&self) -> Result<&'static Scheme, Error> {
        schemes::find(self.scheme())
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// The URL without what may be a password: everything between the scheme and the last `@`, and the
/// values of query parameters that sound secret or contain a URL. If in doubt it removes too much,
/// even if the URL is malformed.
fn redacted(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let rest = match rest.rsplit_once('@') {
        Some((secret, rest)) if secret.starts_with("//") => format!("//***@{rest}"),
        Some((_, rest)) => format!("***@{rest}"),
        // The login was percent-encoded as a whole, by mistake.
        None if host(rest).contains("%40") => rest.replacen(host(rest), "***", 1),
        None => rest.to_owned(),
    };
    let Some((place, query)) = rest.split_once('?') else { return format!("{scheme}:{rest}") };
    let shown: Vec<_> = query.split('&').map(parameter).collect();
    format!("{scheme}:{place}?{}", shown.join("&"))
}

/// The part between `//` and the path, or an empty text.
fn host(rest: &str) -> &str {
    let behind = rest.strip_prefix("//").unwrap_or_default();
    behind.split(['/', '?']).next().unwrap_or_default()
}

fn parameter(pair: &str) -> String {
    const SECRET: [&str; 6] = ["pass", "secret", "token", "auth", "key", "cred"];
    // Every option has a value, so this is the rest of a value that was not percent-encoded.
    let Some((key, value)) = pair.split_once('=') else { return "***".to_owned() };
    let secret = |text: &str| {
        let lower = text.to_ascii_lowercase();
        SECRET.iter().any(|word| lower.contains(word))
    };
    // A value may be a URL with parameters of its own.
    if secret(key) || value.contains("%40") || (value.contains(['%', '?']) && secret(value)) {
        format!("{key}=***")
    } else {
        pair.to_owned()
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redacted(&self.0), f)
    }
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        Self::new(url)
    }
}

impl TryFrom<String> for StoreUrl {
    type Error = Error;

    fn try_from(url: String) -> Result<Self, Error> {
        Self::new(url)
    }
}

impl TryFrom<&str> for StoreUrl {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self, Error> {
        Self::new(url)
    }
}

impl TryFrom<&String> for StoreUrl {
    type Error = Error;

    fn try_from(url: &String) -> Result<Self, Error> {
        Self::new(url)
    }
}

impl From<&StoreUrl> for StoreUrl {
    fn from(url: &StoreUrl) -> Self {
        url.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_never_shown() {
        for (url, shown) in [
            ("redis://user:hunter2@h:6379/0", "redis://***@h:6379/0"),
            ("redis://:hunter2@h", "redis://***@h"),
            ("postgres:user:hunter2@h/db", "postgres:***@h/db"),
            ("postgres://u:hun/ter2?x=@h/db?ssl=on", "postgres://***@h/db?ssl=on"),
            ("redlock://u:hunter2@a,u:hunter2@b", "redlock://***@b"),
            ("etcd://h?Password=hunter2&prefix=p", "etcd://h?Password=***&prefix=p"),
            ("migrate:both?from=redis%3A%2F%2Fu%3Ahunter2%40h", "migrate:both?from=***"),
            ("migrate:new?to=unix%3A%2Fs%3Fpassword%3Dhunter2", "migrate:new?to=***"),
            ("migrate:new?to=unix:/s?password=hunter2", "migrate:new?to=***"),
            ("migrate:new?to=sqlite%3Aa.db", "migrate:new?to=sqlite%3Aa.db"),
            ("sqlite:/var/lib/locks.db?strategy=x", "sqlite:/var/lib/locks.db?strategy=x"),
            ("redis://u%3Ahunter2%40h:1/0?db=1", "redis://***/0?db=1"),
            ("sqlite:///a%40b.db", "sqlite:///a%40b.db"),
            ("unix:/s?password=hun&ter2&db=1", "unix:/s?password=***&***&db=1"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn a_text_that_is_no_url_is_refused_and_not_shown() {
        for url in ["", "hunter2", "/tmp/hunter2.db", "9p:hunter2", "u ser:hunter2@h", "a\n:b"] {
            let error = StoreUrl::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(!text.contains("hunter2") && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_named_with_what_is_allowed() {
        let error = StoreUrl::new("Ftp://user:hunter2@h").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains("\"ftp\"") && text.contains("memory:"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    #[cfg(feature = "sqlite")]
    fn a_label_is_split_off() {
        let label = |text: &str| StoreUrl::new(text).unwrap().labelled();
        let (url, found) = label("sqlite:/a?timeout=1s&label=nightly%20%C3%A4&x=1").unwrap();
        assert_eq!(url.expose(), "sqlite:/a?timeout=1s&x=1");
        assert_eq!(found.unwrap().as_str(), "nightly ä");
        let (url, found) = label("sqlite:/a?label=x").unwrap();
        assert_eq!((url.expose(), found.unwrap().as_str()), ("sqlite:/a", "x"));
        assert!(label("sqlite:/a?label=x&label=y").is_err());
        assert!(label("sqlite:/a?label=a%0Ab").is_err());
        assert_eq!(label("sqlite:/a?b=1").unwrap().1, None);
    }

    #[test]
    #[cfg(feature = "memory")]
    fn white_space_around_the_url_is_left_out() {
        for given in ["memory:\r\n", "memory: ", " \tmemory:"] {
            assert_eq!(StoreUrl::new(given).unwrap().expose(), "memory:", "{given:?}");
        }
        assert!(StoreUrl::new(" ").unwrap_err().to_string().contains("is empty"));
        assert!(StoreUrl::new("memory:\n\nx").is_err());
    }

    #[test]
    #[cfg(feature = "memory")]
    fn schemes_are_the_same_in_either_case() {
        assert_eq!(StoreUrl::new("MEMORY:").unwrap().expose(), "memory:");
    }
}
