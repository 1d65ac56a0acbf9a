// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPI between the processes that simulate a lab together; `mpirun` or `srun` starts them.
//!
//! A thread has MPI to itself. It sends every other process a sign of life all the time, also while
//! this process computes, and misses those of others when it waits for them. Of a process on this
//! machine it sees in `/proc` that it has ended. So it is found, and named, which process was
//! killed, whether or not the launcher ends the others.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crosslane_host::lock;
use crosslane_lab::parts::{Arrived, Carrier, Gone};
use mpi::Threading;
use mpi::request::{Request as Send, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};

/// Tags of messages: parts', signs of life, and the last one of a process.
const PART: i32 = 1;
const LIFE: i32 = 2;
const LEAVE: i32 = 3;

/// Time between two signs of life.
const PERIOD: Duration = Duration::from_millis(50);
/// Signs of life that a process may miss before it is lost: 10 s, more than a process is stopped
/// for on a machine that can be used.
const MOST_MISSED: u32 = 200;
/// The same once this process has to end: the launcher has asked for it, perhaps since another one
/// was killed, and ends it by force soon.
const MOST_MISSED_AT_END: u32 = 6;
/// Periods that a process which fails waits for the others to take notice.
const FAREWELL: u32 = 20;
/// Looks at the others before a thread that waits sleeps between two of them.
const LOOKS: u32 = 2_000;
/// Time between two looks then.
const REST: Duration = Duration::from_micros(50);
/// Why a process that is not heard of is gone.
const SILENT: &str = "does not answer any more";
/// The sign of life.
static SIGN: [u8; 1] = [0];

/// The processes that a launcher has started together.
#[derive(Debug)]
pub struct World {
    rank: usize,
    names: Vec<String>,
    /// The lowest process that is alive, as far as known.
    speaker: Arc<AtomicUsize>,
    requests: Mutex<Sender<Request>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A request to the thread of MPI.
enum Request {
    Swap(Vec<Vec<u8>>, Sender<Result<Arrived, Gone>>),
    /// Tells the others why this process leaves, if it has failed, and ends the thread. It is
    /// answered if all of them leave too.
    Leave(String, Sender<()>),
}

/// The caller that waits for the thread of MPI.
enum Asker {
    Nobody,
    Swap(Sender<Result<Arrived, Gone>>),
    Leave(Sender<()>),
}

/// The thread of MPI.
struct Pump {
    world: SimpleCommunicator,
    rank: usize,
    size: usize,
    others: Arc<OnceLock<Vec<Other>>>,
    speaker: Arc<AtomicUsize>,
    is_over: fn() -> bool,
    requests: Receiver<Request>,
    asker: Asker,
    /// Signs of life on their way, by process.
    signs: Vec<Option<Send<'static, [u8], StaticScope>>>,
    /// Periods since each process was heard of.
    missed: Vec<u32>,
    last_period: f64,
}

impl World {
    /// Joins the processes that the launcher has started together. `is_over` says whether this one
    /// has to end before its time. One world for each process, and once only.
    ///
    /// # Errors
    /// A process that is gone already, or a second call.
    pub fn begin(is_over: fn() -> bool) -> Result<Arc<Self>, Gone> {
        let (requests, wanted) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let (others, speaker) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
        let shared = (others.clone(), speaker.clone());
        let work = move || {
            let threading = Threading::Funneled;
            let Some((universe, _)) = mpi::initialize_with_threading(threading) else { return };
            let machine = mpi::environment::processor_name();
            let pump = Pump::new(universe.world(), shared, is_over, wanted);
            // The receiver waits for it.
            drop(begun.send((pump.rank, pump.size, machine.unwrap_or_default())));
            pump.run();
        };
        let broken = |why: &str| Gone { who: "MPI".to_owned(), why: why.to_owned() };
        let thread = thread::Builder::new().name("mpi".to_owned()).spawn(work);
        let thread = thread.map_err(|error| broken(&format!("has no thread: {error}")))?;
        let (rank, size, machine) =
            begins.recv().map_err(|_| broken("cannot be initialized a second time"))?;
        // The process is found again by its number and its begin, if it is on the same machine.
        let number = std::process::id().to_string();
        let begun = begin_of(&number).unwrap_or_default();
        let card = format!("{machine}\n{number}\n{begun}").into_bytes();
        let mut cards = swap(&requests, vec![card.clone(); size])?.messages;
        cards[rank] = card;
        let all = others.get_or_init(|| cards.iter().enumerate().map(Other::of).collect());
        let all = all.iter().map(|other| other.name.clone()).collect();
        let (requests, thread) = (Mutex::new(requests), Mutex::new(Some(thread)));
        Ok(Arc::new(Self { rank, names: all, speaker, requests, thread }))
    }

