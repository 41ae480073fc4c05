//! What this crate asks of the operating system.
//!
//! | | Linux | macOS, other Unix | Windows |
//! |---|---|---|---|
//! | clock that counts through suspend | `CLOCK_BOOTTIME` | `CLOCK_MONOTONIC`; macOS promises it, others may stop it | `QueryPerformanceCounter`, whose manual promises it |
//! | a timer after a suspend | rings at once | up to a second late | up to a second late |
//! | host name of a label | `uname` | `uname` | `COMPUTERNAME` |
//!
//! A late timer weakens no promise of a store: `is_valid()` reads the clock. What waits for the end
//! of validity, such as `lost()`, may report it a second after the resume.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(all(unix, not(target_os = "linux")), path = "macos.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
#[cfg(unix)]
mod unix;

pub(crate) use system::{host_name, now, sleep_until, wall_micros};
