//! PostgreSQL.

mod crash;
mod faults;
mod fence;
mod foreign;
mod held;
mod hostile;
mod load;
mod pooler;
mod queue;
mod rows;
mod settings;
mod shadows;
mod store;
mod tls;
mod told;
mod versions;
