// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bridge as a user runs it: servers and clients are processes, networks are real ones, the
//! card is a lab's, in the server or behind a socket.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::namespaces;
use crate::proxy::Proxy;
use crate::run::{Run, document, json_of};
use crate::served::Served;

/// A card whose model is fast.
const DEVICE: &str = "lab:sbdt:crosslane";
/// Bytes of a MiB.
pub const MIB: usize = 1 << 20;

/// A server, until it is dropped.
pub struct Server {
    pub child: Child,
    /// Address that it listens at.
    pub address: String,
    /// Its sentence about the network.
    network: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of the program.
pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_crosslane")
}

impl Server {
    /// Starts one with these arguments, separated by blanks.
    pub fn with(mut command: Command, arguments: &str) -> Self {
        command.args(["bridge", "serve"]).args(arguments.split_whitespace());
        command.stderr(Stdio::null());
        Self::start(command)
    }

    /// Starts one whose log goes where the command says, and waits until it says where it is.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let [mut line, mut network] = [String::new(), String::new()];
        output.read_line(&mut line).expect("it can be read");
        output.read_line(&mut network).expect("it can be read");
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(address.contains(':'), "it says where it is: {line:?}");
        Self { child, address, network }
    }

    fn tls() -> Self {
        let arguments = format!("--device {DEVICE} --listen 127.0.0.1:0 --network tls");
        Self::with(Command::new(program()), &arguments)
    }
}

/// A client with these arguments, separated by blanks.
pub fn client(arguments: impl AsRef<str>) -> Command {
    crate::run::command(&format!("bridge {}", arguments.as_ref()))
}

/// Runs a client that has to succeed; what it prints as JSON.
#[track_caller]
pub fn succeed(mut command: Command) -> serde_json::Value {
    let run = Run::of(command.arg("--json"));
    assert_eq!(run.code, 0, "{run:?}");
    document(&run.stdout)
}

/// An empty folder of a test.
pub fn folder(name: &str) -> PathBuf {
    crate::run::folder(&format!("bridge/{name}"))
}

/// A file whose bytes depend on their place.
pub fn file(folder: &Path, name: &str, bytes: usize) -> String {
    let path = folder.join(name);
    let mut file = std::fs::File::create(&path).expect("it can be made");
    let mut word = bytes as u64;
    let mut piece = vec![0; MIB];
    let mut left = bytes;
    while left > 0 {
        for part in piece.chunks_exact_mut(8) {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            part.copy_from_slice(&word.to_le_bytes());
        }
        let now = left.min(MIB);
        file.write_all(&piece[..now]).expect("it can be written");
        left -= now;
    }
    path.to_str().expect("its name is text").to_owned()
}

/// Writes a key file that its owner alone may read.
pub fn write_key(path: &str, key: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(key.as_bytes())).expect("it can be written");
}

/// Compares two files.
#[track_caller]
pub fn assert_same(one: &str, other: &str) {
    let (one, other) = (std::fs::File::open(one), std::fs::File::open(other));
    let (one, other) = (one.expect("there"), other.expect("there"));
    let length = |file: &std::fs::File| file.metadata().expect("readable").len();
    assert_eq!(length(&one), length(&other));
    let (mut one, mut other) =
        (BufReader::with_capacity(MIB, one), BufReader::with_capacity(MIB, other));
    loop {
        let (a, b) = (one.fill_buf().expect("readable"), other.fill_buf().expect("readable"));
        let same = a.len().min(b.len());
        assert!(a[..same] == b[..same], "they differ");
        if same == 0 {
            return;
        }
        one.consume(same);
        other.consume(same);
    }
}

#[test]
fn a_large_file_is_put_and_got_with_equal_checksums() {
    put_and_got(64 * MIB);
}

#[test]
#[ignore = "half a minute: make test-long"]
fn a_gibibyte_is_put_and_got_with_equal_checksums() {
    put_and_got(1 << 30);
}

