//! The queue of a name: its table of places.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Grant, Mode, Request};

use crate::{
    dialect::Dialect as _,
    mysql::{
        rows::batch,
        statements::Argument::{Bytes, Text},
        store::Mysql,
    },
    tunables::{TURN, mysql::HEARD_AT_ONCE},
    waiting::{Place, Places, Queue, Turn},
};

impl Mysql {
    /// Enters the place of a request, or says that it is alive. The store has it already, or not, if that is known.
    pub(super) async fn enter(
        &self,
        request: &Request,
        place: &Arc<Place>,
        is_there: Option<bool>,
    ) -> Result<(), Error> {
        if is_there == Some(false) {
            // It is new, or was forgotten while this process stood still.
            place.doubt();
        }
        if !place.enter() {
            return Ok(());
        }
        if is_there == Some(true) {
            return self.hear(request, place).await;
        }
        let owner = request.owner.to_string();
        let whose = [Bytes(request.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
        let entered = self.ready().await?.execute_again(&self.sql.enter, &whose).await;
        entered.inspect_err(|_| place.doubt()).map(drop)
    }

    /// Says that a place is alive, and all others of this client that will have to say so soon.
    async fn hear(&self, request: &Request, place: &Arc<Place>) -> Result<(), Error> {
        let mut told = self.places.soon_due(HEARD_AT_ONCE);
        told.push((request.owner, Arc::clone(place)));
        // No lease is read.
        let each = told.iter().map(|(owner, place)| (place.name(), Some((*owner, Duration::ZERO))));
        let heard = self.ready().await?.execute_again(&self.sql.hear, &[Text(&batch(each))]).await;
        heard.inspect_err(|_| told.iter().for_each(|(_, place)| place.doubt())).map(drop)
    }

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
