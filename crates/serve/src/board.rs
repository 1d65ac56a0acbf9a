// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The served devices of one host of the lab, and the routes between them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crosslane_fabric::ErrorRecord;
use crosslane_host::{FunctionInfo, Topology};
use crosslane_lab::{LabBus, Simulation};
use crosslane_pcie::config::{PortType, find_extended_capability, registers as reg};
use crosslane_pcie::units::RoutingId;
use futures_channel::mpsc::UnboundedReceiver;
use futures_util::StreamExt;
use rustix::io::Errno;

use crate::ask::{Ask, What};
use crate::error::ServeEvent;
use crate::function::ServedFunction;
use crate::placement::{Bridges, Placement, Wanted, Windows, place};

/// Base above limit (PCIe 6.x 7.5.1.3.8).
const CLOSED: (u64, u64) = (0xfff0_0000, 0);

/// Reports events of the lab; counts the errors already reported.
pub(crate) struct Reporter<'a> {
    tell: &'a dyn Fn(&ServeEvent),
    told: Cell<usize>,
}

impl<'a> Reporter<'a> {
    pub const fn new(tell: &'a dyn Fn(&ServeEvent)) -> Self {
        Self { tell, told: Cell::new(0) }
    }

    /// Reports the errors found on the lab's buses since the last call.
    fn tell_errors(&self, simulation: &Simulation) {
        let events: Vec<ServeEvent> = simulation.with_fabric(|fabric| {
            let new = fabric.errors().iter().skip(self.told.get());
            let event = |record: &ErrorRecord| {
                // The specification's name stands before the colon.
                let words = record.kind.to_string();
                let kind = words.split(':').next().unwrap_or_default().to_owned();
                let (port, error) = (record.port_name.clone(), record.to_string());
                ServeEvent::Fabric { port, kind, error }
            };
            new.map(event).collect()
        });
        self.told.set(self.told.get() + events.len());
        for event in &events {
            (self.tell)(event);
        }
    }

    /// Skips the errors found so far: a reset takes a link down.
    fn pass_over_errors(&self, simulation: &Simulation) {
        self.told.set(simulation.with_fabric(|fabric| fabric.errors().len()));
    }
}

/// The served devices of one host.
pub(crate) struct Board<'a> {
    simulation: &'a Simulation,
    bus: LabBus,
    bridges: Bridges,
    functions: Vec<ServedFunction>,
    placement: RefCell<Placement>,
    /// Switch ports that can redirect peer requests: the port, the offset of its control register,
    /// and its value in the lab.
    switch_ports: Vec<(RoutingId, u16, u32)>,
    /// Number of times a device's memory was enabled.
    enables: Cell<u64>,
    reporter: &'a Reporter<'a>,
}

impl<'a> Board<'a> {
    /// Starts with all bridge windows closed, and no endpoint that decodes or sends requests.
    pub fn new(
        simulation: &'a Simulation,
        bus: LabBus,
        tree: &[FunctionInfo],
        served: &[RoutingId],
        reporter: &'a Reporter<'a>,
    ) -> Self {
        let parents = tree.iter().map(|info| (info.id, info.parent)).collect();
        let functions = served.iter().zip(0..).filter_map(|(id, core)| {
            let info = tree.iter().find(|info| info.id == *id)?;
            Some(ServedFunction::new(crosslane_host::Bus::on_core(&bus, core), info))
        });
        let switch_ports = tree
            .iter()
            .filter(|info| info.port_type == PortType::DownstreamPort)
            .filter_map(|info| {
                let read = |at| bus.config_read(info.id, at);
                let acs = find_extended_capability(reg::EXTENDED_CAPABILITY_ACS, read).ok()??;
                let offset = acs + reg::ACS_CONTROL;
                Some((info.id, offset, bus.config_read(info.id, offset).ok()?))
            })
            .collect();
        let board = Self {
            simulation,
            switch_ports,
            bridges: Bridges { parents },
            functions: functions.collect(),
            placement: RefCell::default(),
            enables: Cell::new(0),
            bus,
            reporter,
        };
        for info in tree {
            match info.port_type {
                PortType::Endpoint => board.set(info.id, reg::COMMAND, 0, 0b0011),
                _ => board.open(info.id, [None; 2]),
            }
        }
        board
    }

    /// Returns its devices.
    pub fn functions(&self) -> &[ServedFunction] {
        &self.functions
    }

    fn set(&self, id: RoutingId, offset: u16, value: u32, enables: u8) {
        // The functions of a lab exist for as long as it does.
        let _ = self.bus.config_write(id, offset, value, enables);
    }

    /// Sets the windows of a bridge.
    fn open(&self, bridge: RoutingId, windows: Windows) {
        let [memory, prefetchable] = windows.map(|window| window.unwrap_or(CLOSED));
        let both =
            |(first, last): (u64, u64)| (first >> 16 & 0xfff0) as u32 | last as u32 & 0xfff0_0000;
        self.set(bridge, reg::MEMORY_BASE_LIMIT, both(memory), 0xf);
        self.set(bridge, reg::PREFETCHABLE_BASE_LIMIT, both(prefetchable), 0xf);
        self.set(bridge, reg::PREFETCHABLE_BASE_UPPER, (prefetchable.0 >> 32) as u32, 0xf);
        self.set(bridge, reg::PREFETCHABLE_LIMIT_UPPER, (prefetchable.1 >> 32) as u32, 0xf);
    }

    fn name(&self, id: RoutingId) -> String {
        let function = self.functions.iter().find(|function| function.id == id);
        function.map_or_else(|| id.to_string(), |function| function.name.clone())
    }

