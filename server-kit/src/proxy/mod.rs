//! A TCP proxy between a client and a server, whose faults are switched while connections live.

mod alter;
mod pump;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, RwLock},
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
};

use self::{alter::Alteration, pump::pump};
use super::{
    error::{Doing as _, KitError, Result},
    ports::{self, Port},
};

/// What the proxy does with its connections, those that it has and new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Lets everything through.
    #[default]
    Pass,
    /// Closes existing connections; new ones are refused, as by a machine with no server.
    Cut,
    /// Ends existing and new connections by RST.
    Reset,
    /// Accepts connections; what either side sends is lost. A connection that lost something is
    /// reset when the mode changes back, since its stream has a hole.
    BlackHole,
    /// What the client sends arrives; what the server answers is lost, as in [`Mode::BlackHole`].
    HalfCut,
    /// What the client sends is lost, as in [`Mode::BlackHole`]; what the server sends arrives.
    RequestsLost,
    /// Nothing arrives, but nothing is lost: it waits in the proxy and is delivered when the mode
    /// changes, also after its sender has gone. A partition that heals, and the source of *ghosts*.
    Hold,
    /// Everything arrives later, in order.
    Delay {
        /// On the way to the server.
        to_server: Duration,
        /// On the way to the client.
        to_client: Duration,
    },
}

/// What has happened in the proxy since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections closed by [`Mode::Cut`].
    pub cut: u64,
    /// Connections ended by RST: by [`Mode::Reset`], or because they had lost something, or because
    /// the server was not there.
    pub reset: u64,
    /// Texts replaced by [`Proxy::altering`] and [`Proxy::alter_answers`].
    pub altered: u64,
    /// The way from the client to the server.
    pub to_server: Bytes,
    /// The way from the server to the client.
    pub to_client: Bytes,
}

/// Bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bytes {
    /// Delivered.
    pub passed: u64,
    /// Lost.
    pub swallowed: u64,
    /// In the proxy now, to be delivered later.
    pub waiting: u64,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    ToServer,
    ToClient,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Cut,
    Reset,
}

struct State {
    /// Under this lock a chunk is handed to the kernel: once the mode is set, nothing more moves
    /// under the old one.
    mode: RwLock<Mode>,
    upstream: RwLock<SocketAddr>,
    /// For what clients send.
    alterations: Vec<Alteration>,
    /// For what the server answers, on connections that come from now on.
    of_answers: RwLock<Vec<Alteration>>,
    changed: watch::Sender<u64>,
    counters: watch::Sender<Counters>,
}

