// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Served labs, and the driver on the other side of their sockets.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, Device, Notification,
    StreamSource, Target, Transfer, User,
};
use crosslane_host::{Bus, PageSize};
use crosslane_lab::EngineKind;
use crosslane_pcie::units::Picoseconds;
use crosslane_serve::{ServedDevice, Server};
use crosslane_vfio::{BusOptions, Function, VfioBus, block_on, user};
pub use tempfile::{TempDir, tempdir};

pub const PAGE: u64 = 4096;
pub const MIB: u64 = 1 << 20;
/// Environment variable with the path of a client's socket.
pub const SOCKET: &str = "CROSSLANE_TEST_SOCKET";
/// Exit code of a client that died as intended.
pub const DIED: i32 = 77;
/// Time limit on a busy machine, far longer than anything takes.
pub const LONG: Picoseconds = Picoseconds::from_ns(60_000_000_000);
/// Deadline of one request to a server.
pub const REQUEST: Duration = Duration::from_secs(20);

/// A served lab: the server, its sockets, and its reported events.
pub struct Served {
    _server: Server,
    pub sockets: Vec<PathBuf>,
    pub told: Arc<Mutex<Vec<String>>>,
    /// Goes with what is in it, behind the server.
    _folder: TempDir,
}

impl Served {
    pub fn start(lab: &str, names: &[&str]) -> Self {
        let folder = tempdir().unwrap();
        let sockets: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
        let told = Arc::new(Mutex::new(Vec::new()));
        let server = server(lab, names, folder.path(), &told);
        Self { _server: server, sockets, told, _folder: folder }
    }

