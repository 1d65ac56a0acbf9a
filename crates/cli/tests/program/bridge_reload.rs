// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A served card that clients reload, as users have it: the "board" is a lab behind a socket, which
//! the server's program ends and starts again.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::bridge::{MIB, Server, assert_same, client, file, folder, program, succeed};
use crate::run::Run;

/// Arguments: the folder, the program, and the image, whose first letters say how it ends.
const PROGRAMMER: &str = r#"#!/bin/sh
case "$(head -c 4 "$3")" in
good) ;;
away) kill -9 "$(cat "$1/pid")"; exit 0 ;;
slow) sleep 60 ;;
*) echo reading; echo "it is no bitstream" >&2; exit 3 ;;
esac
[ -e "$1/pid" ] && kill -9 "$(cat "$1/pid")"
rm -f "$1/card"
"$2" lab serve kc705:crosslane --device kc705 --socket "$1/card" >"$1/log" 2>&1 &
echo $! >"$1/pid"
echo "$(wc -c <"$3") bytes, .${3##*.}"
"#;

/// A folder with the board, until it is dropped.
struct Board(PathBuf);

impl Drop for Board {
    fn drop(&mut self) {
        // The last one that was started; nothing is left if it has ended.
        let pid = std::fs::read_to_string(self.0.join("pid")).unwrap_or_default();
        let _ = Command::new("kill").args(["-9", pid.trim()]).stderr(Stdio::null()).status();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Board {
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    fn write(&self, name: &str, text: &[u8], mode: u32) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("it can be written");
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
        path
    }

    /// Makes the folder, and starts the board.
    fn start(name: &str) -> Self {
        let board = Self(folder(name));
        let programmer = board.write("programmer", PROGRAMMER.as_bytes(), 0o700);
        let image = board.write("first.bit", b"good", 0o600);
        let mut start = Command::new(programmer);
        start.arg(&board.0).args([program(), &image]).stdout(Stdio::null());
        assert!(start.status().expect("it starts").success());
        let begun = Instant::now();
        while !Path::new(&board.path("card")).exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the card comes");
            std::thread::sleep(Duration::from_millis(10));
        }
        board
    }

    /// Starts a server of the board and of memory, with a client that may reload the board and one
    /// that may not; its log goes to a file.
    fn serve(&self) -> Server {
        let mut policy = String::new();
        let reload = "[[client.allow]]\ncard = 'board'\naccess = 'reload'\n";
        for (name, digit, right) in [("owner", "1", reload), ("user", "2", "")] {
            self.write(&format!("{name}.key"), digit.repeat(64).as_bytes(), 0o600);
            policy += &format!("[[client]]\nname = '{name}'\nkey_file = '{name}.key'\n{right}");
            for card in ["board", "memory"] {
                policy += &format!(
                    "[[client.allow]]\ncard = '{card}'\nbytes = 0x4000_0000\n\
                     access = 'read-write'\n"
                );
            }
        }
        let policy = self.write("policy.toml", policy.as_bytes(), 0o600);
        let mut server = Command::new(program());
        server.args(["bridge", "serve", "--listen", "127.0.0.1:0", "--network", "tls"]);
        server.args(["--policy", &policy, "--reload-deadline", "6"]);
        server.args(["--device", &format!("board=vfio-user:{}", self.path("card"))]);
        server.args(["--device", "memory=mem:64M", "--programmer"]);
        server.arg(format!("board={} '{}' {}", self.path("programmer"), self.path(""), program()));
        Server::start({
            server.stderr(File::create(self.path("server.log")).expect("it can be made"));
            server
        })
    }

    /// A client with these arguments.
    fn as_client(&self, name: &str, arguments: &str) -> Command {
        let key = self.path(&format!("{name}.key"));
        client(format!("{arguments} --network tls --as {name} --key {key}"))
    }

    fn refused(&self, name: &str, arguments: &str) -> String {
        let Run { code, stderr, .. } = Run::of(&mut self.as_client(name, arguments));
        assert_eq!(code, 1, "{stderr}");
        stderr
    }

    fn is_served(&self, place: &str) {
        let (sent, back) = (file(&self.0, "sent", MIB + 5), self.path("back"));
        succeed(self.as_client("user", &format!("put {sent} {place}")));
        succeed(self.as_client("user", &format!("get {place} {back} --bytes {}", MIB + 5)));
        assert_same(&sent, &back);
    }
}