    /// Whether this process speaks for all of them: the lowest one that is alive.
    pub fn speaks(&self) -> bool {
        self.speaker.load(Ordering::SeqCst) == self.rank
    }

    /// Leaves the others, which may have to know why. Waits for them to leave too.
    pub fn leave(&self, why: &str) {
        let (answer, answers) = mpsc::channel();
        let Some(thread) = lock(&self.thread).take() else { return };
        let is_asked = lock(&self.requests).send(Request::Leave(why.to_owned(), answer)).is_ok();
        // A thread that has lost a process stays in MPI, which cannot be left in order then.
        if is_asked && answers.recv().is_ok() {
            drop(thread.join());
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.leave("");
    }
}

impl Carrier for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn swap(&self, messages: Vec<Vec<u8>>) -> Result<Arrived, Gone> {
        let requests = lock(&self.requests).clone();
        swap(&requests, messages)
    }
}

/// Asks the thread of MPI to swap messages.
fn swap(requests: &Sender<Request>, messages: Vec<Vec<u8>>) -> Result<Arrived, Gone> {
    let (answer, answers) = mpsc::channel();
    let is_asked = requests.send(Request::Swap(messages, answer)).is_ok();
    let answer = if is_asked { answers.recv().ok() } else { None };
    answer.unwrap_or_else(|| Err(Gone { who: "MPI".to_owned(), why: "has ended".to_owned() }))
}

/// A process as the others know it.
#[derive(Debug)]
struct Other {
    /// `rank 1 on node7`.
    name: String,
    /// Its number and its begin, if it can be seen from here.
    seen: Option<(String, String)>,
}

impl Other {
    /// Reads what a process says about itself.
    fn of((rank, card): (usize, &Vec<u8>)) -> Self {
        let card = String::from_utf8_lossy(card);
        let mut lines = card.split('\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        let (machine, number, begun) = (next(), next(), next());
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_here = is_number && begin_of(&number).is_some_and(|here| here == begun);
        let seen = is_here.then_some((number, begun));
        Self { name: format!("rank {rank} on {machine}"), seen }
    }

    /// Whether it can be seen that it has ended.
    fn has_ended(&self) -> bool {
        let seen = self.seen.as_ref();
        seen.is_some_and(|(number, begun)| begin_of(number).as_ref() != Some(begun))
    }
}

/// Returns the time at which a process of this machine began, in ticks since the machine did; none
/// if it has ended.
fn begin_of(number: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // Behind the name, which may contain anything: the state, and 18 fields further the begin.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let is_there = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    if is_there { fields.nth(18).map(str::to_owned) } else { None }
}

/// The messages of other processes, as far as they are there.
struct Arriving {
    tag: i32,
    messages: Vec<Option<Vec<u8>>>,
    last: usize,
}

/// Lets others have the core between two looks at what arrives.
fn rest(looks: &mut u32) {
    *looks += 1;
    if *looks < LOOKS {
        // Processes may share a core.
        thread::yield_now();
    } else {
        thread::sleep(REST);
    }
}

impl Pump {
    fn new(
        world: SimpleCommunicator,
        (others, speaker): (Arc<OnceLock<Vec<Other>>>, Arc<AtomicUsize>),
        is_over: fn() -> bool,
        requests: Receiver<Request>,
    ) -> Self {
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        Self {
            world,
            rank,
            size,
            others,
            speaker,
            is_over,
            requests,
            asker: Asker::Nobody,
            signs: (0..size).map(|_| None).collect(),
            missed: vec![0; size],
            last_period: mpi::time(),
        }
    }

