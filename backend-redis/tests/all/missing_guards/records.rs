//! Guards of records: who writes one, and when a loss is known.

use lock_core::{Init, StoreTime};
use servers::Change::{LeaveOut, Replace};
use verification::{
    missing_guards::{
        Clients as _, Verdict,
        cases::{LONG, first_use, granted, name, not_granted, request, words},
        record_cases::{
            a_late_write, a_write_after_a_release_that_keeps, a_write_of_a_former_holder, written,
        },
    },
    variants,
};

use super::store::OneRedis;

variants! {
    pub(super) VARIANTS |stage: OneRedis|
    "S7: only the holder writes the record" LeaveOut("record_owner") => a_write_of_a_former_holder(stage);
    "S7: what was released, and is kept, writes no record"
        LeaveOut("record_kept") => a_write_after_a_release_that_keeps(stage);
    "S7: a late write replaces no later one" LeaveOut("record_number") => a_late_write(stage);
    "S7: a restart of a server that flushes loses no record" LeaveOut("record_flushed") => a_restart(stage);
    "S7: a restart of a server that does not may lose some" LeaveOut("since_flushed") => a_restart_without_a_flush(stage);
    "S7: a server that was another's replica may lack records" LeaveOut("since_alone") => a_former_replica(stage);
    "S7: a loss is known before a client has asked for a lock" LeaveOut("read_epoch") => a_restart_that_nobody_has_noticed(stage);
    "S7: init notes when data were lost" Replace("init_since", "if false then") => an_init_after_a_loss(stage);
}

/// A record of a store whose records are complete.
async fn recorded(stage: &OneRedis) -> Verdict {
    let store = first_use(stage).await;
    store.init(&Init::new().with_records_complete(true)).await.map_err(words)?;
    let grant = granted(&*store, &request("a", LONG)).await?;
    written(&*store, &grant, 1).await
}

/// Since when records are complete, once a client has asked for the lock; `None`: since ever.
async fn lost_at(stage: &OneRedis) -> Result<Option<StoreTime>, String> {
    let store = stage.open().await;
    not_granted(&*store, &request("a", LONG)).await?;
    let since = store.read_record(&name("a")).await.map_err(words)?.complete_since;
    Ok(Some(since).filter(|since| *since > StoreTime::EVER))
}

fn is_known(lost: Option<StoreTime>) -> Verdict {
    lost.map(drop).ok_or_else(|| "a loss is not known".to_owned())
}

async fn a_restart(stage: &mut OneRedis) -> Verdict {
    recorded(stage).await?;
    stage.restart().await;
    match lost_at(stage).await? {
        None => Ok(()),
        Some(since) => Err(format!("records are complete only since {since:?}")),
    }
}

async fn a_restart_without_a_flush(stage: &mut OneRedis) -> Verdict {
    let seldom = ["CONFIG", "SET", "appendfsync", "everysec"];
    stage.server().cli(&seldom).await.map_err(words)?;
    recorded(stage).await?;
    stage.restart().await;
    is_known(lost_at(stage).await?)
}

async fn a_former_replica(stage: &mut OneRedis) -> Verdict {
    recorded(stage).await?;
    for of in [["127.0.0.1", "1"], ["NO", "ONE"]] {
        stage.server().cli(&["REPLICAOF", of[0], of[1]]).await.map_err(words)?;
    }
    is_known(lost_at(stage).await?)
}

async fn a_restart_that_nobody_has_noticed(stage: &mut OneRedis) -> Verdict {
    recorded(stage).await?;
    stage.restart().await;
    let read = stage.open().await.read_record(&name("a")).await.map_err(words)?;
    match read.complete_since == read.now {
        true => Ok(()),
        false => Err(format!("a restart is not known: {read:?}")),
    }
}

async fn an_init_after_a_loss(stage: &mut OneRedis) -> Verdict {
    recorded(stage).await?;
    stage.server().cli(&["FLUSHALL"]).await.map_err(words)?;
    let store = first_use(stage).await;
    let since = async || {
        Ok::<_, String>(store.read_record(&name("a")).await.map_err(words)?.complete_since)
    };
    let first = since().await?;
    match since().await? == first {
        true => Ok(()),
        false => Err("the time of the loss is not known".to_owned()),
    }
}
