//! Cases of the conformance suite, each on a server of its own.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Harness, Outcome, SetUpError, Setting, Store, cases, run_case};
use lock_core::{Backend, Error};
use servers::{ZooKeeper, ZooKeeperOptions};

/// Longer than any of these cases takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

struct OnZooKeeper;

#[async_trait]
impl Harness for OnZooKeeper {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await?;
        let url = format!("zookeeper://{}?tick=200ms&timeout=20s", zookeeper.endpoints()[0]);
        Ok(Store::new(url, zookeeper))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_zookeeper::connect(address).await
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(5)
    }
}

async fn run(name: &str) {
    let case = cases::all().into_iter().find(|case| case.name == name).expect("a case");
    let store = OnZooKeeper.start().await.unwrap();
    let promised = OnZooKeeper.connect(&store.address).await.unwrap().guarantees();
    let setting = Setting::new(Arc::new(OnZooKeeper), &store.address, case.name, promised);
    match run_case(&case, setting, LIMIT).await {
        Outcome::Passed => {}
        other => panic!("{other:?}"),
    }
}

macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                run(stringify!($case)).await;
            }
        )*
    };
}

suite![
    a_held_lock_is_refused_with_its_holder_and_token,
    a_renewal_does_not_bring_a_forced_grant_back,
    a_token_is_above_the_floor,
    an_abandoned_owner_takes_nothing_any_more,
];
