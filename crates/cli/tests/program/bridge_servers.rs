// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several servers as a user has them: lists of them, the matrix of their cards, and cards that are
//! found by name.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crosslane::bridge::Path;
use crosslane::bridge::messages::{Hello, MAGIC, Request, TransferRequest, VERSION, encode};
use crosslane::host::RemoteMemory;

use crate::bridge::{MIB, Server, assert_same, client, file, folder, program, succeed};
use crate::bridge_kills::frame;
use crate::run::{Run, document};
use crate::served::Served;

/// A server of memory over tls.
fn memory(cards: &str) -> Server {
    let arguments = format!("{cards} --listen 127.0.0.1:0 --network tls");
    Server::with(Command::new(program()), &arguments)
}

#[test]
fn cards_of_a_list_of_servers_are_found_by_name() {
    let folder = folder("names");
    let one = memory("--device video=mem:4M --device shared=mem:64K");
    let other = memory("--device audio=mem:4M --device shared=mem:64K");
    let (sent, bytes) = (file(&folder, "sent", 3 * MIB + 5), 3 * MIB + 5);
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let list = path("list.txt");
    let text = format!("# ours\n{}  # the first\n\n{}\n", one.address, other.address);
    std::fs::write(&list, text).expect("it can be written");
    let servers = format!("--servers {list} --network tls");
    let put = succeed(client(format!("put {sent} audio:0x1000 {servers}")));
    let what = put["what"].as_str().expect("a sentence");
    assert!(what.ends_with(&format!("-> {}/audio:0x1000", other.address)), "{what}");
    succeed(client(format!("copy audio:0x1000 video:64 --bytes {bytes} {servers}")));
    // One that is named with its server is not looked for.
    let back = path("back");
    let place = format!("{}/video:64", one.address);
    succeed(client(format!("get {place} {back} --bytes {bytes} {servers}")));
    assert_same(&sent, &back);
    let refused = |arguments: String| {
        let Run { code, stderr, .. } = Run::of(&mut client(arguments));
        assert_ne!(code, 0, "{stderr}");
        stderr
    };
    let error = refused(format!("put {sent} shared {servers}"));
    let (first, second) = (&one.address, &other.address);
    let several = format!("several servers have one: {first}, {second}; write {first}/shared");
    assert!(error.contains(&several), "{error}");
    let error = refused(format!("put {sent} nosuch {servers}"));
    assert!(error.contains("no server of the list has it; they have"), "{error}");
    assert!(error.contains(&format!("{second}/audio")), "{error}");
    let error = refused(format!("put {sent} audio --network tls"));
    assert!(error.contains("write SERVER/CARD, or name the servers by --servers"), "{error}");
    // One that does not answer could have a card of this name, too.
    let with_silent = format!("--servers {first},127.0.0.1:9 --network tls");
    let error = refused(format!("put {sent} video {with_silent}"));
    assert!(error.contains("127.0.0.1:9, which may have one of this name too"), "{error}");
    // The pool takes the same lists.
    let pool = succeed(client(format!("pool {servers}")));
    let servers = pool["servers"].as_array().expect("a list");
    assert_eq!(servers.len(), 2);
    for server in servers {
        assert_eq!(server["cards"].as_array().map(Vec::len), Some(2));
        assert_eq!(server["memory_bytes"], server["free_memory_bytes"], "no transfer has any");
        assert!(server["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{server}");
    }
}

#[test]
fn a_matrix_has_all_pairs_and_names_those_that_fail() {
    let (one, other) =
        (memory("--device a=mem:1M --device b=mem:64K"), memory("--device a=mem:1M"));
    let list = format!("{},{},127.0.0.1:9", one.address, other.address);
    let bench = format!("bench --servers {list} --network tls --size 256K --iterations 2 --json");
    let Run { code, stdout, stderr } = Run::of(&mut client(bench));
    assert_eq!(code, 1, "{stderr}");
    let matrix = document(&stdout);
    let card = |number: u64| {
        let card = &matrix["cards"][number as usize];
        format!("{}/{}", card["server"].as_str().unwrap(), card["card"].as_str().unwrap())
    };
    let small = format!("{}/b", one.address);
    let pairs = matrix["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 6);
    for pair in pairs {
        let ends = ["from", "to"].map(|end| card(pair[end].as_u64().expect("a number")));
        assert_ne!(ends[0], ends[1]);
        match ends.contains(&small) {
            true => {
                let error = pair["error"].as_str().expect("it is too small");
                assert!(error.contains("b has 65536 B, not 262144 B"), "{error}");
            }
            false => assert!(pair["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0)),
        }
    }
    assert_eq!(matrix["silent"][0]["server"], "127.0.0.1:9");
    let Run { stdout, .. } = Run::of(&mut client(format!("bench --servers {list} --network tls")));
    assert!(stdout.contains("2 -> 1: ") && stdout.contains("\n127.0.0.1:9: "), "{stdout}");
    let Run { code, stderr, .. } =
        Run::of(&mut client(format!("bench --servers {list} --size 4K..8K --network tls")));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("copies of one size are measured"), "{stderr}");
}

#[test]
fn cards_are_added_and_removed_by_a_local_socket() {
    let folder = folder("control");
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let (socket, disk) = (path("socket"), path("disk"));
    std::fs::write(&disk, vec![0; 1 << 20]).expect("it can be written");
    let server = memory(&format!("--device first=mem:1M --control {socket}"));
    let mode = std::fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else can connect");
    let card = |arguments: String| Run::of(&mut client(format!("card {arguments}")));
    let done = |arguments: String| {
        let Run { code, stdout, stderr } = card(format!("{arguments} --control {socket}"));
        assert_eq!(code, 0, "{stderr}");
        stdout
    };
    let refused = |arguments: String| {
        let Run { code, stderr, .. } = card(format!("{arguments} --control {socket}"));
        assert_ne!(code, 0, "{stderr}");
        stderr
    };
    let said = done(format!("add disk=file:{disk}"));
    assert_eq!(said, format!("disk (file:{disk}) is served\n"));
    let sent = file(&folder, "sent", 5000);
    let put = format!("put {sent} {}/disk:7 --network tls", server.address);
    succeed(client(put.clone()));
    let whole = std::fs::read(&disk).expect("readable");
    assert!(whole[7..5007] == std::fs::read(&sent).expect("readable"));
    let error = refused(format!("add disk=file:{disk}"));
    assert!(error.contains("two cards have the name disk"), "{error}");
    let error = refused("add x=lab:kc705:crosslane".to_owned());
    assert!(error.contains("a lab runs from the start of its server on"), "{error}");
    let error = refused(format!("add x=file:{}", path("nosuch")));
    assert!(error.contains("nosuch"), "{error}");
    let error = refused("add mem:4K".to_owned());
    assert!(error.contains("a card is named NAME=DEVICE"), "{error}");
    assert_eq!(done("remove disk".to_owned()), "disk is no longer served\n");
    let Run { code, stderr, .. } = Run::of(&mut client(put));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("disk was removed from this server, which has first"), "{stderr}");
    let error = refused("remove disk".to_owned());
    assert!(error.contains("disk was removed from this server, which has first"), "{error}");
    // A client that sends no request, or half of one, disturbs nobody.
    drop(UnixStream::connect(&socket).expect("it listens"));
    let mut half = UnixStream::connect(&socket).expect("it listens");
    half.write_all(b"{\"add\"").expect("it reads");
    half.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = String::new();
    half.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains("no request"), "{answer}");
    succeed(client(format!("put {sent} {}/first --network tls", server.address)));
    // A second server there is refused; one that was killed has left nothing in the way.
    let serve = "serve --device null: --listen 127.0.0.1:0 --network tls --control";
    let Run { code, stderr, .. } = Run::of(&mut client(format!("{serve} {socket}")));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("another server listens there"), "{stderr}");
    let Run { stderr, .. } = Run::of(&mut client(format!("{serve} {disk}")));
    assert!(stderr.contains("it is there, and no socket"), "{stderr}");
    drop(server);
    let error = refused("remove first".to_owned());
    assert!(error.contains("refused"), "{error}");
    let _server = memory(&format!("--device other=mem:1M --control {socket}"));
    done("remove other".to_owned());
}

