//! The places of a name.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Grant, Mode, Request};

use super::{statements::Argument::Bytes, store::Mysql};
use crate::{
    dialect::Dialect as _,
    tunables::TURN,
    waiting::{Places, Queue, Turn},
};

impl Mysql {
    /// Takes the place of a request away.
    pub(super) async fn give_up(&self, request: &Request) -> Result<(), Error> {
        let owner = request.owner.to_string();
        let whose = [Bytes(request.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
        self.ready().await?.execute_again(&self.sql.leave, &whose).await.map(drop)
    }
}

#[async_trait]
impl Queue for Mysql {
    const TURN: Duration = TURN;

    fn places(&self) -> &Places {
        &self.places
    }

    fn is_woken(&self) -> bool {
        false
    }

    async fn turn(&self, request: &Request) -> Result<Turn, Error> {
        let row = self.fetch(&request.name, Some(request.owner)).await?;
        // Nobody gives it the lock: it has to ask.
        let waits = row.filter(|row| row.refuses(request));
        Ok(waits.map_or(Turn::Free, |row| Turn::Wait(row.before_us)))
    }

    async fn leave(&self, request: &Request) -> Result<(), Error> {
        self.give_up(request).await?;
        let left = Grant::new(request, FencingToken::ZERO);
        if request.mode == Mode::Shared && self.part(&left).await? {
            return Ok(());
        }
        self.change(&self.sql.release, &left, None).await.map(drop)
    }
}
