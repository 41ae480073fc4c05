//! A store whose texts can be changed, and the cases that run on it.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use lock_core::{Backend, Error};
use servers::Change;

/// Longer than any case takes on a busy machine: some need a thousand releases.
pub(super) const LIMIT: Duration = Duration::from_secs(600);

/// `Err` says how the store broke its promise.
pub type Verdict = Result<(), String>;

/// A store whose texts can be changed.
#[async_trait::async_trait]
pub trait Setup: Sized + Send + Sync + 'static {
    /// The name of the test that tries the guards, for a store that has no server: each case runs
    /// in a copy of the test program with the changes, and [`start`](Self::start) gets none.
    const IN_COPIES: Option<&'static str> = None;

    /// Starts a server, and a proxy that makes these changes:
    /// [`Proxy::changing`](servers::Proxy::changing).
    async fn start(changes: &[Change<'_>]) -> Self;

    /// How often a text was changed: [`Counters::altered`](servers::Counters::altered).
    fn altered(&self) -> u64 {
        0
    }
}

/// A [`Setup`] that backends connect to.
#[async_trait::async_trait]
pub trait Clients: Setup {
    /// The URL of the store, through the proxy.
    fn url(&self) -> String;

    /// A new client.
    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error>;

    /// A new client of this store.
    async fn open(&self) -> Arc<dyn Backend> {
        Self::connect(&self.url()).await.unwrap()
    }
}

type Run<S> = dyn for<'a> Fn(&'a mut S, &'a str) -> BoxFuture<'a, Verdict> + Send + Sync;

/// A case: fails if the store does not do what a guard is for.
pub struct Case<S> {
    /// As markers name it.
    pub name: &'static str,
    /// Runs it on a new store. The text is the argument in the marker.
    pub run: Box<Run<S>>,
}

/// A table of the cases that a store's markers may name, of functions with these names. A case
/// whose marker has an argument stands here as `case(argument)`, and gets it as a text.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($stage:ty: $($case:ident $(($argument:ident))?),* $(,)?) => {
        vec![$($crate::missing_guards::Case::<$stage> {
            name: stringify!($case),
            run: Box::new($crate::cases!(@run $case $($argument)?)),
        }),*]
    };
    (@run $case:ident) => { |stage, _| Box::pin($case(stage)) };
    (@run $case:ident $argument:ident) => { |stage, $argument| Box::pin($case(stage, $argument)) };
}
