//! How answers are printed as JSON.

use std::fmt::Write as _;

use leasehold::Holder;
use serde_json::{Map, Value};

use crate::exit::{Failure, is_unseen};

/// A record as JSON on several lines. A duration is a number of milliseconds, and its name ends
/// with `_ms`.
pub(crate) fn pretty(record: &impl serde::Serialize) -> Result<String, Failure> {
    text_of(record, serde_json::to_string_pretty)
}

/// The same on one line.
pub(crate) fn line(record: &impl serde::Serialize) -> Result<String, Failure> {
    text_of(record, serde_json::to_string)
}

fn text_of(
    record: &impl serde::Serialize,
    write: fn(&Value) -> serde_json::Result<String>,
) -> Result<String, Failure> {
    let text = serde_json::to_value(record)
        .and_then(|value| write(&plain(value)))
        .map_err(|error| Failure::unavailable(format_args!("cannot print JSON: {error}")))?;
    Ok(seen(&text) + "\n")
}

/// JSON with invisible characters escaped. Only its strings contain such characters.
pub(crate) fn seen(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 1);
    for each in text.chars() {
        if each != '\n' && is_unseen(each) {
            for unit in each.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(each);
        }
    }
    shown
}

fn plain(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(plain).collect(),
        Value::Object(fields) => Value::Object(fields.into_iter().map(field).collect()),
        other => other,
    }
}

fn field((key, value): (String, Value)) -> (String, Value) {
    match value.as_object().and_then(millis) {
        // A lease without an end.
        Some(millis) if u128::from(millis) >= Holder::WITHOUT_END.as_millis() => {
            (key + "_ms", Value::Null)
        }
        Some(millis) => (key + "_ms", millis.into()),
        None => (key, plain(value)),
    }
}

/// A duration as serde writes it.
fn millis(fields: &Map<String, Value>) -> Option<u64> {
    let (secs, nanos) = (fields.get("secs")?.as_u64()?, fields.get("nanos")?.as_u64()?);
    (fields.len() == 2).then(|| secs.saturating_mul(1000).saturating_add(nanos / 1_000_000))
}
