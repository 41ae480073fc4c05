//! What it was measured on.

use serde::Serialize;

/// The machine and the program.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Machine {
    /// Processors that it lets us use.
    pub processors: usize,
    /// What they call themselves, if they do.
    pub processor: Option<String>,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Its operating system, and its kernel.
    pub system: String,
    /// Whether this program was built for measuring: without it the figures say little.
    pub optimised: bool,
}

impl Machine {
    /// This one.
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
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn distribution() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("an unknown system", |name| name.trim_matches('"')).to_owned()
}
