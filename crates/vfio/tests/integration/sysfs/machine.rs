// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine in a folder: small `sys`, `dev` and `proc` folders as on Linux, and a thread that
//! plays the kernel when their files are written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crosslane_vfio::sysfs::{Address, Machine};

/// Offset of the PCI Express capability in the functions made here.
pub const EXPRESS: usize = 0x40;
/// Offset of Access Control Services, in ports.
pub const ACS: usize = 0x140;
/// Offset of Advanced Error Reporting.
pub const AER: usize = 0x100;
/// Offset of Downstream Port Containment, in ports.
pub const DPC: usize = 0x180;

/// The card that is reloaded.
pub const CARD: &str = "0000:03:00.0";
/// The port above it.
pub const PORT: &str = "0000:02:00.0";

/// Configuration space of one function.
#[derive(Clone)]
pub struct Space(pub Vec<u8>);

impl Space {
    /// A PCI Express function with this type code, and a link of this speed and width.
    pub fn express(vendor: u16, device: u16, port_type: u8, speed: u8, lanes: u8) -> Self {
        let mut space = Self(vec![0; 4096]);
        let is_bridge = matches!(port_type, 4..=6);
        space.half(0, vendor).half(2, device).half(4, 0x0006).half(6, 0x0010);
        space.0[0x0e] = u8::from(is_bridge);
        space.0[0x34] = EXPRESS as u8;
        space.half(EXPRESS, 0x0010).half(EXPRESS + 2, 2 | u16::from(port_type) << 4);
        // 512 B are supported, 128 B set; read requests of 512 B; relaxed ordering.
        space.word(EXPRESS + 4, 0x8022).half(EXPRESS + 8, 0x2810);
        let active = if matches!(port_type, 4 | 6) { 1 << 20 } else { 0 };
        space.word(EXPRESS + 0x0c, u32::from(speed) | u32::from(lanes) << 4 | active);
        let up = if active != 0 { 0x2000 } else { 0 };
        space.half(EXPRESS + 0x12, u16::from(speed) | u16::from(lanes) << 4 | up);
        let after = if matches!(port_type, 4 | 6) { ACS as u32 } else { 0 };
        space.word(AER, 0x0002_0001 | after << 20);
        if after != 0 {
            space.word(ACS, 0x0001_000d | (DPC as u32) << 20).half(ACS + 4, 0x1f);
            space.word(DPC, 0x0001_001d);
        }
        space
    }

    /// Sets a half word.
    pub fn half(&mut self, at: usize, value: u16) -> &mut Self {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// Sets a DW.
    pub fn word(&mut self, at: usize, value: u32) -> &mut Self {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }
}

/// One function's files.
pub struct Card<'a> {
    /// Its address.
    pub address: &'a str,
    /// The bridges above it, the root port first.
    pub above: &'a [&'a str],
    /// Class code.
    pub class: u32,
    /// The driver that it is bound to.
    pub driver: Option<&'a str>,
    /// IOMMU group.
    pub group: Option<u32>,
    /// Configuration space.
    pub space: Space,
}

/// A machine in a folder.
pub struct Fake {
    /// The folder that stands for `/`.
    pub root: PathBuf,
    stop: Arc<AtomicBool>,
    kernel: Option<JoinHandle<()>>,
}

impl Fake {
    /// An empty machine with the drivers vfio-pci and pcieport, in a separate folder for this test.
    pub fn new(test: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("sysfs")
            .join(env!("CARGO_PKG_NAME"))
            .join(test);
        // Left over from an earlier run, if it exists.
        let _ = fs::remove_dir_all(&root);
        for folder in ["devices", "drivers/vfio-pci", "drivers/pcieport"] {
            fs::create_dir_all(root.join("sys/bus/pci").join(folder)).unwrap();
        }
        fs::create_dir_all(root.join("dev/vfio")).unwrap();
        fs::create_dir_all(root.join("proc/self")).unwrap();
        for file in ["drivers_probe", "rescan"] {
            fs::write(root.join("sys/bus/pci").join(file), "").unwrap();
        }
        fs::write(root.join("sys/bus/pci/drivers_autoprobe"), "1\n").unwrap();
        Self { root, stop: Arc::default(), kernel: None }
    }

    /// The machine in the form that the code under test takes.
    pub fn machine(&self) -> Machine {
        Machine::below(&self.root)
    }

    /// A folder of sysfs.
    pub fn sys(&self, path: &str) -> PathBuf {
        self.root.join("sys").join(path)
    }

    /// The folder of a function.
    pub fn folder(&self, address: &str) -> PathBuf {
        fs::canonicalize(self.sys("bus/pci/devices").join(address)).unwrap()
    }

