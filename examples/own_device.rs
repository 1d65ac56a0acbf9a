// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models a device and drives it from host code: a card that adds up the numbers stored into a
//! register, and writes their sum to host memory when it is given an address.

use std::any::Any;
use std::collections::VecDeque;

use crosslane::fabric::{Consumed, Device, DevicePort, Received};
use crosslane::host::RegisterAddress;
use crosslane::lab::Simulation;
use crosslane::pcie::config::{ConfigSpace, registers};
use crosslane::pcie::tlp::{Header, TlpKind};
use crosslane::pcie::units::{BusAddress, HostId};
use crosslane::prelude::*;

/// Register: a store adds a number, a load returns the sum.
const SUM: u64 = 0;
/// Register: a store of a bus address makes the card write the sum there.
const REPORT: u64 = 4;

#[derive(Default)]
struct Adder {
    registers: u64,
    sum: u32,
    /// TLPs that wait for room in the port.
    waiting: VecDeque<(Header, u32)>,
}

impl Device for Adder {
    /// The host has written the configuration space: the BAR may have moved.
    fn configured(&mut self, config: &ConfigSpace) {
        self.registers = config.bar(0).map_or(0, |bar| bar.base.0);
    }

    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let (request, id) = (port.header(tlp), port.routing_id());
        let value = port.payload(tlp).first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        match (request.kind, request.address.0.wrapping_sub(self.registers), request.length_dw) {
            (TlpKind::MemoryWrite, SUM, 1) => self.sum = self.sum.wrapping_add(value),
            (TlpKind::MemoryWrite, REPORT, 1) => {
                let write = Header::memory_write(id, BusAddress(value.into()), 4);
                self.waiting.push_back((write, self.sum));
            }
            (TlpKind::MemoryRead, SUM, 1) => {
                let completion = Header::completion_data(&request, id, request.address, 4, 4);
                self.waiting.push_back((completion, self.sum));
            }
            _ => port.refuse(tlp),
        }
        self.transmit_ready(port);
        Consumed::Now
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        while let Some((header, value)) = self.waiting.front().copied()
            && port.has_room_for(header.class())
        {
            port.send(header, |payload| payload.copy_from_slice(&value.to_le_bytes()));
            self.waiting.pop_front();
        }
    }

    fn timer(&mut self, _token: u32, _port: &mut DevicePort<'_>) {}

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The card of a shipped lab, with its BARs and its link, behaves as an adder.
    let mut lab = crosslane::lab::open("minimal")?.build(1)?;
    let card = lab.find("card0").ok_or("the lab has a card")?;
    assert!(lab.fabric.set_device(card, Box::new(Adder::default())));
    let simulation = Simulation::new(lab);
    let bus = simulation.bus(HostId(0));
    simulation.run("adder", async {
        let functions = bus.functions()?;
        let card = functions.iter().find(|info| info.name == "card0").ok_or("it is enumerated")?;
        let on = registers::COMMAND_MEMORY_SPACE | registers::COMMAND_BUS_MASTER;
        bus.config_write(card.id, registers::COMMAND, on, 0b0011)?;
        let register = |offset_bytes| RegisterAddress { function: card.id, bar: 0, offset_bytes };
        for number in 1..=100 {
            bus.write_register(register(SUM), number).await?;
        }
        let begin = bus.now();
        let sum = bus.read_register(register(SUM)).await?;
        println!("sum: {sum}, read in {}", bus.now().since(begin));

        let memory = bus.allocate(4096, PageSize::Small)?;
        let address = bus.pin(card.id, &memory).await?[0].address.0;
        let begin = bus.now();
        bus.write_register(register(REPORT), u32::try_from(address)?).await?;
        let deadline = bus.after(Duration::from_millis(1));
        let reported = bus.wait_memory(&memory, 0, 0, deadline).await?;
        assert_eq!(reported, sum);
        println!("the same in host memory after {}", bus.now().since(begin));
        bus.unpin(card.id, &memory).await?;
        Ok(())
    })?
}
