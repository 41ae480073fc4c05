//! A lock is handed over: a guard is detached, and another client attaches the lock.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{Either, select};

use super::{
    acquire_events::with_events,
    calls::{self, Call, after_confirm, after_reown, check, confirm, reown},
    detached_lock::DetachedLock,
    guard::{Guard, lost_error},
    lock_client::LockClient,
    renewal::admit,
    state::{ClientState, End, Held, Wanted},
};
use crate::{Error, ErrorKind, EventKind, Grant, Mode, Request};

impl Guard {
    /// Ends this guard without a release. The lock stays held until another client, also in another
    /// process, [attaches](LockClient::attach) it, or its lease ends. Nobody renews it meanwhile.
    ///
    /// # Guarantees
    ///
    /// The client renews the lock once more before, so that the whole lease is left. A renewal of
    /// this client that is still under way cannot renew it after an attach. [`LockClient::close`]
    /// leaves a detached lock alone.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// After an error the lock is released in the background, as by a drop. `Unsupported` if the
    /// store cannot hand a lock over ([`Guarantees::hand_over`](crate::Guarantees)), and for a
    /// shared lock and a permit; `InvalidInput` if the lock has other guards by
    /// [`reenter`](Self::reenter), or has [`at_least`](crate::Lock::at_least) or
    /// [`hold_at_most`](crate::Lock::hold_at_most); `Lost` if the lock was lost; `Timeout` after
    /// the client's `call_timeout`; `Config` if the client is closed; otherwise those of the store.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is released in the background.
    pub async fn detach(mut self) -> Result<DetachedLock, Error> {
        let (state, held) = (self.state(), Arc::clone(self.held()));
        let (state, name) = (&state, &held.grant.name);
        check_detachable(state, &held).map_err(|error| error.on(name))?;
        let _in_flight = ClientState::begin(&**state).map_err(|error| error.on(name))?;
        let limit = state.options.call_timeout;
        let end = state.env.now() + limit;
        let store = identity(state, limit).await.map_err(|error| error.on(name))?;
        let work = confirm(Arc::clone(state), Arc::clone(&held), end);
        let left = end.since(state.env.now());
        match Call::new(state, work, after_confirm).within(left).await {
            Some(result) => result.map_err(|error| error.on(name))?,
            None => return Err(no_answer("the renewal before the detach", limit).on(name)),
        }
        if !check(state, &held) || !held.finish(End::Detached) {
            return Err(lost_error(&held, "the lock was lost before it was detached"));
        }
        self.forget();
        state.renewer.unregister(&held);
        state.queues(Mode::Exclusive).forget_carry(&held.grant);
        if state.is_observed() {
            let span = state.env.now().since(held.since());
            state.emit(name, Some(&held), EventKind::Detached { held: span });
        }
        Ok(DetachedLock {
            name: name.clone(),
            owner: held.grant.owner,
            token: held.grant.token,
            lease: held.grant.lease,
            store,
            record_writes: held.record_writes(),
            doubtful: held.doubtful,
        })
    }
}

impl LockClient {
    /// Takes a [detached](Guard::detach) lock over, and renews it from now on.
    ///
    /// # Guarantees
    ///
    /// The guard has the token of the detached one, and a new owner. The store changes the owner in
    /// one atomic step. So a second attach of the same lock is `NotHeld`, and what its former
    /// client may still send changes nothing.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`. The lease is that of the detached lock, and
    /// counts from before the call.
    ///
    /// # Errors
    ///
    /// `NotHeld` if the store no longer has this grant: it was attached or taken over, its lease
    /// has ended, or name, owner or token were changed. `InvalidInput` if the lock is of another
    /// store, or its lease is out of range; `Unsupported` if the store cannot hand a lock over;
    /// `Config` if the client is closed; otherwise those of the store. After `OutcomeUnknown` and
    /// `Timeout` the client gives its new owner up in the background: if the store has made it the
    /// holder, the lock is then released, and otherwise it is still detached. So the same lock may
    /// be attached again; the answer is a guard or `NotHeld`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call is finished in the background. The lock is released if it
    /// was attached.
    pub async fn attach(&self, lock: &DetachedLock) -> Result<Guard, Error> {
        let attach = pin!(self.attach_once(lock));
        with_events(&self.handle, Ok(&lock.name), attach).await
    }

