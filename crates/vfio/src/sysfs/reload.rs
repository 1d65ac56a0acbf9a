// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reconfigures a card while the machine runs: removes it from the kernel's tree, waits for it,
//! finds it again, and restores its settings.
//!
//! Read first: the kernel's `Documentation/ABI/testing/sysfs-bus-pci` (`remove`, `rescan`); base
//! specification 6.6.1 (the time from link up to the first configuration request).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crosslane_host::ErrorKind::{Denied, Failed, InvalidArgument, Unsupported};
use crosslane_host::{ErrorKind, Topology, TopologyError, setters};
use crosslane_pcie::config::registers as reg;

use super::binding::{check_giving_up, is_gone, probe, release, set_override, wait_for};
use super::masking::MaskedErrors;
use super::{
    Address, ConfigurationWrites, Machine, PciFunction, Result, Segment, SysfsError, Tree,
};
use crosslane_sysfs::attribute::{text, write};
use crosslane_sysfs::is_vfio_driver;

/// Time that a function may take to leave the kernel's tree.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(10);
/// Time from link up to the first configuration request (PCIe 6.x 6.6.1).
const AFTER_LINK_UP: Duration = Duration::from_millis(100);
/// Time for a card to answer whose reconfiguration has failed: mostly it is as it was.
const AS_IT_WAS: Duration = Duration::from_secs(1);
/// Interval at which the kernel is told to look for a missing card.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Interval of checks of a link.
const LINK_EVERY: Duration = Duration::from_millis(2);
/// Bits of Command that are restored: parity, SERR; for a function without a driver also memory
/// space, bus master and the interrupt pin.
const COMMAND_ALWAYS: u32 = 1 << 6 | 1 << 8;
const COMMAND_UNDRIVEN: u32 =
    reg::COMMAND_MEMORY_SPACE | reg::COMMAND_BUS_MASTER | 1 << 10 | COMMAND_ALWAYS;
/// Bits of Device Control that are restored: all but the request for a Function Level Reset.
const DEVICE_CONTROL_KEPT: u32 = 0x7fff;

/// Condition under which a card counts as reconfigured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardReady {
    /// The card's link has gone down, and is up again.
    LinkDownAndUp,
    /// The card's link is up, after [`ReloadOptions::reconfigure`] has returned.
    LinkUp,
}

/// Options of a reload.
#[non_exhaustive]
pub struct ReloadOptions<'a> {
    /// Longest time from the removal until the function is back.
    pub deadline: Duration,
    /// Permits reloading a card that a program has open or the system uses.
    pub force: bool,
    /// Condition to wait for.
    pub ready: CardReady,
    /// Called once the function is removed: reconfigures the card, or announces that it may be
    /// done.
    pub reconfigure: &'a mut dyn FnMut() -> Result<(), String>,
    /// Set by the caller to interrupt the reload.
    pub interrupted: &'a AtomicBool,
}

impl<'a> ReloadOptions<'a> {
    /// Waits up to 30 s for the link to go down and up, and does not force anything.
    pub fn new(
        reconfigure: &'a mut dyn FnMut() -> Result<(), String>,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let (deadline, ready) = (Duration::from_secs(30), CardReady::LinkDownAndUp);
        Self { deadline, force: false, ready, reconfigure, interrupted }
    }
}

setters!(ReloadOptions<'_> {
    with_deadline(deadline: Duration),
    with_force(force: bool),
    with_ready(ready: CardReady),
});

/// Outcome of a reload.
#[derive(Clone, Debug, PartialEq)]
pub struct Reloaded {
    /// The function before.
    pub before: PciFunction,
    /// The function now.
    pub now: PciFunction,
    /// The port above it.
    pub port: Address,
    /// Time from the removal until it was back.
    pub took: Duration,
    /// Errors that the port recorded meanwhile; they were masked, and are now cleared.
    pub recorded: Vec<String>,
    /// Differences from before, one sentence each.
    pub notes: Vec<String>,
}

