// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection to a bridge's server, with the thread that makes its transfers.
//!
//! Read first: [`Link::post`], then [`serve`]. Python code posts jobs to the thread and looks at
//! what became of them.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self as told, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crosslane::bridge::messages::{PeerTarget, Survey};
use crosslane::bridge::{
    BridgeError, CardPlace, Client, Identity, MemoryPart, Outcome, Reloaded, Stage, TransferOptions,
};
use crosslane::host::{
    Clock, DmaMemory, ErrorKind, PageSize, Rdma, RdmaRegion, RemoteAccess, lock,
};
use crosslane::network::{MachineClock, Network, NetworkMemory, Provider, Region, Trust};
use crosslane::pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use futures_executor::block_on;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use pyo3::prelude::*;

use crate::call::{SIGNALS, look_for_signals, without_gil};
use crate::error::Failure;
use crate::process;

/// Most transfers that wait for the ones before them.
const MOST_WAITING: usize = 1024;
/// Registered memory that is kept for later transfers.
const MOST_SPARE: usize = 4;
/// Fewest bytes of registered memory, and the unit of much: a page, and a huge one.
const PAGES_BYTES: [u64; 2] = [4096, 2 << 20];

/// Count of the transfers that use a buffer, and of the buffer itself.
pub type InUse = Arc<()>;

/// The way of a transfer's data, with its registered memory.
pub enum Way {
    /// Into the card's memory.
    To(MemoryPart<Region>),
    /// Out of the card's memory.
    From(MemoryPart<Region>),
    /// Through the card's stream, from the one to the other.
    Through(MemoryPart<Region>, MemoryPart<Region>),
    /// Into the memory of a card of another server.
    Copy(PeerTarget),
    /// An image that the card is reloaded with, with the ending of its name.
    Reload(MemoryPart<Region>, String),
    /// None: the server describes itself.
    Survey,
}

/// Outcome of a request.
#[derive(Clone)]
pub enum Done {
    /// Data were moved.
    Moved(Outcome),
    /// A card was reloaded.
    Reloaded(Reloaded),
    /// The server has described itself.
    Surveyed(Survey),
}

/// A transfer as the caller wants it.
pub struct Wanted {
    /// The way of its data.
    pub way: Way,
    /// The card, and the first byte of its memory.
    pub place: CardPlace,
    /// Length of the data, bytes.
    pub bytes: u64,
    /// Time until the deadline.
    pub time: Duration,
    /// Its other settings.
    pub options: TransferOptions,
    /// Memory that was lent for it.
    pub lent: Vec<Region>,
    /// Buffers that it uses.
    pub in_use: Vec<InUse>,
}

/// A transfer that has ended otherwise than well.
#[derive(Clone)]
pub enum Unfinished {
    /// It has failed.
    Failed(BridgeError),
    /// The connection was closed before its end.
    Closed,
}

/// Outcome of a transfer.
pub type Ended = Result<Done, Unfinished>;

/// A posted transfer, as thread and Python code see it.
pub struct Flight {
    ended: Mutex<Option<Ended>>,
    changed: Condvar,
    arrived: AtomicU64,
    cancel: Mutex<Option<oneshot::Sender<()>>>,
    /// Memory that was lent for it.
    memory: Mutex<Vec<Region>>,
}

