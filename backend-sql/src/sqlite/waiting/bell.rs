//! Bells: named pipes by which clients wake each other. A client that hands a lock over rings the
//! bell of the client that got it. A bell decides nothing: the client that was woken reads the
//! database.
//!
//! A client's bell stands beside the database, with the database's mode: `PATH-wake-` and 32
//! hexadecimal digits. The client makes it when it first waits, and removes it when it closes. If
//! the client was killed, the next client that rings the bell removes it, or a sweep does.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::SystemTime,
};

use lock_core::{Env as _, Mutex, OwnerId, SystemEnv};

use crate::{sqlite::sys, tunables::sqlite::OLD_BELL, waiting::QueueEntries};

/// A message is the 32 digits of the owner and a newline. It is short enough that a pipe takes it
/// in one piece.
const MESSAGE: usize = 33;
/// The message that ends the listening thread.
const END: [u8; MESSAGE] = [b'\n'; MESSAGE];

/// The bell of this client, and those of others.
#[derive(Debug)]
pub(crate) struct Bells {
    database: PathBuf,
    entries: Arc<QueueEntries>,
    own: Mutex<Own>,
}

#[derive(Debug)]
enum Own {
    /// Not made yet: nobody has waited.
    NotMade,
    Made(Bell),
    /// It could not be made, the client was closed, or this system has no such pipes.
    Unavailable,
}

#[derive(Debug)]
struct Bell {
    id: String,
    path: PathBuf,
    pipe: File,
}

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.pipe.write_all(&END);
    }
}

impl Bells {
    pub(crate) fn new(database: PathBuf, entries: Arc<QueueEntries>) -> Self {
        let own = if sys::HAS_PIPES { Own::NotMade } else { Own::Unavailable };
        Self { database, entries, own: Mutex::new(own) }
    }

    /// Whether others can wake this client, as far as is known.
    pub(crate) fn works(&self) -> bool {
        !matches!(*self.own.lock(), Own::Unavailable)
    }

    /// The id of the client's own bell, which is made at the first call. The database must exist.
    pub(crate) fn own(&self) -> Option<String> {
        let mut own = self.own.lock();
        if let Own::NotMade = *own {
            *own = match self.make() {
                Ok(bell) => Own::Made(bell),
                Err(error) => {
                    tracing::warn!(target: "leasehold", %error, path = ?self.database, "no pipe can be made here: waiters poll");
                    Own::Unavailable
                }
            };
        }
        match &*own {
            Own::Made(bell) => Some(bell.id.clone()),
            Own::NotMade | Own::Unavailable => None,
        }
    }

    fn make(&self) -> io::Result<Bell> {
        // Beside the real file, even if clients know it by different names.
        let database = self.database.canonicalize()?;
        let id = OwnerId::from_bits(SystemEnv.random()).to_string();
        let path = beside(&database, &id);
        sys::make_pipe(&path)?;
        fs::set_permissions(&path, fs::metadata(&database)?.permissions())?;
        // For reading and writing, so that reading does not end when all writers have closed it.
        let pipe = File::options().read(true).write(true).open(&path)?;
        let (bell, entries) =
            (Bell { id, path, pipe: pipe.try_clone()? }, Arc::clone(&self.entries));
        thread::Builder::new()
            .name("leasehold-bell".into())
            .spawn(move || listen(pipe, &entries))?;
        Ok(bell)
    }

    /// Rings the bell of a client for the entry of this owner.
    pub(crate) fn ring(&self, id: &str, owner: OwnerId) {
        // Only an id of ours may become part of a path.
        if id.parse::<OwnerId>().is_err() {
            return;
        }
        let Ok(database) = self.database.canonicalize() else { return };
        let path = beside(&database, id);
        match sys::open_pipe(&path) {
            // If the pipe is full, its client is already awake.
            Ok(mut pipe) => drop(pipe.write(format!("{owner}\n").as_bytes())),
            Err(error) if sys::has_no_reader(&error) => drop(fs::remove_file(&path)),
            // The client also polls.
            Err(error) => tracing::trace!(target: "leasehold", %error, ?path, "a bell is missing"),
        }
    }

    /// Removes the bells of clients that were killed.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let database = self.database.canonicalize()?;
        let (Some(folder), now) = (database.parent(), SystemTime::now()) else { return Ok(()) };
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            let id = path.as_os_str().to_str().and_then(|path| path.rsplit('-').next());
            if !id.is_some_and(|id| id.parse::<OwnerId>().is_ok() && path == beside(&database, id))
            {
                continue;
            }
            let age = fs::metadata(&path).and_then(|file| file.modified());
            let is_old =
                age.is_ok_and(|made| now.duration_since(made).is_ok_and(|age| age > OLD_BELL));
            if is_old && sys::open_pipe(&path).is_err_and(|error| sys::has_no_reader(&error)) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        *self.own.lock() = Own::Unavailable;
    }
}

/// Wakes the waiters that the messages name, until the message to end.
fn listen(mut pipe: File, entries: &QueueEntries) {
    let mut message = [0; MESSAGE];
    while pipe.read_exact(&mut message).is_ok() && message != END {
        let owner = str::from_utf8(&message[..MESSAGE - 1]).ok().and_then(|text| text.parse().ok());
        if let Some(owner) = owner {
            entries.wake(owner);
        }
    }
}

fn beside(database: &Path, id: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wake-");
    path.push(id);
    path.into()
}
