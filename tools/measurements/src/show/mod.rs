//! Shows a report: as a table for a terminal, and as a page of HTML with plots.

mod digits;
mod escaped;
mod page;
mod plots;
mod table;
mod timeline;
