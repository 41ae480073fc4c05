//! The servers and their clients between two steps.

pub(super) const CLIENTS: usize = 2;
/// In ticks.
pub(super) const LEASE: u8 = 2;
/// The leader ends a session so many ticks after the last request that it knows of.
pub(super) const SESSION: u8 = LEASE + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// How many sessions the clients open together.
    pub(super) sessions: u8,
    /// How often they write their own nodes.
    pub(super) writes: u8,
    /// How many of these writes are carried out and not answered, or after their senders have gone.
    pub(super) lost_answers: u8,
    pub(super) elections: u8,
    pub(super) restores: u8,
    /// How often a client enters the queue.
    pub(super) waits: u8,
}

/// The settings of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Settings {
    pub(super) epoch: u8,
    /// A later epoch, and how many ticks the store waits.
    pub(super) unproven: Option<(u8, u8)>,
}

impl Settings {
    pub(super) fn open_epoch(&self) -> u8 {
        match self.unproven {
            Some((epoch, 0)) => epoch.max(self.epoch),
            _ => self.epoch,
        }
    }

    fn tick(&mut self) {
        if let Some((_, left)) = &mut self.unproven {
            *left = left.saturating_sub(1);
        }
    }
}

/// What the servers keep, and a copy of it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Data {
    pub(super) epoch: u8,
    pub(super) settings: Settings,
    pub(super) lock: Option<usize>,
    /// The waiter, who has an entry before all that come later.
    pub(super) waiter: Option<usize>,
    /// The epoch in which an entry came or went last.
    pub(super) queue_epoch: u8,
    /// The node of each client: the number of the session, and the version.
    pub(super) nodes: [Option<(u8, u8)>; CLIENTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub(super) number: u8,
    /// The version of its node, as the last answered write has left it.
    pub(super) version: u8,
    /// Whether a later write was not answered so far.
    pub(super) is_unknown: bool,
    /// Ticks since that write.
    pub(super) idle: u8,
    /// For a waiter: ticks since the last request that the leader surely knows of, which is one
    /// before an answered write.
    pub(super) confirmed: u8,
    pub(super) epoch: u8,
    /// The epoch of the last answered write of any node.
    pub(super) seen_epoch: u8,
    pub(super) unbroken_since: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) session: Option<Session>,
    /// Whether a task waits in the queue.
    pub(super) waits: bool,
    /// For how many ticks it relies on its lock.
    pub(super) valid: u8,
    /// The number of the session by which it was given that lock.
    pub(super) held_by: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) data: Data,
    /// The highest epoch that ever was.
    pub(super) last_epoch: u8,
    /// A copy, and its age in ticks.
    pub(super) copy: Option<(Data, u8)>,
    pub(super) clients: [Client; CLIENTS],
    pub(super) sessions: u8,
    pub(super) left: Budget,
    pub(super) was_restored: bool,
    /// A client has given its session up, although nothing was restored.
    pub(super) gave_up_early: bool,
    /// A client has opened an epoch by what it knows.
    pub(super) has_opened: bool,
}

impl State {
    /// Whether the servers have the session of this client.
    pub(super) fn lives(&self, me: usize) -> bool {
        let (stored, session) = (self.data.nodes[me], self.clients[me].session);
        stored.zip(session).is_some_and(|((number, _), session)| number == session.number)
    }

    pub(super) fn tick(&mut self) {
        self.data.settings.tick();
        if let Some((data, age)) = &mut self.copy {
            data.settings.tick();
            *age = (*age + 1).min(LEASE);
        }
        for client in &mut self.clients {
            client.valid = client.valid.saturating_sub(1);
            if let Some(session) = &mut client.session {
                let most = if client.waits { SESSION } else { LEASE };
                session.idle = (session.idle + 1).min(most);
                session.confirmed = (session.confirmed + u8::from(client.waits)).min(SESSION);
            }
        }
    }
}
