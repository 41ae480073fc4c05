//! How a flawed backend hands a lock over.

use lock_core::{Backend, Error, Grant, Request};

use super::Flaw;

pub(super) async fn reown(
    sound: &dyn Backend,
    flaw: Option<Flaw>,
    grant: &Grant,
    request: &Request,
) -> Result<Option<Grant>, Error> {
    let state = sound.inspect(&grant.name).await?;
    let Some(state) = state.filter(|state| state.holder.is_some()) else {
        return sound.reown(grant, request).await;
    };
    let as_granted = Ok(Some(Grant::new(request, grant.token)));
    match flaw {
        Some(Flaw::KeepsTheFormerOwner) => as_granted,
        Some(Flaw::HandsOverTwice) if state.token == grant.token && !state.kept => {
            sound.reown(grant, request).await?;
            as_granted
        }
        Some(Flaw::HandsOverWithAnyToken) => {
            let mut named = grant.clone();
            named.token = state.token;
            sound.reown(&named, request).await
        }
        Some(Flaw::HandsOverWhatIsKept) if state.kept => as_granted,
        _ => sound.reown(grant, request).await,
    }
}
