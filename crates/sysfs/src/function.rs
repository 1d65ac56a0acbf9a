// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One PCI function, as sysfs describes it.

use std::path::{Path, PathBuf};

use crosslane_host::FunctionInfo;
use crosslane_pcie::config::{Bar, BarKind};
use crosslane_pcie::units::BusAddress;

use crate::attribute::{bytes, link_name, number, parse, shown, text};
use crate::{Address, Configuration, Express, Kind, LinkCode};

/// Flag of a resource: memory (`linux/ioport.h`).
const RESOURCE_MEMORY: u64 = 0x200;
/// Flag of a resource: prefetchable.
const RESOURCE_PREFETCHABLE: u64 = 0x2000;
/// Flag of a resource: addresses of 64 bits.
const RESOURCE_64_BIT: u64 = 0x10_0000;
/// Number of lines of `resource` that describe BARs.
const BARS: usize = 6;
/// Most lines of a file of error counters that are read.
const COUNTER_LINES: usize = 64;

/// The IOMMU group of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IommuGroup {
    /// Number of the group.
    pub number: u32,
    /// Translation of addresses for the kernel's own drivers: `DMA`, `DMA-FQ` (translated),
    /// `identity` (not); empty if the kernel does not tell.
    pub kind: String,
    /// Whether VFIO has made the group up because it was told to work without an IOMMU.
    pub is_made_up: bool,
    /// All functions of the group, including this one.
    pub members: Vec<Address>,
}

/// Counters of Advanced Error Reporting, as the kernel sums them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    /// Errors that hardware has corrected: the counters other than 0, by the kernel's names.
    pub correctable: Vec<(String, u64)>,
    /// Uncorrected errors that leave the link reliable.
    pub non_fatal: Vec<(String, u64)>,
    /// Uncorrected errors that make the link unreliable.
    pub fatal: Vec<(String, u64)>,
}

/// One PCI function.
#[derive(Clone, Debug, PartialEq)]
pub struct PciFunction {
    /// Address of the function.
    pub address: Address,
    /// Folder of the function in sysfs.
    pub folder: PathBuf,
    /// The bridge above it.
    pub parent: Option<Address>,
    /// Kind of endpoint, port or bridge.
    pub kind: Kind,
    /// Whether `kind` was read from its configuration space. Without the right to see the
    /// capabilities it is derived from the position in the tree.
    pub kind_is_read: bool,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Subsystem vendor and subsystem ID.
    pub subsystem: (u16, u16),
    /// Class code, 24 bits.
    pub class: u32,
    /// Revision ID.
    pub revision: u8,
    /// Configuration space of the function at the time when the tree was read.
    pub configuration: Configuration,
    /// Memory BARs of the function as placed.
    pub bars: Vec<Bar>,
    /// BARs with a write-combined mapping in sysfs (`resourceN_wc`).
    pub combined_bars: Vec<u8>,
    /// The nearest NUMA node; `None` on a machine with only one.
    pub numa_node: Option<u32>,
    /// IOMMU group of the function.
    pub iommu_group: Option<IommuGroup>,
    /// The driver that it is bound to, if any.
    pub driver: Option<String>,
    /// The only driver that may take it, if one is set.
    pub driver_override: Option<String>,
    /// Counters of its errors, if the kernel has them.
    pub errors: Option<ErrorCounters>,
    /// The present link, and the fastest and widest one, as the kernel reports them.
    kernel_link: Option<(LinkCode, LinkCode)>,
}

/// Names of the base classes (PCI code and ID assignment 1.x, section 1).
const CLASSES: [&str; 0x14] = [
    "unclassified device", "storage controller", "network controller", "display controller",
    "multimedia device", "memory controller", "bridge", "communication controller",
    "system peripheral", "input device", "docking station", "processor", "serial bus controller",
    "wireless controller", "intelligent I/O controller", "satellite controller",
    "encryption controller", "signal processing controller", "processing accelerator",
    "instrumentation",
];

/// Returns the name of a class code, by its base class.
pub fn class_words(class: u32) -> &'static str {
    match class >> 16 {
        0x06 if class >> 8 & 0xff == 0 => "host bridge",
        0x06 if class >> 8 & 0xff == 4 => "PCI bridge",
        base => CLASSES.get(base as usize).copied().unwrap_or("device of no known class"),
    }
}

