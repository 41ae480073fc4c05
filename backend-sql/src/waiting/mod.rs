//! Waiters of SQLite and MySQL, whose queue is a table of places.

mod places;
mod waiter;

pub(crate) use self::{
    places::{Place, Places},
    waiter::{Queue, QueueWaiter, Turn},
};
