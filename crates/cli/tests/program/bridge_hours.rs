// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bridge's server that stays up: rounds of clients at once, connections that come and go, bad
//! messages and clients that are killed, over each real network. Its memory, descriptors and
//! threads stay as they were after the first rounds.
//!
//! `CROSSLANE_BRIDGE_SECONDS` is the time for each network; then each has at least 10,000
//! connections and, where strangers can connect, 30,000 bad messages as well.

use std::fs::File;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crosslane::bridge::{CardPlace, Client, Identity, MemoryPart, TransferOptions};
use crosslane::host::{Clock, DmaMemory, PageSize, Rdma, RdmaRegion, RemoteAccess};
use crosslane::network::{MachineClock, Network, Provider, Trust};
use futures_executor::block_on;
use futures_util::future::join_all;

use crate::bridge::{MIB, Server, client, file, folder, program};
use crate::bridge_kills::{anonymous_kib, mixed, say_nonsense};

/// Clients that are connected at the same time; of one process over shared memory, libfabric takes
/// fewer.
const CLIENTS: usize = 200;
const CLIENTS_OVER_SHM: usize = 40;
/// Size of a card.
const CARD_BYTES: u64 = 64 << 20;
/// Bytes that each moves to the card and back: with the network's reads and writes.
const BYTES: u64 = 10_000;
/// Connections of a round that say nothing, and bad messages, one on each connection: in a short
/// run and in a long one.
const SILENT: u64 = 100;
const BAD: [u64; 2] = [160, 1200];
/// Threads that send bad messages.
const THREADS: u64 = 8;
/// Connections and bad messages of a long run, at least.
const MOST_CONNECTIONS: u64 = 10_000;
const MOST_BAD: u64 = 30_000;
/// Rounds before the server's resources are counted: buffers that it keeps, arenas of threads.
const FIRST_ROUNDS: u64 = 2;
/// Rounds after which a line is printed.
const ROUNDS_OF_A_LINE: u64 = 25;
/// Memory by which the server may grow, however long it runs: what its allocator has not joined.
const MOST_GROWN_KIB: u64 = 4 << 10;
/// Bytes that libfabric keeps of each connection over shared memory until its process ends: the
/// entry of its endpoint in a list of names, from which none is taken (1.17 to 2.6), with the
/// allocator's header.
const KEPT_BY_LIBFABRIC_BYTES: u64 = 288;
/// Time for the kernel and the server to give back what was closed.
const SETTLING: Duration = Duration::from_secs(10);
/// Time for each step of a client.
const PATIENCE: Duration = Duration::from_secs(60);

/// Times that a client tries again to connect, as all commands do, and the time before that.
const TRIES: u32 = 3;
const AGAIN: Duration = Duration::from_millis(500);

/// Resources of a process.
#[derive(Clone, Copy, Debug)]
struct Resources {
    files: usize,
    threads: usize,
    anonymous_kib: u64,
}

impl Resources {
    fn of(process: u32) -> Self {
        let count = |what: &str| {
            std::fs::read_dir(format!("/proc/{process}/{what}")).expect("it runs").count()
        };
        let (files, threads) = (count("fd"), count("task"));
        Self { files, threads, anonymous_kib: anonymous_kib(process) }
    }

    fn are_within(self, before: Self, most_grown_kib: u64) -> bool {
        self.files <= before.files
            && self.threads <= before.threads
            && self.anonymous_kib <= before.anonymous_kib + most_grown_kib
    }
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    rounds: u64,
    connections: u64,
    bad_messages: u64,
}

/// Connects clients, all of which are there before the first moves data; each has its own bytes
/// back, whatever the others do.
fn clients_at_once(provider: Provider, address: &str, round: u64) -> u64 {
    let clock = MachineClock::new();
    let network = Network::open_with(provider, &clock, &Trust::default()).expect("it is there");
    let clients = if provider == Provider::Tls { CLIENTS } else { CLIENTS_OVER_SHM };
    let connecting = (0..clients).map(|_| {
        let identity = Identity::default();
        let (network, clock) = (network.clone(), clock.clone());
        async move {
            let mut tried = 0;
            loop {
                let (network, clock) = (network.clone(), clock.clone());
                let until = clock.after(AGAIN);
                match Client::connect(network, clock.clone(), address, &identity, PATIENCE).await {
                    Err(_) if tried < TRIES => clock.sleep_until(until).await,
                    connected => return connected,
                }
                tried += 1;
            }
        }
    });
    block_on(async {
        let clients = join_all(connecting).await.into_iter();
        let clients: Vec<_> = clients.map(|client| client.expect("it is let in")).collect();
        let options = TransferOptions::default().with_time(PATIENCE);
        let moving = clients.iter().enumerate().map(async |(number, client)| {
            let mut data: Vec<u8> = (0..BYTES).map(|at| mixed(round, at) as u8).collect();
            data[0] = number as u8;
            let memory = network.allocate(BYTES, PageSize::Small).expect("there is memory");
            let access = RemoteAccess { read: true, write: true };
            let region = client.register(&memory, access).await.expect("it can be");
            let part = MemoryPart { region, range: 0..BYTES };
            let place = CardPlace { card: "card".to_owned(), address: number as u64 * 2 * BYTES };
            memory.write(0, &data).expect("it lies within");
            client.put(&part, &place, &options, |_| {}).await.expect("it is put");
            memory.write(0, &vec![0; BYTES as usize]).expect("it lies within");
            client.get(&place, &part, &options, |_| {}).await.expect("it is got");
            let mut back = vec![0; BYTES as usize];
            part.region.memory().read(0, &mut back).expect("it lies within");
            assert!(back == data, "client {number} has other bytes back");
        });
        join_all(moving).await;
        join_all(clients.into_iter().map(Client::close)).await;
    });
    clients as u64
}

