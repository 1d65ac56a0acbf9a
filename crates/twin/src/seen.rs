// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions as far as dumps show them, and how several dumps fill each other's gaps.

use std::collections::{BTreeMap, BTreeSet};

use crosslane_pcie::config::Bar;
use crosslane_pcie::units::RoutingId;
use crosslane_sysfs::{
    Acs, Address, Configuration, Described, Express, IommuGroup, Kind, LinkCode, PciFunction, Tree,
};

use crate::Machine;
use crate::gpu_matrix::Matrix;

/// Vendor and device ID of a function of which no dump says them.
pub(crate) const NO_IDENTITY: (u16, u16) = (0xffff, 0xffff);

/// The PCI Express capability as far as a text shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExpressSeen {
    pub offset: u16,
    pub max_payload_supported_bytes: Option<u32>,
    pub max_payload_bytes: Option<u32>,
    pub max_read_request_bytes: Option<u32>,
    pub extended_tags_supported: Option<bool>,
    pub extended_tags: Option<bool>,
    pub ten_bit_tags_supported: Option<bool>,
    pub ten_bit_tags: Option<bool>,
    pub relaxed_ordering: Option<bool>,
    pub no_snoop: Option<bool>,
    pub function_level_reset: Option<bool>,
    pub detected_errors: u8,
    pub link_capability: Option<LinkCode>,
    pub link: Option<LinkCode>,
    pub link_active: Option<bool>,
    pub read_completion_boundary_bytes: Option<u32>,
}

impl ExpressSeen {
    /// Fills gaps with what another dump says.
    fn fill(&mut self, other: Self) {
        macro_rules! fill {
            ($($field:ident)+) => { $(self.$field = self.$field.or(other.$field);)+ };
        }
        fill!(
            max_payload_supported_bytes max_payload_bytes max_read_request_bytes
            extended_tags_supported extended_tags ten_bit_tags_supported ten_bit_tags
            relaxed_ordering no_snoop function_level_reset link_capability link link_active
            read_completion_boundary_bytes
        );
    }

    /// The registers, with the values that they have after reset where they are not shown, and a
    /// phrase about each of those that a lab needs.
    fn express(&self, has_link: bool) -> (Express, Vec<String>) {
        let mut gaps = Vec::new();
        let mut size = |shown: Option<u32>, name: &str, otherwise: u32| {
            shown.unwrap_or_else(|| {
                gaps.push(format!("{name} is not shown; {otherwise} B is taken"));
                otherwise
            })
        };
        let supported = size(self.max_payload_supported_bytes, "the largest Max_Payload_Size", 128);
        let payload = size(self.max_payload_bytes, "Max_Payload_Size", 128);
        let read = size(self.max_read_request_bytes, "Max_Read_Request_Size", 512);
        if self.extended_tags.is_none() {
            gaps.push("Extended Tag is not shown; it is taken to be off".to_owned());
        }
        let none = LinkCode { speed: 0, lanes: 0 };
        if has_link && self.link.is_none() {
            gaps.push("Link Status is not shown".to_owned());
        }
        let express = Express {
            offset: self.offset,
            max_payload_supported_bytes: supported.max(payload),
            max_payload_bytes: payload,
            max_read_request_bytes: read,
            extended_tags_supported: self.extended_tags_supported.unwrap_or(false),
            extended_tags: self.extended_tags.unwrap_or(false),
            ten_bit_tags_supported: self.ten_bit_tags_supported.unwrap_or(false),
            ten_bit_tags: self.ten_bit_tags.unwrap_or(false),
            relaxed_ordering: self.relaxed_ordering.unwrap_or(true),
            no_snoop: self.no_snoop.unwrap_or(true),
            function_level_reset: self.function_level_reset.unwrap_or(false),
            detected_errors: self.detected_errors,
            link_capability: self.link_capability.or(self.link).unwrap_or(none),
            link: self.link.unwrap_or(none),
            link_active: self.link_active,
            read_completion_boundary_bytes: self.read_completion_boundary_bytes.unwrap_or(64),
        };
        (express, gaps)
    }
}

