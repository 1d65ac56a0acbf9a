// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Binds functions to vfio-pci, so that a program may drive them, and back.
//!
//! Read first: the kernel's `Documentation/ABI/testing/sysfs-bus-pci`, `driver_override`; and
//! `Documentation/driver-api/vfio.rst` for groups.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crosslane_host::ErrorKind::{Busy, Denied, Failed, InvalidArgument, NotFound, Unsupported};
use crosslane_host::setters;
use smart_default::SmartDefault;

use super::rights::iommu_help;
use super::{Address, Machine, PciFunction, Result, SysfsError, Tree};
use crosslane_sysfs::attribute::{link_name, shown, write};
use crosslane_sysfs::is_vfio_driver;

/// The kernel's driver that gives functions to programs.
pub const VFIO_PCI: &str = "vfio-pci";
/// Time that a driver may take to release a function.
pub(super) const BINDING_DEADLINE: Duration = Duration::from_secs(10);
/// Time that a driver may take to appear: usually the kernel has tried it before the write returns.
const PROBE_DEADLINE: Duration = Duration::from_secs(2);
/// Interval of checks for a driver.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Time to wait for a driver that is optional.
const GRACE: Duration = Duration::from_millis(300);

/// Options of a binding. By default: vfio-pci, without force.
#[derive(Clone, Debug, SmartDefault, PartialEq, Eq)]
#[non_exhaustive]
pub struct BindOptions {
    /// The driver to bind to.
    #[default(VFIO_PCI.to_owned())]
    pub driver: String,
    /// Permits taking a storage, network or display controller from its driver, and a function from
    /// a program that has it open.
    pub force: bool,
}

setters!(BindOptions {
    with_driver(driver: impl Into<String>),
    with_force(force: bool),
});

/// Outcome of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The function.
    pub address: Address,
    /// The driver before, if it had one.
    pub before: Option<String>,
    /// The driver now, if it has one.
    pub now: Option<String>,
    /// IOMMU group of the function.
    pub group: Option<u32>,
    /// Functions of the group that other drivers hold: until those are released, the kernel opens
    /// no function of the group for a program.
    pub in_the_way: Vec<(Address, String)>,
}

/// Waits until `look` has an answer, at most for `deadline`.
pub(super) fn wait_for<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if begun.elapsed() >= deadline {
            return None;
        }
        sleep(LOOK_EVERY);
    }
}

fn driver_of(folder: &Path) -> Option<String> {
    link_name(&folder.join("driver"))
}

/// Returns the functions of a function's group that keep a program from using it: those bound to
/// drivers other than VFIO's, those of ports, and pci-stub.
pub fn in_the_way(tree: &Tree, function: &PciFunction) -> Vec<(Address, String)> {
    let Some(group) = &function.iommu_group else { return Vec::new() };
    let others = group.members.iter().filter(|member| **member != function.address);
    let bound = others.filter_map(|&member| {
        let driver = tree.function(member).ok()?.driver.clone()?;
        let is_harmless = is_vfio_driver(&driver) || driver == "pcieport" || driver == "pci-stub";
        (!is_harmless).then_some((member, driver))
    });
    bound.collect()
}

/// Returns the reason that a function keeps its driver unless forced: `bind` refuses it, and
/// nothing proposes to bind it. `None` if a program may have it.
pub fn why_kept(function: &PciFunction) -> Option<String> {
    why_bridge_kept(function).or_else(|| why_not_given_up(function))
}

/// Returns the reason that a port or another bridge keeps its driver; `None` for other functions.
fn why_bridge_kept(function: &PciFunction) -> Option<String> {
    /// Base class of bridges (PCI Code and ID Assignment Specification, 1.7).
    const BRIDGE: u32 = 0x06;
    if function.kind.is_bridge() {
        return Some(format!("it is a {}; ports stay with their driver", function.kind));
    }
    let is_bridge = function.class >> 16 == BRIDGE;
    is_bridge.then(|| format!("it is a {}, not a card", function.class_words()))
}

