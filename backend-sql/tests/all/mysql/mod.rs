//! MySQL, on MariaDB.

mod access;
mod bells;
mod faults;
mod fence;
mod foreign;
mod handoff;
mod init;
mod locked_rows;
mod queue;
mod readers;
mod records;
mod rows;
mod sessions;
mod settings;
mod store;
mod sweep;
mod tls;
mod versions;
