//! Connects to the members of a cluster: to one at a time, and counts every new connection.
//!
//! The client library spreads its calls over all members, so a member that hangs swallows its share
//! of the calls for as long as its connection lives. It also reconnects silently. Here all calls go
//! to one member until that member fails or hangs. As long as no new connection begins, the process
//! at the other end stays the same, and so does its history (see `restore/history.rs`).

use std::{
    error::Error,
    fmt,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use etcd_client::{BalancedChannelBuilder, Channel};
use http::Uri;
use hyper_util::rt::TokioIo;
use lock_core::{Env as _, Mutex, SystemEnv};
use tokio::{
    net::TcpStream,
    sync::{
        OnceCell,
        mpsc::{Receiver, Sender, channel},
    },
};
use tonic::{
    body::Body,
    transport::{self, Endpoint, channel::Change},
};
use tower::{
    BoxError, Service, ServiceExt as _,
    util::{BoxCloneSyncService, service_fn},
};

use super::{
    body::YieldingBody,
    socket::{Connection, ConnectionState},
};

/// gRPC's number for a member that cannot serve now, such as one without a leader.
const UNAVAILABLE: &str = "14";

type Request = http::Request<Body>;
type Response = http::Response<Body>;
type Updates = Sender<Change<Uri, Endpoint>>;

/// No member accepted a connection. Nothing was sent.
#[derive(Debug)]
pub(crate) struct NoMember(Option<BoxError>);

impl fmt::Display for NoMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no member of the cluster takes a connection")
    }
}

impl Error for NoMember {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_ref().map(|error| &**error as _)
    }
}

/// The only connection of a channel has ended. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("the connection to etcd has ended")]
struct Ended;

/// The members. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Members(Arc<Shared>);

#[derive(Default)]
struct Shared {
    list: Mutex<List>,
    /// A counter with a random start. It says which member is used, and grows each time a member is
    /// given up.
    position: AtomicUsize,
    /// How many connections were begun. It has its own `Arc`, which each channel holds: a channel
    /// that held all members would never end.
    opened: Arc<AtomicU64>,
}

#[derive(Default)]
struct List {
    updates: Option<Receiver<Change<Uri, Endpoint>>>,
    members: Vec<Arc<Member>>,
}

/// A member. After a failure it is replaced, so that its next use connects again.
struct Member {
    endpoint: Endpoint,
    channel: OnceCell<MemberChannel>,
}

impl Member {
    fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, channel: OnceCell::new() }
    }
}

/// A channel with its only connection.
#[derive(Clone)]
struct MemberChannel {
    channel: transport::Channel,
    state: Arc<ConnectionState>,
}

/// Whether the error or one of its sources has this type.
pub(super) fn is_due_to<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (**error).source()).any(|error| error.is::<E>())
}

impl Members {
    pub(crate) fn new() -> Self {
        let members = Self::default();
        // Random, so that not all clients use the first member.
        members.0.position.store(SystemEnv.random() as u16 as usize, Ordering::Relaxed);
        members
    }

    /// How many connections were begun so far. Each is counted before its first byte is sent.
    pub(crate) fn opened(&self) -> u64 {
        self.0.opened.load(Ordering::SeqCst)
    }

    /// Counts a stream like a connection: behind a proxy, another server than the observed one may
    /// answer it over the same connection.
    pub(crate) fn count_stream(&self) {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
    }

    /// The position of the member that is used now, for [`give_up`](Self::give_up).
    pub(crate) fn position(&self) -> usize {
        self.0.position.load(Ordering::Acquire)
    }

