//! Gives a held lock to a new owner.

use lock_core::{Error, Grant, Request};

use super::backend::{Redis, granted};
use crate::scripts::{
    self,
    reply::{self, Answer, Reply},
};

impl Redis {
    pub(super) async fn hand_over(
        &self,
        grant: &Grant,
        request: &Request,
    ) -> Result<Option<Grant>, Error> {
        let given = self.asked_to_hand_over(grant, request).await;
        given.map_err(|error| error.at("redis", "reown").on(&grant.name))
    }

    async fn asked_to_hand_over(
        &self,
        grant: &Grant,
        request: &Request,
    ) -> Result<Option<Grant>, Error> {
        self.store.guarantees.check_policy()?;
        let keys = self.store.keys.of(&grant.name, request.owner);
        let own = scripts::reown(grant, request);
        let (bucket, reown) = (self.store.keys.bucket(&grant.name), &scripts::REOWN);
        let asked =
            self.store.run_in_epoch_with_connection(bucket, reown, &keys, &own, Answer::plain);
        let (answer, connection) = asked.await?;
        let reply = answer.reply.ok_or_else(reply::not_understood)?;
        match self.secured(&connection, request, reply).await? {
            Reply::Granted(token) => Ok(Some(granted(request, token))),
            Reply::Word(word) if word == "gone" => Ok(None),
            Reply::Quarantined(why) => Err(why.into()),
            other => Err(self.failed(other)),
        }
    }
}
