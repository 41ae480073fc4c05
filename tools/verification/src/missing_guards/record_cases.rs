//! Cases for the guards of records, which every store that keeps records has.

// The name of a case says what it tries.
#![allow(missing_docs)]

use std::time::Duration;

use lock_core::{Backend, Grant, RecordWrite, ReleaseOptions, WriteOutcome};

use super::{
    cases::{LONG, SHORT, first_use, granted, request, words},
    setup::{Case, Clients, Verdict},
};
use crate::cases;

/// The cases that markers of every store that keeps records may name.
pub(super) fn of_records<S: Clients>() -> Vec<Case<S>> {
    cases![S: a_write_of_a_former_holder, a_write_after_a_release_that_keeps,
        a_write_after_the_lease, a_late_write, a_record_over_a_sweep]
}

const DAY: Duration = Duration::from_secs(86_400);

/// The write with this number of a grant. Its value is the number in words.
pub fn write_of(number: u64) -> RecordWrite {
    RecordWrite::new(number.to_string(), DAY).unwrap().with_number(number)
}

pub async fn written(store: &dyn Backend, grant: &Grant, number: u64) -> Verdict {
    match store.write_record(grant, &write_of(number)).await.map_err(words)? {
        WriteOutcome::Written => Ok(()),
        WriteOutcome::NotHeld => Err("the holder's own write was refused".to_owned()),
    }
}

async fn not_written(store: &dyn Backend, grant: &Grant) -> Verdict {
    match store.write_record(grant, &write_of(1)).await.map_err(words)? {
        WriteOutcome::NotHeld => Ok(()),
        WriteOutcome::Written => Err("a grant that is gone wrote the record".to_owned()),
    }
}

/// Asserts that the record of `a` is the write with this number.
async fn shows(store: &dyn Backend, grant: &Grant, number: u64) -> Verdict {
    let read = store.read_record(&grant.name).await.map_err(words)?;
    match read.record {
        Some(record) if record.value == write_of(number).value => Ok(()),
        other => Err(format!("not write {number}: {other:?}")),
    }
}

async fn a_write_of_a_former_holder<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let former = granted(&*store, &request("a", LONG)).await?;
    store.force_release(&former.name).await.map_err(words)?;
    granted(&*store, &request("a", LONG)).await?;
    not_written(&*store, &former).await
}

async fn a_write_after_a_release_that_keeps<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let kept = granted(&*store, &request("a", LONG)).await?;
    store.release(&kept, ReleaseOptions::new().with_keep(LONG)).await.map_err(words)?;
    not_written(&*store, &kept).await
}

async fn a_write_after_the_lease<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let expired = granted(&*store, &request("a", SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    not_written(&*store, &expired).await
}

/// The store carries out the first write of a grant after the second.
async fn a_late_write<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    written(&*store, &grant, 1).await?;
    written(&*store, &grant, 2).await?;
    written(&*store, &grant, 1).await?;
    shows(&*store, &grant, 2).await
}

/// A client sweeps once in a thousand releases.
async fn a_record_over_a_sweep<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    written(&*store, &grant, 1).await?;
    for _ in 0..1_001 {
        let busy = granted(&*store, &request("busy", LONG)).await?;
        store.release(&busy, ReleaseOptions::new()).await.map_err(words)?;
    }
    // Waits for a sweep that runs in the background.
    store.close().await;
    shows(&*setup.open().await, &grant, 1).await
}