    /// Does what is asked for until the process leaves.
    fn run(mut self) {
        loop {
            match self.requests.recv_timeout(PERIOD) {
                Ok(Request::Swap(messages, answer)) => {
                    self.asker = Asker::Swap(answer.clone());
                    let arrived = self.swap(PART, &messages);
                    drop(answer.send(Ok(arrived)));
                }
                Ok(Request::Leave(why, answer)) => {
                    let farewell = vec![why.into_bytes(); self.size];
                    self.asker = Asker::Leave(answer.clone());
                    self.swap(LEAVE, &farewell);
                    self.hear();
                    // All have left, and take what was on its way when they did.
                    self.signs.drain(..).flatten().for_each(Send::wait_without_status);
                    // The caller waits for the end of this thread, which leaves MPI.
                    let _sent = answer.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.hear();
                    self.live();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Refuses what is asked, now and from now on. Messages to a process that is gone stay on their
    /// way for ever, and MPI reads them: this never returns.
    fn refuse(&mut self, gone: &Gone) -> ! {
        match std::mem::replace(&mut self.asker, Asker::Nobody) {
            Asker::Swap(answer) => drop(answer.send(Err(gone.clone()))),
            // Nothing comes: its `leave` does not wait any longer.
            Asker::Leave(answer) => drop(answer),
            Asker::Nobody => (),
        }
        loop {
            match self.requests.recv() {
                Ok(Request::Swap(_, answer)) => drop(answer.send(Err(gone.clone()))),
                Ok(Request::Leave(_, answer)) => drop(answer),
                Err(_) => thread::park(),
            }
        }
    }

    /// Sends a message to each other process, and waits for theirs. Refuses if one is gone.
    fn swap(&mut self, tag: i32, messages: &[Vec<u8>]) -> Arrived {
        let mut arriving = Arriving { tag, messages: vec![None; self.size], last: self.rank };
        arriving.messages[self.rank] = Some(Vec::new());
        let (world, rank) = (SimpleCommunicator::world(), self.rank);
        let is_failing = tag == LEAVE && messages.iter().any(|why| !why.is_empty());
        mpi::request::multiple_scope(self.size, |scope, sends| {
            for (to, message) in messages.iter().enumerate().filter(|(to, _)| *to != rank) {
                let to = world.process_at_rank(to as i32);
                sends.add(to.immediate_send_with_tag(scope, &message[..], tag));
            }
            let (mut done, mut looks, mut periods) = (Vec::new(), 0, 0);
            loop {
                let gone = self.receive(&mut arriving);
                let is_taken = sends.test_all(&mut done);
                if is_taken && arriving.messages.iter().all(Option::is_some) {
                    break;
                }
                self.hear();
                periods += u32::from(self.live());
                let gone = gone.or_else(|| self.silent(&arriving, is_taken));
                let gone = gone.or_else(|| {
                    let why = "does not leave".to_owned();
                    (is_failing && periods > FAREWELL).then(|| Gone { who: "a rank".into(), why })
                });
                if let Some(gone) = gone {
                    self.refuse(&gone);
                }
                rest(&mut looks);
            }
        });
        let messages = arriving.messages.into_iter().map(Option::unwrap_or_default).collect();
        Arrived { messages, last: arriving.last }
    }

    fn is_there(&self, from: usize, tag: i32) -> bool {
        let from = self.world.process_at_rank(from as i32);
        from.immediate_probe_with_tag(tag).is_some()
    }

    /// Takes a message, if one has begun to arrive. A long one arrives as its sender works at it,
    /// and so may never be whole: refuses if that process is gone.
    fn take(&mut self, from: usize, tag: i32) -> Option<Vec<u8>> {
        let process = self.world.process_at_rank(from as i32);
        let (message, status) = process.immediate_matched_probe_with_tag(tag)?;
        let size = status.count(u8::equivalent_datatype());
        let mut bytes = vec![0_u8; usize::try_from(size).unwrap_or(0)];
        mpi::request::scope(|scope| {
            let mut arrival = message.immediate_matched_receive_into(scope, &mut bytes[..]);
            let mut looks = 0;
            while let Err(unfinished) = arrival.test() {
                arrival = unfinished;
                self.hear();
                self.live();
                if self.is_silent(from) {
                    let gone = self.gone(from, SILENT.to_owned());
                    self.refuse(&gone);
                }
                rest(&mut looks);
            }
        });
        self.missed[from] = 0;
        Some(bytes)
    }

    /// Takes messages that have arrived. Returns a process that has left.
    fn receive(&mut self, arriving: &mut Arriving) -> Option<Gone> {
        for from in 0..self.size {
            if arriving.tag == LEAVE {
                // Messages to a process that leaves are lost, but have to be taken.
                self.take(from, PART);
            }
            if arriving.messages[from].is_some() {
                continue;
            }
            let has_left = arriving.tag == PART && self.is_there(from, LEAVE);
            // It has sent this first.
            if let Some(message) = self.take(from, arriving.tag) {
                (arriving.messages[from], arriving.last) = (Some(message), from);
            } else if has_left {
                let why = self.take(from, LEAVE).unwrap_or_default();
                let why = match &*String::from_utf8_lossy(&why) {
                    "" => "has left".to_owned(),
                    why => format!("has left: {why}"),
                };
                return Some(self.gone(from, why));
            }
        }
        None
    }

    /// Takes the signs of life that have arrived.
    fn hear(&mut self) {
        for from in 0..self.size {
            while self.take(from, LIFE).is_some() {}
        }
    }

    /// Sends signs of life if a period has passed, and returns whether it has.
    fn live(&mut self) -> bool {
        let now = mpi::time();
        if now - self.last_period < PERIOD.as_secs_f64() {
            return false;
        }
        self.last_period = now;
        for to in (0..self.size).filter(|to| *to != self.rank) {
            let has_ended = self.others.get().is_some_and(|others| others[to].has_ended());
            self.missed[to] = if has_ended { u32::MAX } else { self.missed[to].saturating_add(1) };
            let on_its_way = self.signs[to].take().and_then(|sign| sign.test().err());
            self.signs[to] = Some(on_its_way.unwrap_or_else(|| {
                let process = self.world.process_at_rank(to as i32);
                process.immediate_send_with_tag(StaticScope, &SIGN[..], LIFE)
            }));
        }
        true
    }

    /// Returns a process that this one waits for and has not heard of for too long. It waits for
    /// all that have not sent, and for all others too until what it sends is taken.
    fn silent(&self, arriving: &Arriving, is_taken: bool) -> Option<Gone> {
        let is_missing = |from: &usize| !is_taken || arriving.messages[*from].is_none();
        let mut missing = (0..self.size).filter(is_missing).filter(|from| *from != self.rank);
        let lost = missing.find(|from| self.is_silent(*from))?;
        Some(self.gone(lost, SILENT.to_owned()))
    }

    /// Whether a process has not been heard of for too long.
    fn is_silent(&self, from: usize) -> bool {
        self.missed[from] > if (self.is_over)() { MOST_MISSED_AT_END } else { MOST_MISSED }
    }

    /// Notes a process that is gone, and that another one may have to speak.
    fn gone(&self, lost: usize, why: String) -> Gone {
        let is_alive = |rank: &usize| *rank != lost && self.missed[*rank] <= MOST_MISSED_AT_END;
        let speaker = (0..self.size).find(|rank| *rank == self.rank || is_alive(rank));
        self.speaker.store(speaker.unwrap_or(self.rank), Ordering::SeqCst);
        let name = self.others.get().map(|others| others[lost].name.clone());
        Gone { who: name.unwrap_or_else(|| format!("rank {lost}")), why }
    }
}
