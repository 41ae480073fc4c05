//! Many clients call `init` at once, on an empty database and on one whose `init` was interrupted.

use backend_sql::mysql::{connect, schema};
use futures_util::future::join_all;
use lock_core::Init;
use servers::Server as _;

use crate::support::mariadb::{request, start, url, used_once};

/// How many call at once.
const CLIENTS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_call_init_at_once_get_the_same_store() {
    let server = start().await;
    let statements = |url: &str| -> Vec<String> {
        let all = schema(url).unwrap();
        let locks = all.split(";\n").take_while(|sql| !sql.contains("_fence"));
        locks.map(|sql| format!("{sql};")).collect()
    };
    let count = statements("mysql://db/a").len();
    assert_eq!(count, 5, "four tables and a row");
    for done in 0..=count {
        let url = format!("{}&table_prefix=after_{done}", url(server.address()));
        server.sql(&statements(&url)[..done].concat()).await.unwrap();
        let stores = join_all((0..CLIENTS).map(|_| connect(&url))).await;
        let stores: Vec<_> = stores.into_iter().map(Result::unwrap).collect();
        let init = stores.iter().cloned().map(|store| {
            tokio::spawn(async move { store.init(&Init::default()).await.map(|_| store) })
        });
        let mut identities = Vec::new();
        for made in join_all(init).await {
            let store = made.unwrap().unwrap_or_else(|error| panic!("after {done}: {error}"));
            used_once(&store, &request(&format!("name {}", identities.len()))).await;
            identities.push(store.identity().await.unwrap());
        }
        assert!(identities.iter().all(|one| *one == identities[0]), "{done}: {identities:?}");
    }
}