fn put_and_got(bytes: usize) {
    let folder = folder(&format!("large-{bytes}"));
    let sent = file(&folder, "sent", bytes);
    let back = folder.join("back").to_str().expect("text").to_owned();
    let arguments = format!("--device card={DEVICE} --listen 127.0.0.1:0");
    let server = Server::with(Command::new(program()), &arguments);
    let target = format!("{}/card:0x1000", server.address);
    let put = succeed(client(format!("put {sent} {target}")));
    let got = succeed(client(format!("get {target} {back} --bytes {bytes}")));
    assert_eq!((&put["bytes"], &got["bytes"]), (&bytes.into(), &bytes.into()));
    assert_eq!(put["crc32"], got["crc32"]);
    assert!(put["network"].as_str().is_some_and(|name| name.starts_with("shm")), "{put}");
    assert_same(&sent, &back);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_round_trip_compares_and_a_copy_goes_to_another_server() {
    let folder = folder("copy");
    let sent = file(&folder, "sent", 3 * MIB + 5);
    let back = folder.join("back").to_str().expect("text").to_owned();
    let (one, other) = (Server::tls(), Server::tls());
    let place = |server: &Server, address: u64| format!("{}/fpga0:{address:#x}", server.address);
    let trip = succeed(client(format!("roundtrip {sent} {} --network tls", place(&one, 0))));
    assert_eq!(trip["bytes"], 3 * MIB + 5);
    succeed(client(format!("put {sent} {} --network tls", place(&one, 64))));
    let (from, to) = (place(&one, 64), place(&other, 1000));
    let bytes = format!("--bytes {} --network tls", 3 * MIB + 5);
    succeed(client(format!("copy {from} {to} {bytes}")));
    succeed(client(format!("get {to} {back} {bytes}")));
    assert_same(&sent, &back);
}

#[test]
fn memory_a_file_and_nothing_are_cards_of_one_server() {
    let folder = folder("memory");
    let bytes = 3 * MIB + 5;
    let sent = file(&folder, "sent", bytes);
    let [back, disk] = ["back", "disk"].map(|name| folder.join(name));
    let (back, disk) = (back.to_str().expect("text"), disk.to_str().expect("text"));
    File::create(disk).and_then(|file| file.set_len(4 << 20)).expect("it can be made");
    let cards = format!("--device memory=mem:8M --device disk=file:{disk} --device null:");
    let arguments = format!("{cards} --listen 127.0.0.1:0 --network tls");
    let server = Server::with(Command::new(program()), &arguments);
    assert!(server.network.contains("in the memory itself"), "{}", server.network);
    let place = |card: &str| format!("{}/{card}", server.address);
    for card in ["memory:0x400000", "disk", "fpga2"] {
        let put = succeed(client(format!("put {sent} {} --network tls", place(card))));
        let stages = put["transfers"][0]["stages"].as_array().expect("a list").len();
        assert_eq!(stages, if card == "fpga2" { 2 } else { 1 }, "no slots, no DMA: {put}");
    }
    // Bytes that are put into the file's card are in the file.
    let whole = std::fs::read(disk).expect("readable");
    assert!(whole[..bytes] == std::fs::read(&sent).expect("readable"));
    for card in ["memory:0x400000", "disk"] {
        let get = format!("get {} {back} --bytes {bytes} --network tls", place(card));
        succeed(client(get));
        assert_same(&sent, back);
    }
    succeed(client(format!("roundtrip {sent} {} --network tls", place("memory"))));
    // The file is made shorter: that ends its transfers, and the server serves on.
    File::options().write(true).open(disk).and_then(|file| file.set_len(4096)).expect("shorter");
    let put = format!("put {sent} {} --network tls --retries 0", place("disk"));
    let Run { code, stderr, .. } = Run::of(&mut client(put));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("a mapped file of 4194304 B has lost pages"), "{stderr}");
    succeed(client(format!("put {sent} {} --network tls", place("memory"))));
}

