//! The backend of the simulated clients: it sends each call over the simulated network.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Busy, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees,
    Init, Instant, LockName, LockState, LossReason, Mode, Page, Quarantined, RecordRead,
    RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, Signal, StoreSettings,
    Waiter, WriteOutcome,
};
use tokio::sync::mpsc;

use super::{
    net::{Link, at_once},
    plan::Mutant,
    world::NET,
};

/// How long the store keeps the queue entry of a process that sends no more heartbeats.
const SILENCE: Duration = Duration::from_secs(3);

impl Link {
    fn quarantine(&self) -> Option<Quarantined> {
        let left = self.net.state().quarantined_until.saturating_sub(self.net.world.now());
        let remaining = Duration::from_nanos(left);
        (left > 0).then(|| Quarantined::new(remaining, "simulated"))
    }

    fn attempt(&self, request: &Request, awaited: bool) -> Result<Attempt, Error> {
        self.note(request, awaited);
        if let Some(held_back) = self.quarantine() {
            return Ok(Attempt::Quarantined(held_back));
        }
        let memory = &self.net.memory;
        let mut attempt = at_once(memory.try_acquire(request))?;
        if let Attempt::Busy(busy) = &attempt
            && self.net.is(Mutant::GrantsTwice)
            && self.net.world.chance(100)
        {
            let token = FencingToken::new(busy.token.get() + 1).unwrap_or(FencingToken::MAX);
            attempt = Attempt::Granted(Grant::new(request, token));
        }
        self.net.world.log(format_args!("{} asks {} -> {attempt:?}", self.process, request.owner));
        Ok(match attempt {
            Attempt::Granted(grant) => Attempt::Granted(self.dress(grant)),
            Attempt::Busy(busy) => Attempt::Busy(self.disguise(busy)),
            other => other,
        })
    }

    fn dress(&self, mut grant: Grant) -> Grant {
        if self.net.is(Mutant::TokensForget) {
            let mut state = self.net.state();
            state.counter = state.counter % 5 + 1;
            grant.token = FencingToken::new(state.counter).unwrap_or(grant.token);
        }
        if self.net.is(Mutant::ReadersTakeTheLastToken) {
            let mut state = self.net.state();
            match grant.mode {
                Mode::Shared => {
                    grant.token = FencingToken::new(state.counter).unwrap_or(grant.token)
                }
                _ => state.counter = grant.token.get(),
            }
        }
        grant
    }

    fn disguise(&self, mut busy: Busy) -> Busy {
        if self.net.is(Mutant::OldPushes) {
            busy.token = FencingToken::ZERO;
        }
        if self.net.is(Mutant::NeverWakes) {
            busy.retry_after = Duration::from_secs(3_600);
        }
        busy
    }

    /// For a mutant: counts the lease from now.
    fn received(&self, mut grant: Grant) -> Grant {
        if self.net.is(Mutant::CountsFromReply) {
            grant.from = self.local_now();
        }
        grant
    }

    fn enqueue_once(&self, request: &Request, awaited: bool) -> Result<Enqueued, Error> {
        Ok(match self.attempt(request, awaited)? {
            Attempt::Granted(grant) => Enqueued::Granted(grant),
            Attempt::Quarantined(held_back) => Enqueued::Quarantined(held_back),
            Attempt::Busy(busy) if self.net.is(Mutant::Barges) => {
                // There is no queue entry: the store serves the client that asks at the right
                // moment.
                self.net.queued(self.process, &request.name);
                let (_, signals) = mpsc::unbounded_channel();
                let waiter = SimWaiter { link: self.clone(), request: request.clone(), signals };
                Enqueued::Waiting(Box::new(waiter), busy)
            }
            Attempt::Busy(_) => {
                let answer = at_once(self.net.memory.enqueue(request))?;
                self.settle(request, answer)
            }
        })
    }

    /// Puts the network between a queue entry and its owner.
    fn settle(&self, request: &Request, answer: Enqueued) -> Enqueued {
        match answer {
            Enqueued::Waiting(waiter, busy) => {
                self.net.queued(self.process, &request.name);
                let (pushes, signals) = mpsc::unbounded_channel();
                self.alarm(pushes.clone());
                self.net.world.spawn(NET, Box::pin(pump(self.clone(), waiter, pushes)));
                let waiter = SimWaiter { link: self.clone(), request: request.clone(), signals };
                Enqueued::Waiting(Box::new(waiter), self.disguise(busy))
            }
            Enqueued::Granted(grant) => Enqueued::Granted(self.dress(grant)),
            other => other,
        }
    }

