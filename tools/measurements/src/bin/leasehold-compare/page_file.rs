//! The file of the page. It is opened before the measurements, so that an error does not cost
//! minutes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use leasehold_cli::exit::{Failure, cause};

/// A file that can be written. Its old content stays until there is a page. If there is no page, a
/// new file is removed.
pub(crate) struct PageFile {
    file: File,
    path: PathBuf,
    new: bool,
}

impl PageFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let fails =
            |error| Failure::usage(format_args!("cannot write {path:?}: {}", cause(&error)));
        let new = OpenOptions::new().write(true).create_new(true).open(path);
        let (file, new) = match new {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).open(path).map_err(fails)?, false)
            }
            file => (file.map_err(fails)?, true),
        };
        Ok(Self { file, path: path.to_owned(), new })
    }

    pub(crate) fn write(mut self, page: &str) -> Result<(), Failure> {
        // A pipe or a terminal has no length.
        if self.file.metadata().is_ok_and(|of| of.is_file()) {
            self.file.set_len(0).map_err(|error| self.fails(&error))?;
        }
        self.file.write_all(page.as_bytes()).map_err(|error| self.fails(&error))?;
        self.new = false;
        Ok(())
    }

    fn fails(&self, error: &std::io::Error) -> Failure {
        Failure::unavailable(format_args!("cannot write {:?}: {}", self.path, cause(error)))
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if self.new {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
