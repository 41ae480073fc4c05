//! What the documentation cites of a run: its ratios, as data and as a table of Markdown.

use serde::{Deserialize, Serialize};

use crate::{Absent, Machine, Setting, Target, ratios, table::digits};

const BEGIN: &str = "<!-- ratios -->";
const END: &str = "<!-- /ratios -->";

/// What is cited of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Evidence {
    version: String,
    machine: Machine,
    took_seconds: f64,
    stores: Vec<Measured>,
    absent: Vec<Absent>,
    ratios: Vec<Row>,
}

/// A store, as it says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Measured {
    name: String,
    settings: Vec<Setting>,
}

/// As [`Ratio`](crate::Ratio); JSON has no infinity.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Row {
    store: String,
    what: String,
    figure: Option<f64>,
    floor: String,
    floor_figure: Option<f64>,
    unit: String,
    ratio: Option<f64>,
    target: Option<Target>,
    met: Option<bool>,
}

impl Evidence {
    /// Of a report's JSON, or of [`json`](Self::json).
    ///
    /// # Errors
    /// In words, if it is neither.
    pub fn read(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|error| format!("no report of a comparison: {error}"))
    }

    /// Only what is cited, with an end of line.
    ///
    /// # Errors
    /// In words, where JSON cannot say it.
    pub fn json(&self) -> Result<String, String> {
        let json = serde_json::to_string_pretty(self);
        json.map(|json| json + "\n").map_err(|error| format!("no JSON: {error}"))
    }

    /// A line on what was measured where, and a table with a line for each ratio.
    #[must_use]
    pub fn block(&self) -> String {
        let machine = &self.machine;
        let stores = self.stores.iter().filter_map(|store| {
            let version = store.settings.iter().find(|it| it.name == "version")?;
            (store.name != "memory").then(|| format!("{} {}", store.name, version.value))
        });
        let mut block = format!(
            "Leasehold {} on {} × {}, {} MiB, {}, all servers on the same machine ({}); measured for \
             {:.0} s.",
            self.version,
            machine.processors,
            machine.processor.as_deref().unwrap_or("an unknown processor"),
            machine.memory_mib,
            machine.system,
            stores.collect::<Vec<_>>().join(", "),
            self.took_seconds
        );
        for warning in machine.warnings() {
            block += &format!(" **{warning}: these figures say little.**");
        }
        block += "\n\n| store | what | leasehold | against | ratio | wanted | |\n";
        block += "|---|---|---|---|---|---|---|\n";
        self.ratios.iter().for_each(|row| block += &row.line());
        for absent in &self.absent {
            block += &format!("\nNot measured: {}: {}\n", absent.name, absent.why);
        }
        block
    }

    /// A page whose block between the marks is this one's.
    ///
    /// # Errors
    /// In words, if it has no marks.
    pub fn put_into(&self, page: &str) -> Result<String, String> {
        let parts = page
            .split_once(BEGIN)
            .and_then(|(head, rest)| rest.split_once(END).map(|(_, tail)| (head, tail)));
        let (head, tail) = parts.ok_or_else(|| format!("no {BEGIN} and {END} in the page"))?;
        Ok(format!("{head}{BEGIN}\n{}{END}{tail}", self.block()))
    }
}

impl Row {
    fn line(&self) -> String {
        let number = |value: Option<f64>| value.map_or("∞".to_owned(), digits);
        let wanted = self.target.map_or(String::new(), |target| target.to_string());
        let met = match self.met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        };
        format!(
            "| {} | {} ({}) | {} | {}: {} | {} | {wanted} | {met} |\n",
            self.store,
            self.what,
            self.unit,
            number(self.figure),
            self.floor,
            number(self.floor_figure),
            self.ratio.map_or("∞".to_owned(), ratios::digits),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ratio;

    fn evidence() -> Evidence {
        let ratio = Ratio::new("redis", "handoffs", "rslock", "per second");
        let missed = ratio.clone().wanted(Target::AtLeast(40.0)).of(300.0, 10.0);
        let json = serde_json::json!({
            "version": "1", "machine": Machine::here(), "took_seconds": 1.0, "peers": "no more",
            "stores": [{"name": "redis", "settings": [Setting::new("version", "7")]}],
            "absent": [], "ratios": [missed, ratio.of(1.0, 0.0)],
        });
        Evidence::read(&json.to_string()).unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn a_ratio_is_a_line_and_infinity_can_be_read() {
        let block = evidence().block();
        let line = "| redis | handoffs (per second) | 300 | rslock: 10.0 | 30.0 | at least 40 | \
                    **missed** |";
        assert!(block.contains(line), "{block}");
        assert!(block.contains("| 1.00 | rslock: 0.00 | ∞ |  |  |"), "{block}");
        assert!(block.contains("redis 7"), "{block}");
    }

    #[test]
    fn what_is_between_the_marks_is_replaced_and_reading_again_changes_nothing() {
        let evidence = evidence();
        let page = format!("a\n{BEGIN}\nthe last one\n{END}\nb\n");
        let made = evidence.put_into(&page);
        let made = made.unwrap_or_else(|error| unreachable!("{error}"));
        assert!(
            made.starts_with("a\n") && made.ends_with("\nb\n") && !made.contains("the last one")
        );
        let again = evidence.json().and_then(|json| Evidence::read(&json));
        assert_eq!(again.and_then(|again| again.put_into(&made)), Ok(made));
        assert!(evidence.put_into("no marks").is_err());
    }
}