/// Removes a card's functions from the tree, waits until it is reconfigured, and restores them:
/// driver, override, payload and read sizes and the rest of Device Control, and the bits of Command
/// that no driver sets. Meanwhile the errors of the port above are masked; they are restored in any
/// case.
///
/// # Errors
/// No such function, no port above it, a function that must not be taken, no right, or the
/// deadline. If the function was removed and is not back, the error tells how it comes back; after
/// a reconfiguration that fails it is looked for, too.
pub fn reload(
    machine: &Machine,
    address: Address,
    options: &mut ReloadOptions<'_>,
) -> Result<Reloaded> {
    let tree = machine.tree()?;
    let function = tree.function(address)?;
    let refuse = |kind, why: &str, remedy: &str| SysfsError::cannot(address, kind, why, remedy);
    if function.kind.is_bridge() {
        return Err(refuse(InvalidArgument, "it is a port; a card's function is reloaded", ""));
    }
    let port = tree.above(address).into_iter().next().ok_or_else(|| {
        refuse(Unsupported, "there is no port above it, so it cannot be reconfigured by itself", "")
    })?;
    if port.configuration.readable_bytes() <= 64 {
        return Err(refuse(
            Denied, "the port above it cannot be seen", "run the command as root (sudo)",
        ));
    }
    // A slot that reports no link although its card answers, as emulated ones do, is of no use.
    let reports = port.express().is_some_and(|express| express.link_active == Some(true));
    if options.ready == CardReady::LinkDownAndUp && !reports {
        let remedy = "Reconfigure the card by a program that is given behind --, or use --now";
        let why = "the port above it does not say whether its link is up";
        return Err(refuse(Unsupported, why, remedy));
    }
    let card: Vec<&PciFunction> =
        tree.below(port.address).filter(|other| other.address.is_of_device(address)).collect();
    for function in &card {
        check_giving_up(machine, function, options.force)?;
    }
    let segment = Segment::new(&tree, address.domain, ConfigurationWrites::Allowed);
    let masked = MaskedErrors::new(&segment, port).map_err(|error| {
        let why = format!("its errors cannot be masked: {error}");
        SysfsError::cannot(port.address, error.kind(), why, "")
    })?;
    let outcome = away_and_back(&segment, port, function, &card, options);
    let restored = masked.restore();
    match (outcome, restored) {
        (Ok(mut reloaded), Ok(recorded)) => {
            reloaded.recorded = recorded;
            Ok(reloaded)
        }
        (Ok(_), Err(failed)) => {
            let failed = failed.join("; ");
            let why = format!(
                "{address} is back, but not all errors of the port are reported as before: {failed}"
            );
            Err(SysfsError::cannot(port.address, Failed, why, ""))
        }
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(failed)) => {
            Err(SysfsError::NotRestored { first: Box::new(error), then: failed.join("; ") })
        }
    }
}

/// Removes the functions, has the card reconfigured, waits for it, and restores them.
fn away_and_back(
    segment: &Segment,
    port: &PciFunction,
    function: &PciFunction,
    card: &[&PciFunction],
    options: &mut ReloadOptions<'_>,
) -> Result<Reloaded> {
    let (address, begun) = (function.address, Instant::now());
    // The last function first: without function 0 the others have no device.
    for function in card.iter().rev().filter(|function| !is_gone(function)) {
        remove(function)?;
    }
    let back =
        format!("When the card is ready: echo 1 | sudo tee {}/rescan", port.folder.display());
    let mut wait = Wait { segment, port, begun, deadline: options.deadline, back: &back };
    let was_down = wait.link_is_down();
    let failed = (options.reconfigure)().err();
    if failed.is_some() {
        wait.deadline = begun.elapsed() + AS_IT_WAS;
    }
    let needs_down = options.ready == CardReady::LinkDownAndUp && failed.is_none();
    let restored = restore(&wait, function, card, options.interrupted, needs_down, was_down);
    match (failed, restored) {
        (None, restored) => restored,
        (Some(why), Ok(_)) => {
            Err(SysfsError::cannot(address, Failed, format!("{why}; it is back as it was"), ""))
        }
        (Some(why), Err(_)) => Err(wait.gone(address, Failed, &why)),
    }
}

