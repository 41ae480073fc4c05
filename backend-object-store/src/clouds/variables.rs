//! Environment variables, in which the clouds' own tools find their settings and credentials.

use std::{collections::BTreeMap, str::FromStr};

/// Variables by their names. An empty one counts as not set, as in those tools. Of two names for
/// one setting, the last one counts. The values may be secret, so there is no `Debug`.
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(super) fn new(given: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(given.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Adds one, unless it is set already.
    pub(super) fn add(&mut self, name: &str, value: String) {
        self.0.entry(name.to_owned()).or_insert(value);
    }

    /// Those that begin with `prefix` and are the keys of a builder.
    pub(super) fn known<K: FromStr>(&self, prefix: &str) -> impl Iterator<Item = (K, &str)> {
        let own = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        own.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, &**value)))
    }
}