    /// Adds a function.
    pub fn add(&self, card: &Card<'_>) {
        let mut folder = self.sys("devices/pci0000:00");
        for bridge in card.above {
            folder.push(bridge);
        }
        folder.push(card.address);
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, self.sys("bus/pci/devices").join(card.address)).unwrap();
        let half = |at: usize| u16::from_le_bytes([card.space.0[at], card.space.0[at + 1]]);
        let files = [
            ("vendor", format!("0x{:04x}\n", half(0))),
            ("device", format!("0x{:04x}\n", half(2))),
            ("class", format!("0x{:06x}\n", card.class)),
            ("revision", "0x01\n".to_owned()),
            ("subsystem_vendor", "0x1234\n".to_owned()),
            ("subsystem_device", "0x0001\n".to_owned()),
            ("numa_node", "0\n".to_owned()),
            ("driver_override", "(null)\n".to_owned()),
            ("remove", String::new()),
            ("rescan", String::new()),
            (
                "resource",
                "0x00000000fe800000 0x00000000fe80ffff 0x0000000000040200\n\
                 0x0000004000000000 0x00000040000fffff 0x000000000014220c\n"
                    .to_owned(),
            ),
        ];
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::write(folder.join("config"), &card.space.0).unwrap();
        if let Some(driver) = card.driver {
            let drivers = self.sys("bus/pci/drivers").join(driver);
            fs::create_dir_all(&drivers).unwrap();
            fs::write(drivers.join("unbind"), "").unwrap();
            symlink(drivers, folder.join("driver")).unwrap();
        }
        if let Some(group) = card.group {
            let group = self.sys(&format!("kernel/iommu_groups/{group}"));
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("type"), "DMA-FQ\n").unwrap();
            symlink(group, folder.join("iommu_group")).unwrap();
        }
    }

    /// A root port at 00:01.0, a switch below it with two lower ports, and a card below each.
    pub fn switch_with_two_cards(test: &str) -> Self {
        let fake = Self::new(test);
        let down = |port| ["0000:00:01.0", "0000:01:00.0", port];
        let port = |address, above, kind, driver| Card {
            address,
            above,
            class: 0x06_0400,
            driver: Some(driver),
            group: Some(1),
            space: Space::express(0x1b36, 0x000c, kind, 3, 8),
        };
        fake.add(&port("0000:00:01.0", &[], 4, "pcieport"));
        fake.add(&port("0000:01:00.0", &["0000:00:01.0"], 5, "pcieport"));
        let inner = ["0000:00:01.0", "0000:01:00.0"];
        fake.add(&port("0000:02:00.0", &inner, 6, "pcieport"));
        fake.add(&port("0000:02:01.0", &inner, 6, "pcieport"));
        for (address, below) in [("0000:03:00.0", "0000:02:00.0"), ("0000:04:00.0", "0000:02:01.0")]
        {
            fake.add(&Card {
                address,
                above: &down(below),
                class: 0x12_0000,
                driver: None,
                group: Some(1),
                space: Space::express(0x1234, 0x0001, 0, 3, 4),
            });
        }
        fake
    }

    /// Starts a thread that runs `kernel` on the machine every few milliseconds.
    pub fn start(&mut self, mut kernel: impl FnMut(&Path) + Send + 'static) {
        let (root, stop) = (self.root.clone(), Arc::clone(&self.stop));
        self.kernel = Some(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                kernel(&root);
                std::thread::sleep(Duration::from_millis(1));
            }
        }));
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(kernel) = self.kernel.take() {
            assert!(kernel.join().is_ok() || std::thread::panicking(), "the fake kernel works");
        }
    }
}

/// Returns the text written to a file, and empties the file.
pub fn taken(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok().filter(|text| !text.is_empty())?;
    fs::write(path, "").ok()?;
    Some(text.trim().to_owned())
}

/// Binds and unbinds as the kernel does: `driver_override` names the only driver, else `native`
/// takes every function.
pub fn bind_and_unbind(root: &Path, native: Option<&str>, refusing: &[&str]) {
    let bus = root.join("sys/bus/pci");
    for driver in fs::read_dir(bus.join("drivers")).unwrap().flatten() {
        if let Some(address) = taken(&driver.path().join("unbind")) {
            fs::remove_file(bus.join("devices").join(address).join("driver")).unwrap();
        }
    }
    let Some(address) = taken(&bus.join("drivers_probe")) else { return };
    let folder = bus.join("devices").join(address);
    let override_ = fs::read_to_string(folder.join("driver_override")).unwrap();
    let wanted = match override_.lines().next().unwrap_or("") {
        "" | "(null)" => native,
        name => Some(name),
    };
    let Some(wanted) = wanted.filter(|name| !refusing.contains(name)) else { return };
    let driver = bus.join("drivers").join(wanted);
    fs::create_dir_all(&driver).unwrap();
    if !driver.join("unbind").exists() {
        fs::write(driver.join("unbind"), "").unwrap();
    }
    symlink(driver, folder.join("driver")).unwrap();
}

/// Removes the card on request. A rescan finds it again if `ready` returns its device ID, with its
/// configuration space as after a reset and no driver.
pub fn remove_and_rescan(root: &Path, ready: impl FnOnce() -> Option<u16>) {
    let devices = root.join("sys/bus/pci/devices");
    let away: PathBuf = root.join("away");
    if let Ok(folder) = fs::canonicalize(devices.join(CARD))
        && taken(&folder.join("remove")).is_some()
    {
        fs::rename(&folder, &away).unwrap();
        fs::remove_file(devices.join(CARD)).unwrap();
    }
    let port = fs::canonicalize(devices.join(PORT)).unwrap();
    if taken(&port.join("rescan")).is_none() || !away.exists() {
        return;
    }
    let Some(device) = ready() else { return };
    let autoprobe = fs::read_to_string(root.join("sys/bus/pci/drivers_autoprobe")).unwrap();
    assert!(autoprobe.starts_with('0'), "no driver may take it before it has its override");
    let folder = port.join(CARD);
    let found = root.join("found");
    fs::rename(&away, &found).unwrap();
    // It may have had none.
    let _ = fs::remove_file(found.join("driver"));
    fs::write(found.join("driver_override"), "(null)\n").unwrap();
    fs::write(found.join("device"), format!("{device:#06x}\n")).unwrap();
    fs::write(found.join("config"), Space::express(0x1234, device, 0, 3, 4).0).unwrap();
    fs::rename(found, &folder).unwrap();
    symlink(&folder, devices.join(CARD)).unwrap();
}

/// An address, which must be one.
pub fn address(text: &str) -> Address {
    text.parse().unwrap()
}
