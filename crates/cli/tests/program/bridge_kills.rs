// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridged transfers over real networks, in which a process gets SIGKILL: the client, a server, or
//! a server that is started again. The card is a file, which outlives them all. What a client says
//! must be true, and the next transfer goes well.
//!
//! Each seed is one transfer. `CROSSLANE_PROCESS_KILLS=FIRST..END` runs others than the first ones.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::bridge::{Server, client, folder, program, succeed};
use crate::run::Run;

/// Seeds of a plain run: each way with each death, over one network.
const SEEDS: std::ops::Range<u64> = 0..12;
const BLOCK: usize = 4096;
/// First byte of the data in the card; before it and behind them nothing may change.
const FIRST: usize = 5 * BLOCK + 17;
const CARD_BYTES: usize = 24 << 20;
/// Lengths of transfers: of several pieces, and within the messages.
const LENGTHS: [usize; 2] = [(16 << 20) + 12_345, 3000];
/// Most time until the signal, longer than a transfer takes on a fast machine.
const MOST_MS: u64 = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Client,
    Server,
    /// Of a server that comes back, to a client that tries again.
    Restart,
}

const WAYS: [&str; 4] = ["put", "get", "roundtrip", "copy"];
const DEATHS: [Death; 3] = [Death::Client, Death::Server, Death::Restart];

/// A number that depends on a seed and a position.
pub fn mixed(seed: u64, at: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at);
    for _ in 0..2 {
        word = (word ^ (word >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    word ^ (word >> 29)
}

/// Data of which no two blocks are equal.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes + 8);
    for at in 0..bytes.div_ceil(8) as u64 {
        data.extend_from_slice(&mixed(seed, 1000 + at).to_le_bytes());
    }
    data.truncate(bytes);
    data
}

/// Whether each byte is the one or the other's at its place.
fn is_of_both(found: &[u8], one: &[u8], other: &[u8]) -> bool {
    let blocks = found.chunks(BLOCK).zip(one.chunks(BLOCK)).zip(other.chunks(BLOCK));
    blocks.into_iter().all(|((found, one), other)| {
        found == one
            || found == other
            || found
                .iter()
                .zip(one.iter().zip(other))
                .all(|(it, (one, other))| it == one || it == other)
    })
}

/// The files of one transfer.
struct Scene<'a> {
    folder: &'a Path,
    network: &'a str,
    way: &'a str,
    sent: Vec<u8>,
}

impl Scene<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("its name is text").to_owned()
    }

    fn write(&self, name: &str, data: &[u8]) {
        std::fs::write(self.path(name), data).expect("it can be written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("it is there")
    }

    fn serve(&self, card: &str, listen: &str) -> Server {
        let device = format!("--device card=file:{} --listen {listen}", self.path(card));
        Server::with(Command::new(program()), &format!("{device} --network {}", self.network))
    }

    fn transfer(&self, servers: &[Server; 2], retries: u32) -> Command {
        let [from, to] = [0, 1].map(|at| format!("{}/card:{FIRST:#x}", servers[at].address));
        let (sent, back, bytes) = (self.path("sent"), self.path("back"), self.sent.len());
        let arguments = match self.way {
            "put" => format!("put {sent} {from}"),
            "get" => format!("get {from} {back} --bytes {bytes}"),
            "roundtrip" => format!("roundtrip {sent} {}/card --output {back}", servers[0].address),
            _ => format!("copy {from} {to} --bytes {bytes}"),
        };
        let network = self.network;
        client(format!("{arguments} --network {network} --timeout 20 --retries {retries}"))
    }

    /// The data in a card.
    fn in_card(&self, card: &str) -> Vec<u8> {
        self.read(card)[FIRST..FIRST + self.sent.len()].to_vec()
    }

    /// Looks at what is there after the death, and whether the client has said so.
    fn check(&self, before: &[Vec<u8>; 2], ended: Option<&Run>) {
        let (target, range) = ("target", FIRST..FIRST + self.sent.len());
        let target = if self.way == "copy" { target } else { "card" };
        for (name, before) in ["card", "target"].iter().zip(before) {
            let now = self.read(name);
            assert!(now[..range.start] == before[..range.start], "{name}: before the data");
            assert!(now[range.end..] == before[range.end..], "{name}: behind the data");
            let there = (&now[range.clone()], &before[range.clone()]);
            match *name == target && matches!(self.way, "put" | "copy") {
                true => assert!(is_of_both(there.0, &self.sent, there.1), "{name}: others' data"),
                false => assert!(there.0 == there.1, "{name}: nobody wrote to it"),
            }
        }
        let has_all = match self.way {
            "put" | "copy" => self.in_card(target) == self.sent,
            _ => {
                let back = self.read("back");
                assert!(back == self.sent || back == b"as it was", "half a file");
                back == self.sent
            }
        };
        let Some(run) = ended else { return };
        assert!(has_all || run.code == 1, "{run:?}");
        let words = run.stderr.rsplit(" B have arrived").nth(1).unwrap_or_default();
        let arrived = words.split_whitespace().rev().nth(2).and_then(|word| word.parse().ok());
        if let Some(arrived) = arrived.filter(|_| matches!(self.way, "put" | "copy")) {
            let arrived: usize = arrived;
            assert!(self.in_card(target)[..arrived] == self.sent[..arrived], "{}", run.stderr);
        }
    }
}