impl PciFunction {
    /// Reads a function's folder; `None` if the function no longer exists. The tree fills in
    /// parents and groups.
    pub(crate) fn read(link: &Path, address: Address) -> Option<Self> {
        // The bus's link leads to the function's folder in the tree of devices.
        let folder = link.canonicalize().ok()?;
        let attribute = |name: &str| number(&folder.join(name));
        let vendor = attribute("vendor")? as u16;
        let configuration = Configuration::new(bytes(&folder.join("config")).unwrap_or_default());
        let above = folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let numa_node = text(&folder.join("numa_node")).and_then(|text| text.parse().ok());
        let kind = configuration.kind();
        let group = link_name(&folder.join("iommu_group")).and_then(|name| name.parse().ok());
        let override_ = text(&folder.join("driver_override"));
        let override_ = override_.and_then(|text| text.lines().next().map(str::to_owned));
        Some(Self {
            address,
            parent: above.and_then(|name| name.parse().ok()),
            kind: kind.unwrap_or(Kind::Conventional),
            kind_is_read: kind.is_some(),
            vendor,
            device: attribute("device").unwrap_or(0xffff) as u16,
            subsystem: (
                attribute("subsystem_vendor").unwrap_or(0) as u16,
                attribute("subsystem_device").unwrap_or(0) as u16,
            ),
            class: attribute("class").unwrap_or(0xff_0000) as u32 & 0xff_ffff,
            revision: attribute("revision").unwrap_or(0) as u8,
            bars: bars(&text(&folder.join("resource")).unwrap_or_default()),
            combined_bars: (0..BARS as u8)
                .filter(|bar| folder.join(format!("resource{bar}_wc")).exists())
                .collect(),
            numa_node,
            iommu_group: group.map(|number| IommuGroup {
                number,
                kind: text(&folder.join("iommu_group/type")).map_or(String::new(), |t| shown(&t)),
                is_made_up: text(&folder.join("iommu_group/name"))
                    .is_some_and(|name| name == "vfio-noiommu"),
                members: Vec::new(),
            }),
            driver: link_name(&folder.join("driver")),
            driver_override: override_.filter(|name| is_name(name)).map(|name| shown(&name)),
            errors: ErrorCounters::read(&folder),
            kernel_link: kernel_link(&folder),
            configuration,
            folder,
        })
    }

    /// A function that is described elsewhere than in sysfs, with nothing known but its address,
    /// identity, class and configuration space.
    pub fn described(
        address: Address,
        (vendor, device): (u16, u16),
        class: u32,
        configuration: Configuration,
    ) -> Self {
        let kind = configuration.kind();
        Self {
            address,
            folder: PathBuf::new(),
            parent: None,
            kind: kind.unwrap_or(Kind::Conventional),
            kind_is_read: kind.is_some(),
            vendor,
            device,
            subsystem: (0, 0),
            class,
            revision: 0,
            configuration,
            bars: Vec::new(),
            combined_bars: Vec::new(),
            numa_node: None,
            iommu_group: None,
            driver: None,
            driver_override: None,
            errors: None,
            kernel_link: None,
        }
    }

    /// Adds the present link, and the fastest and widest one, as a kernel has reported them.
    #[must_use]
    pub fn with_kernel_link(self, now: LinkCode, best: LinkCode) -> Self {
        Self { kernel_link: Some((now, best)), ..self }
    }

    /// Name of its class.
    pub fn class_words(&self) -> &'static str {
        class_words(self.class)
    }

    /// Whether a running system needs its driver: storage, network, display, USB, and all that a
    /// hypervisor gives its guest (virtio).
    pub const fn is_of_the_system(&self) -> bool {
        /// Vendor of virtio devices (Virtual I/O Device 1.x, 4.1.2).
        const VIRTIO: u16 = 0x1af4;
        matches!(self.class >> 16, 1..=3) || self.class >> 8 == 0x0c03 || self.vendor == VIRTIO
    }

    /// The PCI Express capability, if it can be seen.
    pub fn express(&self) -> Option<Express> {
        self.configuration.express()
    }

    /// The link above an endpoint or an upstream port, below another port: present and best. From
    /// configuration space, else from the kernel's attributes, which need no rights.
    pub fn link(&self) -> Option<(LinkCode, LinkCode)> {
        let has_link = !matches!(
            self.kind,
            Kind::IntegratedEndpoint | Kind::EventCollector | Kind::Conventional
        );
        match self.express() {
            Some(express) if has_link => Some((express.link, express.link_capability)),
            Some(_) => None,
            None => self.kernel_link,
        }
    }

    /// Whether it is bound to a driver of VFIO.
    pub fn is_bound_to_vfio(&self) -> bool {
        self.driver.as_deref().is_some_and(is_vfio_driver)
    }

    /// Whether an IOMMU translates the addresses of its requests: always if it is bound to VFIO,
    /// else as the kernel has configured its group.
    pub fn is_translated(&self) -> bool {
        let Some(group) = self.iommu_group.as_ref().filter(|group| !group.is_made_up) else {
            return false;
        };
        // Older kernels do not tell a group's type; they translate unless told otherwise.
        self.is_bound_to_vfio() || group.kind != "identity"
    }

    /// Converts it for the trait `Topology`; `None` for bridges that are not PCI Express ports.
    pub fn info(&self) -> Option<FunctionInfo> {
        Some(FunctionInfo {
            id: self.address.id,
            parent: self.parent.map(|parent| parent.id),
            name: self.address.to_string(),
            port_type: self.kind.port_type()?,
            vendor: self.vendor,
            device: self.device,
            bars: self.bars.clone(),
        })
    }
}

