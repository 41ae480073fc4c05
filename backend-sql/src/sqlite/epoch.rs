//! The epoch of a row says to which clock its times belong.

use lock_core::{Env as _, Error, ErrorKind, SystemEnv};

/// The epoch of this process: a boot of a machine, seen from a time namespace. Processes of one
/// epoch share CLOCK_BOOTTIME.
pub(super) fn current() -> Result<String, Error> {
    let missing = |path: &str, error: std::io::Error| {
        Error::new(
            ErrorKind::Config,
            format!("cannot read {path}, which identifies the clock of leases"),
        )
        .with_source(error)
    };
    let path = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(path).map_err(|error| missing(path, error))?;
    // Absent before Linux 5.6, where there are no time namespaces.
    let namespace = rustix::fs::readlink("/proc/self/ns/time", Vec::new());
    let namespace = namespace.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(format!("{} {namespace}{}", boot.trim(), offset()))
}

/// The offset of this namespace's clock. It is part of the epoch because the kernel reuses the
/// number of a namespace that has ended, and the next one may have another clock: rows of the first
/// would then be held for the difference.
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
