//! The TLS options of a URL. Each option is used, or refused by its name. The driver alone would
//! silently ignore some: an unknown mode, certificates to trust in a mode that trusts all, a
//! certificate without its key.

use std::{env, fs, path::PathBuf};

use lock_core::{Error, ErrorKind};
use rustls::crypto::CryptoProvider;

use crate::settings::refusal;

/// The names of the TLS options in the URL of a kind of store.
pub(crate) struct Tls {
    pub(crate) mode: &'static str,
    /// The modes without a check: no TLS; TLS if the server has it, which is the default; TLS.
    pub(crate) plain: [&'static str; 3],
    /// The modes with a check of the certificate: without and with a check of the host's name.
    pub(crate) checked: [&'static str; 2],
    /// The file of trusted authorities; the files of our own certificate and of its key.
    pub(crate) authority: &'static str,
    pub(crate) own: [&'static str; 2],
    /// The prefix of these names in the environment, if the driver reads them there.
    pub(crate) variables: Option<&'static str>,
}

/// Something that a URL names and that must exist.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// A file, and the option that names it.
    File { option: &'static str, path: PathBuf },
    /// The process's provider of cryptography, and the option and the value that need it.
    Provider { option: &'static str, mode: &'static str, other: &'static str },
}

impl Tls {
    fn modes(&self) -> impl Iterator<Item = &'static str> {
        self.plain.into_iter().chain(self.checked)
    }

    /// The value of an option in the environment.
    fn variable(&self, option: &str) -> Option<(String, String)> {
        let name = format!("{}{}", self.variables?, option.to_uppercase());
        env::var(&name).ok().map(|value| (name, value))
    }

    /// The mode that the URL or the environment chooses.
    fn chosen(&self, said: Option<&str>) -> Result<&'static str, Error> {
        let (whence, value) = match (said, self.variable(self.mode)) {
            (Some(value), _) => (format!("{} in the URL", self.mode), value.to_owned()),
            (None, Some((name, value))) => (format!("{name} in the environment"), value),
            (None, None) => return Ok(self.plain[1]),
        };
        // The value may be a secret, so it is not shown.
        self.modes().find(|mode| mode.eq_ignore_ascii_case(&value)).ok_or_else(|| {
            let allowed: Vec<_> = self.modes().collect();
            refusal(format!("{whence} is not understood; it must be one of {}", allowed.join(", ")))
        })
    }

    /// Refuses options that would not be used. Returns the files that the options name.
    pub(crate) fn check(&self, options: &[(String, String)]) -> Result<Vec<Named>, Error> {
        let said = |option: &str| {
            options.iter().find(|(key, _)| key == option).map(|(_, value)| value.as_str())
        };
        let mode = self.chosen(said(self.mode))?;
        let needs = |option: &str, allowed: &[&str]| match allowed.contains(&mode) {
            true => Ok(()),
            false => Err(refusal(format!(
                "{option} in the URL is of no use with {} {mode}; the mode must be one of {}",
                self.mode,
                allowed.join(", ")
            ))),
        };
        let mut files = Vec::new();
        for option in [self.authority, self.own[0], self.own[1]] {
            let Some(value) = said(option) else { continue };
            if option == self.authority {
                needs(option, &self.checked)?;
            } else {
                needs(option, &[self.plain[2], self.checked[0], self.checked[1]])?;
                let other = self.own[usize::from(option == self.own[0])];
                if said(other)
                    .or(self.variable(other).as_ref().map(|(_, value)| &**value))
                    .is_none()
                {
                    return Err(refusal(format!(
                        "{option} in the URL is of no use without {other}"
                    )));
                }
            }
            // The driver also takes the PEM text itself.
            if !value.trim_start().starts_with("-----BEGIN") {
                files.push(Named::File { option, path: value.into() });
            }
        }
        let [unnamed, other] = self.checked;
        if mode == unnamed {
            files.push(Named::Provider { option: self.mode, mode, other });
        }
        Ok(files)
    }
}

/// Checks that the files can be read: otherwise the driver would report a server that it cannot
/// reach. Also checks that the process has a provider of cryptography. Without a check of the
/// host's name the driver takes that provider. If there is none, the driver installs one for the
/// whole process, or panics if rustls was built with two.
pub(crate) fn readable(files: &[Named]) -> Result<(), Error> {
    for named in files {
        match named {
            Named::File { option, path } => {
                fs::read(path).map_err(|error| {
                    let message = format!("the file that {option} names cannot be read");
                    Error::new(ErrorKind::Config, message).with_source(error)
                })?;
            }
            Named::Provider { option, mode, other } if CryptoProvider::get_default().is_none() => {
                let message = format!(
                    "{option} {mode} needs a provider of cryptography that the application has installed \
                     (rustls's CryptoProvider::install_default); without one, use {other}"
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            Named::Provider { .. } => {}
        }
    }
    Ok(())
}
