//! PostgreSQL: one server and its replicas, and a pooler before it.

mod hostile;
mod pgbouncer;
mod server;

pub use self::{
    hostile::Hostile,
    pgbouncer::Pgbouncer,
    server::{Postgres, PostgresOptions},
};