    /// Opens the bus of a client of all its devices.
    pub fn bus(&self) -> VfioBus {
        bus(&self.sockets)
    }

    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    /// Waits until the server has reported an event with these words.
    pub fn wait_for(&self, words: &str) {
        for _ in 0..2000 {
            if self.told().iter().any(|line| line.contains(words)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server has not told {words:?} but {:?}", self.told());
    }
}

/// Returns the gateware with `CROSSLANE_ENGINE=rtl`, if it is built (`make check-rtl`).
fn engines() -> EngineKind {
    match std::env::var("CROSSLANE_ENGINE").is_ok_and(|engine| engine == "rtl") {
        true => EngineKind::Rtl,
        false => EngineKind::Model,
    }
}

pub fn server(lab: &str, names: &[&str], folder: &Path, told: &Arc<Mutex<Vec<String>>>) -> Server {
    let devices: Vec<ServedDevice> = names
        .iter()
        .map(|name| ServedDevice { name: (*name).to_owned(), socket: folder.join(name) })
        .collect();
    let lab = crosslane_lab::open(lab).unwrap().with_engines(engines());
    let told = Arc::clone(told);
    Server::start(lab, 1, &devices, move |event| told.lock().unwrap().push(event.to_string()))
        .unwrap()
}

pub fn bus(sockets: &[PathBuf]) -> VfioBus {
    user::open_bus(sockets, REQUEST, BusOptions::default()).unwrap()
}

/// Opens a client of one device, and its bus.
pub fn function(socket: &Path) -> (Arc<user::UserFunction>, VfioBus) {
    let function = user::open(&[socket], REQUEST).unwrap().remove(0);
    let bus = VfioBus::new(vec![function.clone() as Arc<dyn Function>], None).unwrap();
    (function, bus)
}

/// A process that does not outlive this value, however its test ends.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a file with which another process says that it serves.
pub fn wait_for_file(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < 3 * REQUEST, "there is no {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test of this program as a separate process, a client of this socket that dies.
pub fn die(test: &str, socket: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--test-threads", "1"]);
    let ended = child.env(SOCKET, socket).output().unwrap();
    assert_eq!(ended.status.code(), Some(DIED), "{ended:?}");
}

/// Memory card added to the eight-FPGA system, below the first switch: the card of `aws-f1`, with
/// four banks of 2 MiB at the start of a BAR of 16 MiB.
pub const CARD: &str = "memory";
/// Size of its memory, bytes.
pub const BANKS_BYTES: u64 = 8 << 20;
/// Size of the BAR with the memory, bytes.
pub const CARD_BAR_BYTES: u64 = 16 << 20;

/// Writes the file of that lab into a folder; returns its name, with the variant for this project's
/// engine. `is_generic`: the card is a generic endpoint with the same BARs.
pub fn lab_with_a_memory_card(folder: &Path, is_generic: bool) -> String {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let text = |name: &str| std::fs::read_to_string(labs.join(name)).unwrap();
    let (system, card) = (text("rosta.toml"), text("aws-f1.toml"));
    let (begin, end) = (card.find("[part.f1]").unwrap(), card.find("[part.slot]").unwrap());
    let end = if is_generic { card.find("[part.f1.memory_card]").unwrap() } else { end };
    let card = card[begin..end].replace("137_438_953_472", "16_777_216");
    let card = card.replace("17_179_869_184", "2_097_152");
    let first = system.find("[[host]]").unwrap();
    let (parts, instances) = system.split_at(first);
    let more = format!(
        "[[endpoint]]\nname = \"{CARD}\"\npart = \"f1\"\n\n\
         [[link]]\nupper = \"rc47a\"\nlower = \"{CARD}\"\npart = \"board-x4\"\n"
    );
    let file = folder.join("memory.toml");
    std::fs::write(&file, format!("{parts}{card}{instances}\n{more}")).unwrap();
    format!("{}:crosslane", file.display())
}

/// Opens the devices of a bus, in the order of their sockets.
pub async fn open_all(bus: &VfioBus) -> Vec<Device> {
    let mut devices = Vec::new();
    for function in bus.own_functions() {
        devices.push(Device::open(bus.clone(), function).await.unwrap());
    }
    devices
}

/// Opens the first device of a bus.
pub async fn open(bus: &VfioBus) -> Device {
    open_all(bus).await.remove(0)
}

/// Runs a test with the first device of a bus.
pub fn on_device<T>(bus: &VfioBus, test: impl AsyncFnOnce(Device) -> T) -> T {
    block_on(async { test(open(bus).await).await })
}

/// As [`loop_back`], with this notification.
pub async fn loop_back_by(device: &Device, notification: Notification, bytes: u64) {
    loop_back(device, ChannelOptions::default().with_notification(notification), bytes).await;
}

/// Returns bytes of the generator's pattern.
pub fn pattern(seed: u32, bytes: u64) -> Vec<u8> {
    let words = (bytes / 4) as u32;
    (0..words).flat_map(|n| User::pattern(seed, n).to_le_bytes()).collect()
}

pub async fn buffer(device: &Device, bytes: u64) -> Buffer {
    device.buffer(bytes, PageSize::Small).await.unwrap()
}

pub fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.size_bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

pub fn to(device: &Device, target: Target, level: CompletionLevel) -> Transfer {
    Transfer { target, level, deadline: device.bus().now() + LONG }
}

/// Returns a transfer of a whole buffer.
pub fn whole(device: &Device, buffer: &Buffer) -> Transfer {
    let target = Target::Buffer(buffer.clone(), 0..buffer.size_bytes());
    to(device, target, CompletionLevel::Visible)
}

pub async fn channel(device: &Device, kind: ChannelKind) -> Channel {
    device.channel(kind, 0, ChannelOptions::default()).await.unwrap()
}

/// Sends out through H2C and back through C2H, both at once, and compares.
pub async fn loop_back(device: &Device, options: ChannelOptions, bytes: u64) {
    device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
    let (out, back) = (buffer(device, bytes).await, buffer(device, bytes).await);
    out.write(0, &pattern(7, bytes)).unwrap();
    let mut h2c = device.channel(ChannelKind::H2c, 0, options).await.unwrap();
    let mut c2h = device.channel(ChannelKind::C2h, 0, options).await.unwrap();
    let written = c2h.post(&[whole(device, &back)]).await.unwrap();
    let read = h2c.post(&[whole(device, &out)]).await.unwrap();
    assert_eq!(h2c.wait(read[0]).await.unwrap().bytes, bytes, "{options:?}");
    assert_eq!(c2h.wait(written[0]).await.unwrap().bytes, bytes, "{options:?}");
    assert!(contents(&back) == pattern(7, bytes), "{bytes} B came back changed: {options:?}");
    h2c.close().await.unwrap();
    c2h.close().await.unwrap();
}