/// Ends a process as nothing else does: by SIGKILL.
fn kill(child: &mut Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it is gone");
}

fn play(network: &str, seed: u64) {
    let (way, death) = (WAYS[(seed % 4) as usize], DEATHS[(seed / 4 % 3) as usize]);
    let length = LENGTHS[usize::from(mixed(seed, 1).is_multiple_of(5))];
    let folder = folder(&format!("kills-{network}"));
    let sent = content(seed, length);
    let scene = Scene { folder: &folder, network, way, sent };
    let mut cards = [vec![0; CARD_BYTES], vec![1; CARD_BYTES]];
    if matches!(way, "get" | "copy") {
        cards[0][FIRST..FIRST + length].copy_from_slice(&scene.sent);
    }
    scene.write("card", &cards[0]);
    scene.write("target", &cards[1]);
    scene.write("sent", &scene.sent);
    scene.write("back", b"as it was");
    let mut servers = [scene.serve("card", "127.0.0.1:0"), scene.serve("target", "127.0.0.1:0")];
    // Of a copy either server.
    let dead = usize::from(way == "copy" && mixed(seed, 2) % 2 == 1);
    let retries = if death == Death::Restart { 12 } else { 0 };
    let mut command = scene.transfer(&servers, retries);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut moving = command.spawn().expect("the program starts");
    thread::sleep(Duration::from_millis(mixed(seed, 3) % MOST_MS));
    let names = ["card", "target"];
    let ended = match death {
        Death::Client => {
            kill(&mut moving);
            None
        }
        Death::Server | Death::Restart => {
            let address = servers[dead].address.clone();
            kill(&mut servers[dead].child);
            if death == Death::Restart {
                servers[dead] = scene.serve(names[dead], &address);
            }
            Some(Run::from(moving.wait_with_output().expect("it ends")))
        }
    };
    scene.check(&cards, ended.as_ref());
    if death == Death::Server {
        servers[dead] = scene.serve(names[dead], "127.0.0.1:0");
    }
    // The next one goes well, whatever has happened.
    succeed(scene.transfer(&servers, 3));
    match way {
        "put" => assert!(scene.in_card("card") == scene.sent),
        "copy" => assert!(scene.in_card("target") == scene.sent),
        _ => assert!(scene.read("back") == scene.sent),
    }
    drop(servers);
    let _ = std::fs::remove_dir_all(&folder);
}

fn play_all(network: &str) {
    let seeds = std::env::var("CROSSLANE_PROCESS_KILLS").ok().and_then(|text| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    });
    for seed in seeds.unwrap_or(SEEDS) {
        let played = std::panic::catch_unwind(|| play(network, seed));
        assert!(
            played.is_ok(),
            "{} and {:?} over {network}: CROSSLANE_PROCESS_KILLS={seed}..{} cargo test -p \
             crosslane-cli --test program {network}_transfers",
            WAYS[(seed % 4) as usize],
            DEATHS[(seed / 4 % 3) as usize],
            seed + 1
        );
    }
}

#[test]
fn tls_transfers_survive_sigkill() {
    play_all("tls");
}

#[test]
fn shm_transfers_survive_sigkill() {
    play_all("shm");
}

/// A frame of transport `tls`: its kind, number and key of the connection, address, and bytes.
pub fn frame(kind: u8, (id, key): (u64, u64), address: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend([id, key, address].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(body);
    bytes
}

/// Joins two streams, and says what no client says.
pub fn say_nonsense(address: &str, number: u64) {
    let id = (mixed(number, 1), mixed(number, 2));
    let streams = [0, 1].map(|stream: u64| {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
        socket.write_all(&frame(0, id, (2 << 32) | stream, &[])).expect("it reads");
        socket
    });
    let mut first = &streams[0];
    first.read_exact(&mut [0; 32]).expect("it is joined");
    let length = [1, 30, 500, 4000][(number % 4) as usize];
    // The server may close it at once.
    let _ = first.write_all(&frame(2, (0, 0), 0, &content(number, length)));
    let _ = first.read_to_end(&mut Vec::new());
}

/// Memory of a process that is not of a file, KiB.
pub fn anonymous_kib(process: u32) -> u64 {
    let mut status = String::new();
    let file = File::open(format!("/proc/{process}/status"));
    file.and_then(|mut file| file.read_to_string(&mut status)).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.expect("the kernel says it")
}

/// Those who connect, say something wrong and go leave nothing behind, however many threads heard
/// them.
#[test]
fn bad_messages_do_not_grow_the_server() {
    const AT_ONCE: u64 = 16;
    const EACH: u64 = 16;
    /// 14 MB when each stream had a buffer of 256 KiB, in the arena of its thread.
    const MOST_KIB: u64 = 5 << 10;
    let arguments = "--device mem:1M --listen 127.0.0.1:0 --network tls";
    let mut command = Command::new(program());
    // As on two cores, whatever this machine has.
    command.env("MALLOC_ARENA_MAX", "16");
    let server = Server::with(command, arguments);
    let before = anonymous_kib(server.child.id());
    thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let address = &server.address;
            scope.spawn(move || {
                (0..EACH).for_each(|each| say_nonsense(address, number * EACH + each));
            });
        }
    });
    let grown = anonymous_kib(server.child.id()).saturating_sub(before);
    assert!(grown < MOST_KIB, "{grown} KiB more");
}
