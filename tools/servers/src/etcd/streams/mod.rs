//! A proxy for HTTP/2. It can hold one stream of a connection, without an error on either side,
//! while the others continue, and can deliver a call long after its caller has gone.
//! [`Proxy`](crate::Proxy) sees only whole connections.

mod calls;
mod forward;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::task::{JoinHandle, JoinSet};

use self::{
    calls::{Held, State},
    forward::connection,
};
use crate::{error::Result, machine::ports::Port};

/// A proxy of gRPC calls. Dropping it closes its connections.
#[derive(Debug)]
pub struct Streams {
    address: SocketAddr,
    state: Arc<State>,
    acceptor: JoinHandle<()>,
    _port: Port,
}

impl Streams {
    /// Starts a proxy to a member without TLS.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`](crate::KitError::Io) or [`KitError::NoPort`](crate::KitError::NoPort).
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        Self::build(upstream, false)
    }

    /// The same, but its clients keep their connections when the server is replaced by another: it
    /// connects anew behind their backs.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn reconnecting(upstream: SocketAddr) -> Result<Self> {
        Self::build(upstream, true)
    }

    fn build(upstream: SocketAddr, reconnects: bool) -> Result<Self> {
        let (port, listener) = Port::listen()?;
        let address = port.address();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let acceptor = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // A connection that fails is the client's matter, which sees it end.
                connections.spawn(connection(client, upstream, reconnects, Arc::clone(&shared)));
            }
        });
        Ok(Self { address, state, acceptor, _port: port })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the proxy has noticed that the server is gone: all connections to it have ended.
    pub async fn server_gone(&self) {
        self.state.connections.none().await;
    }

    /// From now on the calls of this method that are open, such as `LeaseKeepAlive`, get no message
    /// any more. Later ones do.
    pub fn stick(&self, method: &str) {
        let mut methods = self.state.methods();
        let method = methods.entry(method.to_owned()).or_default();
        method.stuck = method.opened;
    }

    /// From now on each message of the server to a call of this method arrives this much later than
    /// the one before it.
    pub fn slow(&self, method: &str, pause: Duration) {
        self.state.methods().entry(method.to_owned()).or_default().slow = pause;
    }

    /// The next call of this method, such as `Txn`, whose request contains the text waits here: its
    /// caller gets no answer, and it arrives with [`deliver`](Self::deliver), also after its caller
    /// has gone. For methods with one request and one answer.
    pub fn hold_next(&self, method: &str, text: &str) {
        let mut methods = self.state.methods();
        methods.entry(method.to_owned()).or_default().wanted = Some(text.into());
    }

    /// Whether a call of this method is held.
    pub fn holds(&self, method: &str) -> bool {
        self.state.methods().get(method).is_some_and(|method| method.held.is_some())
    }

    /// Sends the call of this method on that is held, and waits until the server has answered it;
    /// `false` if none is.
    pub async fn deliver(&self, method: &str) -> bool {
        let held = self.state.methods().get_mut(method).and_then(|method| method.held.take());
        let Some(Held { go, answered }) = held else { return false };
        let sent = go.send(()).is_ok();
        // It ends with the call, whether or not anybody is there to be told.
        let _ = answered.await;
        sent
    }

    /// From now on calls of this method, such as `LeaseRevoke`, do not arrive: they are answered as
    /// by a server that has too much to do. Until [`serve`](Self::serve).
    pub fn refuse(&self, method: &str) {
        self.refuse_with(method, "etcdserver: too many requests");
    }

    /// The same with another of the messages of a server that lacks something.
    pub fn refuse_with(&self, method: &str, message: &'static str) {
        self.state.methods().entry(method.to_owned()).or_default().refuses = Some(message);
    }

    /// Lets calls of this method arrive again.
    pub fn serve(&self, method: &str) {
        self.state.methods().entry(method.to_owned()).or_default().refuses = None;
    }

    /// How many calls of this method were refused.
    pub fn refused(&self, method: &str) -> u64 {
        self.state.methods().get(method).map_or(0, |method| method.refused)
    }

    /// How many calls of this method were opened.
    pub fn opened(&self, method: &str) -> u64 {
        self.state.methods().get(method).map_or(0, |method| method.opened)
    }

    /// How many messages were lost.
    pub fn swallowed(&self, method: &str) -> u64 {
        self.state.methods().get(method).map_or(0, |method| method.swallowed)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}
