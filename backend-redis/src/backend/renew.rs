//! Renewals, many in one script call.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{Error, Grant, Instant, LossReason, Renewal};

use redis::Value;

use crate::{
    connection::error,
    keys::Bucket,
    scripts::{renewals, reply},
    store::Store,
    tunables::RENEWALS,
};

/// Renews these grants. The grants of one bucket share script calls.
pub(crate) async fn renew(store: &Store, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
    let mut buckets = BTreeMap::<_, Vec<usize>>::new();
    for (at, grant) in grants.iter().enumerate() {
        buckets.entry(store.keys.bucket(&grant.name)).or_default().push(at);
    }
    let chunks = buckets.iter().flat_map(|(bucket, positions)| {
        positions.chunks(RENEWALS).map(move |positions| async move {
            let batch: Vec<_> = positions.iter().map(|at| grants[*at]).collect();
            let answers = renew_batch(store, *bucket, &batch, sent, None).await;
            positions.iter().copied().zip(answers).collect::<Vec<_>>()
        })
    });
    // All calls run at the same time, so that a server that hangs takes no time from the others.
    let answers = futures_util::future::join_all(chunks).await;
    let answers: BTreeMap<_, _> = answers.into_iter().flatten().collect();
    answers.into_values().collect()
}

/// `longest` is the store's longest lease, if it was read after `sent`. Otherwise the script reads
/// it.
async fn renew_batch(
    store: &Store,
    bucket: Bucket,
    grants: &[&Grant],
    sent: Instant,
    longest: Option<Duration>,
) -> Vec<Renewal> {
    let mut keys: Vec<_> = grants.iter().map(|grant| store.keys.lock(&grant.name)).collect();
    if longest.is_none() {
        keys.push(store.keys.epoch(bucket));
    }
    let lease = |grant: &Grant| grant.lease.min(longest.unwrap_or(Duration::MAX));
    let arguments = renewals(grants.iter().map(|grant| (grant.owner, lease(grant))));
    let asked = async {
        let (mut answers, connection) = loop {
            let (answer, connection) = store.run_renewal(bucket, &keys, &arguments).await?;
            let answers = reply::list(answer)?;
            // Without the witness, a loss of the data after this renewal would go unnoticed.
            if !answers.contains(&Value::Int(1)) || Box::pin(connection.was_witnessed()).await? {
                break (answers, connection);
            }
        };
        let said = answers.pop().as_ref().map(reply::number).transpose()?;
        // The longest lease in the epoch record now; nothing if the record is gone.
        let said = said.filter(|micros| *micros > 0).map(Duration::from_micros);
        let acknowledged = match store.settings.acknowledgement() {
            Some(wanted) => connection.acknowledged(wanted).await,
            None => Ok(()),
        };
        Ok((answers, acknowledged, said))
    };
    let (answers, acknowledged, said) = match asked.await {
        Ok(answers) if answers.0.len() == grants.len() => answers,
        Ok(_) => return unknown(grants, &reply::not_understood()),
        Err(error) if error::is_divided(&error) && longest.is_none() => {
            // The slot is moving, and the script was refused. Each single key is on one node or the
            // other, that of the epoch record too. So the client reads the record first and then
            // renews each lock alone.
            let longest = match store.stored(bucket).await {
                Ok(stored) => stored.unwrap_or_else(|| store.agreed()).longest_lease,
                Err(error) => return unknown(grants, &error),
            };
            let one = |grant| {
                renew_batch(store, bucket, std::slice::from_ref(grant), sent, Some(longest))
            };
            let each = futures_util::future::join_all(grants.iter().map(one));
            return Box::pin(each).await.into_iter().flatten().collect();
        }
        Err(error) => return unknown(grants, &error),
    };
    let read = |(grant, answer): (&&Grant, _)| match reply::number(&answer) {
        Ok(1) => match &acknowledged {
            Ok(()) => {
                let lease = lease(grant).min(said.unwrap_or(Duration::MAX));
                Renewal::Renewed { from: sent, lease }
            }
            Err(error) => Renewal::Unknown(error.clone().at("redis", "renew").on(&grant.name)),
        },
        Ok(2) => Renewal::Lost(LossReason::TakenOver),
        Ok(0) => Renewal::Lost(LossReason::Gone),
        _ => Renewal::Unknown(reply::not_understood().at("redis", "renew").on(&grant.name)),
    };
    grants.iter().zip(answers).map(read).collect()
}

fn unknown(grants: &[&Grant], error: &Error) -> Vec<Renewal> {
    let failed =
        |grant: &&Grant| Renewal::Unknown(error.clone().at("redis", "renew").on(&grant.name));
    grants.iter().map(failed).collect()
}
