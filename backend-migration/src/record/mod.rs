//! Records: the names of all, and this process's own record, which a task keeps in both stores.

mod names;
mod own;

pub(crate) use self::{
    names::{UsedStores, digests, is_record, read_records},
    own::OwnRecord,
};