    /// Sometimes sends a waiter a signal without a reason.
    fn alarm(&self, pushes: mpsc::UnboundedSender<Signal>) {
        let world = self.net.world.clone();
        if !self.net.state().calm && world.chance(self.net.plan.alarms) {
            let false_alarm = if world.chance(500) {
                Signal::Recheck
            } else {
                Signal::Lost("subscription lost".into())
            };
            let after = world.sleep(world.span(Duration::ZERO, Duration::from_millis(800)));
            self.net.world.spawn(
                NET,
                Box::pin(async move {
                    after.await;
                    let _ = pushes.send(false_alarm);
                }),
            );
        }
    }

    fn renew_one(&self, grant: &Grant, sent: Instant) -> Renewal {
        let memory = &self.net.memory;
        let answer = at_once(memory.renew(&[grant], sent)).pop();
        let lost = matches!(answer, Some(Renewal::Lost(_)));
        if lost && self.net.is(Mutant::Resurrects) {
            let mut request = Request::new(
                grant.name.clone(),
                grant.owner,
                lock_core::OwnerLabel::of_this_process(),
                grant.lease,
                sent,
            );
            request.floor = FencingToken::ZERO;
            let _ = at_once(memory.force_release(&grant.name));
            let _ = at_once(memory.try_acquire(&request));
            return Renewal::Renewed { from: sent, lease: grant.lease };
        }
        let answer = answer.unwrap_or(Renewal::Lost(LossReason::Gone));
        self.net.world.log(format_args!("{} renews {} -> {answer:?}", self.process, grant.owner));
        let calm = self.net.state().calm;
        if !calm && self.net.world.chance(self.net.plan.silent_renewals) {
            return Renewal::Unknown(Error::new(ErrorKind::OutcomeUnknown, "no answer for it"));
        }
        answer
    }

    fn give_back(
        &self,
        grant: &Grant,
        keep: Option<Duration>,
        next: Option<&Request>,
        awaited: bool,
    ) -> Result<Released, Error> {
        let queued = next.map(|next| self.enqueue_once(next, awaited)).transpose()?;
        if self.net.is(Mutant::ReleasesOthers) {
            at_once(self.net.memory.force_release(&grant.name))?;
        }
        if grant.mode == Mode::Shared && self.net.is(Mutant::EndsWithTheFirstReader) {
            at_once(self.net.memory.force_release(&grant.name))?;
        }
        let options = ReleaseOptions::new().with_keep(keep);
        let Released { outcome, .. } = at_once(self.net.memory.release(grant, options))?;
        self.net.world.log(format_args!(
            "{} releases {} keeping {keep:?} -> {outcome:?}",
            self.process, grant.owner
        ));
        Ok(Released::new(outcome, queued))
    }
}

/// Delivers the pushes of a queue entry to its owner, each with its own delay.
async fn pump(link: Link, mut waiter: Box<dyn Waiter>, pushes: mpsc::UnboundedSender<Signal>) {
    let world = link.net.world.clone();
    let gone = async {
        pushes.closed().await;
        world.sleep(SILENCE).await;
    };
    tokio::pin!(gone);
    loop {
        let signal = tokio::select! {
            biased;
            () = &mut gone => return,
            signal = waiter.next() => signal,
        };
        world.log(format_args!("{} is pushed {signal:?}", link.process));
        // After a grant the entry is used up, and later signals say only that.
        let last = matches!(signal, Signal::Lost(_) | Signal::Granted(_));
        let told = matches!(signal, Signal::Lost(_));
        let plan = &link.net.plan;
        let calm = link.net.state().calm;
        let lost = !told && !calm && world.chance(plan.lost_pushes);
        if !lost && !link.net.is(Mutant::NeverWakes) {
            let slow = !calm && world.chance(plan.late_pushes);
            let most = Duration::from_millis(if slow { 4_000 } else { 3 });
            let way = world.sleep(world.span(Duration::ZERO, most));
            let (pushes, link) = (pushes.clone(), link.clone());
            world.spawn(
                NET,
                Box::pin(async move {
                    way.await;
                    let _ = pushes.send(match signal {
                        Signal::Granted(grant) => Signal::Granted(link.pushed(grant)),
                        other => other,
                    });
                }),
            );
        }
        if last {
            return;
        }
    }
}

