// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function with a circuit of ours: how to find it, check what it is, and use its registers and
//! memory.

use std::sync::Arc;

use crosslane_host::ErrorKind::{Failed, NotFound, Unsupported};
use crosslane_host::{
    AnyBus, AnyMemory, Bus, BusError, ErrorKind, FunctionInfo, PageSize, RegisterAddress, Segment,
    Topology, lock,
};
use crosslane_pcie::config::{PortType, registers as reg};
use crosslane_pcie::units::RoutingId;
use crosslane_regs::engine::global;
use crosslane_regs::{Field, memory_card, network_processor};

use crate::buffer::{Buffer, Retired};
use crate::error::{DriverError, Result};
use crate::ports::LOW_HALF;

/// BAR of the registers, in every circuit.
pub(crate) const REGISTER_BAR: u8 = 0;

/// First registers of the circuits that the driver knows, with their names in errors.
const KNOWN: [(u32, &str); 3] = [
    (global::ID_RESET, "an engine"),
    (memory_card::ID_RESET, "a memory card"),
    (network_processor::ID_RESET, "a network processor"),
];

/// Parts of a circuit that the driver checks before it uses it.
pub(crate) struct Circuit {
    /// Name for messages: `engine`.
    pub name: &'static str,
    /// BARs of the circuit, each with the least size that it must have.
    pub bars: &'static [(u8, u64)],
    /// Register that says what it is, and its value.
    pub id: (u32, u32),
    /// Register of the map's version, and the version that the driver is written for.
    pub version: (u32, u32),
    /// Field of the version that must match.
    pub major: Field,
}

/// Finds the function of that number, or the endpoint of that name, and returns it with all
/// functions of the tree.
fn find(
    bus: &AnyBus,
    place: &str,
    what: &str,
    is_wanted: impl Fn(&FunctionInfo) -> bool,
) -> Result<(Access, Vec<FunctionInfo>)> {
    let failed = |source| DriverError::Bus { device: place.to_owned(), source };
    let functions = bus.functions().map_err(|error| failed(error.into()))?;
    if let Some(found) = functions.iter().find(|info| is_wanted(info)) {
        return Ok((Access { function: found.clone() }, functions));
    }
    let endpoints = functions.iter().filter(|info| info.port_type == PortType::Endpoint);
    let names: Vec<&str> = endpoints.map(|info| info.name.as_str()).collect();
    let have = match names.as_slice() {
        [] => "there are no endpoints".to_owned(),
        names => format!("endpoints are {}", names.join(", ")),
    };
    Err(DriverError::refused(place, NotFound, format!("there is no such {what}; {have}")))
}

pub(crate) fn find_function(bus: &AnyBus, id: RoutingId) -> Result<(Access, Vec<FunctionInfo>)> {
    find(bus, &id.to_string(), "function", |info| info.id == id)
}

pub(crate) fn find_endpoint(bus: &AnyBus, name: &str) -> Result<Access> {
    let is_wanted = |info: &FunctionInfo| info.name == name && info.port_type == PortType::Endpoint;
    Ok(find(bus, name, "endpoint", is_wanted)?.0)
}

/// A function's registers and memory. Its errors name the function.
pub(crate) struct Access {
    pub function: FunctionInfo,
}