impl State {
    fn mode(&self) -> Mode {
        *self.mode.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn of_answers(&self) -> Vec<Alteration> {
        self.of_answers.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn upstream(&self) -> SocketAddr {
        *self.upstream.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn count(&self, direction: Direction, change: impl FnOnce(&mut Bytes)) {
        self.counters.send_modify(|counters| {
            change(match direction {
                Direction::ToServer => &mut counters.to_server,
                Direction::ToClient => &mut counters.to_client,
            });
        });
    }
}

/// A proxy on a port of 127.0.0.1. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
    switch: mpsc::UnboundedSender<oneshot::Sender<io::Result<()>>>,
    acceptor: JoinHandle<()>,
    _port: Port,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Proxy {
    /// Starts a proxy to a server, in [`Mode::Pass`], on the current runtime.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] or [`KitError::NoPort`].
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        Self::build(upstream, Vec::new()).await
    }

    /// Starts a proxy that puts some texts in the place of others in what clients send, for a server
    /// whose scripts or statements lack a guard. [`Counters::altered`] tells how often it did.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); [`KitError::Unexpected`] if a text is longer than the one in whose place
    /// it is to stand.
    pub async fn altering(upstream: SocketAddr, texts: &[(&str, &str)]) -> Result<Self> {
        Self::build(upstream, alterations(texts)?).await
    }

    /// Puts texts in the place of others in what the server answers, on connections that come later:
    /// so a server that tells clients where others are sends them to proxies.
    ///
    /// # Errors
    ///
    /// As [`altering`](Self::altering).
    pub fn alter_answers(&self, texts: &[(&str, &str)]) -> Result<()> {
        let made = alterations(texts)?;
        *self.state.of_answers.write().unwrap_or_else(std::sync::PoisonError::into_inner) = made;
        Ok(())
    }

    async fn build(upstream: SocketAddr, alterations: Vec<Alteration>) -> Result<Self> {
        // A child that was forked just then has the socket of the port's look for a moment more.
        let (port, listener) = ports::retry_taken(|| async {
            let port = Port::reserve()?;
            let listener = TcpListener::bind(port.address()).await;
            let listener = listener.doing(|| format!("listen on {}", port.address()))?;
            Ok((port, listener))
        })
        .await?;
        let address = port.address();
        let state = Arc::new(State {
            mode: RwLock::default(),
            upstream: RwLock::new(upstream),
            alterations,
            of_answers: RwLock::default(),
            changed: watch::Sender::default(),
            counters: watch::Sender::default(),
        });
        let (switch, switched) = mpsc::unbounded_channel();
        let acceptor = Acceptor { address, state: state.clone(), listener: Some(listener) };
        let acceptor = tokio::spawn(acceptor.run(switched));
        Ok(Self { address, state, switch, acceptor, _port: port })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The mode in force.
    pub fn mode(&self) -> Mode {
        self.state.mode()
    }

    /// Switches the mode. On return nothing moves under the old one any more, and after
    /// [`Mode::Cut`] and [`Mode::Reset`] no connection is left.
    ///
    /// # Errors
    ///
    /// [`KitError::Io`] if after [`Mode::Cut`] the port could not be had again.
    pub async fn set(&self, mode: Mode) -> Result<()> {
        *self.state.mode.write().unwrap_or_else(std::sync::PoisonError::into_inner) = mode;
        self.state.changed.send_modify(|generation| *generation += 1);
        let (done, is_done) = oneshot::channel();
        let gone = || KitError::Unexpected("the proxy's runtime has ended".to_owned());
        self.switch.send(done).map_err(|_| gone())?;
        let switched = is_done.await.map_err(|_| gone())?;
        switched.doing(|| format!("listen on {} again", self.address))?;
        if matches!(mode, Mode::Cut | Mode::Reset) {
            self.until("the connections to end", Duration::from_secs(60), |now| now.open == 0)
                .await?;
        }
        Ok(())
    }

    /// Sends later connections to another server: an address that moves with its service.
    pub fn redirect(&self, upstream: SocketAddr) {
        *self.state.upstream.write().unwrap_or_else(std::sync::PoisonError::into_inner) = upstream;
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        *self.state.counters.borrow()
    }

    /// Waits until the counters say what a test waits for, such as that a reply was swallowed.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`] naming `what`, with the counters.
    pub async fn until(
        &self,
        what: &str,
        deadline: Duration,
        mut reached: impl FnMut(&Counters) -> bool,
    ) -> Result<Counters> {
        let mut counters = self.state.counters.subscribe();
        // Bound first: the wait's result borrows the channel.
        let waited = tokio::time::timeout(deadline, counters.wait_for(&mut reached)).await;
        if let Ok(Ok(now)) = waited {
            return Ok(*now);
        }
        let log = format!("{:?}", self.counters());
        Err(KitError::TimedOut { what: format!("the proxy: {what}"), waited: deadline, log })
    }
}

fn alterations(texts: &[(&str, &str)]) -> Result<Vec<Alteration>> {
    let made = texts.iter().map(|(from, to)| {
        let refusal = || KitError::Unexpected(format!("{to:?} cannot stand for {from:?}"));
        Alteration::new(from, to).ok_or_else(refusal)
    });
    made.collect()
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its connections live in it and end with it.
        self.acceptor.abort();
    }
}

struct Acceptor {
    address: SocketAddr,
    state: Arc<State>,
    listener: Option<TcpListener>,
}

impl Acceptor {
    async fn run(mut self, mut switched: mpsc::UnboundedReceiver<oneshot::Sender<io::Result<()>>>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // A switch goes first, so that nothing is accepted under the old mode.
                biased;
                switch = switched.recv() => {
                    let Some(done) = switch else { return };
                    // Nobody may be waiting any more; the switch is made all the same.
                    let _ = done.send(self.listen_or_not().await);
                }
                accepted = accept(self.listener.as_ref()) => {
                    // Accepting fails for a client that has gone again; that is no matter of ours.
                    let Ok(client) = accepted else { continue };
                    self.state.counters.send_modify(|c| { c.accepted += 1; c.open += 1; });
                    connections.spawn(connection(client, self.state.upstream(), self.state.clone()));
                }
                _ended = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    /// A refused connection is one to a port that nobody listens on.
    async fn listen_or_not(&mut self) -> io::Result<()> {
        if self.state.mode() == Mode::Cut {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(listen_again(self.address).await?);
        }
        Ok(())
    }
}

/// A child that was forked while the proxy listened has its socket until it runs its program.
async fn listen_again(address: SocketAddr) -> io::Result<TcpListener> {
    const TRIES: usize = 200;
    for _ in 1..TRIES {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            done => return done,
        }
    }
    TcpListener::bind(address).await
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

async fn connection(client: TcpStream, upstream: SocketAddr, state: Arc<State>) {
    let mut changed = state.changed.subscribe();
    let connecting = async {
        loop {
            match state.mode() {
                Mode::Cut => return Err(End::Cut),
                Mode::Reset => return Err(End::Reset),
                _ => {}
            }
            tokio::select! {
                server = TcpStream::connect(upstream) => return server.map_err(|_| End::Reset),
                _ = changed.changed() => {}
            }
        }
    };
    let mut server = None;
    let end = match connecting.await {
        Err(end) => end,
        Ok(stream) => {
            let server = &*server.insert(stream);
            // The proxy is not to add Nagle's wait to what it measures.
            let _ = client.set_nodelay(true);
            let _ = server.set_nodelay(true);
            let both = futures_util::future::try_join(
                pump(&client, server, Direction::ToServer, &state),
                pump(server, &client, Direction::ToClient, &state),
            );
            both.await.map_or_else(|end| end, |_| End::Closed)
        }
    };
    for stream in std::iter::once(&client).chain(&server).filter(|_| end == End::Reset) {
        // With no time to linger, closing sends RST.
        let _ = set_socket_linger(stream, Some(Duration::ZERO));
    }
    drop((client, server));
    state.counters.send_modify(|counters| {
        counters.open -= 1;
        counters.cut += u64::from(end == End::Cut);
        counters.reset += u64::from(end == End::Reset);
    });
}
