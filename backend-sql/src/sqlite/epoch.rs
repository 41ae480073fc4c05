//! Epochs: which clock the times of a row belong to.

use lock_core::{Env as _, Error, ErrorKind, SystemEnv};

/// A boot of a machine, seen from a time namespace: processes that share it share CLOCK_BOOTTIME.
pub(super) fn current() -> Result<String, Error> {
    let missing = |path: &str, error: std::io::Error| {
        Error::new(ErrorKind::Config, format!("cannot read {path}, by which leases are told apart"))
            .with_source(error)
    };
    let path = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(path).map_err(|error| missing(path, error))?;
    // Absent before Linux 5.6, where there are no time namespaces.
    let namespace = rustix::fs::readlink("/proc/self/ns/time", Vec::new());
    let namespace = namespace.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(format!("{} {namespace}{}", boot.trim(), offset()))
}

/// By how much the clock of this namespace is ahead. The kernel gives the number of a namespace that has ended
/// to the next one, whose clock may be another: rows of the former would be held for the difference.
fn offset() -> String {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let boottime = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    boottime.into_iter().flat_map(str::split_whitespace).map(|word| format!(" {word}")).collect()
}

/// Nanoseconds of CLOCK_BOOTTIME.
pub(super) fn now() -> i64 {
    i64::try_from(SystemEnv.now().as_nanos()).unwrap_or(i64::MAX)
}

/// The day by the wall clock, from 1970 on.
pub(super) fn today() -> i64 {
    wall_micros() / 86_400_000_000
}

/// Microseconds of the wall clock.
pub(super) fn wall_micros() -> i64 {
    i64::try_from(SystemEnv.wall_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn stays_the_same_within_a_process() {
        let epoch = super::current().unwrap();
        assert_eq!(epoch, super::current().unwrap());
        assert!(epoch.len() > 36, "a boot id and perhaps a namespace: {epoch}");
    }
}