impl Access {
    pub fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        DriverError::refused(&self.function.name, kind, problem)
    }

    pub fn failed(&self, source: impl Into<BusError>) -> DriverError {
        DriverError::Bus { device: self.function.name.clone(), source: source.into() }
    }

    /// Checks that the function is a circuit of that kind, enables its memory space and lets
    /// `describe` read what it can do. Restores it if it is of no use.
    pub async fn open<T>(
        &self,
        bus: &AnyBus,
        circuit: &Circuit,
        describe: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.check_bars(circuit)?;
        let before = self.change_command(bus, reg::COMMAND_MEMORY_SPACE, 0)?;
        let described = async {
            self.check(bus, circuit).await?;
            describe.await
        };
        match described.await {
            Ok(description) => Ok(description),
            Err(error) => {
                let restored = bus.config_write(self.function.id, reg::COMMAND, before, LOW_HALF);
                restored.map_err(|error| self.failed(error))?;
                Err(error)
            }
        }
    }

    pub fn check_bars(&self, circuit: &Circuit) -> Result<()> {
        let name = circuit.name;
        for &(bar, need) in circuit.bars {
            let found = self.function.bars.iter().find(|it| it.index == usize::from(bar));
            let have = found.map_or(0, |bar| bar.size_bytes);
            if have < need {
                let problem = format!("it has no {name}: BAR{bar} has {have} B and needs {need} B");
                return Err(self.refused(Unsupported, problem));
            }
        }
        Ok(())
    }

    async fn check(&self, bus: &AnyBus, circuit: &Circuit) -> Result<()> {
        let Circuit { name, id: (register, want), .. } = *circuit;
        let id = self.read(bus, register).await?;
        if id != want {
            let found = KNOWN.iter().find(|(known, _)| *known == id);
            let found = found.map_or_else(String::new, |(_, of)| format!(", that of {of},"));
            let problem =
                format!("it has no {name}: its first register is {id:#x}{found} and not {want:#x}");
            return Err(self.refused(Unsupported, problem));
        }
        let (register, version) = circuit.version;
        let want = circuit.major.get(version);
        let major = circuit.major.get(self.read(bus, register).await?);
        if major != want {
            let problem =
                format!("its register map has version {major}, this driver is written for {want}");
            return Err(self.refused(Unsupported, problem));
        }
        Ok(())
    }

    /// Sets and clears bits of the command register, and returns what it was.
    pub fn change_command(&self, bus: &AnyBus, set: u32, clear: u32) -> Result<u32> {
        let id = self.function.id;
        let before = bus.config_read(id, reg::COMMAND).map_err(|error| self.failed(error))?;
        let written = bus.config_write(id, reg::COMMAND, before & !clear | set, LOW_HALF);
        written.map_err(|error| self.failed(error))?;
        Ok(before)
    }

    pub fn register(&self, offset: u32) -> RegisterAddress {
        let (function, offset_bytes) = (self.function.id, offset.into());
        RegisterAddress { function, bar: REGISTER_BAR, offset_bytes }
    }

    pub async fn read(&self, bus: &AnyBus, offset: u32) -> Result<u32> {
        bus.read_register(self.register(offset)).await.map_err(|error| self.failed(error))
    }

    pub async fn write(&self, bus: &AnyBus, offset: u32, value: u32) -> Result<()> {
        bus.write_register(self.register(offset), value).await.map_err(|error| self.failed(error))
    }

    /// Writes registers and reads them back: a write is posted, and nothing else would notice that
    /// a link lost it.
    pub async fn set(&self, bus: &AnyBus, registers: &[(u32, u32)]) -> Result<()> {
        for &(register, value) in registers {
            self.write(bus, register, value).await?;
        }
        for &(register, value) in registers {
            let held = self.read(bus, register).await?;
            if held != value {
                let problem =
                    format!("register {register:#x} was set to {value:#x} and holds {held:#x}");
                return Err(self.refused(Failed, problem));
            }
        }
        Ok(())
    }

    pub fn allocate(&self, bus: &AnyBus, bytes: u64, pages: PageSize) -> Result<AnyMemory> {
        bus.allocate(bytes, pages).map_err(|error| self.failed(error))
    }

    pub async fn pin(&self, bus: &AnyBus, memory: &AnyMemory) -> Result<Vec<Segment>> {
        bus.pin(self.function.id, memory).await.map_err(|error| self.failed(error))
    }

    pub async fn unpin(&self, bus: &AnyBus, memory: &AnyMemory) -> Result<()> {
        bus.unpin(self.function.id, memory).await.map_err(|error| self.failed(error))
    }

    /// Pins memory and makes a buffer of it.
    pub async fn buffer(
        &self,
        bus: &AnyBus,
        memory: AnyMemory,
        retired: &Retired,
    ) -> Result<Buffer> {
        let segments = self.pin(bus, &memory).await?;
        Ok(Buffer::new(bus.clone(), &self.function, memory, segments, Arc::clone(retired)))
    }

    /// Unpins the memory of dropped buffers and channels.
    pub async fn unpin_retired(&self, bus: &AnyBus, retired: &Retired) -> Result<()> {
        loop {
            let next = lock(retired).pop();
            let Some(memory) = next else { return Ok(()) };
            self.unpin(bus, &memory).await?;
        }
    }
}
