//! Sets a server's clocks while the server runs.
//!
//! A small library (`shim.c`, built with `cc` on first use) replaces the C library's
//! `clock_gettime`, `gettimeofday` and `time`, and its timed waits for a condition. It works on
//! Redis, PostgreSQL, MariaDB and Rust programs that read the clock through the C library (`std`
//! does).
//!
//! Limits: etcd and other Go programs read the clock from the kernel directly and see no change.
//! The same is true for a Rust program that uses `rustix` with its default backend. Sleeps and
//! time-outs belong to the kernel. One that has begun ends at its old time. Any other *absolute*
//! deadline is read on the kernel's clock; with a large shift it comes at once or very late.

use std::{
    ffi::OsString,
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    error::{Doing as _, Result},
    machine::{programs, session},
    process::Process,
};

const SOURCE: &str = include_str!("shim.c");
/// Layout of the file: see `shim.c`.
const SLOTS_AT: usize = 8;
const SLOT_LEN: usize = 32;

/// By how much each clock is shifted, in nanoseconds; negative is back in time. An offset of a
/// clock that stands still still counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// Of `CLOCK_REALTIME`, `gettimeofday` and `time`.
    pub realtime: i64,
    /// Of `CLOCK_MONOTONIC` and its like.
    pub monotonic: i64,
    /// Of `CLOCK_BOOTTIME`.
    pub boottime: i64,
}

/// Clocks that processes started under it share. Clones are the same clocks.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    library: PathBuf,
    file: tempfile::NamedTempFile,
    state: Mutex<State>,
}

/// What the file says.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    generation: u8,
    offsets: Offsets,
    /// Where the wall clock stands still, in nanoseconds, if it does.
    still: Option<i64>,
}

impl Clock {
    /// Clocks that are right, to begin with.
    ///
    /// # Errors
    ///
    /// Where there is no C compiler, [`KitError::MissingProgram`](crate::KitError::MissingProgram).
    pub async fn new() -> Result<Self> {
        let library = library().await?.to_owned();
        let file = tempfile::Builder::new()
            .prefix("clock-")
            .tempfile_in(session::folder()?)
            .doing(|| "make a temporary file".to_owned())?;
        file.as_file()
            .write_all_at(&[0; SLOTS_AT + 2 * SLOT_LEN], 0)
            .doing(|| "write the clock's file".to_owned())?;
        // The server may run as another user.
        session::readable_by_all(file.path(), 0o644)?;
        let state = Mutex::default();
        Ok(Self { shared: Arc::new(Shared { library, file, state }) })
    }

    /// The environment under which a program sees these clocks, for a child that is not a
    /// [`Process`].
    pub fn env(&self) -> [(OsString, OsString); 2] {
        [
            ("LD_PRELOAD".into(), self.shared.library.clone().into()),
            ("LEASEHOLD_CLOCK".into(), self.shared.file.path().into()),
        ]
    }

    /// The offsets in force.
    pub fn offsets(&self) -> Offsets {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).offsets
    }

    /// Sets all offsets at once; the next reading of a clock sees them.
    ///
    /// # Errors
    ///
    /// An I/O error of the file that the processes share.
    pub fn set(&self, offsets: Offsets) -> Result<()> {
        self.update(|state| state.offsets = offsets)
    }

    /// Steps the wall clock by some more, as an operator or a time server does.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn step(&self, seconds: f64) -> Result<()> {
        self.update(|state| state.offsets.realtime += (seconds * 1e9) as i64)
    }

    /// Stops the wall clock: from now on it moves only by [`step`](Self::step). What a server
    /// counts on it then does not depend on how fast the machine is.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn stop(&self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.update(|state| state.still = Some(now.as_nanos() as i64))
    }

    /// Takes a time off CLOCK_MONOTONIC: called with the length of a pause before the process goes
    /// on, it makes the pause look like a suspend of the machine, in which CLOCK_MONOTONIC stands
    /// still while the wall clock and CLOCK_BOOTTIME go on.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set).
    pub fn forget(&self, paused: Duration) -> Result<()> {
        self.update(|state| state.offsets.monotonic -= paused.as_nanos() as i64)
    }

    /// Suspends a process for the length of `meanwhile`, as far as its clocks can tell.
    ///
    /// # Errors
    ///
    /// Those of [`Process::pause`] and [`Process::resume`].
    pub async fn suspend<T>(
        &self,
        process: &Process,
        meanwhile: impl Future<Output = T>,
    ) -> Result<T> {
        process.pause()?;
        let start = std::time::Instant::now();
        let out = meanwhile.await;
        self.forget(start.elapsed())?;
        process.resume()?;
        Ok(out)
    }

    fn update(&self, change: impl FnOnce(&mut State)) -> Result<()> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = *state;
        change(&mut new);
        new.generation = new.generation.wrapping_add(1);
        let State { generation, offsets, still } = new;
        let mut slot = [0; SLOT_LEN];
        let numbers =
            [offsets.realtime, offsets.monotonic, offsets.boottime, still.unwrap_or_default()];
        for (bytes, number) in slot.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_ne_bytes());
        }
        let at = SLOTS_AT + SLOT_LEN * usize::from(generation & 1);
        let file: &File = self.shared.file.as_file();
        // In this order, so that a reader never sees half of a number.
        file.write_all_at(&slot, at as u64)
            .and_then(|()| file.write_all_at(&[generation], 0))
            .doing(|| "write the clock's file".to_owned())?;
        *state = new;
        Ok(())
    }
}

/// Builds the shim, once in a test process.
async fn library() -> Result<&'static Path> {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    static BUILDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _one_at_a_time = BUILDING.lock().await;
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let source = session::folder()?.join("shim.c");
    let built = session::folder()?.join("shim.so");
    std::fs::write(&source, SOURCE).doing(|| format!("write {}", source.display()))?;
    let mut cc = Command::new(programs::find("cc", "gcc libc6-dev")?);
    cc.args(["-O2", "-shared", "-fPIC", "-o"]);
    programs::run({
        cc.arg(&built).arg(&source);
        cc
    })
    .await?;
    session::readable_by_all(&built, 0o755)?;
    Ok(LIBRARY.get_or_init(|| built))
}