/// Like [`why_kept`], for a function that is not a bridge.
fn why_not_given_up(function: &PciFunction) -> Option<String> {
    let driver = function.driver.as_ref().filter(|driver| !is_vfio_driver(driver))?;
    let words = function.class_words();
    function.is_of_the_system().then(|| {
        format!(
            "it is {} {words} that {driver} drives: the system loses it if it is taken away",
            if words.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" },
        )
    })
}

/// Refuses to take a function that is in use or that the system needs, unless forced.
pub(super) fn check_giving_up(
    machine: &Machine,
    function: &PciFunction,
    force: bool,
) -> Result<()> {
    let address = function.address;
    let Some(driver) = &function.driver else { return Ok(()) };
    if force {
        return Ok(());
    }
    if is_vfio_driver(driver) {
        let users = machine.users(function);
        if !users.is_empty() {
            let users: Vec<String> = users.iter().map(ToString::to_string).collect();
            let remedy = "End it first; with --force the kernel asks for the function back, and \
                          waits until it is given up";
            let why = format!("in use by {}", users.join(", "));
            return Err(SysfsError::cannot(address, Busy, why, remedy));
        }
    } else if let Some(why) = why_not_given_up(function) {
        return Err(SysfsError::cannot(address, Busy, why, "If that is what you want: --force"));
    }
    Ok(())
}

/// Whether a function has left the kernel's tree.
pub(super) fn is_gone(function: &PciFunction) -> bool {
    !function.folder.join("vendor").exists()
}

/// Takes a function from its driver, if it has one.
pub(super) fn release(function: &PciFunction) -> Result<()> {
    let (address, folder) = (function.address, &function.folder);
    let Some(driver) = driver_of(folder) else { return Ok(()) };
    let what = format!("taking {address} from {driver}");
    write(&folder.join("driver/unbind"), &address.to_string(), &what)?;
    wait_for(BINDING_DEADLINE, || driver_of(folder).is_none().then_some(())).ok_or_else(|| {
        SysfsError::Deadline { what, waited: BINDING_DEADLINE, remedy: String::new() }
    })
}

/// Sets the only driver that may take a function; `None` permits any.
pub(super) fn set_override(folder: &Path, driver: Option<&str>) -> Result<()> {
    // A newline alone clears it.
    let value = format!("{}\n", driver.unwrap_or_default());
    let what = format!("naming {} as the driver", driver.unwrap_or("none"));
    write(&folder.join("driver_override"), &value, &what)
}

/// Makes the kernel look for a driver of a function, and returns the one that took it.
pub(super) fn probe(
    tree: &Tree,
    function: &PciFunction,
    wanted: Option<&str>,
) -> Result<Option<String>> {
    let address = function.address;
    if let Some(driver) = driver_of(&function.folder) {
        return Ok(Some(driver));
    }
    let what = format!("looking for a driver of {address}");
    let probed = write(&tree.root().join("bus/pci/drivers_probe"), &address.to_string(), &what);
    // A driver that refuses a function makes the write fail; the present driver tells more.
    let deadline = if wanted.is_some() && probed.is_ok() { PROBE_DEADLINE } else { GRACE };
    let found = wait_for(deadline, || driver_of(&function.folder));
    match (found, probed, wanted) {
        (Some(driver), _, _) => Ok(Some(driver)),
        (None, Err(error), Some(_)) => Err(error),
        (None, Err(SysfsError::Refused { why, .. }), None) if why.kind() == Denied => {
            let (path, remedy) = (tree.root().join("bus/pci/drivers_probe"), String::new());
            Err(SysfsError::Refused { what, path, why, remedy })
        }
        (None, _, _) => Ok(None),
    }
}

