//! The machine of the comparison.

use serde::Serialize;

/// The machine and the program.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// The number of processors that this program may use.
    pub processors: usize,
    /// The model of the processors, if they report it.
    pub processor: Option<String>,
    /// The memory in MiB.
    pub memory_mib: u64,
    /// The operating system and the kernel.
    pub system: String,
    /// The load average of the last minute before the comparison.
    pub load: f64,
    /// Whether this program was built with optimisation. Without it, the figures say little.
    pub optimised: bool,
}

/// Other work may use this part of the processors without much harm.
const SPARE: f64 = 0.5;

impl Machine {
    /// The reasons why the figures of this machine and this program say little.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.optimised {
            all.push("built without optimisation".to_owned());
        }
        if self.load > self.processors as f64 * SPARE {
            let Self { load, processors, .. } = self;
            all.push(format!(
                "busy before the measuring, with a load of {load:.1} on {processors} processors"
            ));
        }
        all
    }

    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = rustix::system::uname();
        let kernel = kernel.release().to_string_lossy();
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.map(|(_, name)| name.trim().to_owned()),
            memory_mib: total.unwrap_or(0) >> 10,
            system: format!("{}, Linux {kernel}", distribution()),
            load: load(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn distribution() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("an unknown system", |name| name.trim_matches('"')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_and_a_build_for_tests_are_named() {
        let quiet = Machine { processors: 4, load: 2.0, optimised: true, ..Machine::here() };
        assert!(quiet.warnings().is_empty());
        let busy = Machine { load: 25.1, ..quiet.clone() }.warnings();
        assert_eq!(busy, ["busy before the measuring, with a load of 25.1 on 4 processors"]);
        let slow = Machine { optimised: false, ..quiet }.warnings();
        assert_eq!(slow, ["built without optimisation"]);
    }
}
