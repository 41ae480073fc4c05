//! A disk that is slow to flush, or full: `strace` delays a server's system calls, or makes them
//! fail.

use std::{path::PathBuf, time::Duration};

use crate::{error::Result, faults::tracer::Tracer, process::Process};

/// Holds up the flushes of a server until it is dropped.
#[derive(Debug)]
pub struct SlowFlush(Tracer);

impl SlowFlush {
    /// Holds up each `fdatasync` and `fsync` by `delay`; on return all threads of the server are
    /// under it.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`](crate::KitError::Unexpected) where the kernel does not let one
    /// process trace another, as with `kernel.yama.ptrace_scope` above 0 and without root.
    pub async fn start(process: &Process, delay: Duration) -> Result<Self> {
        Self::start_on(process, delay, &[]).await
    }

    /// The same for these files only; for all, if there are none.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_on(process: &Process, delay: Duration, files: &[PathBuf]) -> Result<Self> {
        let inject = format!("inject=fdatasync,fsync:delay_enter={}", delay.as_micros());
        let mut args = ["-e", "trace=fdatasync,fsync", "-e", &inject].map(str::to_owned).to_vec();
        args.extend(files.iter().flat_map(|file| ["-P".to_owned(), file.display().to_string()]));
        Tracer::attach(process, &args).await.map(Self)
    }

    /// How many flushes were held up so far.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`](crate::KitError::Io).
    pub fn held_up(&self) -> Result<usize> {
        self.0.count("DELAYED")
    }
}

/// Fails a server's writes to some files with "no space left on device" until it is dropped.
#[derive(Debug)]
pub struct FullDisk(Tracer);

impl FullDisk {
    /// On return no thread of the server can write to these files.
    ///
    /// # Errors
    ///
    /// As [`SlowFlush::start`].
    pub async fn start(process: &Process, files: &[PathBuf]) -> Result<Self> {
        let calls = "write,pwrite64,writev,pwritev,pwritev2,fallocate";
        let mut args = vec!["-e".to_owned(), format!("trace={calls}")];
        args.extend(["-e".to_owned(), format!("inject={calls}:error=ENOSPC")]);
        for file in files {
            args.extend(["-P".to_owned(), file.display().to_string()]);
        }
        Tracer::attach(process, &args).await.map(Self)
    }

    /// How many writes have failed so far.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`](crate::KitError::Io).
    pub fn failed(&self) -> Result<usize> {
        self.0.count("INJECTED")
    }
}
