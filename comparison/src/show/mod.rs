//! A report for people: a table for a terminal, and a page of HTML with plots.

mod digits;
mod page;
mod plots;
mod table;
mod timeline;
