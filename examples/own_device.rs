// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models a device and drives it from host code: a card that adds up the numbers stored into a
//! register, and writes their sum to host memory when it is given an address.

use std::collections::VecDeque;

use crosslane::device::kit::{
    Answer, Arrival, Completer, Function, Timer, send_write, whole_words,
};
use crosslane::fabric::{Consumed, Device, DevicePort, Received};
use crosslane::host::{Reason, RegisterAddress};
use crosslane::lab::CheckedRun;
use crosslane::pcie::config::{ConfigSpace, registers};
use crosslane::pcie::tlp::Class;
use crosslane::pcie::units::HostId;
use crosslane::prelude::*;

/// Register: a store adds a number, a load returns the sum.
const SUM: u32 = 0;
/// Register: a store of a bus address makes the card write the sum there.
const REPORT: u32 = 4;

struct Adder {
    function: Function,
    completer: Completer,
    timer: Timer,
    sum: u32,
    /// Addresses and sums that wait for room in the port.
    reports: VecDeque<(u32, u32)>,
}

impl Adder {
    fn new() -> Self {
        let (function, completer, timer) =
            (Function::default(), Completer::default(), Timer::new(0));
        Self { function, completer, timer, sum: 0, reports: VecDeque::new() }
    }
}

impl Device for Adder {
    /// The host has written the configuration space: the BAR may have moved.
    fn configured(&mut self, config: &ConfigSpace) {
        self.function = config.into();
    }

    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let answer = match self.function.sort(&header, port) {
            Arrival::Write(place) => {
                for word in whole_words(place.offset, &header, port.payload(tlp)) {
                    match word {
                        (SUM, number) => self.sum = self.sum.wrapping_add(number),
                        (REPORT, address) => self.reports.push_back((address, self.sum)),
                        _ => {}
                    }
                }
                None
            }
            Arrival::Registers(read) => {
                Some(read.answer(|offset| if offset == SUM { self.sum } else { 0 }))
            }
            Arrival::Read(_) => Some(Answer::Word(0)),
            Arrival::Answered(answer) => Some(answer),
            Arrival::Poisoned(_) | Arrival::Completion | Arrival::Ignored => None,
        };
        let consumed = self.completer.reply(tlp, answer, port.now_ps(), &self.function, port);
        self.transmit_ready(port);
        consumed
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        while self.completer.send(&mut self.timer, port) {}
        while port.has_room_for(Class::Posted)
            && let Some((address, sum)) = self.reports.pop_front()
        {
            send_write(address.into(), &sum.to_le_bytes(), port);
        }
    }

    fn timer(&mut self, _token: u32, _port: &mut DevicePort<'_>) {}
}

fn main() -> Result<(), Reason> {
    // The card of a shipped lab, with its BARs and its link, behaves as an adder.
    let mut lab = crosslane::lab::open("minimal")?.build(1)?;
    let card = lab.find("card0").ok_or("the lab has a card")?;
    assert!(lab.fabric.set_device(card, Box::new(Adder::new())));
    let run = CheckedRun::of(lab);
    let bus = run.simulation().bus(HostId(0));
    run.run("adder", async {
        let functions = bus.functions()?;
        let card = functions.iter().find(|info| info.name == "card0").ok_or("it is enumerated")?;
        let on = registers::COMMAND_MEMORY_SPACE | registers::COMMAND_BUS_MASTER;
        bus.config_write(card.id, registers::COMMAND, on, 0b0011)?;
        let register = |offset: u32| RegisterAddress {
            function: card.id,
            bar: 0,
            offset_bytes: offset.into(),
        };
        for number in 1..=100 {
            bus.write_register(register(SUM), number).await?;
        }
        let begin = bus.now();
        let sum = bus.read_register(register(SUM)).await?;
        println!("sum: {sum}, read in {}", bus.now().since(begin));

        let memory = bus.allocate(4096, PageSize::Small)?;
        let address = bus.pin(card.id, &memory).await?[0].address.0;
        let address = u32::try_from(address).expect("the lab's memory is below 4 GiB");
        let begin = bus.now();
        bus.write_register(register(REPORT), address).await?;
        let deadline = bus.after(Duration::from_millis(1));
        let reported = bus.wait_memory(&memory, 0, 0, deadline).await?;
        assert_eq!(reported, sum);
        println!("the same in host memory after {}", bus.now().since(begin));
        bus.unpin(card.id, &memory).await?;
        Ok::<_, Reason>(())
    })?;
    Ok(())
}
