// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other process of a test: a second instance of this test program, which reads commands from
//! its standard input and answers each line with one line.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crosslane_host::{
    DmaMemory, Rdma, RdmaConnection, RdmaError, RdmaListener, RdmaRegion, RemoteAccess,
    RemoteMemory,
};
use crosslane_network::{Connection, Listener, Network, NetworkMemory, Region};
use futures_util::future::join_all;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::{EVERYWHERE, Over, PATIENCE, far_of, hash, near_end, open, pattern, region, run};

/// Variable that makes a test program the other process; its value is the network.
const VARIABLE: &str = "CROSSLANE_TEST_PEER";
/// Prefix of its answers, which other output of a test program does not have.
const MARK: &str = "peer: ";

/// The other process.
pub struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its listening address.
    pub address: String,
}

impl Peer {
    pub fn start(over: Over) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new(program)
            .args(["--exact", "support::peer::the_other_process", "--ignored", "--nocapture"])
            .env(VARIABLE, over.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut peer = Self { process, input, output, address: String::new() };
        peer.address = peer.answer();
        peer
    }

    pub fn begin(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.buffer().is_empty() {
                let mut polled = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
                let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
                let ready = poll(&mut polled, Some(&patience)).unwrap();
                assert_ne!(ready, 0, "the other process says nothing");
            }
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the other process has ended");
            // Output of the test program itself may precede it in the line.
            if let Some((_, answer)) = line.trim_end().split_once(MARK) {
                return answer.to_owned();
            }
        }
    }

    pub fn ask(&mut self, command: &str) -> String {
        self.begin(command);
        self.answer()
    }

    pub fn region(&mut self, bytes: u64, access: RemoteAccess) -> RemoteMemory {
        let RemoteAccess { read, write } = access;
        let answer = self.ask(&format!("region {bytes} {read} {write}"));
        let (address, key) = answer.split_once(' ').unwrap();
        RemoteMemory { address: address.parse().unwrap(), key: key.parse().unwrap(), bytes }
    }

    pub fn hash(&mut self, region: usize) -> u64 {
        self.ask(&format!("hash {region}")).parse().unwrap()
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it where it holds no lock that this process needs: one that is held would be waited
    /// for until the peer goes on.
    pub fn stop(&self) {
        let id = rustix::process::Pid::from_child(&self.process);
        let signal = |signal| rustix::process::kill_process(id, signal).unwrap();
        loop {
            signal(rustix::process::Signal::STOP);
            while !self.is_stopped() {
                std::thread::yield_now();
            }
            if ![self.id(), std::process::id()].into_iter().any(holds_lock) {
                return;
            }
            signal(rustix::process::Signal::CONT);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Whether all of its threads have stopped: the signal takes its time.
    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let stats = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")));
        let state = |stat: &str| stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        stats.map(Result::unwrap).all(|stat| state(&stat) == Some('T'))
    }
}

/// Value of a lock of libfabric's that is held.
pub const HELD: i32 = if cfg!(target_arch = "x86_64") { 0 } else { 1 };

/// Returns the place of the lock in the shared memory of an endpoint, by the version of its layout;
/// `None` for a libfabric whose lock frees itself.
pub fn lock_offset(file: &File) -> Option<u64> {
    let mut version = [0];
    file.read_exact_at(&mut version, 0).ok()?;
    match version[0] {
        2..=5 => Some(24),
        6 => Some(64),
        7 | 8 => Some(56),
        _ => None,
    }
}

/// Whether the lock of an endpoint of a process is held.
fn holds_lock(process: u32) -> bool {
    let own = format!("crosslane-{process}-");
    let files = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let mut files = files.filter(|file| file.file_name().to_string_lossy().starts_with(&own));
    files.any(|file| {
        let Ok(file) = File::open(file.path()) else { return false };
        let Some(offset) = lock_offset(&file) else { return false };
        let mut lock = [0; 4];
        file.read_exact_at(&mut lock, offset).is_ok() && i32::from_ne_bytes(lock) == HELD
    })
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A failed test leaves no process behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other process, from beginning to end.
#[test]
#[ignore = "other tests start it as another process"]
fn the_other_process() {
    let name = std::env::var(VARIABLE).expect("the other tests start this one");
    let over = EVERYWHERE.into_iter().find(|over| over.to_string() == name).unwrap();
    let (network, _) = open(over);
    let listener = run("listening", network.listen("127.0.0.1:0")).unwrap();
    println!("{MARK}{}", listener.address());
    let mut other = Other { network, listener, connection: None, regions: Vec::new() };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        println!("{MARK}{}", other.obey(&words));
    }
}

struct Other {
    network: Network,
    listener: Listener,
    connection: Option<Connection>,
    regions: Vec<(NetworkMemory, Region)>,
}

fn told(result: Result<(), RdmaError>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "done".into())
}

