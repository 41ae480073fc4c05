//! Records: when a loss is known.

use lock_core::{Init, StoreTime};
use servers::{Data, Server as _};
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, first_use, granted, name, not_granted, request, words},
    record_cases::written,
};

use super::server::Server;

async fn restart(server: &mut Server) {
    let before = server.server.info("run_id").await.unwrap();
    server.server.restart(Data::Keep).await.unwrap();
    assert_ne!(server.server.info("run_id").await.unwrap(), before);
}

/// A record of a store whose records are complete.
async fn recorded(server: &Server) -> Verdict {
    let store = first_use(server).await;
    store.init(&Init::new().with_records_complete(true)).await.map_err(words)?;
    let grant = granted(&*store, &request("a", LONG)).await?;
    written(&*store, &grant, 1).await
}

/// Since when records are complete, once a client has asked for the lock; `None`: since ever.
async fn lost_at(server: &Server) -> Result<Option<StoreTime>, String> {
    let store = server.open().await;
    not_granted(&*store, &request("a", LONG)).await?;
    let since = store.read_record(&name("a")).await.map_err(words)?.complete_since;
    Ok(Some(since).filter(|since| *since > StoreTime::EVER))
}

fn is_known(lost: Option<StoreTime>) -> Verdict {
    lost.map(drop).ok_or_else(|| "a loss is not known".to_owned())
}

pub(super) async fn a_restart(server: &mut Server) -> Verdict {
    recorded(server).await?;
    restart(server).await;
    match lost_at(server).await? {
        None => Ok(()),
        Some(since) => Err(format!("records are complete only since {since:?}")),
    }
}

pub(super) async fn a_restart_without_a_flush(server: &mut Server) -> Verdict {
    let seldom = ["CONFIG", "SET", "appendfsync", "everysec"];
    server.server.cli(&seldom).await.map_err(words)?;
    recorded(server).await?;
    restart(server).await;
    is_known(lost_at(server).await?)
}

pub(super) async fn a_server_that_was_a_replica(server: &mut Server) -> Verdict {
    recorded(server).await?;
    for of in [["127.0.0.1", "1"], ["NO", "ONE"]] {
        server.server.cli(&["REPLICAOF", of[0], of[1]]).await.map_err(words)?;
    }
    is_known(lost_at(server).await?)
}

pub(super) async fn a_restart_that_nobody_has_noticed(server: &mut Server) -> Verdict {
    recorded(server).await?;
    restart(server).await;
    let read = server.open().await.read_record(&name("a")).await.map_err(words)?;
    match read.complete_since == read.now {
        true => Ok(()),
        false => Err(format!("a restart is not known: {read:?}")),
    }
}

pub(super) async fn an_init_after_a_loss(server: &mut Server) -> Verdict {
    recorded(server).await?;
    server.server.cli(&["FLUSHALL"]).await.map_err(words)?;
    // So the client leaves the new record to `init`.
    let soon = ["CONFIG", "SET", "repl-backlog-ttl", "1"];
    server.server.cli(&soon).await.map_err(words)?;
    let store = first_use(server).await;
    let since = async || {
        Ok::<_, String>(store.read_record(&name("a")).await.map_err(words)?.complete_since)
    };
    let first = since().await?;
    match since().await? == first {
        true => Ok(()),
        false => Err("the time of the loss is not known".to_owned()),
    }
}