/// Waits until the card is ready, and restores its functions.
fn restore(
    wait: &Wait<'_>,
    function: &PciFunction,
    card: &[&PciFunction],
    interrupted: &AtomicBool,
    needs_down: bool,
    mut was_down: bool,
) -> Result<Reloaded> {
    let &Wait { segment, port, begun, .. } = wait;
    let (tree, address) = (segment.tree(), function.address);
    if needs_down {
        wait.until("the link to go down", interrupted, || {
            was_down |= wait.link_is_down();
            was_down
        })?;
    }
    wait.until("the link to come up", interrupted, || !wait.link_is_down())?;
    sleep(AFTER_LINK_UP);
    // Drivers must not take the function before its override is set again.
    let autoprobe = Autoprobe::off(tree)?;
    let rescan = || write(&port.folder.join("rescan"), "1", "looking for the card");
    // The bus's link to a function is made last.
    let link = tree.root().join("bus/pci/devices").join(address.to_string()).join("vendor");
    let mut looked = None::<Instant>;
    let mut refused = None;
    wait.until("the card to answer", interrupted, || {
        if looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN) {
            looked = Some(Instant::now());
            refused = rescan().err();
        }
        refused.is_some() || link.exists()
    })?;
    if let Some(error) = refused {
        return Err(wait.gone(address, error.kind(), &error.to_string()));
    }
    let now = tree.read_again()?;
    let mut notes = Vec::new();
    for before in card {
        match now.function(before.address) {
            Ok(function) => put_back(&now, before, function, &mut notes)?,
            Err(_) => notes.push(format!("{} did not come back", before.address)),
        }
    }
    autoprobe.restore()?;
    for before in card.iter().filter(|before| now.function(before.address).is_ok()) {
        drive(&now, before, &mut notes)?;
    }
    let now = tree.read_again()?;
    let new = now.below(port.address).filter(|it| card.iter().all(|old| old.address != it.address));
    for function in new {
        notes.push(format!("{} is new", function.address));
        probe(&now, function, None)?;
    }
    let now = now.function(address)?.clone();
    notes.extend(differences(function, &now));
    Ok(Reloaded {
        before: function.clone(),
        now,
        port: port.address,
        took: begun.elapsed(),
        recorded: Vec::new(),
        notes,
    })
}

fn remove(function: &PciFunction) -> Result<()> {
    let what = format!("removing {}", function.address);
    write(&function.folder.join("remove"), "1", &what)?;
    wait_for(REMOVAL_DEADLINE, || is_gone(function).then_some(())).ok_or_else(|| {
        SysfsError::Deadline { what, waited: REMOVAL_DEADLINE, remedy: String::new() }
    })
}

/// Waits for a condition, until the reload's deadline.
struct Wait<'a> {
    segment: &'a Segment,
    port: &'a PciFunction,
    begun: Instant,
    deadline: Duration,
    back: &'a str,
}

impl Wait<'_> {
    /// Makes the error of a function that is not back.
    fn gone(&self, address: Address, kind: ErrorKind, why: &str) -> SysfsError {
        SysfsError::cannot(address, kind, format!("it was removed, and {why}"), self.back)
    }

    /// Whether the port reports that its link is down; always false for one that does not report.
    fn link_is_down(&self) -> bool {
        let Some(express) = self.port.express() else { return false };
        let offset = express.offset + reg::LINK_CONTROL;
        let status = self.segment.config_read(self.port.address.id, offset);
        let is_up = status.is_ok_and(|status| status & reg::LINK_STATUS_ACTIVE != 0);
        express.link_active == Some(true) && !is_up
    }

    fn until(
        &self,
        what: &str,
        interrupted: &AtomicBool,
        mut is_done: impl FnMut() -> bool,
    ) -> Result<()> {
        while !is_done() {
            if interrupted.load(Ordering::Relaxed) {
                let what = format!("waiting for {what}");
                return Err(SysfsError::NotRestored {
                    first: Box::new(SysfsError::Interrupted { what }),
                    then: format!("the function is removed. {}", self.back),
                });
            }
            if self.begun.elapsed() >= self.deadline {
                let (what, waited) = (format!("waiting for {what}"), self.deadline);
                return Err(SysfsError::Deadline { what, waited, remedy: self.back.to_owned() });
            }
            sleep(LINK_EVERY);
        }
        Ok(())
    }
}

/// The kernel's search for a driver of each new function, turned off for a while.
struct Autoprobe<'a> {
    tree: &'a Tree,
    was_on: bool,
}

impl<'a> Autoprobe<'a> {
    const FILE: &'static str = "bus/pci/drivers_autoprobe";