    /// Computes all positions from the clients' settings, and applies them.
    fn place(&self) {
        for function in &self.functions {
            match function.is_enabled() {
                false => function.enabled_at.set(0),
                true if function.enabled_at.get() == 0 => {
                    self.enables.set(self.enables.get() + 1);
                    function.enabled_at.set(self.enables.get());
                }
                true => {}
            }
        }
        let mut enabled: Vec<&ServedFunction> =
            self.functions.iter().filter(|function| function.is_enabled()).collect();
        enabled.sort_by_key(|function| function.enabled_at.get());
        let wanted: Vec<Wanted> = enabled
            .iter()
            .map(|function| Wanted { function: function.id, bars: function.wanted_bars() })
            .collect();
        let new = place(&self.bridges, &wanted);
        let old = self.placement.replace(new.clone());
        self.tell_about(&old, &new);
        let is_at = |placement: &Placement, function: &ServedFunction| {
            let bars = placement.bars.range((function.id, 0)..=(function.id, usize::MAX));
            bars.map(|(bar, base)| (*bar, *base)).collect::<Vec<_>>()
        };
        if old.parked.is_empty() != new.parked.is_empty() {
            self.redirect(!new.parked.is_empty());
        }
        // A function must not decode where another's window is about to be.
        let none: Option<fn(usize) -> Option<u64>> = None;
        let moved: Vec<&ServedFunction> = self
            .functions
            .iter()
            .filter(|function| is_at(&old, function) != is_at(&new, function))
            .collect();
        for function in &moved {
            function.decode(none);
        }
        let bridges: BTreeSet<&RoutingId> = old.windows.keys().chain(new.windows.keys()).collect();
        for bridge in bridges {
            let [was, is] = [&old, &new].map(|placement| placement.windows.get(bridge));
            if was != is {
                self.open(*bridge, is.copied().unwrap_or_default());
            }
        }
        for function in moved.into_iter().filter(|function| !is_at(&new, function).is_empty()) {
            function.decode(Some(|bar| new.bars.get(&(function.id, bar)).copied()));
        }
    }

    /// Sets whether switches send peer requests up to the root complex, where clients' memory has
    /// priority: the client of one device does not know where another one was placed, and may have
    /// memory at that address.
    fn redirect(&self, all: bool) {
        for (port, offset, in_lab) in &self.switch_ports {
            let redirect = if all { reg::ACS_CONTROL_REQUEST_REDIRECT } else { 0 };
            self.set(*port, *offset, in_lab | redirect, 0b1100);
        }
    }

    fn tell_about(&self, old: &Placement, new: &Placement) {
        for (id, other) in new.parked.iter().filter(|parked| !old.parked.contains(parked)) {
            let (device, other) = (self.name(*id), self.name(*other));
            (self.reporter.tell)(&ServeEvent::InTheWay { device, other });
        }
        for id in new.nowhere.iter().filter(|id| !old.nowhere.contains(id)) {
            (self.reporter.tell)(&ServeEvent::Nowhere { device: self.name(*id) });
        }
    }

    /// Carries out the requests of a device's client, one after the other.
    pub async fn serve(&self, function: &ServedFunction, mut asks: UnboundedReceiver<Ask>) {
        while let Some(Ask { what, answer }) = asks.next().await {
            let result = self.answer(function, what).await;
            self.reporter.tell_errors(self.simulation);
            // The requester may be gone.
            let _ = answer.send(result);
        }
    }

    async fn answer(&self, function: &ServedFunction, what: What) -> Result<Vec<u8>, Errno> {
        let nothing = |()| Vec::new();
        match what {
            What::ConfigRead { offset, bytes } => function.config_read(offset, bytes),
            What::ConfigWrite { offset, data } => {
                if function.config_write(offset, &data)? {
                    self.place();
                    self.connect_vectors().await;
                }
                Ok(Vec::new())
            }
            What::Read { bar, offset, bytes } => function.read(bar, offset, bytes).await,
            What::Write { bar, offset, data } => {
                function.write(bar, offset, &data).await.map(nothing)
            }
            What::SetVectors { start, eventfds } => {
                function.set_vectors(self.simulation, start, eventfds).await.map(nothing)
            }
            What::VectorsOff => {
                function.vectors_off();
                Ok(Vec::new())
            }
            What::Trigger { start, are_meant } => function.trigger(start, &are_meant).map(nothing),
            What::Mask { start, are_meant, is_mask } => {
                function.mask(start, &are_meant, is_mask).map(nothing)
            }
            What::Reset => {
                self.reporter.tell_errors(self.simulation);
                let place = || self.forget_and_place();
                let result = function.reset(self.simulation, place).await;
                self.reporter.pass_over_errors(self.simulation);
                result.map(nothing)
            }
            What::End => {
                self.reporter.tell_errors(self.simulation);
                function.end(self.simulation).await;
                self.reporter.pass_over_errors(self.simulation);
                self.place();
                self.connect_vectors().await;
                Ok(Vec::new())
            }
        }
    }

    /// Connects interrupts that clients have set up before their devices could be reached.
    async fn connect_vectors(&self) {
        for function in &self.functions {
            // The lab has reported what is wrong, and the next change of routes tries again.
            let _ = function.connect_vectors(self.simulation).await;
        }
    }

    /// Applies all routes again, whatever they were.
    fn forget_and_place(&self) {
        self.placement.borrow_mut().bars.clear();
        self.place();
    }
}
