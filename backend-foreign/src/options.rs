//! The options of a layout in a URL.

use lock_core::{Error, ErrorKind, SeenOptions};
use url::form_urlencoded;

pub(crate) fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

/// Takes the options of a layout out of a URL. Returns them, and the URL of the server without
/// them. `is_own` decides by option and value.
pub(crate) fn split(
    url: &str,
    is_own: impl Fn(&str, &str) -> Result<bool, Error>,
) -> Result<(Vec<(String, String)>, String), Error> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut own, mut rest, mut seen) = (Vec::new(), Vec::new(), SeenOptions::default());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((option, value)) = form_urlencoded::parse(pair.as_bytes()).next() else {
            continue;
        };
        if is_own(&option, &value)? {
            seen.once(&option)?;
            own.push((option.into_owned(), value.into_owned()));
        } else {
            rest.push(pair);
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    Ok((own, format!("{place}{query}")))
}
