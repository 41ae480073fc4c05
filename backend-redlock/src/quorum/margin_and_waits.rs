//! The settings of the whole store, and the time limits that follow from them.

use std::time::Duration;

use lock_core::{Error, ErrorKind};

use crate::tunables::{
    ADMIN_WAIT, LONGEST_LEASE_BOUNDS, LONGEST_NODE_WAIT, MARGIN_BOUNDS, NODE_WAIT_PART,
    SHORTEST_LEASE_BOUNDS, SHORTEST_LEASE_REST, SHORTEST_NODE_WAIT,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) clock_bound: Duration,
    pub(crate) timeout: Duration,
}

impl Options {
    /// How long a call about a lock of this lease waits for a node.
    pub(crate) fn wait(&self, lease: Duration) -> Duration {
        let default = (lease / NODE_WAIT_PART).clamp(SHORTEST_NODE_WAIT, LONGEST_NODE_WAIT);
        self.node_timeout.unwrap_or(default)
    }

    /// The longest such wait.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.node_timeout.unwrap_or(LONGEST_NODE_WAIT)
    }

    /// How long a call of an operator waits for a node.
    pub(crate) fn admin_wait(&self) -> Duration {
        self.longest_wait().max(ADMIN_WAIT)
    }

    /// The shortest lease of which enough is left after the margin for clocks.
    pub(crate) fn shortest_lease(&self) -> Duration {
        SHORTEST_LEASE_BOUNDS * self.clock_bound + SHORTEST_LEASE_REST
    }

    /// How much earlier than its lease a grant ends for its holder, since clocks differ.
    pub(crate) fn margin(&self) -> Duration {
        MARGIN_BOUNDS * self.clock_bound
    }

    pub(crate) fn bound_micros(&self) -> u64 {
        u64::try_from(self.clock_bound.as_micros()).unwrap_or(u64::MAX)
    }

    /// # Errors
    /// `Config` for a longest lease that is too short for the clock bound.
    pub(crate) fn check_longest(&self, longest: Duration) -> Result<(), Error> {
        let (bound, show) = (self.clock_bound, humantime::format_duration);
        let least = LONGEST_LEASE_BOUNDS * bound;
        if longest >= least {
            return Ok(());
        }
        let message = format!(
            "longest lease {} is less than eight times the clock bound of {}; set a longest lease of {} \
             or more, or a smaller clock bound",
            show(longest),
            show(bound),
            show(least)
        );
        Err(Error::new(ErrorKind::Config, message))
    }
}
