//! A power loss of Redis: its last writes are missing afterwards.

use std::path::PathBuf;

use crate::{
    error::{Doing as _, KitError, Result},
    redis::server::Redis,
    server::{Data, Server as _},
};

impl Redis {
    /// The append-only file that it writes to now.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`] without [`aof`](crate::RedisOptions::aof).
    pub fn aof(&self) -> Result<PathBuf> {
        let folder = self.data().join("appendonlydir");
        let files = std::fs::read_dir(&folder).doing(|| format!("list {}", folder.display()))?;
        let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(".incr.aof"));
        files.sort();
        let none = || KitError::Unexpected(format!("no append-only file in {}", folder.display()));
        files.pop().ok_or_else(none)
    }

    /// The length of its append-only file, which holds all writes that were answered before.
    ///
    /// # Errors
    ///
    /// As [`aof`](Self::aof).
    pub fn aof_written(&self) -> Result<u64> {
        let file = self.aof()?;
        Ok(std::fs::metadata(&file).doing(|| format!("look at {}", file.display()))?.len())
    }

    /// Kills it, truncates its append-only file to `kept` bytes and starts it again; returns how
    /// long the file was.
    ///
    /// A kill alone loses nothing that was written. With `appendfsync everysec`, Redis may write up
    /// to two seconds after it answered.
    ///
    /// # Errors
    ///
    /// As [`aof`](Self::aof) and [`restart`](crate::Server::restart).
    pub async fn lose_power(&mut self, kept: u64) -> Result<u64> {
        self.kill()?;
        let (path, length) = (self.aof()?, self.aof_written()?);
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(kept)).doing(|| format!("cut {}", path.display()))?;
        self.restart(Data::Keep).await?;
        Ok(length)
    }
}
