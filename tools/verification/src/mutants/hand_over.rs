//! How a flawed backend hands a lock over.

use lock_core::{Error, Grant, Request};

use super::{Flaw, flawed::Flawed};

impl Flawed {
    pub(super) async fn hand_over(
        &self,
        grant: &Grant,
        request: &Request,
    ) -> Result<Option<Grant>, Error> {
        let state = self.sound.inspect(&grant.name).await?;
        let Some(state) = state.filter(|state| state.holder.is_some()) else {
            return self.sound.reown(grant, request).await;
        };
        let as_granted = Ok(Some(Grant::new(request, grant.token)));
        match self.flaw {
            Some(Flaw::KeepsTheFormerOwner) => as_granted,
            Some(Flaw::HandsOverTwice) if state.token == grant.token && !state.kept => {
                self.sound.reown(grant, request).await?;
                as_granted
            }
            Some(Flaw::HandsOverWithAnyToken) => {
                let mut named = grant.clone();
                named.token = state.token;
                self.sound.reown(&named, request).await
            }
            Some(Flaw::HandsOverWhatIsKept) if state.kept => as_granted,
            _ => self.sound.reown(grant, request).await,
        }
    }
}
