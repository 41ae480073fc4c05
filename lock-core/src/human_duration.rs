//! Durations in configuration files, as people write them: `"10s"`, `"1min 30s"`, `"500ms"`.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    humantime::format_duration(*span).to_string().serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = Cow::<'de, str>::deserialize(from)?;
    humantime::parse_duration(&text).map_err(|_| {
        let form = "a number with a unit, such as 500ms, 10s or 2min";
        D::Error::custom(format_args!("duration {text:?} is not allowed; it must be {form}"))
    })
}

/// The same for an optional duration.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct HumanDuration(#[serde(with = "super")] Duration);

    pub(crate) fn serialize<S>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
    {
        span.map(HumanDuration).serialize(to)
    }

    pub(crate) fn deserialize<'de, D>(from: D) -> Result<Option<Duration>, D::Error>
    where
        D: Deserializer<'de>,
    {
        Ok(Option::<HumanDuration>::deserialize(from)?.map(|HumanDuration(span)| span))
    }
}
