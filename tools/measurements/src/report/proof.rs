//! Results under faults: reads the file that `verification --json` has written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of the proof (`verification`).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Proof {
    pub(crate) stores: Vec<OfStore>,
}

/// The results of a kind of store.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct OfStore {
    pub(crate) store: String,
    pub(crate) faults: Vec<OfFault>,
}

/// The results of one fault.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct OfFault {
    pub(crate) fault: String,
    /// The result of each guarantee: `held`, `broken`, …
    pub(crate) cells: BTreeMap<String, String>,
    pub(crate) violations: Vec<String>,
    pub(crate) failed: Option<String>,
    pub(crate) seeds: Vec<u64>,
    pub(crate) granted: u64,
    pub(crate) lost: u64,
    pub(crate) stale_refused: u64,
    pub(crate) reported_late_ms: u64,
    pub(crate) freed_after_ms: Option<u64>,
    #[serde(default)]
    pub(crate) timeline: Option<Timeline>,
}

/// The holders of the victim's lock around the fault. Times are in milliseconds since the first
/// hold.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Timeline {
    pub(crate) name: String,
    pub(crate) fault: [f64; 2],
    pub(crate) holds: Vec<Hold>,
    pub(crate) losses: Vec<Loss>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Hold {
    pub(crate) process: u32,
    pub(crate) token: u64,
    pub(crate) from: f64,
    pub(crate) until: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Loss {
    pub(crate) process: u32,
    pub(crate) at: f64,
}

impl Proof {
    /// Reads the results of the proof.
    ///
    /// # Errors
    /// In words, if the text is something else.
    pub fn read(text: &str) -> Result<Self, String> {
        let read: Result<Self, _> = serde_json::from_str(text);
        let proof =
            read.map_err(|error| format!("these are no results of verification --json: {error}"))?;
        if proof.stores.is_empty() {
            return Err("there are no results of any store in it".to_owned());
        }
        Ok(proof)
    }

    /// All faults that were tried, in the order of their first appearance.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let mut faults = Vec::new();
        for fault in self.stores.iter().flat_map(|store| &store.faults) {
            if !faults.contains(&fault.fault.as_str()) {
                faults.push(&fault.fault);
            }
        }
        faults
    }
}

impl OfFault {
    /// The result in a word or two.
    pub(crate) fn in_short(&self) -> &'static str {
        let wrong = |cell: &String| cell == "violated" || cell == "not-seen";
        if self.failed.is_some() || self.cells.values().any(wrong) {
            return "FAILED";
        }
        let broken = |name: &str| self.cells.get(name).is_some_and(|cell| cell == "broken");
        match (broken("exclusion"), broken("tokens")) {
            (false, false) => "holds",
            (true, false) => "two holders",
            (false, true) => "tokens repeat",
            (true, true) => "two holders, tokens repeat",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_no_proof_is_refused() {
        for text in ["", "[]", "{}", "[{\"store\": 1}]"] {
            assert!(Proof::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fault_is_told_in_short() {
        let of = |cells: &str, failed: &str| -> OfFault {
            let text = format!(
                "{{\"fault\": \"f\", \"cells\": {{{cells}}}, \"violations\": [], \
                 \"failed\": {failed}, \"seeds\": [], \"granted\": 0, \"lost\": 0, \
                 \"stale_refused\": 0, \"reported_late_ms\": 0, \"freed_after_ms\": null}}"
            );
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(of("\"exclusion\": \"held\"", "null").in_short(), "holds");
        assert_eq!(of("\"exclusion\": \"broken\"", "null").in_short(), "two holders");
        assert_eq!(of("\"exclusion\": \"not-seen\"", "null").in_short(), "FAILED");
        assert_eq!(of("", "\"no server\"").in_short(), "FAILED");
    }
}