impl Flight {
    fn end(&self, outcome: Ended) {
        let mut ended = lock(&self.ended);
        if ended.is_none() {
            *ended = Some(outcome);
            self.changed.notify_all();
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        lock(&self.ended).is_some()
    }

    /// Waits for the end, at most so long.
    pub fn wait(&self, time: Duration) -> Option<Ended> {
        let ended = lock(&self.ended);
        let waited = self.changed.wait_timeout_while(ended, time, |ended| ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Bytes that have arrived, as far as the server has said.
    pub fn arrived_bytes(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Has the server end it.
    pub fn cancel(&self) {
        if let Some(cancel) = lock(&self.cancel).take() {
            // It may have ended.
            let _ = cancel.send(());
        }
    }

    /// Takes the memory that was lent for it.
    pub fn take_memory(&self) -> Vec<Region> {
        std::mem::take(&mut *lock(&self.memory))
    }
}

/// A transfer that the thread is to make.
struct Job {
    wanted: Wanted,
    deadline: Picoseconds,
    flight: Arc<Flight>,
    cancelled: oneshot::Receiver<()>,
}

impl Job {
    fn end(&mut self, outcome: Ended) {
        // Nobody learns of the end before its buffers are free.
        self.wanted.in_use.clear();
        self.flight.end(outcome);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // If it has not ended, it never will.
        self.end(Err(Unfinished::Closed));
    }
}

/// Client that the thread has.
type NetworkClient = Client<Network, MachineClock>;

impl Job {
    async fn make(&self, client: &NetworkClient) -> Result<Done, BridgeError> {
        let Wanted { way, place, bytes, options, .. } = &self.wanted;
        let left = self.deadline.since(client.clock().now());
        if left == Picoseconds::ZERO {
            let why = "the deadline has passed before the transfers posted earlier had ended";
            let error = BridgeError::new(Stage::Request, ErrorKind::Timeout, why);
            return Err(error.arrived(options.first, *bytes));
        }
        let options = options.with_time(left);
        let progress = |bytes| self.flight.arrived.store(bytes, Ordering::Relaxed);
        let (outcome, near) = match way {
            Way::To(from) => (client.put(from, place, &options, progress).await?, Some(from)),
            Way::From(to) => (client.get(place, to, &options, progress).await?, Some(to)),
            Way::Through(from, to) => {
                let trip = client.round_trip(&place.card, from, to, &options, progress);
                (trip.await?, Some(from))
            }
            Way::Copy(peer) => {
                (client.copy(place, peer.clone(), *bytes, &options, progress).await?, None)
            }
            Way::Reload(image, ending) => {
                let done = client.reload(&place.card, image, ending, left, progress).await?;
                return Ok(Done::Reloaded(done));
            }
            Way::Survey => return client.survey().await.map(Done::Surveyed),
        };
        near.map_or(Ok(()), |near| outcome.check(near))?;
        progress(*bytes);
        Ok(Done::Moved(outcome))
    }

    /// Makes the transfer, or has it cancelled.
    async fn run(&mut self, client: &NetworkClient) -> Result<Done, BridgeError> {
        let (_, never) = oneshot::channel();
        let mut cancelled = std::mem::replace(&mut self.cancelled, never);
        if matches!(cancelled.try_recv(), Ok(Some(()))) {
            return Err(self.was_cancelled(Stage::Request, self.wanted.options.first));
        }
        match select(pin!(self.make(client)), cancelled).await {
            Either::Left((outcome, _)) => outcome,
            // Nobody can cancel it any more.
            Either::Right((Err(_), making)) => making.await,
            Either::Right((Ok(()), making)) => {
                client.cancel().await?;
                making.await.map_err(|error| self.was_cancelled(error.stage, error.arrived_bytes))
            }
        }
    }

    fn was_cancelled(&self, stage: Stage, arrived_bytes: u64) -> BridgeError {
        let error = BridgeError::new(stage, ErrorKind::Cancelled, "it was cancelled");
        error.arrived(arrived_bytes, self.wanted.bytes)
    }
}

/// A server to connect to, and how.
struct Connecting {
    network: Network,
    clock: MachineClock,
    server: String,
    identity: Identity,
    time: Duration,
}

/// Connects, and lists the cards of the server.
async fn connected(by: Connecting) -> Result<(NetworkClient, Vec<String>), BridgeError> {
    let Connecting { network, clock, server, identity, time } = by;
    let deadline = clock.after(time);
    let client = Client::connect(network, clock.clone(), &server, &identity, time).await?;
    let late = clock.sleep_until(deadline);
    let cards = match select(pin!(client.cards()), pin!(late)).await {
        Either::Left((cards, _)) => cards?,
        Either::Right(_) => {
            let why = format!("{server} has not named its cards by the deadline");
            return Err(BridgeError::new(Stage::Connection, ErrorKind::Timeout, why));
        }
    };
    Ok((client, cards))
}

/// Work of a connection's thread: one transfer after the other, until the connection is closed.
async fn serve(
    by: Connecting,
    told: told::SyncSender<Result<Vec<String>, BridgeError>>,
    mut jobs: mpsc::Receiver<Job>,
    mut closing: oneshot::Receiver<()>,
) {
    let client = match select(pin!(connected(by)), &mut closing).await {
        Either::Left((Ok((client, cards)), _)) => {
            // A receiver that has gone has closed the connection, too.
            let _ = told.send(Ok(cards));
            client
        }
        Either::Left((Err(error), _)) => {
            let _ = told.send(Err(error));
            return;
        }
        Either::Right(_) => return,
    };
    while let Either::Left((Some(mut job), _)) = select(jobs.next(), &mut closing).await {
        let outcome = match select(pin!(job.run(&client)), &mut closing).await {
            Either::Left((outcome, _)) => outcome.map_err(Unfinished::Failed),
            Either::Right(_) => break,
        };
        job.end(outcome);
    }
    client.close().await;
}

/// The end of a connection that Python code has.
struct Open {
    network: Network,
    clock: MachineClock,
    /// The way to the thread, until the connection is closed.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    /// Ends the thread when it goes.
    closing: Mutex<Option<oneshot::Sender<()>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    spare: Mutex<Vec<Region>>,
}

/// A connection, shared by the objects that use it.
pub struct Link {
    /// Address of the server, as the caller has given it.
    pub server: String,
    /// Process that has connected: a child that it forks has neither its threads nor its network.
    process: u32,
    open: Arc<Open>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_foreign() {
            std::mem::forget(Arc::clone(&self.open));
        }
    }
}

impl Link {
    /// Connects in at most this time; returns the names of the server's cards, too.
    ///
    /// # Errors
    /// An unusable network, a server that does not answer or refuses, and signals.
    pub fn connect(
        server: &str,
        network: Option<&str>,
        identity: Identity,
        trust: &Trust,
        time: Duration,
    ) -> Result<(Arc<Self>, Vec<String>), Failure> {
        let provider = network.map(|network| network.parse::<Provider>()).transpose()?;
        let clock = MachineClock::new();
        let network = Network::open_for(server, provider, &clock, trust)?;
        let (of_thread, clock_of_thread) = (network.clone(), clock.clone());
        let (server, process) = (server.to_owned(), process::id());
        let by = Connecting {
            network: of_thread,
            clock: clock_of_thread,
            server: server.clone(),
            identity,
            time,
        };
        let (jobs, posted) = mpsc::channel(MOST_WAITING);
        let (closing, closed) = oneshot::channel();
        let (tell, told) = told::sync_channel(1);
        let thread = Builder::new().name("crosslane-bridge".into());
        let thread = thread.spawn(move || block_on(serve(by, tell, posted, closed)));
        let thread = thread.map_err(|error| Failure::argument(format!("no thread: {error}")))?;
        let names = loop {
            match told.recv_timeout(SIGNALS) {
                Ok(names) => break names?,
                Err(RecvTimeoutError::Timeout) => look_for_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(match thread.join() {
                        Err(payload) => Failure::panic(&*payload),
                        Ok(()) => Failure::argument("the connection's thread has ended"),
                    });
                }
            }
        };
        let open = Open {
            network,
            clock,
            jobs: Mutex::new(Some(jobs)),
            closing: Mutex::new(Some(closing)),
            thread: Mutex::new(Some(thread)),
            spare: Mutex::default(),
        };
        Ok((Arc::new(Self { server, process, open: Arc::new(open) }), names))
    }

    /// Whether it belongs to the process that forked this one, which must not touch it.
    pub fn is_foreign(&self) -> bool {
        self.process != process::id()
    }

    /// Refuses to be used by another process than the one that has connected.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_foreign() {
            let problem = "it was opened by the process that forked this one; connect here";
            return Err(Failure::closed(format!("{}: {problem}", self.server)));
        }
        Ok(())
    }

