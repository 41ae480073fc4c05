//! What the options of all store URLs have in common.

use std::{collections::BTreeSet, fmt::Display};

use crate::{Error, ErrorKind, name::shortened};

/// The options that were found in a store's URL. Each may be given once, because a second value
/// would silently replace the first. For backends that parse URLs.
#[derive(Debug, Default)]
pub struct SeenOptions(BTreeSet<String>);

impl SeenOptions {
    /// Records an option.
    ///
    /// # Errors
    /// `InvalidInput` if the option was given before. The message names it.
    pub fn once(&mut self, option: &str) -> Result<(), Error> {
        if self.0.insert(option.to_owned()) {
            return Ok(());
        }
        let message = format!("{option} is given twice in the URL; it must be given once");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }
}

/// The error for an unknown option in the `query` of a URL: `InvalidInput`, naming all that are
/// `allowed`. It shows the option only if it is like a known one: another may be a part of a
/// password that was not percent-encoded.
pub fn unknown_option(query: &str, option: &str, allowed: impl Display) -> Error {
    let allowed = allowed.to_string();
    let plain = |each: char| each.is_ascii_alphanumeric() || "_-".contains(each);
    let known = allowed.split(|each| !plain(each)).filter(|known| known.len() > 3);
    let near = known.map(|known| (distance(option, known), known)).min();
    let near = near.filter(|(distance, known)| 3 * *distance < known.len());
    let secret = query.contains('@') || query.to_ascii_lowercase().contains("password");
    let (shown, hint) = match near {
        None => (String::new(), String::new()),
        Some(_) if secret => (String::new(), String::new()),
        // Known, but not in such a URL.
        Some((0, _)) => (format!(" {}", shortened(option)), String::new()),
        Some((_, known)) => (format!(" {}", shortened(option)), format!(", did you mean {known}?")),
    };
    let message = format!("unknown option{shown} in the URL{hint}; it must be one of {allowed}");
    Error::new(ErrorKind::InvalidInput, message)
}

/// How many letters must be added, removed or replaced to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (column, theirs) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != *theirs);
            before = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_given_twice_is_refused() {
        let mut given = SeenOptions::default();
        given.once("prefix").unwrap();
        given.once("timeout").unwrap();
        let error = given.once("prefix").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("prefix is given twice in the URL"), "{error}");
    }

    #[test]
    fn an_unknown_option_is_named_with_the_nearest_known_one() {
        let told = |query: &str, option: &str| {
            unknown_option(query, option, "prefix, timeout, ssl-mode, with x: a").to_string()
        };
        let text = told("tiemout=5s", "tiemout");
        assert!(text.contains("option \"tiemout\" in the URL, did you mean timeout?;"), "{text}");
        let text = told("sslmode=x", "sslmode");
        assert!(text.contains("did you mean ssl-mode?"), "{text}");
        let text = told("foo=1", "foo");
        assert!(text.contains("unknown option in the URL; it must be one of prefix"), "{text}");
        let text = told("ssl-mode=x", "ssl-mode");
        assert!(text.contains("\"ssl-mode\" in the URL; it must be one of prefix"), "{text}");
    }

    #[test]
    fn what_may_be_a_part_of_a_password_is_not_shown() {
        for (query, option) in [
            ("cret=x@h", "cret"),
            ("password=se&cret=1&db=1", "cret"),
            ("cret", "cret"),
            ("cret2=1", "cret2"),
        ] {
            let text = unknown_option(query, option, "prefix").to_string();
            assert!(!text.contains("cret"), "{text}");
        }
    }
}
