//! `acquire`, `renew` and `release --handle-file`: a lock that is held between calls of the
//! command. Nothing renews it meanwhile.

use std::fs::{self, File};
use std::future::pending;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use leasehold::{DetachedLock, Error, ErrorKind, Guard, LockClient};

use super::lock::{Done, Locked, with_lock};
use crate::args::{Acquire, Renew};
use crate::chosen_store::{ChosenStore, close};
use crate::exit::{self, Failure, cause};
use crate::show::print;
use crate::sys::create_private;
use crate::tunables::LONGEST_HANDLE_FILE;

pub(super) async fn acquire(place: &ChosenStore, args: &Acquire) -> Result<u8, Failure> {
    // Opened first: a lock that cannot be written down is not acquired.
    let file = NewFile::beside(&args.handle_file)?;
    let lock = args.lock();
    let work = async |locked: Locked, _: &mut _| {
        let Locked { guards, client, .. } = locked;
        let written = match guards.into_vec().pop() {
            Some(guard) => hand_over(&client, guard, file).await,
            None => Err(Failure::unavailable("the lock was not acquired")),
        };
        Done::released(written.unwrap_or_else(|failure| failure.report()))
    };
    with_lock(place, &lock, pending(), async |_| Ok(()), work).await
}

pub(super) async fn renew(place: &ChosenStore, args: &Renew) -> Result<u8, Failure> {
    let lock = read(&args.handle_file)?;
    let lock = match args.lease {
        Some(lease) => lock.with_lease(lease),
        None => lock,
    };
    let file = NewFile::beside(&args.handle_file)?;
    with_client(place, async |client| {
        let guard = client.attach(&lock).await.map_err(|error| not_attached(&error))?;
        hand_over(client, guard, file).await
    })
    .await
}

pub(super) async fn release(place: &ChosenStore, path: &Path) -> Result<u8, Failure> {
    let lock = read(path)?;
    let released = with_client(place, async |client| {
        let guard = client.attach(&lock).await.map_err(|error| not_attached(&error))?;
        guard.release().await.map_err(|error| Failure::of(&error))?;
        Ok(0)
    })
    .await;
    // Of a lock that is lost the file is of no more use, either.
    if released.as_ref().map_or_else(|failure| failure.code == exit::LOST, |_| true) {
        fs::remove_file(path).map_err(|error| {
            Failure::unavailable(format_args!("cannot remove {path:?}: {}", cause(&error)))
        })?;
    }
    released
}

/// Detaches the lock and writes it down. If that fails, the lock is released.
async fn hand_over(client: &LockClient, guard: Guard, file: NewFile) -> Result<u8, Failure> {
    let lock = guard.detach().await.map_err(|error| Failure::of(&error))?;
    if let Err(failure) = file.write(&lock) {
        if let Ok(guard) = client.attach(&lock).await {
            drop(guard);
        }
        return Err(failure);
    }
    print(&format!("{}\n", lock.token()))
}

async fn with_client(
    place: &ChosenStore,
    work: impl AsyncFnOnce(&LockClient) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let store = place.open().await?;
    let client = LockClient::new(store.clone());
    let done = work(&client).await;
    // Finishes what goes on in the background.
    client.close().await;
    close(&*store).await;
    done
}

fn not_attached(error: &Error) -> Failure {
    match error.kind() {
        ErrorKind::NotHeld => Failure::new(exit::LOST, format_args!("lock lost: {error:#}")),
        _ => Failure::of(error),
    }
}

/// Reads a lock that was written down. The messages show nothing of the file.
fn read(path: &Path) -> Result<DetachedLock, Failure> {
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(LONGEST_HANDLE_FILE + 1).read_to_string(&mut text));
    read.map_err(|error| Failure::usage(format_args!("cannot read {path:?}: {}", cause(&error))))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format_args!("{path:?} has no lock as acquire writes it: {error}"))
    })
}

/// A new file beside the one that it will replace, for this user only.
struct NewFile {
    file: File,
    path: PathBuf,
    target: PathBuf,
    /// Whether it has replaced the other.
    done: bool,
}

impl NewFile {
    fn beside(target: &Path) -> Result<Self, Failure> {
        let cannot = |error: &io::Error| {
            Failure::usage(format_args!("cannot write {target:?}: {}", cause(error)))
        };
        let Some(name) = target.file_name().filter(|_| !target.is_dir()) else {
            return Err(cannot(&io::ErrorKind::IsADirectory.into()));
        };
        let mut new = name.to_owned();
        new.push(format!(".{}.new", process::id()));
        let path = target.with_file_name(new);
        let file = create_private(&path).map_err(|error| cannot(&error))?;
        Ok(Self { file, path, target: target.to_owned(), done: false })
    }

    fn write(mut self, lock: &DetachedLock) -> Result<(), Failure> {
        let text = serde_json::to_string(lock)
            .map_err(|error| Failure::unavailable(format_args!("cannot write JSON: {error}")))?;
        let write = |new: &mut Self| {
            new.file.write_all(text.as_bytes())?;
            new.file.sync_all()?;
            fs::rename(&new.path, &new.target)
        };
        write(&mut self).map_err(|error| {
            let target = &self.target;
            Failure::unavailable(format_args!("cannot write {target:?}: {}", cause(&error)))
        })?;
        self.done = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.done {
            // There may be no directory any more.
            let _ = fs::remove_file(&self.path);
        }
    }
}