    fn off(tree: &'a Tree) -> Result<Self> {
        let path = tree.root().join(Self::FILE);
        let was_on = text(&path).is_some_and(|text| text.starts_with('1'));
        let autoprobe = Self { tree, was_on };
        if was_on {
            write(&path, "0", "keeping drivers from the card")?;
        }
        Ok(autoprobe)
    }

    fn set(&mut self) -> Result<()> {
        if std::mem::take(&mut self.was_on) {
            let path = self.tree.root().join(Self::FILE);
            write(&path, "1", "letting drivers look for functions again")?;
        }
        Ok(())
    }

    fn restore(mut self) -> Result<()> {
        self.set()
    }
}

impl Drop for Autoprobe<'_> {
    fn drop(&mut self) {
        // Another error is already being returned.
        let _ = self.set();
    }
}

/// Restores a function's override and registers.
fn put_back(
    tree: &Tree,
    before: &PciFunction,
    now: &PciFunction,
    notes: &mut Vec<String>,
) -> Result<()> {
    let address = before.address;
    let driver = before.driver.as_deref().filter(|driver| is_vfio_driver(driver));
    let only = before.driver_override.as_deref().or(driver);
    if only.is_some() {
        set_override(&now.folder, only)?;
    }
    let segment = Segment::new(tree, address.domain, ConfigurationWrites::Allowed);
    let failed = |error: TopologyError| {
        let why = format!("it is back, but not set as it was: {error}");
        SysfsError::cannot(address, error.kind(), why, "")
    };
    if let (Some(was), Some(is)) = (before.express(), now.express()) {
        if was.max_payload_bytes > is.max_payload_supported_bytes {
            notes.push(format!(
                "{address} supports payloads of {} B now, and was set to {} B",
                is.max_payload_supported_bytes, was.max_payload_bytes
            ));
        } else {
            let old = before.configuration.double_word(was.offset + reg::DEVICE_CONTROL);
            let value = old.unwrap_or(0) & DEVICE_CONTROL_KEPT;
            let offset = is.offset + reg::DEVICE_CONTROL;
            segment.config_write(address.id, offset, value, 0b0011).map_err(failed)?;
        }
    }
    if let (Some(was), Some(is)) = (before.configuration.command(), now.configuration.command()) {
        let is_placed = now.bars.len() == before.bars.len();
        let bits = match before.driver.is_none() && is_placed {
            true => COMMAND_UNDRIVEN,
            false => COMMAND_ALWAYS,
        };
        let value = u32::from(is) & !bits | u32::from(was) & bits;
        segment.config_write(address.id, reg::COMMAND, value, 0b0011).map_err(failed)?;
    }
    Ok(())
}

/// Returns a function to its earlier driver.
fn drive(tree: &Tree, before: &PciFunction, notes: &mut Vec<String>) -> Result<()> {
    let Some(driver) = before.driver.as_deref() else { return Ok(()) };
    // Below a port with hot-plug, the kernel may have found the card, and a driver, by itself.
    let function = tree.function(before.address)?;
    if function.driver.as_deref().is_some_and(|other| other != driver) {
        release(function)?;
    }
    let now = probe(tree, function, Some(driver))?;
    if now.as_deref() != Some(driver) {
        let now = now.as_deref().unwrap_or("none");
        notes.push(format!("{} had the driver {driver}, and has {now}", before.address));
    }
    Ok(())
}

/// Describes the changes that the card's new configuration has made.
fn differences(before: &PciFunction, now: &PciFunction) -> Vec<String> {
    let mut notes = Vec::new();
    if (before.vendor, before.device) != (now.vendor, now.device) {
        notes.push(format!(
            "its IDs were {:04x}:{:04x} and are {:04x}:{:04x}",
            before.vendor, before.device, now.vendor, now.device
        ));
    }
    let sizes = |function: &PciFunction| {
        function.bars.iter().map(|bar| (bar.index, bar.size_bytes)).collect::<Vec<_>>()
    };
    if sizes(before) != sizes(now) {
        notes.push("its BARs have other sizes, or other numbers".to_owned());
    }
    if let (Some((was, _)), Some((is, _))) = (before.link(), now.link())
        && was != is
    {
        notes.push(format!("its link was {was} and is {is}"));
    }
    notes
}
