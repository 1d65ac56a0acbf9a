// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes functions into use and finds the addresses that their memory may have.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crosslane_host::{Topology, TopologyError};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;

use super::{BusOptions, Shared, Tree, VfioBus, change_command};
use crate::flat;
use crate::function::{Doing, Function, FunctionError, Region, Result};
use crate::kernel::{self, Interface};
use crate::mappings::Mappings;
use crate::numa::Placement;
use crate::reactor::{Held, Reactor};
use crate::sysfs::{Address, ConfigurationWrites, Machine, Segment};

/// Returns the address ranges that a bridge forwards downstream (PCIe 6.x 7.5.1.3).
fn windows(tree: &dyn Topology, id: RoutingId) -> Result<Vec<RangeInclusive<u64>>, TopologyError> {
    /// The address bits below the 12 that base and limit hold.
    const GRAIN: u64 = (1 << 20) - 1;
    let window = |pair: u32, base_upper: u32, limit_upper: u32| {
        let base = u64::from(base_upper) << 32 | u64::from(pair & 0xfff0) << 16;
        let limit = u64::from(limit_upper) << 32 | u64::from(pair >> 20) << 20 | GRAIN;
        (base..=limit, base <= limit)
    };
    let memory = window(tree.config_read(id, reg::MEMORY_BASE_LIMIT)?, 0, 0);
    let prefetchable = window(
        tree.config_read(id, reg::PREFETCHABLE_BASE_LIMIT)?,
        tree.config_read(id, reg::PREFETCHABLE_BASE_UPPER)?,
        tree.config_read(id, reg::PREFETCHABLE_LIMIT_UPPER)?,
    );
    Ok([memory, prefetchable].into_iter().filter(|(_, is_open)| *is_open).map(|(w, _)| w).collect())
}

impl VfioBus {
    /// Takes functions into use: turns on their memory decoding and bus mastering. Without a tree
    /// each is an endpoint with nothing above it.
    ///
    /// # Errors
    /// A function that does not answer, two with the same number, a tree that cannot be read, or a
    /// NUMA node that cannot be used.
    pub fn new(functions: Vec<Arc<dyn Function>>, tree: Option<Tree>) -> Result<Self> {
        Self::with_options(functions, tree, BusOptions::default())
    }

    /// Like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_options(
        functions: Vec<Arc<dyn Function>>,
        tree: Option<Tree>,
        options: BusOptions,
    ) -> Result<Self> {
        for (index, function) in functions.iter().enumerate() {
            if functions[..index].iter().any(|other| other.id() == function.id()) {
                let why = format!("{} is another function's of this bus", function.id());
                return Err(FunctionError::unsupported(function.name(), "number of its own", why));
            }
        }
        for function in &functions {
            for bar in 0..6 {
                let checked = function.region(bar).map_or(Ok(()), Region::check);
                let what = format!("where BAR{bar} is mapped");
                checked.map_err(|why| FunctionError::malformed(function.name(), &what, why))?;
            }
        }
        let card = functions.iter().find_map(|function| function.numa_node());
        let placement = Placement::choose(options.numa, card, &Machine::this())?;
        let reactor = Reactor::start().doing("starting the event thread", "the bus")?;
        let mut held_functions = Vec::new();
        for function in &functions {
            let held = Arc::new(Held {
                function: Arc::clone(function),
                decodes: AtomicBool::new(false),
                lost: AtomicBool::new(false),
            });
            reactor.watch_loss(&held).doing("watching a function", "the bus")?;
            change_command(&held, reg::COMMAND_MEMORY_SPACE | reg::COMMAND_BUS_MASTER, 0)?;
            held_functions.push(held);
        }
        let mut kept_off = Self::taken_addresses(&functions, tree.as_ref())?;
        if let Some(above) = options.highest_address.checked_add(1) {
            kept_off.push(above..=u64::MAX);
        }
        let mappings = Mappings::new(&functions, &kept_off, options.kept_bytes);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Shared {
            functions: held_functions,
            tree,
            reactor,
            mappings: Mutex::new(mappings),
            vectors: Mutex::default(),
            start: Instant::now(),
            cores: u16::try_from(cores).unwrap_or(u16::MAX),
            placement,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens functions of this machine through the kernel's VFIO (see [`kernel::open`]), all in one
    /// domain of its PCI tree. `writes` permits or forbids writes to the configuration space of
    /// other functions, such as the ports above.
    ///
    /// # Errors
    /// Those of [`kernel::open`] and [`new`](Self::new).
    pub fn open(
        addresses: &[Address],
        interface: Option<Interface>,
        writes: ConfigurationWrites,
        options: BusOptions,
    ) -> Result<Self> {
        let domain = addresses.first().map_or(0, |address| address.domain);
        if let Some(other) = addresses.iter().find(|address| address.domain != domain) {
            let why = format!("domain {domain:04x} is the first function's");
            let what = "place on the same bus";
            return Err(FunctionError::unsupported(&other.to_string(), what, why));
        }
        let tree = Machine::this().tree().map_err(|error| {
            let what = "PCI tree to be read";
            FunctionError::unsupported("the machine", what, error.to_string())
        })?;
        let opened = kernel::open(addresses, interface)?.into_iter();
        let functions = opened.map(|function| Arc::new(function) as Arc<dyn Function>).collect();
        Self::with_options(functions, Some(Arc::new(Segment::new(&tree, domain, writes))), options)
    }

    /// Returns the addresses that belong to a device or bridge of the tree.
    fn taken_addresses(
        functions: &[Arc<dyn Function>],
        tree: Option<&Tree>,
    ) -> Result<Vec<RangeInclusive<u64>>> {
        let of_tree = |error: TopologyError| {
            let what = "list of the addresses that are taken";
            FunctionError::unsupported("the bus", what, error.to_string())
        };
        let mut infos = Vec::new();
        for function in functions {
            infos.push(flat::info(&**function)?);
        }
        let mut taken = Vec::new();
        if let Some(tree) = tree {
            for info in tree.functions().map_err(of_tree)? {
                if info.port_type.is_bridge() {
                    taken.extend(windows(&**tree, info.id).map_err(of_tree)?);
                }
                infos.push(info);
            }
        }
        let bars = infos.iter().flat_map(|info| &info.bars).filter(|bar| bar.size_bytes > 0);
        taken.extend(bars.map(|bar| {
            let first = bar.base.0;
            first..=first.saturating_add(bar.size_bytes - 1)
        }));
        Ok(taken)
    }
}