    /// The error of a use after the connection was closed.
    pub fn closed(&self) -> Failure {
        Failure::closed(format!("{}: the connection is closed", self.server))
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.is_foreign() || lock(&self.open.jobs).is_none()
    }

    /// Returns the name of its network.
    pub fn network(&self) -> Result<String, Failure> {
        self.check()?;
        Ok(self.open.network.name())
    }

    /// Closes the connection and ends its transfers.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_foreign() {
            return Ok(());
        }
        without_gil(py, || {
            let open = &self.open;
            *lock(&open.closing) = None;
            let jobs = lock(&open.jobs).take();
            drop(jobs);
            let thread = lock(&open.thread).take();
            if let Some(Err(payload)) = thread.map(JoinHandle::join) {
                return Err(Failure::panic(&*payload));
            }
            lock(&open.spare).clear();
            Ok(())
        })
    }

    /// Makes a call without the GIL, unless the connection is closed.
    pub fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.check()?;
        if self.is_closed() {
            return Err(self.closed().into());
        }
        without_gil(py, call)
    }

    /// Registers memory with the network.
    pub fn register(&self, memory: &NetworkMemory) -> Result<Region, Failure> {
        Ok(block_on(self.open.network.register(memory, RemoteAccess::READ_WRITE))?)
    }

    /// Lends registered memory of at least that many bytes.
    pub fn memory(&self, py: Python<'_>, bytes: u64) -> PyResult<Region> {
        self.call(py, || {
            let mut spare = lock(&self.open.spare);
            let fits = |region: &Region| region.memory().size_bytes() >= bytes;
            if let Some(index) = spare.iter().position(fits) {
                return Ok(spare.swap_remove(index));
            }
            drop(spare);
            let [small, huge] = PAGES_BYTES;
            let unit = if bytes < huge { small } else { huge };
            let size = bytes.checked_next_multiple_of(unit);
            let size = size.ok_or_else(|| Failure::argument("more bytes than memory can have"))?;
            self.register(&self.open.network.allocate(size, PageSize::Huge)?)
        })
    }

    /// Keeps memory that a transfer has given back.
    pub fn give_back(&self, memory: Vec<Region>) {
        if self.is_closed() {
            return;
        }
        let mut spare = lock(&self.open.spare);
        let room = MOST_SPARE.saturating_sub(spare.len());
        spare.extend(memory.into_iter().take(room));
    }

    /// Asks the server to describe itself, and waits for its answer, which comes after the ends of
    /// the transfers posted earlier.
    ///
    /// # Errors
    /// A closed connection, a server that does not answer in time, and signals.
    pub fn survey(&self, time: Duration) -> Result<Survey, Failure> {
        let wanted = Wanted {
            way: Way::Survey,
            place: CardPlace { card: String::new(), address: 0 },
            bytes: 0,
            time,
            options: TransferOptions::default(),
            lent: Vec::new(),
            in_use: Vec::new(),
        };
        let flight = self.post(wanted)?;
        let end = Instant::now() + time;
        loop {
            match flight.wait(SIGNALS.min(end.saturating_duration_since(Instant::now()))) {
                Some(Ok(Done::Surveyed(survey))) => return Ok(survey),
                Some(Err(Unfinished::Failed(error))) => return Err(error.into()),
                Some(Ok(_) | Err(Unfinished::Closed)) => return Err(self.closed()),
                None if Instant::now() >= end => {
                    let problem = "the server has not described itself by the deadline";
                    return Err(Failure::deadline(format!("{}: {problem}", self.server)));
                }
                None => look_for_signals()?,
            }
        }
    }

    /// Posts a transfer.
    ///
    /// # Errors
    /// A closed connection, and too many transfers that wait.
    pub fn post(&self, mut wanted: Wanted) -> Result<Arc<Flight>, Failure> {
        self.check()?;
        let (cancel, cancelled) = oneshot::channel();
        let flight = Arc::new(Flight {
            ended: Mutex::default(),
            changed: Condvar::new(),
            arrived: AtomicU64::new(wanted.options.first),
            cancel: Mutex::new(Some(cancel)),
            memory: Mutex::new(std::mem::take(&mut wanted.lent)),
        });
        let deadline = self.open.clock.after(wanted.time);
        let job = Job { wanted, deadline, flight: flight.clone(), cancelled };
        match lock(&self.open.jobs).as_mut().map(|jobs| jobs.try_send(job)) {
            None => Err(self.closed()),
            Some(Err(error)) if error.is_full() => {
                let why = format!("{MOST_WAITING} transfers wait already");
                Err(BridgeError::new(Stage::Request, ErrorKind::Busy, why).into())
            }
            // A thread that has ended leaves the transfer as closed.
            Some(Ok(()) | Err(_)) => Ok(flight),
        }
    }
}
