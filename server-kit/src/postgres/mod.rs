//! PostgreSQL: one server and its replicas, and a pooler before it.

mod pgbouncer;
mod server;

pub use self::{
    pgbouncer::Pgbouncer,
    server::{Postgres, PostgresOptions},
};