/// Runs rounds until the time is over, and all that a long run has to have was there.
fn run(provider: Provider, network: &str) {
    let seconds = std::env::var("CROSSLANE_BRIDGE_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().expect("a number of seconds"));
    let bad = BAD[usize::from(seconds.is_some())];
    let is_tls = provider == Provider::Tls;
    let kept_bytes = if is_tls { 0 } else { KEPT_BY_LIBFABRIC_BYTES };
    let folder = folder(&format!("hours-{network}"));
    let sent = file(&folder, "sent", 64 * MIB);
    let mut command = Command::new(program());
    // As on two cores, whatever this machine has.
    command.env("MALLOC_ARENA_MAX", "16");
    // Large blocks, such as libfabric's for each end over shared memory, 1.4 MB, go back to the
    // system: the C library would keep as many as there were at once.
    command.env("MALLOC_MMAP_THRESHOLD_", "131072");
    // Files, whose pages are not the server's own memory.
    let cards = ["card", "killed"].map(|name| {
        let path = folder.join(name);
        let made = File::create(&path).expect("it can be made");
        made.set_len(CARD_BYTES).expect("a hole");
        format!("--device {name}=file:{} ", path.display())
    });
    let cards = cards.concat();
    let arguments = format!("{cards} --listen 127.0.0.1:0 --network {network}");
    let server = Server::with(command, &arguments);
    let address = &server.address;
    let (begun, mut counts, mut before) = (Instant::now(), Counts::default(), None);
    let is_over = |counts: &Counts| match seconds {
        None => counts.rounds > FIRST_ROUNDS,
        Some(seconds) => {
            begun.elapsed().as_secs() >= seconds
                && counts.connections >= MOST_CONNECTIONS
                && (counts.bad_messages >= MOST_BAD || !is_tls)
        }
    };
    while !is_over(&counts) {
        let put = format!("put {sent} {address}/killed --network {network} --retries 0");
        let mut killed = client(put);
        killed.stdout(Stdio::null()).stderr(Stdio::null());
        let mut killed = killed.spawn().expect("it starts");
        counts.connections += clients_at_once(provider, address, counts.rounds) + 1;
        let _ = killed.kill();
        killed.wait().expect("it is gone");
        if is_tls {
            for _ in 0..SILENT {
                drop(TcpStream::connect(address).expect("it listens"));
            }
            let first = counts.bad_messages;
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let own = (first + thread..first + bad).step_by(THREADS as usize);
                    scope.spawn(move || own.for_each(|number| say_nonsense(address, number)));
                }
            });
            counts.bad_messages += bad;
            counts.connections += SILENT + 2 * bad;
        }
        counts.rounds += 1;
        let settling = Instant::now();
        loop {
            let now = Resources::of(server.child.id());
            let Some(before) = before else {
                if counts.rounds >= FIRST_ROUNDS && settling.elapsed() > Duration::from_secs(1) {
                    before = Some(now);
                }
                if counts.rounds < FIRST_ROUNDS || before.is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let kept_kib = counts.connections * kept_bytes / 1024;
            if now.are_within(before, MOST_GROWN_KIB + kept_kib) {
                if counts.rounds.is_multiple_of(ROUNDS_OF_A_LINE) {
                    println!("{network}: {counts:?}: {now:?}");
                }
                break;
            }
            assert!(settling.elapsed() < SETTLING, "{before:?} before, {now:?} after {counts:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    let (before, now) = (before.expect("rounds"), Resources::of(server.child.id()));
    println!("{network}: {counts:?} in {:?}: {before:?} before, {now:?} after", begun.elapsed());
    drop(server);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_tls_server_stays_as_it_is() {
    run(Provider::Tls, "tls");
}

#[test]
fn a_shm_server_stays_as_it_is() {
    run(Provider::Shm, "shm");
}
