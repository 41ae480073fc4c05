//! A service for passwords, under the control of a test.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Credentials, CredentialsProvider, Error, ErrorKind, sync::Mutex};

/// A service that returns passwords, and counts its calls.
#[derive(Clone, Debug)]
pub struct Vault {
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
}

/// What a [`Vault`] does when it is called.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// It returns this password.
    Password(&'static str),
    /// It fails with an error of this kind.
    Fails(ErrorKind),
    /// It never answers.
    Hangs,
}

impl Vault {
    /// A service that returns this password.
    pub fn new(password: &'static str) -> Self {
        Self { answer: Arc::new(Mutex::new(Answer::Password(password))), asked: Arc::default() }
    }

    /// What it does from now on.
    pub fn answers(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    /// How often it was called.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// A provider that calls this service, for this user.
    pub fn provider(&self, user: &'static str) -> CredentialsProvider {
        let vault = self.clone();
        CredentialsProvider::new(move || {
            vault.asked.fetch_add(1, Ordering::SeqCst);
            let answer = *vault.answer.lock();
            async move {
                match answer {
                    Answer::Password(password) => Ok(Credentials::new(user, password)),
                    Answer::Fails(kind) => Err(Error::new(kind, "the vault is sealed").into()),
                    Answer::Hangs => std::future::pending().await,
                }
            }
        })
    }
}
