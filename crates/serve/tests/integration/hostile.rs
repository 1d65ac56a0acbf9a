// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that take more than their share, or say nothing: others are served.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crosslane_driver::{ChannelKind, ChannelOptions, Notification, StreamSource};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;
use crosslane_serve::{ServeOptions, ServedDevice, Server};
use crosslane_vfio::user::UserFunction;
use crosslane_vfio::user::protocol::{Command, Header};
use crosslane_vfio::{Function, FunctionError};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::raw::{Raw, count, event, file};
use crate::support::*;

/// Environment variable with the folder for the sockets of a server with few files.
const FOLDER: &str = "CROSSLANE_TEST_FEW_FILES";
/// Open files of that server.
const FEW_FILES: u64 = 500;
const NAMES: [&str; 2] = ["fpga1", "fpga2"];

/// Times of a server for tests: short, and far longer than what a client in order needs.
const OPTIONS: ServeOptions = ServeOptions {
    message: Duration::from_millis(400),
    unused: Duration::from_millis(200),
    used: None,
    waiting: Duration::from_millis(1500),
};

struct Hosts {
    server: Option<Server>,
    socket: PathBuf,
    told: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl Hosts {
    fn start(options: &ServeOptions) -> Self {
        let folder = tempdir().unwrap();
        let socket = folder.path().join("card");
        let device = ServedDevice { name: "fpga1".to_owned(), socket: socket.clone() };
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = {
            let told = Arc::clone(&told);
            move |event: &_| told.lock().unwrap().push(format!("{event}"))
        };
        let lab = crosslane_lab::open("rosta:crosslane").unwrap();
        let server = Some(Server::start_with(lab, 1, &[device], options, tell).unwrap());
        Self { server, socket, told, _folder: folder }
    }

    fn open(&self) -> Result<UserFunction, FunctionError> {
        UserFunction::open(&self.socket, RoutingId::new(1, 0, 0), REQUEST)
    }

    fn has_told(&self, words: &str) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < REQUEST {
            if self.told.lock().unwrap().iter().any(|line| line.contains(words)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

fn is_served(function: &UserFunction) {
    let mut ids = [0; 4];
    function.config_read(0, &mut ids).unwrap();
    assert_eq!(ids[..2], 0x10ee_u16.to_le_bytes());
}

/// Runs as a separate process for the test below: serves until it is killed.
#[test]
fn server_with_few_files() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(FEW_FILES), maximum }).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let _server = server("rosta:crosslane", &NAMES, folder.as_ref(), &told);
    loop {
        std::thread::sleep(Duration::from_millis(10));
        // Renamed, so that it is never read in part.
        let [new, whole] = ["new", "told"].map(|name| Path::new(&folder).join(name));
        std::fs::write(&new, told.lock().unwrap().join("\n")).unwrap();
        std::fs::rename(new, whole).unwrap();
    }
}

/// Files that the server cannot map take a descriptor each.
#[test]
fn a_client_with_many_files_leaves_some_to_others() {
    let folder = tempdir().unwrap();
    let mut command = Process::new(std::env::current_exe().unwrap());
    command.args(["--exact", "hostile::server_with_few_files", "--test-threads", "1"]);
    let _process = Killed(command.env(FOLDER, folder.path()).spawn().unwrap());
    let sockets = NAMES.map(|name| folder.path().join(name));
    wait_for_file(&folder.path().join("told"));
    let raws = sockets.each_ref().map(|socket| Raw::connect(socket));
    let shares = raws.each_ref().map(|raw| {
        let refused = (0..1000).find_map(|number| {
            let error = raw.map(number * PAGE, PAGE, Some(&file(false))).err()?;
            Some((number, error))
        });
        let (share, error) = refused.expect("no process has so many descriptors");
        assert_eq!(error, Errno::MFILE.raw_os_error() as u32);
        // Memory without a file, and files that are mapped already, are another matter.
        raw.map(2000 * PAGE, PAGE, None).unwrap();
        share
    });
    assert!(shares[0] == shares[1] && shares[0] > 20, "{shares:?}");
    // Both can be used, and clients may come: nobody lacks a descriptor.
    for (raw, socket) in raws.into_iter().zip(&sockets) {
        let events: Vec<OwnedFd> = (0..4).map(|_| event(0)).collect();
        let files: Vec<_> = events.iter().map(AsFd::as_fd).collect();
        let set: Vec<u8> = [20, 0x24, 2, 0, 4_u32].iter().flat_map(|n| n.to_ne_bytes()).collect();
        raw.ask(Command::SetInterrupts as u16, &set, &files).unwrap();
        drop(raw);
        let next = UserFunction::open(socket, RoutingId::new(1, 0, 0), REQUEST).unwrap();
        is_served(&next);
    }
    let told = || std::fs::read_to_string(folder.path().join("told")).unwrap_or_default();
    let gone = || told().lines().filter(|line| line.contains("has gone")).count();
    let begun = Instant::now();
    while gone() < 2 && begun.elapsed() < REQUEST {
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = told();
    assert!(told.contains("has mapped") && told.contains("ulimit -n"), "{told}");
    let without = told.lines().filter(|line| line.contains("without a file"));
    assert_eq!(without.count(), 2, "{told}");
}

/// As a driver or a kernel may do it: MSI-X first, memory decoding later.
#[test]
fn interrupts_set_up_while_memory_is_off_arrive_later() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let (function, bus) = function(&served.sockets[0]);
    on_device(&bus, async |device| {
        let options = ChannelOptions::default().with_notification(Notification::InterruptOnly);
        let generator = StreamSource::Generator;
        device.user().route(generator, generator).await.unwrap();
        let memory = buffer(&device, PAGE).await;
        let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
        let events: Vec<OwnedFd> = (0..function.vectors()).map(|_| event(0)).collect();
        let files: Vec<_> = events.iter().map(AsFd::as_fd).collect();
        let mut command = [0; 2];
        function.config_read(reg::COMMAND, &mut command).unwrap();
        let off = (u16::from_le_bytes(command) & !(reg::COMMAND_MEMORY_SPACE as u16)).to_le_bytes();
        function.config_write(reg::COMMAND, &off).unwrap();
        function.set_vectors(&files).unwrap();
        function.config_write(reg::COMMAND, &command).unwrap();
        c2h.post(&[whole(&device, &memory)]).await.unwrap();
        let begun = Instant::now();
        while events.iter().map(count).sum::<u64>() == 0 {
            assert!(begun.elapsed() < REQUEST, "no interrupt has arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// A reset with interrupts and without memory decoding.
#[test]
fn a_reset_while_memory_is_off_succeeds() {
    let served = Served::start("rosta:crosslane", &["fpga1"]);
    let raw = Raw::connect(&served.sockets[0]);
    let set: Vec<u8> = [20, 0x24, 2, 0, 1_u32].iter().flat_map(|n| n.to_ne_bytes()).collect();
    raw.ask(Command::SetInterrupts as u16, &set, &[event(0).as_fd()]).unwrap();
    raw.ask(Command::Reset as u16, &[], &[]).unwrap();
    raw.write_config(4, &[2, 0]);
    raw.ask(Command::Reset as u16, &[], &[]).unwrap();
}

#[test]
fn clients_that_say_nothing_keep_nobody_waiting() {
    let host = Hosts::start(&OPTIONS);
    let silent: Vec<Raw> = (0..100).map(|_| Raw::silent(&host.socket)).collect();
    let part = Raw::silent(&host.socket);
    let header = Header::command(1, Command::Version, 20).encode();
    (&part.stream).write_all(&header).unwrap();
    // It needs no time-out to be served.
    is_served(&host.open().unwrap());
    for raw in silent.iter().chain([&part]) {
        assert!(raw.is_closed());
    }
    assert!(host.has_told("it told no version within 400 ms"));
    assert!(host.has_told("it told no version, and others came"));
}

#[test]
fn a_message_without_an_end_ends_its_client() {
    let host = Hosts::start(&OPTIONS);
    let raw = Raw::connect(&host.socket);
    raw.map(PAGE, PAGE, None).unwrap();
    let header = Header::command(1, Command::RegionWrite, 1000).encode();
    (&raw.stream).write_all(&header).unwrap();
    assert!(raw.is_closed());
    assert!(host.has_told("the other side sent 0 of 1000 B of a message in"));
    is_served(&host.open().unwrap());
}

#[test]
fn a_silent_client_gives_way_if_it_has_set_up_nothing() {
    let host = Hosts::start(&OPTIONS);
    let raw = Raw::connect(&host.socket);
    raw.read_config(0, 4);
    // As long as nobody else comes, it may be as silent as it likes.
    std::thread::sleep(2 * OPTIONS.unused);
    raw.read_config(0, 4);
    is_served(&host.open().unwrap());
    assert!(raw.is_closed());
    assert!(host.has_told("another one waits"));
}

#[test]
fn a_client_that_uses_the_device_keeps_it() {
    let host = Hosts::start(&OPTIONS);
    let raw = Raw::connect(&host.socket);
    raw.map(PAGE, PAGE, Some(&file(true))).unwrap();
    let error = host.open().unwrap_err();
    assert!(error.to_string().contains("Another client has the device"), "{error}");
    assert!(host.has_told("another one has the device"));
    raw.read_config(0, 4);
    drop(raw);
    is_served(&host.open().unwrap());
    // Unless the server was told otherwise.
    let host = Hosts::start(&ServeOptions { used: Some(OPTIONS.unused), ..OPTIONS });
    let raw = Raw::connect(&host.socket);
    raw.map(PAGE, PAGE, Some(&file(true))).unwrap();
    is_served(&host.open().unwrap());
    assert!(raw.is_closed());
}

/// Descriptors and memory stay as they are, and the server ends with clients that wait.
#[test]
fn thousands_of_clients_leave_nothing_behind() {
    let mut host = Hosts::start(&ServeOptions::default());
    let round = || {
        for number in 0..1000 {
            let raw = Raw::silent(&host.socket);
            match number % 20 {
                0 => drop(raw.greet().unwrap()),
                1 => (&raw.stream).write_all(&[0; 7]).unwrap(),
                _ => {}
            }
        }
        let raw = Raw::connect(&host.socket);
        raw.map(0, PAGE, Some(&file(false))).unwrap();
        drop(raw);
        is_served(&host.open().unwrap());
    };
    round();
    let before = resident_bytes();
    round();
    let grown = resident_bytes().saturating_sub(before);
    // Other tests run in this process; 1,000 threads' stacks or buffers would be far more.
    assert!(grown < 256 * MIB, "{grown} B more");
    let waiting: Vec<Raw> = (0..40).map(|_| Raw::silent(&host.socket)).collect();
    drop(host.server.take());
    assert!(!host.socket.exists());
    for raw in waiting {
        assert!(raw.is_closed());
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * PAGE
}

#[test]
fn two_hundred_clients_at_once_are_all_served() {
    let host = Hosts::start(&ServeOptions { waiting: REQUEST, ..ServeOptions::default() });
    std::thread::scope(|scope| {
        for number in 0..200 {
            let host = &host;
            scope.spawn(move || {
                if number % 4 > 0 {
                    return is_served(&host.open().unwrap());
                }
                // One that is slow to begin is no silent one. If a busy machine makes it as slow
                // as that, it begins again.
                let raw = loop {
                    let (raw, begun) = (Raw::silent(&host.socket), Instant::now());
                    std::thread::sleep(Duration::from_millis(20));
                    if begun.elapsed() < Duration::from_millis(100) {
                        break raw;
                    }
                };
                raw.greet().unwrap();
            });
        }
    });
}
