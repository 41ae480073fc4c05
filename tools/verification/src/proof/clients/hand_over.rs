//! A client process hands a lock over: one client detaches its guard, and two attach the lock.

use lock_core::{DetachedLock, Guard, LockClient};
use tokio::sync::watch;

use super::workload::Worker;
use conformance_tests::history::{Acquisition, Op, What};

impl Worker {
    /// Hands the lock over to this client or to the other one of this process. Lets it go if the
    /// store cannot hand it over.
    pub(super) async fn hand_over(&mut self, op: Acquisition, guard: Guard) {
        if !self.client.guarantees().hand_over {
            return self.let_go(op, guard).await;
        }
        let monitor = guard.monitor();
        op.given_up();
        let lock = match guard.detach().await {
            Ok(lock) => lock,
            // It is released in the background.
            Err(error) => return op.released(&Err(error)),
        };
        op.record(What::Detached);
        op.look_through(&monitor);
        let (of, answers) = (op.op(), watch::Sender::new(0));
        let attach = |client| self.attach(client, of, &lock, &answers);
        tokio::join!(attach(&self.client), attach(&self.other));
        // The client that got the lock has released it. If both answers were unknown, the lock may
        // still be detached.
        attach(&self.other).await;
    }

    /// Attaches the lock, and holds it until both clients have an answer.
    async fn attach(
        &self,
        client: &LockClient,
        of: Op,
        lock: &DetachedLock,
        answers: &watch::Sender<u32>,
    ) {
        let op = self.recorder.attach(lock.name(), of);
        let answer = client.attach(lock).await;
        op.attached(&answer);
        answers.send_modify(|count| *count += 1);
        let Ok(guard) = answer else { return };
        let mut answered = answers.subscribe();
        let both = async { drop(answered.wait_for(|count| *count >= 2).await) };
        self.hold(&op, &guard, both, false).await;
        op.given_up();
        op.released(&guard.release().await);
    }
}