impl Other {
    fn connection(&self) -> Connection {
        self.connection.clone().expect("it has accepted")
    }

    fn obey(&mut self, words: &[&str]) -> String {
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let index = |at: usize| number(at) as usize;
        match words[0] {
            "accept" => {
                let connection = run("accepting", self.listener.accept()).unwrap();
                let peer = connection.peer();
                self.connection = Some(connection);
                peer
            }
            "region" => {
                let access = RemoteAccess { read: words[2] == "true", write: words[3] == "true" };
                let (memory, region) = region(&self.network, number(1), access);
                let RemoteMemory { address, key, .. } = region.remote();
                self.regions.push((memory, region));
                format!("{address} {key}")
            }
            "forget" => {
                self.regions.clear();
                "done".into()
            }
            "fill" => {
                let memory = &self.regions[index(1)].0;
                let data = pattern(number(2), memory.size_bytes() as usize);
                memory.write(0, &data).unwrap();
                "done".into()
            }
            "hash" => hash(&super::contents(&self.regions[index(1)].0)).to_string(),
            // Region, key, address and size there, number of pieces; memory and region in reverse
            // order.
            "write" | "read" => {
                let region = &self.regions[index(1)].1;
                let memory = RemoteMemory { key: number(2), address: number(3), bytes: number(4) };
                let (pieces, connection) = (number(5), &self.connection());
                let piece = memory.bytes / pieces;
                let transfers = (0..pieces).map(|at| async move {
                    let near = near_end(region, memory.bytes - piece - at * piece);
                    let far = far_of(memory, at * piece);
                    match words[0] {
                        "read" => connection.read(&near, far, piece).await,
                        _ => connection.write(&near, far, piece).await,
                    }
                });
                let results = run("transfers", join_all(transfers));
                told(results.into_iter().collect())
            }
            // The number of messages; each is answered with the next number.
            "echo" => run("echo", async {
                let connection = self.connection();
                for _ in 0..number(1) {
                    let message = connection.receive().await.unwrap();
                    connection.send(&message).await.unwrap();
                }
                "done".into()
            }),
            "send" => told(run("sending", self.connection().send(words[1].as_bytes()))),
            "receive" => match run("receiving", self.connection().receive()) {
                Ok(message) => String::from_utf8(message).unwrap(),
                Err(error) => error.to_string(),
            },
            // The number of connections, one after the other; each sends a word and closes.
            "host" => run("hosting", async {
                for _ in 0..number(1) {
                    let connection = self.listener.accept().await.unwrap();
                    let word = connection.receive().await.unwrap();
                    connection.send(&word).await.unwrap();
                    let error = connection.receive().await.unwrap_err();
                    assert!(matches!(error, RdmaError::Lost { .. }), "{error}");
                }
                "done".into()
            }),
            "counts" => super::Counts::now().to_string(),
            "close" => {
                run("closing", self.connection().close());
                "done".into()
            }
            word => panic!("no such command: {word}"),
        }
    }
}
