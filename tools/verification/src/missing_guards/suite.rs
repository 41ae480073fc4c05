//! The cases of the conformance suite, by which most guards are tried.

use std::{marker::PhantomData, sync::Arc};

use conformance_tests::{Harness, Outcome, SetUpError, Setting, Store, cases, run_case};
use lock_core::{Backend, Error};

use super::{
    cases::first_use,
    setup::{Case, Clients, LIMIT, Verdict},
};

/// The suite, for a store that markers may try with it.
pub(super) fn suite<S: Clients>() -> Vec<Case<S>> {
    let one = |case: cases::Case| Case::<S> {
        name: case.name,
        run: Box::new(move |setup, _| {
            let case = case.clone();
            Box::pin(run(setup, case))
        }),
    };
    cases::all().into_iter().map(one).collect()
}

async fn run<S: Clients>(setup: &S, case: cases::Case) -> Verdict {
    let promised = first_use(setup).await.guarantees();
    let harness = Arc::new(Through::<S>(PhantomData));
    let setting = Setting::new(harness, &setup.url(), case.name, promised);
    match run_case(&case, setting, 2 * LIMIT).await {
        Outcome::Passed => Ok(()),
        Outcome::Failed(why) => Err(why),
        other => Err(format!("{other:?}")),
    }
}

/// Connects through the proxy.
struct Through<S>(PhantomData<fn() -> S>);

#[async_trait::async_trait]
impl<S: Clients> Harness for Through<S> {
    fn name(&self) -> &'static str {
        "broken variant"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Err("a case that starts a store of its own tries no guard".into())
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        S::connect(address).await
    }

    fn reaches_processes(&self) -> bool {
        false
    }
}