/// A function as far as the dumps show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// The file that was the first to name it.
    pub file: String,
    pub parent: Option<Address>,
    pub identity: Option<(u16, u16)>,
    pub subsystem: Option<(u16, u16)>,
    pub class: Option<u32>,
    pub revision: Option<u8>,
    pub name: Option<String>,
    pub command: Option<u16>,
    pub buses: Option<(u8, u8)>,
    pub bars: Vec<Bar>,
    pub numa_node: Option<u32>,
    pub iommu_group: Option<IommuGroup>,
    pub driver: Option<String>,
    pub kind: Option<Kind>,
    pub express: Option<ExpressSeen>,
    pub acs: Option<Acs>,
    pub vectors: u32,
    /// Bytes of its configuration space from offset 0 on.
    pub configuration: Vec<u8>,
    /// The present link and the best one, as a kernel reports them.
    pub kernel_link: Option<(LinkCode, LinkCode)>,
    /// Another link that it may be, in words, if no register says more.
    pub link_doubt: Option<String>,
    /// Facts that could not be told with certainty, a phrase each.
    pub doubts: Vec<String>,
    /// Whether dumps show only where it is, and perhaps what it is called: no register, and none of
    /// the attributes of a kernel.
    pub is_place_only: bool,
}

/// Functions whose addresses no dump shows. They have addresses in domains that no machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeUp {
    /// Bridges of a topology in hwloc's words.
    Bridge,
    /// Devices of a matrix of `nvidia-smi`, and the switches above them.
    Device,
}

impl MadeUp {
    /// First domain of all.
    const FIRST: u32 = 0xfff0_0000;
    /// Domains for the functions of one file.
    const OF_FILE: u32 = 0x1000;
    /// Most functions of one file.
    const MOST: u32 = 1 << 16;
    /// Buses of a domain; bus 0 is that of a root.
    const BUSES: u32 = 255;

    /// Returns addresses for the functions of a file.
    pub fn addresses(self) -> impl Iterator<Item = Address> {
        let domain = match self {
            Self::Bridge => Self::FIRST,
            Self::Device => Self::FIRST + 0x8_0000,
        };
        (0..Self::MOST).map(move |number| Address {
            domain: domain + number / Self::BUSES,
            id: RoutingId::new((1 + number % Self::BUSES) as u8, 0, 0),
        })
    }

    /// Whether an address is such a one.
    pub const fn is(address: Address) -> bool {
        address.domain >= Self::FIRST
    }

    /// Returns the address of a function in one of several files.
    pub fn of_file(address: Address, file: usize) -> Address {
        match Self::is(address) {
            true => {
                let domain = address.domain + (file as u32 & 0x7f) * Self::OF_FILE;
                Address { domain, ..address }
            }
            false => address,
        }
    }
}

impl Seen {
    /// Fills gaps with what another dump says. Returns the first contradiction, half a sentence.
    pub fn fill(&mut self, other: Self) -> Result<(), String> {
        if let (Some(one), Some(two)) = (self.identity, other.identity)
            && one != two
        {
            let words = |(vendor, device)| format!("{vendor:04x}:{device:04x}");
            return Err(format!("{} in {}, and {}", words(one), self.file, words(two)));
        }
        // A bridge that is shown is a better parent than one that is not.
        self.parent = match (self.parent, other.parent) {
            (Some(own), Some(other)) if MadeUp::is(own) => Some(other),
            (own, other) => own.or(other),
        };
        self.is_place_only &= other.is_place_only;
        macro_rules! fill {
            ($($field:ident)+) => { $(self.$field = self.$field.take().or(other.$field);)+ };
        }
        fill!(
            identity subsystem class revision name command buses numa_node iommu_group
            driver kind acs kernel_link link_doubt
        );
        match (&mut self.express, other.express) {
            (Some(own), Some(other)) => own.fill(other),
            (own, other) => *own = own.take().or(other),
        }
        if self.bars.is_empty() {
            self.bars = other.bars;
        }
        if self.configuration.len() < other.configuration.len() {
            self.configuration = other.configuration;
        }
        self.vectors = self.vectors.max(other.vectors);
        self.doubts.extend(other.doubts);
        Ok(())
    }

