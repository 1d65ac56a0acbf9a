// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers that end, stall or never existed: an error within the deadline, and nothing hangs.

use crate::support;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crosslane_driver::{ChannelKind, ChannelOptions, Notification, StreamSource};
use crosslane_host::{Bus, BusError, RegisterAddress, Topology};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_serve::{ServeError, ServedDevice, Server};
use crosslane_vfio::{BusOptions, Function, FunctionError, VfioBus, block_on, user};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
use rustix::process::{Pid, Signal, kill_process};

use support::*;

/// Environment variable with the folder for a server's socket.
const FOLDER: &str = "CROSSLANE_TEST_FOLDER";
/// The device of that server, and the name of its socket.
const NAME: &str = "fpga1";
/// File in that folder that says that the server accepts clients. Its socket is there before.
const SERVES: &str = "serves";
/// Time within which everything must end after the server has died.
const SOON: Duration = Duration::from_secs(5);

/// Runs as a separate process for the tests below: serves until it is killed.
#[test]
fn server_of_its_own() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let _server = server("rosta:crosslane", &[NAME], folder, &Default::default());
    std::fs::write(folder.join(SERVES), "").unwrap();
    loop {
        std::thread::park();
    }
}

/// A server in a separate process, and a bus with a client of it.
struct Other {
    process: Killed,
    bus: VfioBus,
    folder: TempDir,
}

impl Other {
    fn start() -> Self {
        let folder = tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "endings::server_of_its_own", "--test-threads", "1"]);
        let process = Killed(command.env(FOLDER, folder.path()).spawn().unwrap());
        wait_for_file(&folder.path().join(SERVES));
        let bus = bus(&[folder.path().join(NAME)]);
        Self { process, bus, folder }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process.0), signal).unwrap();
    }

    /// Stops the process: it may answer a little longer, so its threads are waited for.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let threads = format!("/proc/{}/task", self.process.0.id());
        let is_stopped = || {
            std::fs::read_dir(&threads).unwrap().all(|thread| {
                let status = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
                status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
            })
        };
        while !is_stopped() {
            std::thread::yield_now();
        }
    }
}

/// In the middle of a long transfer, however the host waits for it.
#[test]
fn a_server_that_is_killed_is_an_error_at_once() {
    for notification in [Notification::Poll, Notification::Interrupt] {
        let mut other = Other::start();
        let bus = other.bus.clone();
        on_device(&bus, async |device| {
            let generator = StreamSource::Generator;
            device.user().route(generator, generator).await.unwrap();
            let memory = buffer(&device, 64 * MIB).await;
            let options = ChannelOptions::default().with_notification(notification);
            let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
            let posted = c2h.post(&[whole(&device, &memory)]).await.unwrap()[0];
            // It has begun.
            while c2h.counters().await.unwrap().bytes == 0 {}
            other.process.0.kill().unwrap();
            let killed = Instant::now();
            let error = c2h.wait(posted).await.unwrap_err();
            assert!(killed.elapsed() < SOON, "{notification:?}: {:?}", killed.elapsed());
            assert!(error.to_string().contains("is gone"), "{notification:?}: {error}");
            assert!(error.moved_bytes < 64 * MIB);
            // All other calls fail too, and at once.
            let function = bus.own_functions().next().unwrap();
            let at = RegisterAddress { function, bar: 0, offset_bytes: 0 };
            let lost = |error: &BusError| matches!(error, BusError::Lost { .. });
            assert!(lost(&bus.read_register(at).await.unwrap_err()));
            assert!(bus.config_read(function, 0).is_err());
            assert!(device.channel(ChannelKind::H2c, 0, options).await.is_err());
            assert!(killed.elapsed() < 2 * SOON, "{:?}", killed.elapsed());
        });
    }
}

/// Waits for an interrupt or for memory without a deadline end as well.
#[test]
fn waits_end_with_their_server() {
    let mut other = Other::start();
    let bus = other.bus.clone();
    let function = bus.own_functions().next().unwrap();
    block_on(bus.enable_interrupts(function, 2)).unwrap();
    let waiting = std::thread::spawn({
        let bus = bus.clone();
        move || block_on(bus.wait_interrupt(function, 1, Picoseconds::NEVER))
    });
    std::thread::sleep(Duration::from_millis(50));
    other.process.0.kill().unwrap();
    let killed = Instant::now();
    let result = waiting.join().unwrap();
    assert!(matches!(result, Err(BusError::Lost { .. })), "{result:?}");
    assert!(killed.elapsed() < SOON, "{:?}", killed.elapsed());
}

