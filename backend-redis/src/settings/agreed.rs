//! The settings on which all clients of a store agree.

use std::time::Duration;

/// The settings in an epoch record, which all clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedSettings {
    /// The longest lease.
    pub longest_lease: Duration,
    /// Whether a loss of data starts a quarantine.
    pub quarantine: bool,
}

impl AgreedSettings {
    /// Reads the fields `longest` and `quarantine` of an epoch record. The error says what is wrong
    /// with them.
    pub(crate) fn read(longest: Option<&str>, quarantine: Option<&str>) -> Result<Self, String> {
        let wrong = |field, value: Option<&str>| match value {
            Some(value) => format!("has {value:?} in the field {field:?}"),
            None => format!("has no field {field:?}"),
        };
        let micros = longest.and_then(|micros| micros.parse().ok()).filter(|micros| *micros > 0);
        let longest_lease = micros.map(Duration::from_micros);
        let longest_lease = longest_lease.ok_or_else(|| wrong("longest", longest))?;
        let quarantine = match quarantine {
            Some("on") => true,
            Some("off") => false,
            other => return Err(wrong("quarantine", other)),
        };
        Ok(Self { longest_lease, quarantine })
    }
}
