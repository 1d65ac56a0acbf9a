// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane ui` as a browser asks it, and as one that has no business here does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::machine::Fake;
use crate::run::{assert_refused, changed_lab, command, folder, json_of, stdout_of};
use crate::served::Served;

/// The first lines of a page, as `make web` builds it.
const PAGE: &str = "<!doctype html>\n<meta name=\"runs\" content=\"browser\">\n";
/// Time after which an answer is missing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A site, until it is dropped.
struct Ui {
    child: Child,
    /// `127.0.0.1:PORT`.
    host: String,
    /// `/TOKEN/`.
    root: String,
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer: its status, head and body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Ui {
    /// Starts one with a small page, and waits until it says where it is.
    fn start(test: &str, arguments: &str) -> Self {
        Self::of(Self::command(test, arguments))
    }

    fn command(test: &str, arguments: &str) -> Command {
        let page = folder(&format!("ui/{test}/page"));
        std::fs::write(page.join("index.html"), PAGE).unwrap();
        std::fs::write(page.join("main.js"), "export {};\n").unwrap();
        std::fs::write(page.join("crosslane.wasm"), "not for this page").unwrap();
        command(&format!("ui {arguments} --page {}", page.display()))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").expect("it says where it is");
        let (host, token) = address.split_once('/').expect("the address has a token");
        assert!(host.starts_with("127.0.0.1:") && token.len() == 33, "{line}");
        Self { child, host: host.to_owned(), root: format!("/{token}") }
    }

    fn connected(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are; the answer.
    fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connected();
        // It may have been refused already.
        let _ = stream.write_all(bytes);
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host).as_bytes())
    }

    fn post(&self, body: &str) -> Answer {
        let length = body.len();
        let head = format!("POST {}ask HTTP/1.1\r\nHost: {}\r\n", self.root, self.host);
        self.raw(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())
    }

    /// Asks a question; the last line, an object with an answer or a failure.
    fn ask(&self, question: &Value) -> Value {
        let answer = self.post(&question.to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(answer.body.lines().last().unwrap()).unwrap()
    }

    #[track_caller]
    fn told(&self, question: &Value) -> Value {
        let said = self.ask(question);
        assert!(said.get("answer").is_some(), "{question}: {said}");
        said["answer"].clone()
    }

    #[track_caller]
    fn assert_failure(&self, question: &Value, words: &str) {
        let said = self.ask(question);
        let message = said["failure"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{question}: {said}");
    }
}

fn traffic(flow: &str, operations: u64) -> Value {
    json!({
        "ask": "run",
        "lab": { "name": "minimal" },
        "work": { "kind": "traffic", "flows": [flow], "operations": operations },
    })
}

#[test]
fn ui_answers_what_the_program_prints() {
    let ui = Ui::start("answers", "");
    let run = ui.told(&traffic("card0:host0:write:4K", 64));
    let arguments = "bench traffic --lab minimal --flow card0:host0:write:4K --operations 64";
    let printed = stdout_of(&format!("{arguments} --json"));
    assert_eq!(run["json"].as_str().unwrap().trim(), printed.trim());
    assert_eq!(ui.told(&json!({ "ask": "begin" })), Value::Null);
    assert_eq!(ui.told(&json!({ "ask": "bridges" })), json!([]));
}

#[test]
fn ui_begins_with_the_lab_that_is_named() {
    let begun =
        |arguments: &str, test: &str| Ui::start(test, arguments).told(&json!({ "ask": "begin" }));
    let shipped = json!({ "name": "rosta", "text": null, "variant": "crosslane" });
    assert_eq!(begun("rosta:crosslane", "shipped"), shipped);
    let file = changed_lab("ui/file", "minimal", &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(begun(&file, "own"), json!({ "name": file, "text": text, "variant": null }));
    assert_refused("ui nosuch", 1, "nosuch");
    assert_refused("ui rosta:nosuch", 1, "nosuch");
    assert_refused("ui --page /nosuch", 1, "/nosuch cannot be read");
    let empty = folder("ui/empty");
    assert_refused(&format!("ui --page {}", empty.display()), 1, "has no page of this program");
}

#[test]
fn ui_serves_its_page_and_no_other_file() {
    let ui = Ui::start("files", "");
    let index = ui.get(&ui.root);
    assert_eq!(index.body, PAGE.replace("browser", "program"));
    for field in ["Cache-Control: no-store", "Referrer-Policy: no-referrer", "frame-ancestors"] {
        assert!(index.head.contains(field), "{}", index.head);
    }
    let get = |name: &str| ui.get(&format!("{}{name}", ui.root));
    assert!(get("main.js").head.contains("Content-Type: text/javascript"));
    assert!(get("report.css?1").body.contains("--ink"), "the program's own style");
    for name in ["nosuch.js", "crosslane.wasm", "../Cargo.toml", "..%2fmain.js", "/etc/passwd"] {
        assert_eq!(get(name).status, 404, "{name}");
    }
    assert_eq!(get("ask").status, 405);
    let bare = ui.get(ui.root.trim_end_matches('/'));
    assert!(bare.status == 303 && bare.head.contains(&format!("Location: {}\r\n", ui.root)));
}

#[test]
fn ui_refuses_who_has_no_token_or_comes_from_afar() {
    let ui = Ui::start("refused", "");
    let token = ui.root.trim_matches('/');
    let wrong = format!("/{}0/", &token[..31]);
    let guessed = if wrong == ui.root { "/x/" } else { &wrong };
    for path in ["/", "/index.html", "/ask", "/once/", "/once/0", guessed, &token[..31]] {
        assert_eq!(ui.get(path).status, 403, "{path}");
    }
    let with = |fields: &str| {
        ui.raw(format!("GET {} HTTP/1.1\r\n{fields}\r\n", ui.root).as_bytes()).status
    };
    let own = &ui.host;
    let port = own.rsplit(':').next().unwrap();
    for (fields, status) in [
        (format!("Host: localhost:{port}\r\n"), 200),
        // A port that has been taken along from another machine.
        ("Host: 127.0.0.1:9\r\n".to_owned(), 200),
        (format!("Host: {own}\r\nOrigin: http://{own}\r\n"), 200),
        // A page elsewhere whose name now leads here.
        (format!("Host: evil.example:{port}\r\n"), 403),
        (format!("Host: {own}\r\nOrigin: http://evil.example\r\n"), 403),
        (format!("Host: {own}\r\nOrigin: null\r\n"), 403),
        (format!("Host: {own}\r\nOrigin: http://localhost:1\r\n"), 403),
        (String::new(), 400),
        (format!("Host: {own}\r\nHost: {own}\r\n"), 400),
    ] {
        assert_eq!(with(&fields), status, "{fields}");
    }
}

/// Arguments of a browser can be seen by others: the address in them is good once.
#[test]
fn ui_opens_a_browser_that_gets_in_once() {
    let folder = folder("ui/browser");
    let (opener, opened) = (folder.join("xdg-open"), folder.join("opened"));
    std::fs::write(&opener, format!("#!/bin/sh\necho $1 > {}\n", opened.display())).unwrap();
    std::fs::set_permissions(&opener, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Ui::command("open", "--open");
    command.env("PATH", &folder);
    let ui = Ui::of(command);
    let address = loop {
        match std::fs::read_to_string(&opened) {
            Ok(text) if text.ends_with('\n') => break text,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let path = address.trim().strip_prefix(&format!("http://{}", ui.host)).unwrap();
    assert!(path.starts_with("/once/") && !path.contains(ui.root.trim_matches('/')), "{path}");
    let answer = ui.get(path);
    let location = format!("Location: {}\r\n", ui.root);
    assert!(answer.status == 303 && answer.head.contains(&location), "{}", answer.head);
    assert_eq!(ui.get(path).status, 403, "a second time");
}

#[test]
fn ui_survives_bad_requests() {
    let ui = Ui::start("bad", "");
    for question in ["", "{", "[]", "{\"ask\":\"fly\"}", "{\"ask\":\"cards\",\"x\":1}", "\u{0}"] {
        let answer = ui.post(question);
        assert!(answer.body.contains("this is no question: "), "{question}: {}", answer.body);
    }
    let post = |rest: &str| {
        let head = format!("POST {}ask HTTP/1.1\r\nHost: {}\r\n", ui.root, ui.host);
        ui.raw(format!("{head}{rest}").as_bytes())
    };
    for (rest, status) in [
        ("\r\n", 411),
        ("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        ("Content-Length: x\r\n\r\n", 400),
        ("Content-Length: 99999999999999999999\r\n\r\n", 413),
        ("Content-Length: 100000000\r\n\r\n{}", 413),
        ("Content-Length: 1\r\n\r\n\u{e4}", 400),
    ] {
        assert_eq!(post(rest).status, status, "{rest}");
    }
    assert_eq!(ui.raw(b"\x16\x03\x01 not HTTP at all\r\n\r\n").status, 400);
    let long = format!("GET {}{} HTTP/1.1\r\n", ui.root, "x".repeat(20_000));
    assert_eq!(ui.raw(long.as_bytes()).status, 431);
    // Those that say nothing or go away take nothing from others.
    let silent: Vec<TcpStream> = (0..8).map(|_| ui.connected()).collect();
    drop(ui.connected().write_all(b"POST "));
    ui.assert_failure(&json!({ "ask": "text", "name": "nosuch" }), "no shipped lab is nosuch");
    ui.assert_failure(&traffic("nobody:host0:write:4K", 1), "nobody");
    drop(silent);
    assert!(ui.told(&json!({ "ask": "labs" }))["labs"].as_array().unwrap().len() > 5);
}

/// A run of hours ends with its connection: another one would have to share the machine with it,
/// and the program could not be ended in time.
#[test]
fn ui_ends_a_run_with_its_connection() {
    let ui = Ui::start("stopped", "");
    let body = traffic("card0:host0:write:64", 100_000_000).to_string();
    let mut stream = ui.connected();
    let head = format!("POST {}ask HTTP/1.1\r\nHost: {}\r\n", ui.root, ui.host);
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    let moved = lines.find_map(|line| {
        let progress: Value = serde_json::from_str(&line.unwrap()).ok()?;
        progress["moved"].as_u64().filter(|bytes| *bytes > 0)
    });
    assert!(moved.is_some(), "it reports its progress");
    assert!(threads(&ui, "question") > 0);
    drop(lines);
    while threads(&ui, "question") > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    ui.told(&json!({ "ask": "begin" }));
}

#[test]
fn ui_ends_at_ctrl_c_whatever_it_does() {
    let mut ui = Ui::start("interrupted", "");
    let body = traffic("card0:host0:write:64", 100_000_000).to_string();
    let mut stream = ui.connected();
    let head = format!("POST {}ask HTTP/1.1\r\nHost: {}\r\n", ui.root, ui.host);
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    while threads(&ui, "question") == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let process = rustix::process::Pid::from_child(&ui.child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let status = ui.child.wait().unwrap();
    assert_eq!(status.signal(), Some(2), "{status}");
}

/// The number of a program's threads with this name.
fn threads(ui: &Ui, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", ui.child.id())).unwrap();
    let names = tasks.flatten().filter_map(|task| {
        // A thread may end before it is looked at.
        std::fs::read_to_string(task.path().join("comm")).ok()
    });
    names.filter(|found| found.trim() == name).count()
}

#[test]
fn ui_names_a_port_that_another_program_has() {
    let ui = Ui::start("port", "");
    let port = ui.host.rsplit(':').next().unwrap();
    let page = folder("ui/port_taken/page");
    std::fs::write(page.join("index.html"), PAGE).unwrap();
    let arguments = format!("ui --port {port} --page {}", page.display());
    assert_refused(&arguments, 1, "another program has this port");
}

#[test]
fn ui_shows_the_cards_of_the_machine() {
    let fake = Fake::switch_with_two_cards("ui_shows_the_cards_of_the_machine");
    let root = fake.root.display();
    let ui = Ui::start("cards", &format!("--root {root}"));
    let cards = ui.told(&json!({ "ask": "cards" }));
    assert_eq!(
        cards["functions"],
        json_of(&format!("device list --json --root {root}"))["functions"]
    );
    assert_eq!(cards["names"], json!([]), "neither of them is bound");
    assert!(!cards["diagnosis"]["findings"].as_array().unwrap().is_empty());
    let doctor = ui.told(&json!({ "ask": "doctor", "address": "03:00.0" }));
    let doctor = doctor.as_str().unwrap();
    assert!(doctor.starts_with("0000:03:00.0\n") && doctor.contains("Predicted by"), "{doctor}");
    ui.assert_failure(&json!({ "ask": "doctor", "address": "x" }), "x");
    ui.assert_failure(&json!({ "ask": "doctor", "address": "09:00.0" }), "0000:09:00.0");
    let nowhere = Ui::start("no_cards", "--root /nosuch");
    nowhere.assert_failure(&json!({ "ask": "cards" }), "/nosuch");
}

#[test]
fn ui_runs_on_cards_that_are_served() {
    let served = Served::start("ui_cards", "kc705:crosslane", ["kc705"]);
    let ui = Ui::start("runs_on_cards", "");
    let [card] = &served.cards;
    let run = |devices: Value, bench: &str| {
        json!({
            "ask": "run_cards", "devices": devices, "bench": bench, "size": "64K", "iterations": 4,
        })
    };
    let made = ui.told(&run(json!([card]), "write"));
    let outcome: Value = serde_json::from_str(made["json"].as_str().unwrap()).unwrap();
    let flow = &outcome["scenarios"][0]["flows"][0];
    assert_eq!((&flow["wrong_words"], &outcome["devices"][0]), (&0.into(), &json!(card)));
    assert_eq!(made["figures"][0]["value"], flow["application_bytes_per_second"]);
    assert!(made["text"].as_str().unwrap().contains("-> host"), "{made}");
    for (devices, bench, words) in [
        (json!([]), "write", "a run needs a card"),
        (json!(["lab:minimal"]), "write", "labs run above"),
        (json!(["--help"]), "write", "--help"),
        (json!(["vfio-user:/nosuch"]), "write", "/nosuch"),
        (json!([card]), "fly", "unknown variant"),
    ] {
        ui.assert_failure(&run(devices, bench), words);
    }
}

#[test]
fn ui_shows_what_bridge_servers_log() {
    let folder = folder("ui/bridges");
    let (log, missing) = (folder.join("bridge.log"), folder.join("missing.log"));
    let data = folder.join("data.bin");
    std::fs::write(&data, vec![7; 1 << 20]).unwrap();
    let serve = "bridge serve --device lab:sbdt:crosslane --listen 127.0.0.1:0 --network tls";
    let mut server = command(&format!("{serve} --log json"));
    server.stderr(std::fs::File::create(&log).unwrap());
    let server = crate::bridge::Server::start(server);
    let put = format!("bridge put {} {}/fpga0:0x0", data.display(), server.address);
    stdout_of(&format!("{put} --network tls"));
    let arguments = format!("--bridge {} --bridge {}", log.display(), missing.display());
    let ui = Ui::start("bridge", &arguments);
    let bridges = ui.told(&json!({ "ask": "bridges" }));
    let events = bridges[0]["events"].as_array().unwrap();
    let report = events.iter().map(|event| &event["report"]).find(|report| !report.is_null());
    let report = report.expect("the transfer is reported");
    assert_eq!(report["bytes"], 1 << 20);
    assert!(report["stages"].as_array().unwrap().len() > 1, "{report}");
    assert!(events[0]["text"].as_str().unwrap().contains("is connected"), "{bridges}");
    assert!(events.iter().all(|event| event["time"].as_f64().unwrap() > 1.6e9));
    assert!(bridges[1]["problem"].as_str().unwrap().contains("No such file"), "{bridges}");
    // A log that somebody else writes, too.
    std::fs::write(&missing, "no event\n{\"text\":\"a\"}\n{\"half").unwrap();
    let bridges = ui.told(&json!({ "ask": "bridges" }));
    assert_eq!(bridges[1]["events"], json!([{ "text": "a" }]));
    assert_eq!(bridges[1]["problem"], "1 line is no event");
    // Of transfers that go on, the last that was said; those that have ended are gone.
    let said =
        |event: &str, session, bytes| json!({ "event": event, "session": session, "bytes": bytes });
    let lines =
        [said("moving", 1, 5), said("moving", 2, 6), said("done", 1, 9), said("moving", 2, 7)];
    std::fs::write(&missing, lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let bridges = ui.told(&json!({ "ask": "bridges" }));
    assert_eq!(bridges[1]["moving"], json!([said("moving", 2, 7)]));
    assert_eq!(bridges[1]["events"], json!([said("done", 1, 9)]));
}