    async fn attach_once(&self, lock: &DetachedLock) -> Result<Guard, Error> {
        let (state, name) = (&self.handle.0, &lock.name);
        let (mode, lease) = (Mode::Exclusive, lock.lease);
        let wanted = Wanted { mode, lease, at_least: None, hold_at_most: None };
        let checked = wanted.check(&state.backend.guarantees());
        checked.and_then(|()| check_hand_over(state)).map_err(|error| error.on(name))?;
        let _in_flight = ClientState::begin(&**state).map_err(|error| error.on(name))?;
        let limit = state.options.call_timeout;
        let end = state.env.now() + limit;
        let store = identity(state, limit).await.map_err(|error| error.on(name))?;
        if store != lock.store {
            let known = |store: &Option<String>| store.clone().unwrap_or("without a name".into());
            let (this, other) = (known(&store), known(&lock.store));
            let message = format!("the detached lock is of the store {other}; this one is {this}");
            return Err(Error::new(ErrorKind::InvalidInput, message).on(name));
        }
        let detached = lock.grant(state.options.label.clone(), state.env.now());
        let request = state.request(name, &wanted);
        let work = reown(Arc::clone(state), detached, request, end);
        let left = end.since(state.env.now());
        let grant = match Call::new(state, work, after_reown).within(left).await {
            Some((_, Ok(Some(grant)))) => grant,
            Some((_, Ok(None))) => {
                let message = "the store does not have this grant any more: the lock was attached, \
                               released or lost, or the detached lock was changed";
                return Err(Error::new(ErrorKind::NotHeld, message).on(name));
            }
            Some((request, Err(error))) => {
                if error.is_ambiguous() {
                    self.give_up(request);
                }
                return Err(error.on(name));
            }
            None => return Err(no_answer("the attach", limit).on(name)),
        };
        if lock.doubtful {
            // A late attempt of the former owner would find the lock free after its release.
            let label = state.options.label.clone();
            let former = Request::new(name.clone(), lock.owner, label, lease, state.env.now());
            self.give_up(former);
        }
        let held = match admit(state, grant, &wanted, false, true) {
            Ok(held) => held,
            Err(spent) => {
                self.release_spent(spent);
                state.check_open().map_err(|error| error.on(name))?;
                let message = "the store's answer came after the lease had ended";
                return Err(Error::new(ErrorKind::Timeout, message).on(name));
            }
        };
        held.set_record_writes(lock.record_writes);
        let guard = Guard::new(Arc::clone(&self.handle), held);
        guard.renew_on_this_runtime();
        Ok(guard)
    }

    /// Abandons the owner of `request` in the background.
    fn give_up(&self, request: Request) {
        let state = Arc::clone(&self.handle.0);
        self.handle.detach(Box::pin(async move { calls::abandon(&state, request).await }));
    }

    fn release_spent(&self, grant: Grant) {
        let state = Arc::clone(&self.handle.0);
        self.handle
            .detach(Box::pin(async move { calls::release_unused(&state, grant, false).await }));
    }
}

fn check_detachable(state: &Arc<ClientState>, held: &Arc<Held>) -> Result<(), Error> {
    let refuse = |kind, message| Err(Error::new(kind, message));
    check_hand_over(state)?;
    if held.grant.mode != Mode::Exclusive {
        return refuse(ErrorKind::Unsupported, "a shared lock cannot be handed over");
    }
    if held.permit.load(Ordering::Relaxed) {
        return refuse(ErrorKind::Unsupported, "a permit of a semaphore cannot be handed over");
    }
    if !held.has_one_guard() {
        return refuse(
            ErrorKind::InvalidInput,
            "a lock that was entered again cannot be handed over before its other guards are gone",
        );
    }
    if held.has_hold_limits() {
        return refuse(
            ErrorKind::InvalidInput,
            "a lock with at_least or hold_at_most cannot be handed over",
        );
    }
    if !check(state, held) {
        return Err(lost_error(held, "the lock was lost before it was detached"));
    }
    Ok(())
}

fn check_hand_over(state: &ClientState) -> Result<(), Error> {
    if state.backend.guarantees().hand_over {
        return Ok(());
    }
    let message = "this store hands no held lock over to another client";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// The identity of the store, if it has one.
async fn identity(state: &ClientState, limit: Duration) -> Result<Option<String>, Error> {
    let (identity, timer) = (pin!(state.backend.identity()), state.env.sleep(limit));
    match select(identity, timer).await {
        Either::Left((Ok(identity), _)) => Ok(Some(identity)),
        Either::Left((Err(error), _)) => {
            if error.kind() == ErrorKind::Unsupported {
                Ok(None)
            } else {
                Err(error)
            }
        }
        Either::Right(_) => Err(no_answer("the name of the store", limit)),
    }
}

fn no_answer(call: &str, limit: Duration) -> Error {
    let limit = humantime::format_duration(limit);
    Error::new(ErrorKind::Timeout, format!("no answer to {call} within {limit}"))
}