/// A server that is stopped but alive: each request has its deadline.
#[test]
fn a_server_that_stalls_meets_the_deadline() {
    let mut other = Other::start();
    let deadline = Duration::from_secs(3);
    // The first client occupies the server; a second one gets no answer.
    let begun = Instant::now();
    let socket = other.folder.path().join(NAME);
    let error = user::UserFunction::open(&socket, RoutingId(1), deadline).unwrap_err();
    assert!(matches!(error, FunctionError::Deadline { .. }), "{error}");
    assert!((deadline..deadline + SOON).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    // The same for a client in use.
    other.bus = VfioBus::with_options(Vec::new(), None, BusOptions::default()).unwrap();
    // A busy machine may need longer to reset the device between two clients.
    let function = (0..10)
        .find_map(|_| user::UserFunction::open(&socket, RoutingId(1), deadline).ok())
        .expect("the server serves the next client");
    other.stop();
    let begun = Instant::now();
    let error = function.config_read(0, &mut [0; 4]).unwrap_err();
    assert!(matches!(error, FunctionError::Deadline { .. }), "{error}");
    assert!((deadline..deadline + SOON).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert_eq!(function.lost(), None);
    // When the server resumes, its late reply is dropped, and the next reply belongs to the next
    // request.
    other.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(100));
    let mut ids = [0; 4];
    function.config_read(0, &mut ids).unwrap();
    assert_eq!(u16::from_le_bytes([ids[0], ids[1]]), 0x10ee);
}

#[test]
fn sockets_that_cannot_be_opened_say_why() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let open = |name: &str| {
        let error = user::UserFunction::open(&folder.join(name), RoutingId(1), SOON).unwrap_err();
        error.to_string()
    };
    let error = open("nothing");
    assert!(error.contains("No such file") && error.contains("crosslane lab serve"), "{error}");
    std::fs::write(folder.join("file"), "no socket").unwrap();
    assert!(open("file").contains("Connection refused"));
    drop(UnixListener::bind(folder.join("left")).unwrap());
    assert!(open("left").contains("Connection refused"));
}

/// Between `bind` and `listen` a server's socket is there and refuses.
#[test]
fn a_server_that_is_about_to_listen_is_waited_for() {
    let folder = tempdir().unwrap();
    let path = folder.path().join(NAME);
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let listening = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        listen(&socket, 1).unwrap();
        drop(accept(&socket).unwrap());
    });
    let error = user::UserFunction::open(&path, RoutingId(1), SOON).unwrap_err();
    listening.join().unwrap();
    assert!(error.to_string().contains("is gone"), "{error}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let start = |lab: &str, devices: &[(&str, &str)]| {
        let device = |(name, socket): &(&str, &str)| ServedDevice {
            name: (*name).to_owned(),
            socket: folder.join(socket),
        };
        let devices: Vec<_> = devices.iter().map(device).collect();
        Server::start(crosslane_lab::open(lab).unwrap(), 1, &devices, |_| {})
    };
    let refused = |lab, devices: &[_]| match start(lab, devices) {
        Ok(_) => panic!("{devices:?} are served"),
        Err(error) => error,
    };
    let error = refused("kc705:crosslane", &[("fpga0", "a")]);
    assert_eq!(error.to_string(), "the lab has no endpoint fpga0; it has kc705");
    let error = refused("rosta:crosslane", &[("fpga1", "a"), ("fpga1", "b")]);
    assert!(matches!(&error, ServeError::Twice { what } if what == "fpga1"), "{error}");
    let error = refused("rosta:crosslane", &[("fpga1", "a"), ("fpga2", "a")]);
    assert!(error.to_string().ends_with("a is named twice"), "{error}");
    std::fs::write(folder.join("file"), "of somebody").unwrap();
    let error = refused("kc705:crosslane", &[("kc705", "file")]);
    assert!(error.to_string().contains("it is there, and no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "of somebody");
    // A socket left by a dead server is taken over; one of a living server is not.
    drop(UnixListener::bind(folder.join("left")).unwrap());
    let living = start("kc705:crosslane", &[("kc705", "left")]).unwrap();
    let error = refused("kc705:crosslane", &[("kc705", "left")]);
    assert!(error.to_string().contains("another server listens there"), "{error}");
    drop(living);
    assert!(!folder.join("left").exists());
}