impl Link {
    fn pushed(&self, grant: Grant) -> Grant {
        let mut grant = self.dress(self.received(grant));
        if self.net.is(Mutant::PushesForTheLease) {
            grant.claim = None;
            grant.from = self.local_now();
        }
        grant
    }
}

#[async_trait]
impl Backend for Link {
    fn kind(&self) -> &'static str {
        "sim"
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.net.memory.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let request = request.clone();
        let step = move |link: &Self, awaited: bool| link.attempt(&request, awaited);
        let attempt = self.call("acquire", step).await?;
        Ok(match attempt {
            Attempt::Granted(grant) => Attempt::Granted(self.received(grant)),
            other => other,
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let request = request.clone();
        let step = move |link: &Self, awaited: bool| link.enqueue_once(&request, awaited);
        let answer = self.call("enqueue", step).await?;
        Ok(match answer {
            Enqueued::Granted(grant) => Enqueued::Granted(self.received(grant)),
            other => other,
        })
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let (request, owner) = (request.clone(), request.owner);
        self.cleaning(owner, request.lease);
        let step = move |link: &Self, _: bool| {
            link.net.world.log(format_args!("{} abandons {}", link.process, request.owner));
            link.tombstone(request.owner);
            if link.net.is(Mutant::AbandonsNothing) {
                return Ok(());
            }
            if link.net.is(Mutant::NoTombstones) {
                // Releases the lock, and leaves no tombstone against a late request.
                let grant = Grant::new(&request, FencingToken::ZERO);
                return at_once(link.net.memory.release(&grant, ReleaseOptions::default()))
                    .map(drop);
            }
            at_once(link.net.memory.abandon(&request))
        };
        let answer = self.call("abandon", step).await;
        self.cleaned(owner, None, &answer);
        answer
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let batch: Vec<Grant> = grants.iter().map(|grant| (*grant).clone()).collect();
        let step = move |link: &Self, _: bool| {
            Ok(batch.iter().map(|grant| link.renew_one(grant, sent)).collect::<Vec<_>>())
        };
        match self.call("renew", step).await {
            Ok(answers) => answers,
            Err(_) if self.net.is(Mutant::LosesOnSilence) => {
                grants.iter().map(|_| Renewal::Lost(LossReason::Gone)).collect()
            }
            Err(error) => grants.iter().map(|_| Renewal::Unknown(error.clone())).collect(),
        }
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let (owner, keep) = (grant.owner, options.keep);
        let (grant, next) =
            (grant.clone(), options.next.filter(|_| self.net.plan.carries).cloned());
        self.cleaning(owner, grant.lease);
        let step =
            move |link: &Self, awaited: bool| link.give_back(&grant, keep, next.as_ref(), awaited);
        let mut answer = self.call("release", step).await;
        if self.net.is(Mutant::ReleasesOnce) {
            answer = answer.or_else(|_| Ok(Released::plain(ReleaseOutcome::Released)));
        }
        self.cleaned(owner, keep, &answer);
        let mut answer = answer?;
        if let Some(Enqueued::Granted(grant)) =
            answer.next.take_if(|next| matches!(next, Enqueued::Granted(_)))
        {
            answer.next = Some(Enqueued::Granted(self.received(grant)));
        }
        Ok(answer)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.net.memory.raise(grant, token).await
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.net.memory.reown(grant, request).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let name = name.clone();
        self.call("read-record", move |link: &Self, _: bool| link.read_once(&name)).await
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let (grant, write) = (grant.clone(), write.clone());
        let step = move |link: &Self, _: bool| link.write_once(&grant, &write);
        self.call("write-record", step).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.net.memory.inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        self.net.memory.list(from).await
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.net.world.log(format_args!("{name} is freed by force"));
        self.net.memory.force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.net.memory.init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}

#[derive(Debug)]
struct SimWaiter {
    link: Link,
    request: Request,
    signals: mpsc::UnboundedReceiver<Signal>,
}

#[async_trait]
impl Waiter for SimWaiter {
    async fn next(&mut self) -> Signal {
        match self.signals.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await, // The only push was lost: the client polls.
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        self.link.abandon(&self.request).await
    }
}
