//! The options of a URL.

use std::path::Path;

use lock_core::{Error, ErrorKind, PLAINTEXT, SeenOptions, unknown_option};
use url::Url;

use crate::{
    builder::RedisBuilder,
    settings::{Login, Topology},
};

/// One option: its name and its value.
struct UrlOption<'a> {
    name: &'a str,
    value: &'a str,
    /// The query may be a part of a password with a `?` that was not encoded. Then no error shows
    /// it.
    secret: bool,
}

/// Applies the options. The error for an unknown option lists `also` among the allowed ones.
pub(super) fn options(
    mut builder: RedisBuilder,
    url: &Url,
    socket: bool,
    also: &str,
) -> Result<RedisBuilder, Error> {
    let (mut cert, mut key) = (None, None);
    let mut sentinel = Login::default();
    let watched = matches!(builder.settings.topology, Topology::Sentinel(_));
    let secret = url.query().is_some_and(|query| query.contains('@'));
    let mut given = SeenOptions::default();
    for (option, value) in url.query_pairs() {
        given.once(&option)?;
        let (name, value) = (&*option, &*value);
        let option = UrlOption { name, value, secret };
        builder = match name {
            "prefix" => builder.prefix(value),
            "longest_lease" => builder.longest_lease(option.span()?),
            "timeout" => builder.timeout(option.span()?),
            "late_after" => builder.late_after(option.span()?),
            "failover_margin" => builder.failover_margin(option.span()?),
            "wait_replicas" => {
                let refused = |_| option.refused(&format!("must be between 0 and {}", u32::MAX));
                builder.wait_replicas(value.parse().map_err(refused)?)
            }
            "wait_timeout" => builder.wait_timeout(option.span()?),
            "quarantine" => builder.quarantine(option.choice(["on", "off"])?),
            "allow_eviction" => builder.allow_eviction(option.choice(["true", "false"])?),
            PLAINTEXT => builder.plaintext(option.choice(["on", "off"])?),
            "ca" => builder.roots(option.file()?),
            "cert" => {
                cert = Some(option.file()?);
                builder
            }
            "key" => {
                key = Some(option.file()?);
                builder
            }
            "sentinel_user" if watched => {
                sentinel.username = Some(value.to_owned());
                builder
            }
            "sentinel_password" if watched => {
                sentinel.password = Some(value.to_owned());
                builder
            }
            "user" if socket => builder.username(value),
            "password" if socket => builder.password(value),
            "db" if socket => builder.database(database(value)?),
            _ => {
                let allowed = format_args!(
                    "prefix, longest_lease, quarantine, timeout, allow_eviction, failover_margin, \
                     wait_replicas, wait_timeout, late_after, {PLAINTEXT}, ca, cert, key, {also}for a socket user, \
                     password, db, with sentinels sentinel_user, sentinel_password"
                );
                return Err(unknown_option(url.query().unwrap_or_default(), name, allowed));
            }
        };
    }
    builder = builder.sentinel_login(sentinel.username, sentinel.password);
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(builder.certificate(cert, key)),
        (None, None) => Ok(builder),
        _ => Err(refuse("of cert and key only one is given; give both or neither")),
    }
}

impl UrlOption<'_> {
    fn refused(&self, allowed: &str) -> Error {
        let value = if self.secret { String::new() } else { format!(" {:?}", self.value) };
        refuse(format!("{}{value} is not allowed; {allowed}", self.name))
    }

    fn span(&self) -> Result<std::time::Duration, Error> {
        let refused = |_| self.refused("must be a duration such as 30s");
        humantime::parse_duration(self.value).map_err(refused)
    }

    /// `true` for the first of two words, `false` for the second.
    fn choice(&self, words: [&str; 2]) -> Result<bool, Error> {
        let refused = || self.refused(&format!("must be {} or {}", words[0], words[1]));
        Ok(words.iter().position(|word| *word == self.value).ok_or_else(refused)? == 0)
    }

    fn file(&self) -> Result<Vec<u8>, Error> {
        std::fs::read(Path::new(self.value)).map_err(|error| {
            let path = if self.secret { String::new() } else { format!(" {:?}", self.value) };
            refuse(format!("the file{path} of {} cannot be read", self.name)).with_source(error)
        })
    }
}

pub(super) fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

pub(super) fn database(text: &str) -> Result<u32, Error> {
    let limit = u32::MAX;
    // The value is not repeated: it may be the rest of a password.
    let message =
        format!("the database of the URL is not allowed; must be a number between 0 and {limit}");
    text.parse().map_err(|_| refuse(message))
}