    /// Switches to the next member, if the one at this position is still used. Returns whether it
    /// was.
    fn give_up(&self, position: usize) -> bool {
        let next = position.wrapping_add(1);
        let used = &self.0.position;
        used.compare_exchange(position, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The same if the member did not answer in time. A firewall may have dropped the connection,
    /// and those to the other members. So each member's next use connects again.
    pub(crate) fn give_up_silent(&self, position: usize) {
        if self.give_up(position) {
            for member in &mut self.list().members {
                *member = Arc::new(Member::new(member.endpoint.clone()));
            }
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        let mut list = self.0.list.lock();
        while let Some(Ok(update)) = list.updates.as_mut().map(Receiver::try_recv) {
            match update {
                Change::Insert(_, endpoint) => {
                    list.members.push(Arc::new(Member::new(endpoint)));
                }
                Change::Remove(uri) => list.members.retain(|member| *member.endpoint.uri() != uri),
            }
        }
        list
    }

    /// The member at a position, and the number of members.
    fn member(&self, position: usize) -> Option<(Arc<Member>, usize)> {
        let list = self.list();
        let at = position.checked_rem(list.members.len())?;
        Some((Arc::clone(&list.members[at]), list.members.len()))
    }

    /// The channel to the current member, or to the next one that accepts a connection.
    async fn connected(&self) -> Result<(usize, Arc<Member>, MemberChannel), NoMember> {
        let (mut tried, mut last) = (0, None);
        loop {
            let position = self.position();
            let Some((member, count)) = self.member(position) else { return Err(NoMember(last)) };
            match member.channel.get_or_try_init(|| self.connect(&member)).await.cloned() {
                Ok(channel) if channel.state.has_ended() => self.forget(&member),
                Ok(channel) => return Ok((position, member, channel)),
                Err(error) => {
                    self.give_up(position);
                    tried += 1;
                    if tried >= count {
                        return Err(NoMember(Some(error.into())));
                    }
                    last = Some(error.into());
                }
            }
        }
    }

    async fn connect(&self, member: &Member) -> Result<MemberChannel, transport::Error> {
        let state = Arc::<ConnectionState>::default();
        let connector = connector(&self.0.opened, &state);
        let channel = member.endpoint.connect_with_connector(connector).await?;
        state.set_established();
        Ok(MemberChannel { channel, state })
    }

    /// Drops the failed connection of a member.
    fn forget(&self, failed: &Arc<Member>) {
        for member in &mut self.list().members {
            if Arc::ptr_eq(member, failed) {
                *member = Arc::new(Member::new(failed.endpoint.clone()));
            }
        }
    }

    async fn send(self, request: Request) -> Result<Response, BoxError> {
        let (position, member, MemberChannel { mut channel, .. }) = self.connected().await?;
        let answer = async { channel.ready().await?.call(request).await };
        let answer = answer.await;
        match &answer {
            Err(error) => {
                self.forget(&member);
                self.give_up(position);
                if is_due_to::<Ended>(error) {
                    return Err(NoMember(Some(Ended.into())).into());
                }
            }
            Ok(answer) => {
                let status = answer.headers().get("grpc-status");
                if status.is_some_and(|status| status == UNAVAILABLE) {
                    self.give_up(position);
                }
            }
        }
        Ok(answer?.map(|body| Body::new(YieldingBody(body))))
    }
}

/// Opens one connection, counts it, and refuses to open another. So a request that finds the
/// connection ended was certainly not sent, and can go to the next member.
fn connector(
    opened: &Arc<AtomicU64>,
    state: &Arc<ConnectionState>,
) -> impl Service<Uri, Response = TokioIo<Connection>, Error = BoxError, Future: Send + 'static>
+ Send
+ 'static {
    let (opened, state) = (Arc::clone(opened), Arc::clone(state));
    let begun = AtomicBool::new(false);
    service_fn(move |uri: Uri| {
        let is_first = !begun.swap(true, Ordering::SeqCst);
        if is_first {
            opened.fetch_add(1, Ordering::SeqCst);
        }
        let state = Arc::clone(&state);
        async move {
            if !is_first {
                return Err(Ended.into());
            }
            let place = address(&uri);
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{place}: {error}"));
            let stream = TcpStream::connect(&place).await.map_err(named)?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(Connection::new(stream, state)))
        }
    })
}

/// Host and port in the form that a socket needs.
fn address(uri: &Uri) -> String {
    let port = uri.port_u16().unwrap_or(2379);
    format!("{}:{port}", uri.host().unwrap_or_default())
}

impl Service<Request> for Members {
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The call chooses the member, and waits until it is ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl BalancedChannelBuilder for Members {
    type Error = etcd_client::Error;

    fn balanced_channel(self, buffer_size: usize) -> Result<(Channel, Updates), Self::Error> {
        let (updates, received) = channel(buffer_size);
        self.list().updates = Some(received);
        Ok((Channel::Custom(BoxCloneSyncService::new(self)), updates))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_channel_has_one_connection_and_reports_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (opened, state) = (Arc::<AtomicU64>::default(), Arc::<ConnectionState>::default());
        let mut connector = connector(&opened, &state);
        let connection = connector.call(uri.clone()).await.unwrap();
        assert!(!state.has_ended());
        drop(connection);
        assert!(state.has_ended());
        let again = connector.call(uri).await.unwrap_err();
        assert!(again.is::<Ended>(), "{again}");
        assert_eq!(opened.load(Ordering::SeqCst), 1);
    }
}