/// Whether a driver gives functions to programs: vfio-pci, and its variants for single devices.
pub fn is_vfio_driver(name: &str) -> bool {
    name == "vfio-pci" || name.ends_with("-vfio-pci") || name.ends_with("_vfio_pci")
}

/// Whether an attribute holds a driver's name; an empty override reads `(null)`.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text != "(null)"
}

/// Parses the memory BARs of a `resource` file: first address, last address and flags a line.
fn bars(resource: &str) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (index, line) in resource.lines().take(BARS).enumerate() {
        let mut numbers = line.split_whitespace().map(parse);
        let (Some(Some(first)), Some(Some(last)), Some(Some(flags))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            continue;
        };
        let Some(size_bytes) = last.checked_sub(first).and_then(|less_one| less_one.checked_add(1))
        else {
            continue;
        };
        // Skipped unless the size is a power of two and the address a multiple of it.
        let fits = size_bytes.is_power_of_two() && size_bytes > 1 && first % size_bytes == 0;
        if flags & RESOURCE_MEMORY == 0 || !fits || first == 0 {
            continue;
        }
        let prefetchable = flags & RESOURCE_PREFETCHABLE != 0;
        let kind = match flags & RESOURCE_64_BIT != 0 {
            true => BarKind::Memory64 { prefetchable },
            false => BarKind::Memory32 { prefetchable },
        };
        bars.push(Bar { index, base: BusAddress(first), size_bytes, kind });
    }
    bars
}

/// Reads `current_link_speed` and its kin: `8.0 GT/s PCIe` and a number of lanes.
fn kernel_link(folder: &Path) -> Option<(LinkCode, LinkCode)> {
    let code = |speed: &str, lanes: &str| {
        let speed = text(&folder.join(speed))?;
        let speed = LinkCode::speed_of(speed.split_whitespace().next()?);
        let lanes = u8::try_from(number(&folder.join(lanes))?).ok()?;
        Some(LinkCode { speed, lanes })
    };
    let now = code("current_link_speed", "current_link_width")?;
    Some((now, code("max_link_speed", "max_link_width")?))
}

impl ErrorCounters {
    fn read(folder: &Path) -> Option<Self> {
        let of = |name: &str| Some(counters(&text(&folder.join(name))?));
        Some(Self {
            correctable: of("aer_dev_correctable")?,
            non_fatal: of("aer_dev_nonfatal").unwrap_or_default(),
            fatal: of("aer_dev_fatal").unwrap_or_default(),
        })
    }

    /// Whether all counters are 0.
    pub fn is_clean(&self) -> bool {
        self.correctable.is_empty() && self.non_fatal.is_empty() && self.fatal.is_empty()
    }
}

/// Parses the counters other than 0, without their sums (`TOTAL_ERR_COR` and so on).
fn counters(text: &str) -> Vec<(String, u64)> {
    let lines = text.lines().take(COUNTER_LINES).filter_map(|line| {
        let (name, count) = line.rsplit_once(char::is_whitespace)?;
        let count = count.parse().ok().filter(|count| *count > 0)?;
        (!name.starts_with("TOTAL_")).then(|| (shown(name.trim()), count))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_those_of_memory() {
        let resource = "\
0x00000000fe800000 0x00000000fe80ffff 0x0000000000040200
0x0000000000006000 0x00000000000060ff 0x0000000000040101
0x0000004000000000 0x000000400007ffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00000000fea00000 0x00000000fea00bff 0x0000000000040200
nonsense
0x00000000fe900000 0x00000000fe90ffff 0x0000000000046200
";
        let found = bars(resource);
        let kinds: Vec<_> = found.iter().map(|bar| (bar.index, bar.size_bytes, bar.kind)).collect();
        assert_eq!(
            kinds,
            [
                (0, 0x1_0000, BarKind::Memory32 { prefetchable: false }),
                (2, 0x8_0000, BarKind::Memory64 { prefetchable: true }),
            ],
            "neither ports, nor the ROM, nor what no BAR can be"
        );
        assert!(found[1].contains(BusAddress(0x40_0000_1234)));
        for odd in ["0x1000 0x0 0x200", "0x0 0xffffffffffffffff 0x200", "1 2", "-1 -1 -1"] {
            assert_eq!(bars(odd), [], "{odd}");
        }
    }

    #[test]
    fn error_counters_without_their_sums() {
        let text = "RxErr 0\nBadTLP 3\nBadDLLP 0\nTOTAL_ERR_COR 3\nodd\nx y\n";
        assert_eq!(counters(text), [("BadTLP".to_owned(), 3)]);
    }

    #[test]
    fn classes_have_words() {
        assert_eq!(class_words(0x12_0000), "processing accelerator");
        assert_eq!(class_words(0x06_0400), "PCI bridge");
        assert_eq!(class_words(0xff_ff00), "device of no known class");
    }
}