    /// Returns the function, and what is missing of it, a phrase each.
    fn function(self, address: Address) -> (PciFunction, Vec<String>) {
        let mut gaps = self.doubts;
        let configuration = Configuration::new(self.configuration);
        let header = configuration.double_word(0).map(|word| (word as u16, (word >> 16) as u16));
        let identity = self.identity.or(header.filter(|&(vendor, _)| vendor != 0xffff));
        let read_class = configuration.double_word(8).map(|word| word >> 8);
        let class = self.class.or(read_class).unwrap_or(0xff_0000);
        let express = self.express.map(|seen| {
            let has_link =
                !matches!(self.kind, Some(Kind::IntegratedEndpoint | Kind::EventCollector));
            let (express, missing) = seen.express(has_link);
            if configuration.express().is_none() {
                gaps.extend(missing);
            }
            express
        });
        let described = Described {
            kind: self.kind,
            command: self.command,
            express,
            acs: self.acs,
            vectors: self.vectors,
            buses: self.buses,
        };
        let configuration = configuration.with_description(described);
        if configuration.express().is_none() {
            gaps.extend(self.link_doubt);
        }
        if identity.is_none() {
            gaps.push("vendor and device ID are not shown (lspci shows them with -nn)".to_owned());
        }
        let identity = identity.unwrap_or(NO_IDENTITY);
        let mut function = PciFunction::described(address, identity, class, configuration);
        function.parent = self.parent;
        function.subsystem = self.subsystem.unwrap_or_default();
        function.revision = self.revision.unwrap_or_default();
        function.bars = self.bars;
        function.numa_node = self.numa_node;
        function.iommu_group = self.iommu_group;
        function.driver = self.driver;
        if let Some((now, best)) = self.kernel_link {
            function = function.with_kernel_link(now, best);
        }
        (function, gaps)
    }
}

/// All functions that the dumps show, by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Inventory {
    pub functions: BTreeMap<Address, Seen>,
    /// Devices without addresses, and the kinds of ways between them.
    pub matrices: Vec<Matrix>,
}

impl Inventory {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.matrices.is_empty()
    }

    /// Adds all of another one, that of the file with this number.
    ///
    /// # Errors
    /// A contradiction, half a sentence.
    pub fn join(&mut self, other: Self, file: usize) -> Result<(), String> {
        for (address, mut seen) in other.functions {
            seen.parent = seen.parent.map(|parent| MadeUp::of_file(parent, file));
            self.add(MadeUp::of_file(address, file), seen)?;
        }
        self.matrices.extend(other.matrices);
        Ok(())
    }

    /// Adds a function, or fills the gaps of what is known about it.
    ///
    /// # Errors
    /// A contradiction, half a sentence.
    pub fn add(&mut self, address: Address, seen: Seen) -> Result<(), String> {
        match self.functions.entry(address) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(seen);
            }
            std::collections::btree_map::Entry::Occupied(entry) => {
                entry.into_mut().fill(seen).map_err(|what| format!("{address} is {what}"))?;
            }
        }
        Ok(())
    }

    /// Returns the functions, what they are called, and what is missing of each.
    pub fn machine(mut self) -> Machine {
        let mut remarks = Vec::new();
        for (file, matrix) in std::mem::take(&mut self.matrices).into_iter().enumerate() {
            remarks.extend(matrix.join(&mut self, file));
        }
        let (mut functions, mut names, mut gaps) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut placed = BTreeSet::new();
        for (address, mut seen) in self.functions {
            if seen.is_place_only {
                placed.insert(address);
            }
            names.extend(seen.name.take().map(|name| (address, name)));
            let (function, missing) = seen.function(address);
            functions.push(function);
            gaps.extend(missing.into_iter().map(|what| (address, what)));
        }
        Machine { tree: Tree::of(functions), names, gaps, remarks, placed }
    }
}