#[test]
fn a_server_is_watched_by_systemd_prometheus_and_a_pool() {
    let folder = folder("watched");
    let socket = folder.join("notify");
    let _ = std::fs::remove_file(&socket);
    let systemd = UnixDatagram::bind(&socket).expect("a socket");
    systemd.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
    let heard = || {
        let mut message = [0; 256];
        let length = systemd.recv(&mut message).expect("the server tells it");
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    // A port that was free a moment ago.
    let metrics = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap();
    // As systemd names the process whose watchdog it is. Most of what that is told is not read.
    let mut command = Command::new("sh");
    command.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" \"$@\"", program()]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "2000");
    let cards = "--device mem:64K --device zero=null: --listen 127.0.0.1:0 --network tls";
    let server = Server::with(command, &format!("{cards} --log json --metrics {metrics}"));
    assert!(heard().contains("READY=1"));
    // The unit in the packages listens to it.
    let unit = include_str!("../../../../packaging/systemd/crosslane-bridge.service");
    assert!(["Type=notify\n", "WatchdogSec="].iter().all(|key| unit.contains(key)), "{unit}");
    assert!([heard(), heard()].iter().all(|message| message.contains("WATCHDOG=1")));
    let sent = file(&folder, "sent", 4096);
    succeed(client(format!("put {sent} {}/fpga0 --network tls", server.address)));
    let get = |page: &str| {
        let mut stream = TcpStream::connect(metrics).expect("it listens");
        let request = format!("GET {page} HTTP/1.1\r\nHost: here\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let counters = get("/metrics");
    assert!(counters.starts_with("HTTP/1.1 200 OK\r\n"), "{counters}");
    for line in ["transfers_total{path=\"put\"} 1", "bytes_total{path=\"put\"} 4096"] {
        let line = format!("crosslane_bridge_{line}");
        assert!(counters.lines().any(|one| one == line), "{line}: {counters}");
    }
    assert!(get("/other").starts_with("HTTP/1.1 404"));
    assert!(get("/metrics HTTP/1.1\r\nHost: twice").starts_with("HTTP/1.1 400"));
    let pool = succeed(client(format!("pool {} --network tls", server.address)));
    let cards = pool["servers"][0]["cards"].as_array().expect("a list");
    assert_eq!((&cards[0]["name"], &cards[0]["memory_bytes"]), (&"fpga0".into(), &65_536.into()));
    assert_eq!((&cards[0]["moved_bytes"], &cards[1]["kind"]), (&4096.into(), &"null".into()));
    // One that does not answer is listed with the reason.
    let Run { code, stdout, .. } =
        Run::of(&mut client(format!("pool {} 127.0.0.1:9 --network tls", server.address)));
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("zero") && stdout.contains("127.0.0.1:9: "), "{stdout}");
    // A narrow terminal leaves columns out before it cuts an address in two.
    let mut narrow = client(format!("pool {} --network tls", server.address));
    let page = Run::of(narrow.env("COLUMNS", "80")).stdout;
    let of_server = page.lines().filter(|line| line.starts_with(&format!("{}  ", server.address)));
    assert_eq!((of_server.count(), page.lines().count()), (2, 4), "{page}");
}

#[test]
fn a_cut_connection_is_mended_and_a_stalled_one_ends_at_the_deadline() {
    let folder = folder("proxy");
    let sent = file(&folder, "sent", 24 * MIB);
    let back = folder.join("back").to_str().expect("text").to_owned();
    let server = Server::tls();
    let proxy = Proxy::start(&server.address);
    let (through, direct) =
        (format!("{}/fpga0", proxy.address()), format!("{}/fpga0", server.address));
    // Slow, then cut in the middle: it goes on from what has arrived.
    proxy.delay(Duration::from_millis(5));
    proxy.cut_after(10 * MIB as u64);
    let put = succeed(client(format!("put {sent} {through} --network tls")));
    assert!(put["retries"].as_u64().is_some_and(|retries| retries >= 1), "{put}");
    proxy.delay(Duration::ZERO);
    succeed(client(format!("get {direct} {back} --bytes 24M --network tls")));
    assert_same(&sent, &back);
    // It stands still: both ends give up, and the server serves on.
    proxy.stall();
    let put = format!("put {sent} {through} --timeout 3 --retries 0 --network tls");
    let Run { code, stderr, .. } = Run::of(&mut client(put));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("deadline") || stderr.contains("lost"), "{stderr}");
    drop(proxy);
    succeed(client(format!("put {sent} {direct} --network tls")));
}

#[test]
fn a_killed_client_costs_the_server_nothing_and_a_killed_server_is_noticed() {
    let folder = folder("killed");
    // Longer than any machine takes for what is waited below.
    let sent = file(&folder, "sent", 256 * MIB);
    let server = Server::tls();
    let target = format!("{}/fpga0", server.address);
    let put = format!("put {sent} {target} --network tls --retries 0");
    let spawn = || {
        let mut command = client(&put);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    };
    for _ in 0..3 {
        let mut killed = spawn();
        std::thread::sleep(Duration::from_millis(450));
        killed.kill().expect("it can be killed");
        killed.wait().expect("it is gone");
    }
    succeed(client(&put));
    let left = spawn();
    wait_until_connected(&server.address);
    std::thread::sleep(Duration::from_millis(450));
    drop(server);
    let Run { code, stderr, .. } = left.wait_with_output().expect("it ends").into();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("error: "), "{stderr}");
    let _ = std::fs::remove_dir_all(folder);
}

