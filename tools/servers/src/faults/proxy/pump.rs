//! One direction of one connection.

use std::{collections::VecDeque, io, time::Duration};

use tokio::{net::TcpStream, time::Instant};

use super::{
    alter::Altering,
    mode::Mode,
    state::{Direction, End, State},
};

const CHUNK: usize = 16 * 1024;
/// More than this waits in the sender's kernel, as on a real link.
const QUEUE: usize = 1024 * 1024;

/// So soon the rest of a message follows its beginning.
const FOLLOWS_WITHIN: Duration = Duration::from_millis(200);

/// What to do with a chunk of this direction.
enum Verdict {
    Deliver(Duration),
    Keep,
    Lose,
    End(End),
}

/// `is_new`: the connection began while the mode was [`Mode::Silent`].
fn verdict(mode: Mode, is_new: bool, direction: Direction) -> Verdict {
    match (mode, direction) {
        (Mode::Silent, _) if is_new => Verdict::Deliver(Duration::ZERO),
        (Mode::Pass, _)
        | (Mode::HalfCut, Direction::ToServer)
        | (Mode::RequestsLost, Direction::ToClient) => Verdict::Deliver(Duration::ZERO),
        (Mode::Delay { to_server, .. }, Direction::ToServer) => Verdict::Deliver(to_server),
        (Mode::Delay { to_client, .. }, Direction::ToClient) => Verdict::Deliver(to_client),
        (Mode::Hold, _) => Verdict::Keep,
        (Mode::BlackHole | Mode::Silent, _)
        | (Mode::HalfCut, Direction::ToClient)
        | (Mode::RequestsLost, Direction::ToServer) => Verdict::Lose,
        (Mode::Cut, _) => Verdict::End(End::Cut),
        (Mode::Reset, _) => Verdict::End(End::Reset),
    }
}

/// Moves bytes until the sender has closed and all was delivered (`Ok`), or the connection is to
/// end in both directions (`Err`).
pub(super) async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    direction: Direction,
    state: &State,
) -> Result<(), End> {
    let mut changed = state.changed.subscribe();
    // Arrival and bytes; an empty chunk is the sender's end. When it is due follows from the mode
    // in force then, so a switch also holds for bytes on their way.
    let mut queue = VecDeque::<(Instant, Vec<u8>)>::new();
    let mut queued = 0;
    let mut closed = false;
    let mut has_hole = false;
    let is_new = state.mode() == Mode::Silent;
    let rules = match direction {
        Direction::ToServer => state.alterations.clone(),
        Direction::ToClient => state.of_answers(),
    };
    let mut altering = Altering::new(&rules);
    loop {
        let verdict = verdict(state.mode(), is_new, direction);
        let mut due = None;
        match verdict {
            Verdict::End(end) => return Err(end),
            Verdict::Keep => {}
            Verdict::Lose => {
                let lost: usize = queue.drain(..).map(|(_, bytes)| bytes.len()).sum();
                has_hole |= lost > 0 || closed;
                queued = 0;
                if lost > 0 {
                    state.count(direction, |bytes| {
                        bytes.waiting -= lost as u64;
                        bytes.swallowed += lost as u64;
                    });
                }
            }
            Verdict::Deliver(_) if has_hole => return Err(End::Reset),
            Verdict::Deliver(delay) => due = queue.front().map(|(arrived, _)| *arrived + delay),
        }
        let is_due = due.is_some_and(|due| due <= Instant::now());

        tokio::select! {
            biased;
            _ = changed.changed() => {}
            () = sleep_until(due), if due.is_some() && !is_due => {}
            writable = to.writable(), if is_due => {
                writable.map_err(|_| End::Closed)?;
                if let Some(ended) = deliver(to, direction, is_new, state, &mut queue, &mut queued) {
                    return ended;
                }
            }
            // A message may end like a text that is looked for begins.
            () = tokio::time::sleep(FOLLOWS_WITHIN), if altering.holds_back() => {
                let (chunk, altered) = altering.let_go();
                state.count_altered(altered);
                queued += chunk.len();
                state.count(direction, |bytes| bytes.waiting += chunk.len() as u64);
                queue.push_back((Instant::now(), chunk));
            }
            readable = from.readable(), if !closed && queued < QUEUE => {
                readable.map_err(|_| End::Closed)?;
                let mut chunk = vec![0; CHUNK];
                match from.try_read(&mut chunk) {
                    Ok(read) => {
                        chunk.truncate(read);
                        closed = read == 0;
                        let (chunk, altered) = altering.pass(chunk);
                        state.count_altered(altered);
                        queued += chunk.len();
                        state.count(direction, |bytes| bytes.waiting += chunk.len() as u64);
                        // An empty chunk is an end, and only an end.
                        let now = Instant::now();
                        queue.extend((!chunk.is_empty()).then_some((now, chunk)));
                        queue.extend(closed.then(|| (now, Vec::new())));
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    // A sender that was killed resets its connection; what it sent before is
                    // delivered all the same, and then the end.
                    Err(_) => {
                        closed = true;
                        queue.push_back((Instant::now(), Vec::new()));
                    }
                }
            }
        }
    }
}

/// Hands the first chunk to the kernel, if the mode still allows it. `Some` when the direction
/// ends.
fn deliver(
    to: &TcpStream,
    direction: Direction,
    is_new: bool,
    state: &State,
    queue: &mut VecDeque<(Instant, Vec<u8>)>,
    queued: &mut usize,
) -> Option<Result<(), End>> {
    let written = {
        let mode = state.mode.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (arrived, chunk) = queue.front_mut()?;
        let Verdict::Deliver(delay) = verdict(*mode, is_new, direction) else { return None };
        if *arrived + delay > Instant::now() {
            return None;
        }
        if chunk.is_empty() {
            // The other side learns of the end, and may still answer.
            let _ = rustix::net::shutdown(to, rustix::net::Shutdown::Write);
            return Some(Ok(()));
        }
        match to.try_write(chunk) {
            Ok(written) => {
                chunk.drain(..written);
                written
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
            Err(_) => return Some(Err(End::Closed)),
        }
    };
    if queue.front().is_some_and(|(_, chunk)| chunk.is_empty()) {
        queue.pop_front();
    }
    *queued -= written;
    state.count(direction, |bytes| {
        bytes.waiting -= written as u64;
        bytes.passed += written as u64;
    });
    None
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
