//! What a release with others waiting does besides handing over.

use super::{
    super::{
        raw::{SECOND, text},
        wire::Verdict,
    },
    cases::stays,
    server::{Server, Way, above},
};

/// Somebody waits with a token of another store in hand.
pub(crate) async fn a_handover_above_a_floor(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    let floor = server.now().await + 20 * SECOND;
    server.place("b", floor).await;
    assert!(server.free("a", "", false).await);
    stays(&server.record().await, "b")?;
    above(server.number().await, floor)
}

pub(crate) async fn a_release_that_keeps(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    server.place("b", 0).await;
    assert!(server.free("a", "20000", false).await);
    stays(&server.record().await, "a")
}

/// A queue ends by itself, but not while places come and go.
pub(crate) async fn a_queue_that_ends_soon(server: &mut Server) -> Verdict {
    server.place("b", 0).await;
    let queue = server.key("queue", "a");
    server.say(&["PEXPIRE", &queue, "20000"]).await;
    let next = server.attempt("c").await;
    let said = server.ask(Way::LongNext, &next).await;
    assert!(said.is_err(), "{said:?} with another waiting");
    let left: u64 = text(&server.say(&["PTTL", &queue]).await).parse().unwrap();
    match left > 20_000 {
        true => Ok(()),
        false => Err(format!("the queue ends in {left} ms")),
    }
}

/// The server refuses whatever needs memory, and a lock is given back.
pub(crate) async fn without_memory(server: &mut Server) -> Verdict {
    server.place("b", 0).await;
    let next = server.attempt("c").await;
    server.short_of_memory = true;
    let said = server.ask(Way::LongNext, &next).await;
    stays(&server.record().await, "b").map_err(|why| format!("{why}; it was told {said:?}"))
}

pub(crate) async fn a_next_past_a_place(server: &mut Server) -> Verdict {
    server.place("b", 0).await;
    let next = server.attempt("c").await;
    let said = server.ask(Way::LongNext, &next).await;
    stays(&server.record().await, "b").map_err(|why| format!("{why}; it was told {said:?}"))
}

/// It was heard of before the clock was set back, and may be dead for long.
pub(crate) async fn a_place_of_the_future(server: &mut Server) -> Verdict {
    server.taken("a").await?;
    server.place("b", 0).await;
    server.clock.step(-3_600.0).unwrap();
    server.forget().await;
    // Otherwise the watermark alone would send it the long way.
    server.note("mark", "0").await;
    let next = server.attempt("c").await;
    match server.ask(Way::LongNext, &next).await {
        Ok(_) => Ok(()),
        Err(said) => Err(format!("the lock went to the place, it seems: {said}")),
    }
}
