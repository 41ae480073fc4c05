//! What is asked of PostgreSQL and MariaDB.

use std::any::Any;

use backend_sql::Strategy;
use benchmarks::{Contender, bare, call, mysql_store, pairs_of, postgres_pool, postgres_store};
use comparison::{Contest, Target};
use lock_core::LockClient;

use crate::duel::{
    Against::One,
    Duel, How,
    Of::{P99, Rate},
};
use Target::{AtLeast, AtMost};

const STRATEGIES: [(&str, Strategy); 2] = [
    ("leasehold, primary key", Strategy::PrimaryKey),
    ("leasehold, optimistic", Strategy::Optimistic),
];
const OURS: &str = "leasehold, one client";
const EACH: &str = "leasehold, a client each";
const ADVISORY: &str = "sqlx PgAdvisoryLock";
const STATEMENTS: &str = "distributed-lock's statements";

/// On a server whose commits are flushed.
pub(crate) async fn postgres(store: &str, url: &str) -> Vec<Box<dyn Contest>> {
    const UNLOGGED: &str = "the bare statements, same pool";
    const LOGGED: &str = "the bare statements on a logged table, same pool";
    let pool = postgres_pool(url, 4).await;
    let unlogged = bare::Postgres::new(&pool, "ratios_unlogged", "UNLOGGED").await;
    let logged = bare::Postgres::new(&pool, "ratios_logged", "").await;
    let advisory = Contender::open("advisory", url).await;
    let mut one = Duel::new(store, "acquire + release")
        .with(UNLOGGED, How::Calls(call(move |_| unlogged.clone().pair())))
        .with(LOGGED, How::Calls(call(move |_| logged.clone().pair())))
        .with(ADVISORY, How::Calls(pairs_of(&advisory)));
    for (name, strategy) in STRATEGIES {
        let client = LockClient::new(postgres_store(&pool, strategy).await);
        one = one
            .with(name, How::Calls(pairs_of(&Contender::Leasehold(client))))
            .row("", name, One(UNLOGGED), Rate, AtLeast(0.85))
            .row("", name, One(LOGGED), Rate, AtLeast(1.6))
            .row("", name, One(ADVISORY), Rate, None);
    }
    let mut one_name = Duel::new(store, "16 tasks on one name")
        .with(ADVISORY, How::Tasks(vec![advisory]))
        .with(STATEMENTS, How::Tasks(vec![Contender::open("statements", url).await]))
        .with(OURS, How::Tasks(clients(&pool, 1).await))
        .with(EACH, How::Tasks(clients(&pool, 16).await));
    for ours in [OURS, EACH] {
        one_name = one_name
            .row("", ours, One(ADVISORY), Rate, AtLeast(0.5))
            .row("release to acquired", ours, One(ADVISORY), P99, AtMost(2.0))
            .row("", ours, One(STATEMENTS), Rate, None);
    }
    vec![one.boxed(), one_name.boxed()]
}

/// Of one pool, each with a connection of its own for what it is told.
async fn clients(pool: &sqlx::PgPool, count: usize) -> Vec<Contender> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let store = postgres_store(pool, Strategy::PrimaryKey).await;
        clients.push(Contender::Leasehold(LockClient::new(store)));
    }
    clients
}

/// On servers of its own, with a flush for each commit and without.
pub(crate) async fn mariadb(store: &str) -> (Vec<Box<dyn Contest>>, Vec<Box<dyn Any>>) {
    let (mut contests, mut servers) = (Vec::new(), Vec::<Box<dyn Any>>::new());
    for (flush, title) in [(1, "acquire + release, flush 1"), (2, "acquire + release, flush 2")] {
        const BARE: &str = "the bare statements, same pool";
        let (server, pool) = benchmarks::mariadb(flush).await;
        let floor = bare::Mysql::new(&pool).await;
        let bare = call(move |_| floor.clone().pair());
        let mut duel = Duel::new(store, title).with(BARE, How::Calls(bare));
        for (name, strategy) in STRATEGIES {
            let client = LockClient::new(mysql_store(&pool, strategy).await);
            duel = duel.with(name, How::Calls(pairs_of(&Contender::Leasehold(client)))).row(
                "",
                name,
                One(BARE),
                Rate,
                AtLeast(0.85),
            );
        }
        contests.push(duel.boxed());
        servers.push(Box::new(server));
    }
    (contests, servers)
}