#[test]
fn a_served_card_is_reloaded_by_a_client_with_the_right() {
    let board = Board::start("reload");
    let server = board.serve();
    let place = format!("{}/board", server.address);
    let memory = format!("{}/memory", server.address);
    board.is_served(&place);
    let image = [&b"good"[..], &vec![7; MIB]].concat();
    let good = board.write("good.bit", &image, 0o600);
    let error = board.refused("user", &format!("reload {place} {good}"));
    assert!(error.contains("user may not reload board"), "{error}");
    let error = board.refused("owner", &format!("reload {memory} {good}"));
    assert!(error.contains("owner may not reload memory"), "{error}");
    // A transfer under way ends, another card's does not.
    let long = file(&board.0, "long", 64 * MIB);
    // Longer than any machine takes for what is waited below.
    let longer = board.path("longer");
    File::create(&longer).expect("it can be made").set_len(512 << 20).expect("a hole");
    let [to_board, mut to_memory] = [(&longer, &place), (&long, &memory)].map(|(file, card)| {
        let mut put = board.as_client("user", &format!("put {file} {card}"));
        put.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
    });
    std::thread::sleep(Duration::from_millis(300));
    let reloaded = succeed(board.as_client("owner", &format!("reload {place} {good}")));
    let put = to_board.wait_with_output().expect("it ends");
    let Run { code, stderr, .. } = put.into();
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("board is being reloaded"), "{stderr}");
    assert!(to_memory.wait().expect("it ends").success());
    let sum: String = Sha256::digest(&image).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(reloaded["bytes"], image.len());
    assert_eq!(reloaded["sha256"], sum.as_str());
    assert_eq!(reloaded["said"][0], format!("{} bytes, .bit", image.len()));
    board.is_served(&place);
    let text = Run::of(&mut board.as_client("owner", &format!("reload {place} {good}")));
    assert!(text.stdout.contains(&format!("{} B at both ends, SHA-256 {sum}\n", image.len())));
    let log = std::fs::read_to_string(board.path("server.log")).expect("it is there");
    let line = format!("owner: board is reloaded with {} B, SHA-256 {sum}", image.len());
    assert!(log.contains(&line), "{log}");
    assert!(log.contains("owner: board was reloaded and is served again"), "{log}");
}

#[test]
fn a_card_that_does_not_come_back_can_be_reloaded_again() {
    let board = Board::start("reload_fails");
    let server = board.serve();
    let place = format!("{}/board", server.address);
    let good = board.write("good.bit", b"good", 0o600);
    for (image, why) in [
        ("junk", "failed: exit status: 3: it is no bitstream"),
        ("away", "it did not come back within 6 s: "),
        ("slow", "took longer than 6 s, and was ended"),
    ] {
        let file = board.write("bad.bin", image.as_bytes(), 0o600);
        let error = board.refused("owner", &format!("reload {place} {file}"));
        assert!(error.contains(why), "{error}");
        let put = board.refused("user", &format!("put {good} {place}"));
        assert!(put.contains("board is out of service, as it could not be reloaded"), "{put}");
        assert!(put.contains(why), "{put}");
        let pool = Run::of(&mut board.as_client("user", &format!("pool {}", server.address)));
        assert!(pool.stdout.contains("/board is out of service: not reloaded: "), "{pool:?}");
        assert!(pool.stdout.contains(why), "{pool:?}");
        board.is_served(&format!("{}/memory", server.address));
        succeed(board.as_client("owner", &format!("reload {place} {good}")));
        board.is_served(&place);
    }
}

#[test]
fn reloads_that_cannot_be() {
    let board = Board(folder("reload_refused"));
    let image = board.write("image.bit", b"good", 0o600);
    let refused = |arguments: &str, code: i32, why: &str| {
        let run = Run::of(&mut client(arguments));
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.stderr.contains(why), "{run:?}");
    };
    let serve = "serve --device a=mem:4K --listen 127.0.0.1:0 --network tls --programmer";
    refused(&format!("{serve} a"), 2, "--programmer a: it is written NAME=PROGRAM");
    refused(&format!("{serve} a="), 2, "the program is missing");
    refused(&format!("{serve} a='"), 2, "missing closing quote");
    refused(&format!("{serve} b=true"), 2, "no --device has the name b");
    refused(&format!("{serve} a=true"), 2, "mem:4K is no card that a program reconfigures");
    let huge = board.path("huge");
    File::create(&huge).expect("it can be made").set_len((512 << 20) + 1).expect("a hole");
    refused(&format!("reload a:1/b {huge}"), 1, "it has 536870913 B, and at most 536870912 are");
    refused(&format!("reload a:1/b:0x10 {image}"), 2, "a card is reloaded as a whole");
    refused(&format!("reload a:1/b {}", board.path("none")), 1, "none");
    // Everybody on this machine uses an open server; nobody reloads its cards.
    let server = Server::with(
        Command::new(program()),
        "--device a=mem:4K --listen 127.0.0.1:0 --network tls",
    );
    let reload = format!("reload {}/a {image} --network tls", server.address);
    refused(&reload, 1, "a is reloaded only for clients of a policy file");
}