/// A client that has begun a put to a card, and never answers the server's read.
fn silent_client(address: &str, card: &str) -> TcpStream {
    let hello =
        Hello { magic: MAGIC, version: VERSION, name: "silent".to_owned(), handshake: Vec::new() };
    let source = Some(RemoteMemory { address: 0, key: 1, bytes: 1 << 20 });
    let put = TransferRequest::new(Path::ToFpga, card, 0, 1 << 20);
    let put = TransferRequest { source, time_ps: 60 * 1_000_000_000_000, ..put };
    let put = encode(&Request::Transfer(Box::new(put))).expect("it is short");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let join = frame(0, (27, 27), 1 << 32, &[]);
    let hello = frame(2, (0, 0), 0, &encode(&hello).expect("it is short"));
    let all = [join, hello, frame(2, (0, 0), 0, &put)].concat();
    stream.write_all(&all).expect("it reads");
    loop {
        let mut head = [0; 32];
        stream.read_exact(&mut head).expect("the server begins the transfer");
        if head[0] == 5 {
            return stream;
        }
        let length = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
        stream.read_exact(&mut vec![0; length as usize]).expect("the rest of it");
    }
}

/// Tried a few times: a client that was told that its card goes has a second to leave by itself.
#[test]
fn a_card_that_is_slow_to_leave_delays_no_other() {
    let folder = folder("slow");
    let socket = folder.join("socket");
    let server = memory(&format!("--device first=null: --control {}", socket.display()));
    let ask = |request: String| {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        stream
    };
    let answer = |mut stream: UnixStream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert_eq!(answer, r#"{"Ok":null}"#);
    };
    let add = |name: &str| ask(format!(r#"{{"add":{{"name":"{name}","device":"null:"}}}}"#));
    let has_overtaken = (0..8).any(|number| {
        answer(add("slow"));
        let client = silent_client(&server.address, "slow");
        let leaving = ask(r#"{"remove":{"name":"slow"}}"#.to_owned());
        answer(add(&format!("other{number}")));
        leaving.set_nonblocking(true).expect("it can be");
        let is_leaving = (&leaving).read(&mut [0; 1]).is_err();
        leaving.set_nonblocking(false).expect("it can be");
        drop(client);
        if is_leaving {
            answer(leaving);
        }
        is_leaving
    });
    assert!(has_overtaken, "each request waits for the one before it");
}

#[test]
fn a_file_is_spread_over_several_cards() {
    let folder = folder("striped");
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let disks = [path("disk0"), path("disk1")];
    for disk in &disks {
        std::fs::write(disk, vec![0; 4 << 20]).expect("it can be written");
    }
    let one = memory(&format!("--device a=file:{} --device b=mem:4M", disks[0]));
    let other = memory(&format!("--device c=file:{}", disks[1]));
    let bytes = 3 * MIB + 5;
    let (sent, back) = (file(&folder, "sent", bytes), path("back"));
    let servers = format!("--servers {},{} --network tls", one.address, other.address);
    let cards = format!("a:0x1000,{}/b,c:64", one.address);
    let put = succeed(client(format!("put {sent} {cards} {servers}")));
    assert_eq!(
        (&put["bytes"], put["transfers"].as_array().map(Vec::len)),
        (&bytes.into(), Some(3))
    );
    let data = std::fs::read(&sent).expect("readable");
    let whole = succeed(client(format!("put {sent} c {servers}")));
    assert_eq!(put["crc32"], whole["crc32"], "it is that of the whole");
    succeed(client(format!("put {sent} {cards} {servers}")));
    // Whole pages but for the last part.
    let part = bytes.div_ceil(3).next_multiple_of(4096);
    let first = std::fs::read(&disks[0]).expect("readable");
    assert!(first[0x1000..][..part] == data[..part]);
    let last = std::fs::read(&disks[1]).expect("readable");
    assert!(last[64..][..bytes - 2 * part] == data[2 * part..]);
    let got = succeed(client(format!("get {cards} {back} --bytes {bytes} {servers}")));
    assert_eq!(got["crc32"], put["crc32"]);
    assert_same(&sent, &back);
    // One part that cannot be is the end of all, and nothing takes the place of what was there.
    let beyond = format!("a:0x1000,{}/b:0x300000", one.address);
    let Run { code, stderr, .. } =
        Run::of(&mut client(format!("get {beyond} {back} --bytes {bytes} {servers}")));
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("/b:0x300000: request: ") && stderr.contains("b has 4194304 B"),
        "{stderr}"
    );
    assert_same(&sent, &back);
    let Run { code, stderr, .. } =
        Run::of(&mut client(format!("put {sent} {cards} --resume 5 {servers}")));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("several cards have no common beginning"), "{stderr}");
}

#[test]
fn an_engine_comes_to_a_server_that_runs_and_leaves_it() {
    let folder = folder("engine");
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let (socket, back) = (path("socket"), path("back"));
    let served = Served::start("bridge_engine_card", "sbdt:crosslane", ["pac"]);
    let server = memory(&format!("--device first=mem:4M --control {socket}"));
    let card = |arguments: &str| {
        let Run { code, stderr, .. } =
            Run::of(&mut client(format!("card {arguments} --control {socket}")));
        assert_eq!(code, 0, "{stderr}");
    };
    let sent = file(&folder, "sent", 3 * MIB + 5);
    let place = format!("{}/engine:77", server.address);
    let is_served = || {
        succeed(client(format!("put {sent} {place} --network tls")));
        succeed(client(format!("get {place} {back} --bytes {} --network tls", 3 * MIB + 5)));
        assert_same(&sent, &back);
    };
    card(&format!("add engine={}", served.cards[0]));
    is_served();
    // Longer than any machine takes for what is waited below.
    let long = file(&folder, "long", 512 * MIB);
    let mut put = client(format!("put {long} {place} --network tls"));
    let put = put.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(450));
    card("remove engine");
    let Run { code, stderr, .. } = put.wait_with_output().expect("it ends").into();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("engine was removed from this server"), "{stderr}");
    assert!(!stderr.contains("trying again"), "{stderr}");
    succeed(client(format!("put {sent} {}/first --network tls", server.address)));
    // The socket has one client at a time: the server has let it go.
    card(&format!("add engine={}", served.cards[0]));
    is_served();
    let _ = std::fs::remove_dir_all(folder);
}
