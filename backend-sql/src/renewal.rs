//! The answers to a batch of renewals. A grant that the batch did not renew is lost, or another
//! transaction has locked its row; this module finds out which. Also the call that gives a held
//! lock to a new owner.

use std::time::Duration;

use lock_core::{Error, ErrorKind, Grant, Instant, LossReason, Renewal, Request, check_lease};
use tokio::time::{Instant as TokioInstant, timeout_at};

use crate::{
    dialect::{Dialect, Row},
    tunables::{ANSWER_IN, SHORTEST_CHECK, WAIT_FOR_ROWS},
};

const OPERATION: &str = "renew";

/// The answer for each grant. `leases` are those that the batch has set; `sent` is when the batch
/// was sent.
pub(crate) async fn answers<D: Dialect>(
    dialect: &D,
    grants: &[&Grant],
    leases: Vec<Option<Duration>>,
    sent: Instant,
) -> Vec<Renewal> {
    // All answers wait for those of the grants that the batch did not renew.
    let shortest = grants.iter().map(|grant| grant.lease).min().unwrap_or_default();
    let end = TokioInstant::now() + (shortest / ANSWER_IN).max(SHORTEST_CHECK);
    let mut answers = Vec::with_capacity(grants.len());
    for (grant, lease) in grants.iter().zip(leases) {
        answers.push(match lease {
            Some(lease) => Some(Renewal::Renewed { from: sent, lease }),
            None => missing(dialect, grant, end).await,
        });
    }
    let waiting = answers.iter().filter(|answer| answer.is_none()).count().max(1);
    let each = shortest / WAIT_FOR_ROWS / waiting as u32;
    for (grant, answer) in grants.iter().zip(&mut answers).filter(|(_, one)| one.is_none()) {
        *answer = Some(renew_one(dialect, grant, each, end, sent).await);
    }
    answers.into_iter().flatten().collect()
}

/// Gives a held lock to the owner of `request`; `None` if the grant does not hold it alone.
pub(crate) async fn reown<D: Dialect>(
    dialect: &D,
    grant: &Grant,
    request: &Request,
) -> Result<Option<Grant>, Error> {
    dialect.agree_once().await?;
    check_lease(request.lease, dialect.guarantees().longest_lease)?;
    if dialect.reown(grant, request).await? {
        return Ok(Some(Grant::new(request, grant.token)));
    }
    // A store that may have lost data hands nothing over.
    dialect.quarantine().await?.map_or(Ok(None), |held_back| Err(held_back.into()))
}

/// Finds out by `end` whether a grant that was not renewed is lost; `None` if another transaction
/// has locked its row.
async fn missing<D: Dialect>(dialect: &D, grant: &Grant, end: TokioInstant) -> Option<Renewal> {
    // A row of another holder is certain proof of the loss.
    let read = timeout_at(end, dialect.read_row(&grant.name, Some(grant.owner)))
        .await
        .unwrap_or_else(|_| {
            let message = "there was no time left to read this lock";
            Err(Error::new(ErrorKind::Timeout, message).on(&grant.name))
        });
    let row = match read {
        Ok(row) => row.filter(Row::is_held),
        Err(error) => return Some(Renewal::Unknown(error.at(D::KIND, OPERATION))),
    };
    match row {
        Some(row) if row.owner == Some(grant.owner) => None,
        Some(_) => Some(Renewal::Lost(LossReason::TakenOver)),
        None => Some(Renewal::Lost(LossReason::Gone)),
    }
}

/// Renews a grant whose row another transaction had locked, if that transaction ends in time.
async fn renew_one<D: Dialect>(
    dialect: &D,
    grant: &Grant,
    limit: Duration,
    end: TokioInstant,
    sent: Instant,
) -> Renewal {
    let renewal = dialect.renew_one(grant);
    let answer = timeout_at(end.min(TokioInstant::now() + limit), renewal).await;
    let answer = answer.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::Timeout, "another transaction has locked the lock's row")
            .on(&grant.name))
    });
    match answer {
        Ok(Some(lease)) => Renewal::Renewed { from: sent, lease },
        Ok(None) => missing(dialect, grant, end).await.unwrap_or(Renewal::Lost(LossReason::Gone)),
        Err(error) => Renewal::Unknown(error.at(D::KIND, OPERATION)),
    }
}