/// Binds a function to vfio-pci, or to the driver that the options name. If that fails, the
/// function returns to its earlier driver.
///
/// # Errors
/// No such function or driver, a function that must not be taken, no IOMMU, or no right.
pub fn bind(machine: &Machine, address: Address, options: &BindOptions) -> Result<Bound> {
    let tree = machine.tree()?;
    let function = tree.function(address)?;
    let wanted = options.driver.as_str();
    let refuse =
        |kind, why: String, remedy: &str| Err(SysfsError::cannot(address, kind, why, remedy));
    if wanted.is_empty() || wanted.contains(['/', '\n']) {
        let why = format!("\"{}\" is not a driver's name", shown(wanted));
        return refuse(InvalidArgument, why, "");
    }
    if let Some(why) = why_bridge_kept(function) {
        return refuse(Unsupported, why, "");
    }
    if function.driver.as_deref() != Some(wanted) {
        check_giving_up(machine, function, options.force)?;
        if !tree.root().join("bus/pci/drivers").join(wanted).is_dir() {
            let remedy = format!("Load it: sudo modprobe {wanted}");
            return refuse(NotFound, format!("the kernel has no driver {wanted}"), &remedy);
        }
        if is_vfio_driver(wanted) && function.iommu_group.is_none() {
            let why = "it is in no IOMMU group, so VFIO cannot keep it to its memory".to_owned();
            let remedy = format!("Turn the IOMMU on: {}", iommu_help(machine));
            return refuse(Unsupported, why, &remedy);
        }
        rebind(&tree, function, wanted)?;
    }
    let now = tree.read_again()?;
    let function = now.function(address)?;
    Ok(Bound {
        address,
        before: tree.function(address)?.driver.clone(),
        now: function.driver.clone(),
        group: function.iommu_group.as_ref().map(|group| group.number),
        in_the_way: in_the_way(&now, function),
    })
}

/// Moves a function from its driver to the wanted one, and back if that fails.
fn rebind(tree: &Tree, function: &PciFunction, wanted: &str) -> Result<()> {
    let address = function.address;
    let attempt = || {
        set_override(&function.folder, Some(wanted))?;
        release(function)?;
        match probe(tree, function, Some(wanted))? {
            Some(driver) if driver == wanted => Ok(()),
            other => {
                let has = other.map_or("no driver".to_owned(), |it| format!("the driver {it}"));
                let why = format!("{wanted} did not take it; it has {has}");
                let remedy = "The kernel's log says why: sudo dmesg";
                Err(SysfsError::cannot(address, Failed, why, remedy))
            }
        }
    };
    attempt().map_err(|first| {
        let back = || {
            set_override(&function.folder, function.driver_override.as_deref())?;
            if driver_of(&function.folder).is_none() && function.driver.is_some() {
                probe(tree, function, function.driver.as_deref())?;
            }
            Ok(())
        };
        match back() {
            Ok(()) => first,
            Err(error @ SysfsError::Refused { .. }) if error == first => first,
            Err(error) => SysfsError::NotRestored {
                first: Box::new(first),
                then: SysfsError::to_string(&error),
            },
        }
    })
}

/// Takes a function from its driver of VFIO, and lets the kernel look for the usual one.
///
/// # Errors
/// No such function, one that VFIO does not have or that is in use, or no right.
pub fn unbind(machine: &Machine, address: Address, force: bool) -> Result<Bound> {
    let tree = machine.tree()?;
    let function = tree.function(address)?;
    if !function.is_bound_to_vfio() {
        let has = function.driver.as_deref().map_or("no driver", |driver| driver);
        let why = format!("VFIO does not have it; it has {has}");
        return Err(SysfsError::cannot(address, InvalidArgument, why, ""));
    }
    check_giving_up(machine, function, force)?;
    set_override(&function.folder, None)?;
    release(function)?;
    let now = probe(&tree, function, None)?;
    Ok(Bound {
        address,
        before: function.driver.clone(),
        now,
        group: function.iommu_group.as_ref().map(|group| group.number),
        in_the_way: Vec::new(),
    })
}