/// Waits until a program of this machine has a connection to an address.
fn wait_until_connected(address: &str) {
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.expect("an address has a port");
    let is_there = |line: &str| {
        // Number, local and remote address, state; 01 is established.
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        fields.len() == 4 && fields[2].ends_with(&format!(":{port:04X}")) && fields[3] == "01"
    };
    for _ in 0..600 {
        let connections = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
        if connections.lines().any(is_there) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nobody connects to {address}");
}

#[test]
fn a_restarted_server_is_waited_for() {
    let folder = folder("restarted");
    // Longer than any machine takes for what is waited below; the card outlives its server.
    let sent = file(&folder, "sent", 256 * MIB);
    let back = folder.join("back").to_str().expect("text").to_owned();
    let card = Served::start("bridge_restarted_card", "sbdt:crosslane", ["pac"]);
    let start = |listen: &str| {
        let arguments = format!("--device {} --listen {listen} --network tls", card.cards[0]);
        Server::with(Command::new(program()), &arguments)
    };
    let server = start("127.0.0.1:0");
    let address = server.address.clone();
    let mut put = client(format!("put {sent} {address}/fpga0 --network tls --retries 12 --json"));
    let put = put.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_until_connected(&address);
    std::thread::sleep(Duration::from_millis(450));
    drop(server);
    std::thread::sleep(Duration::from_millis(450));
    let _server = start(&address);
    let Run { code, stdout, stderr } = put.wait_with_output().expect("it ends").into();
    assert_eq!(code, 0, "{stderr}");
    let put = document(&stdout);
    assert!(put["retries"].as_u64().is_some_and(|retries| retries >= 1), "{put}");
    assert!(stderr.contains("of 268435456 B have arrived; trying again"), "{stderr}");
    let get = format!("get {address}/fpga0 {back} --bytes 256M --network tls");
    assert_eq!(succeed(client(get))["crc32"], put["crc32"]);
    assert_same(&sent, &back);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn files_are_whole_or_as_they_were() {
    let folder = folder("whole");
    let (sent, server) = (file(&folder, "sent", MIB), Server::tls());
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let address = &server.address;
    succeed(client(format!("put {sent} {address}/fpga0 --network tls")));
    // Nobody is there, or the disk is full (a limit for the size of files stands for it).
    std::fs::write(path("old"), "as it was").expect("it can be written");
    let get = format!("get 127.0.0.1:1/fpga0 {} --bytes 1M --network tls", path("old"));
    assert_eq!(Run::of(&mut client(get)).code, 1);
    let full = |arguments: String| {
        let limit = "trap '' XFSZ; ulimit -f 256; exec \"$0\" bridge \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limit, program()]).args(arguments.split(' ')).stdin(Stdio::null());
        let Run { code, stderr, .. } = Run::of(&mut command);
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("cannot be written: "), "{stderr}");
    };
    full(format!("get {address}/fpga0 {} --bytes 1M --network tls", path("old")));
    full(format!("roundtrip {sent} {address}/fpga0 --output {} --network tls", path("old")));
    assert_eq!(std::fs::read_to_string(path("old")).ok().as_deref(), Some("as it was"));
    let left = std::fs::read_dir(&folder).expect("it is there").count();
    assert_eq!(left, 2, "no part of a file is left");
    // A pipe has no length, and nobody writes to this one.
    let made = Command::new("mkfifo").arg(path("pipe")).status();
    assert!(made.is_ok_and(|made| made.success()));
    for way in ["put", "roundtrip"] {
        let pipe = format!("{way} {} {address}/fpga0 --network tls", path("pipe"));
        let Run { code, stderr, .. } = Run::of(&mut client(pipe));
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains("it is not a file with a length"), "{stderr}");
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn processes_have_equal_shares_of_one_card() {
    const CLIENTS: usize = 4;
    let folder = folder("shares");
    let bytes = 64 * MIB;
    let sent = file(&folder, "sent", bytes);
    let long = file(&folder, "long", 512 * MIB);
    let server = Server::tls();
    let place = |number: usize| format!("{}/fpga0:{:#x}", server.address, number * bytes);
    let puts: Vec<_> = std::thread::scope(|scope| {
        let one = |number: usize| {
            let put = client(format!("put {sent} {} --network tls --retries 0", place(number)));
            scope.spawn(move || succeed(put))
        };
        let clients: Vec<_> = (0..CLIENTS).map(one).collect();
        // One more, with as much to do as all of them, ends in the middle.
        let mut killed = client(format!("put {long} {} --network tls", place(CLIENTS)));
        let mut killed =
            killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        std::thread::sleep(Duration::from_millis(450));
        killed.kill().expect("it can be killed");
        killed.wait().expect("it is gone");
        clients.into_iter().map(|client| client.join().expect("it has its JSON")).collect()
    });
    for put in &puts {
        assert_eq!((&put["bytes"], &put["retries"]), (&bytes.into(), &0.into()));
        assert_eq!(put["crc32"], puts[0]["crc32"]);
        let sum = |key: &str| -> f64 {
            let transfers = put["transfers"].as_array().expect("a list").iter();
            transfers.map(|transfer| transfer[key].as_f64().expect("a number")).sum()
        };
        // Counted in bytes, while others had transfers under way: no clock is in it.
        let (own, all) = (sum("bytes"), sum("card_bytes"));
        let of_share = own / sum("fair_share_bytes");
        assert!((0.8..1.25).contains(&of_share), "{of_share} of an equal share: {put}");
        assert!(all > 1.5 * own, "others had transfers under way: {all} of {own} B");
    }
    let back = folder.join("back").to_str().expect("text").to_owned();
    succeed(client(format!("get {} {back} --bytes {bytes} --network tls", place(1))));
    assert_same(&sent, &back);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn vfio_user_card_survives_client_death() {
    let folder = folder("served");
    let card = Served::start("bridge_served_card", "sbdt:crosslane", ["pac"]);
    let start = |network: &str| {
        let arguments =
            format!("--device {} --listen 127.0.0.1:0 --network {network}", card.cards[0]);
        Server::with(Command::new(program()), &arguments)
    };
    let server = start("tls");
    assert!(server.network.contains(", in the card's own buffers, "), "{}", server.network);
    let long = file(&folder, "long", 512 * MIB);
    let place = |address: usize| format!("{}/fpga0:{address:#x}", server.address);
    let far = place(1 << 30);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (folder, place) = (&folder, &place);
            scope.spawn(move || {
                let bytes = (5 + number) * MIB + number;
                let sent = file(folder, &format!("sent{number}"), bytes);
                let back = folder.join(format!("back{number}")).to_str().expect("text").to_owned();
                let target = place(number * 16 * MIB + number);
                for _ in 0..2 {
                    let put = succeed(client(format!("put {sent} {target} --network tls")));
                    let get = format!("get {target} {back} --bytes {bytes} --network tls");
                    let got = succeed(client(get));
                    assert_eq!(put["crc32"], got["crc32"]);
                    assert_same(&sent, &back);
                }
            });
        }
        for way in ["put", "get"] {
            let sink = folder.join("nobody").to_str().expect("text").to_owned();
            let mut command = client(match way {
                "put" => format!("put {long} {far} --network tls"),
                _ => format!("get {far} {sink} --bytes 512M --network tls"),
            });
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut killed = command.spawn().expect("the program starts");
            std::thread::sleep(Duration::from_millis(450));
            killed.kill().expect("it can be killed");
            killed.wait().expect("it is gone");
        }
    });
    // The next server has the card as it was left, and another network.
    drop(server);
    let server = start("shm");
    let (sent, target) = (file(&folder, "sent", 6 * MIB), format!("{}/fpga0:77", server.address));
    let back = folder.join("back").to_str().expect("text").to_owned();
    succeed(client(format!("put {sent} {target}")));
    let trip = succeed(client(format!("roundtrip {sent} {}/fpga0", server.address)));
    assert_eq!(trip["bytes"], 6 * MIB);
    succeed(client(format!("get {target} {back} --bytes 6M")));
    assert_same(&sent, &back);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn two_nodes_of_their_own_meet_with_a_key() {
    let Some(nodes) = namespaces::nodes() else { return };
    let folder = folder("nodes");
    let sent = file(&folder, "sent", 4 * MIB);
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let key = Run::of(&mut client("key")).stdout;
    write_key(&path("rnode.key"), &key);
    let other = Run::of(&mut client("key")).stdout;
    assert_ne!(key, other, "keys are random");
    write_key(&path("other.key"), &other);
    let policy = "[[client]]\nname = 'rnode'\nkey_file = 'rnode.key'\n[[client.allow]]\n\
                  card = 'fpga0'\nbytes = 0x800000\naccess = 'read-write'\n";
    std::fs::write(path("policy.toml"), policy).expect("it can be written");
    let listen = format!("{}:7471", namespaces::ADDRESSES[0]);
    // Without a policy nobody else is served, and over tcp only by who trusts the network.
    let open = ["bridge", "serve", "--device", DEVICE, "--network", "tls", "--listen", &listen];
    let refused = Run::of(nodes.command(0, program()).args(open));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("a policy file is needed"), "{refused:?}");
    let tcp = ["bridge", "serve", "--device", DEVICE, "--network", "tcp", "--listen", &listen];
    let refused = Run::of(nodes.command(0, program()).args(tcp));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("reads what strangers send"), "{refused:?}");
    for (network, not_known) in [
        ("tls", "it does not know this key"),
        ("tls --trust-network", "this client and this key do not fit"),
        ("tcp --trust-network", "this client and this key do not fit"),
    ] {
        let policy = path("policy.toml");
        let arguments =
            format!("--device {DEVICE} --network {network} --listen {listen} --policy {policy}");
        let server = Server::with(nodes.command(0, program()), &arguments);
        let run = |arguments: &[&str], key: &str| {
            let mut command = nodes.command(1, program());
            command.arg("bridge").args(arguments).stdin(Stdio::null());
            command.arg("--network").args(network.split(' '));
            command.args(["--as", "rnode", "--key", &path(key), "--json"]);
            Run::of(&mut command)
        };
        let target = |address: u64| format!("{}/fpga0:{address:#x}", server.address);
        let put = run(&["put", &sent, &target(0x40_0000)], "rnode.key");
        assert_eq!(put.code, 0, "{put:?}");
        let back = path("back");
        let got = run(&["get", &target(0x40_0000), &back, "--bytes", "4M"], "rnode.key");
        assert_eq!(got.code, 0, "{got:?}");
        assert_same(&sent, &back);
        std::fs::remove_file(back).expect("it is there");
        let beyond = run(&["put", &sent, &target(0x40_0001)], "rnode.key");
        assert!(beyond.stderr.contains("rnode may not write"), "{beyond:?}");
        // A policy that allows memory allows no stream: the rates before that are shown.
        let bench = run(&["bench", &target(0), "--size", "1M", "--iterations", "1"], "rnode.key");
        assert_eq!(bench.code, 1, "{bench:?}");
        assert!(bench.stderr.contains("rnode may not"), "{bench:?}");
        let shown = document(&bench.stdout);
        let transfers = shown["transfers"].as_array().expect("a list");
        let paths: Vec<_> = transfers.iter().map(|transfer| &transfer["path"]).collect();
        assert_eq!(paths, ["remote -> FPGA", "FPGA -> remote"], "{bench:?}");
        let wrong = run(&["put", &sent, &target(0)], "other.key");
        assert!(wrong.stderr.contains(not_known), "{network}: {wrong:?}");
    }
}

#[test]
fn rates_in_a_lab_are_the_same_each_time() {
    let bench = || json_of("bridge bench --lab sbdt:crosslane --size 1M --mode both --json");
    let one = bench();
    assert_eq!(one, bench());
    let transfers = one["transfers"].as_array().expect("a list");
    assert_eq!(transfers.len(), 6);
    assert!(transfers.iter().all(|transfer| transfer["wrong_words"] == 0));
}

#[test]
fn overlap_brings_nine_tenths_of_what_the_stages_allow() {
    // In simulated time, with stages as they are and with stages of the same length.
    for pace in [0, 2000] {
        let sizes = format!("--size 16M --mode both --iterations 1 --pace {pace}");
        let value = json_of(&format!("bridge bench --lab sbdt:crosslane {sizes} --json"));
        let overlaps = value["overlap"].as_array().expect("a list").clone();
        assert_eq!(overlaps.len(), 3);
        for overlap in overlaps {
            let share = overlap["share"].as_f64().expect("a number");
            assert!(share >= 0.9, "pace {pace}: {overlap}");
        }
    }
}
