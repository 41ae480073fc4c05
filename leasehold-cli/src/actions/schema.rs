//! `schema`: prints the SQL that creates the tables of a store.

use leasehold::StoreUrl;
use serde_json::json;

use crate::args::Output;
use crate::exit::Failure;
use crate::json;
use crate::show::print;

pub(super) fn schema(url: &StoreUrl, output: Output) -> Result<u8, Failure> {
    let sql = leasehold::schema(url).map_err(|error| Failure::of(&error))?;
    print(&if output.json {
        json::pretty(&json!({ "sql": sql }))?
    } else {
        format!("{}\n", sql.trim_end())
    })
}
