//! How long a dead holder's lock stays taken after its lease.

use std::{sync::Arc, time::Duration};

use lock_core::{Attempt, Env as _, Error, ErrorKind, OwnerId, OwnerLabel, Request, SystemEnv};

use crate::{
    sample::{Sample, Times},
    store::Subject,
};

/// The shortest lease that is of use.
const LEASE: Duration = Duration::from_secs(1);

/// One holder that never renews, and one waiter of another client.
pub(super) async fn measure(subject: &Arc<Subject>) -> Result<Option<Sample>, Error> {
    let name = subject.name("of the dead");
    let lease = LEASE.max(subject.backend().guarantees().shortest_lease);
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::of_this_process();
    let request = Request::new(name.clone(), owner, label, lease, SystemEnv.now());
    let Attempt::Granted(grant) = subject.backend().try_acquire(&request).await? else {
        let message = format!("{name} is taken, although nobody else knows it");
        return Err(Error::new(ErrorKind::Config, message));
    };
    let waiter = &subject.clients[1 % subject.clients.len()];
    let guard = waiter.lock(&name).wait(grant.lease * 3 + LEASE * 10).acquire().await?;
    let over = grant.from + grant.lease;
    let late = SystemEnv.now().since(over);
    guard.release().await?;
    let mut times = Times::new();
    times.add(late);
    Ok(times.sample(grant.lease))
}
