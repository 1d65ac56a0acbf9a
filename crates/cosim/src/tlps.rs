// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs between a card's port in the fabric and its circuit, beat by beat.

use std::collections::VecDeque;

use crosslane_fabric::trace::HeaderLine;
use crosslane_fabric::{Consumed, DevicePort, ErrorKind, Received};
use crosslane_pcie::config::Bar;
use crosslane_pcie::tlp::{Class, Header};

use crate::pins::{self, Inputs, NO_BAR, Outputs};

/// TLP that has arrived and is being passed to the circuit.
struct Incoming {
    tlp: Received,
    header: Header,
    words: [u32; pins::HEADER_WORDS],
    data_credits: u32,
    payload: Vec<u8>,
    arrived_ps: u64,
    /// Bytes that the circuit has taken.
    taken: usize,
}

/// TLP that the circuit is sending.
struct Outgoing {
    header: Header,
    payload: Vec<u8>,
    begun_ps: u64,
}

/// TLPs that a circuit is taking and sending.
pub(crate) struct Tlps {
    beat_bytes: usize,
    clock_ps: u64,
    incoming: VecDeque<Incoming>,
    outgoing: Option<Outgoing>,
    /// Payload buffers for reuse.
    spare: Vec<Vec<u8>>,
}

/// Returns the number of the BAR that holds all of a request, [`NO_BAR`] if none does.
fn bar_of<'a>(header: &Header, bars: impl IntoIterator<Item = (u32, &'a Option<Bar>)>) -> u32 {
    if !header.kind.is_routed_by_address() {
        return NO_BAR;
    }
    let (address, bytes) = (header.address.0, u64::from(header.request_bytes()));
    let holds = |bar: &Bar| {
        let offset = address.checked_sub(bar.base.0);
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        end.is_some_and(|end| end <= bar.size_bytes)
    };
    let mut bars = bars.into_iter();
    bars.find(|(_, bar)| bar.as_ref().is_some_and(holds)).map_or(NO_BAR, |(number, _)| number)
}

/// Returns `room_t`: the kinds of TLPs that the port takes.
pub(crate) fn room(port: &DevicePort<'_>) -> u8 {
    u8::from(port.has_room_for(Class::Posted)) << 2
        | u8::from(port.has_room()) << 1
        | u8::from(port.has_room_for(Class::Completion))
}

impl Tlps {
    /// Creates the queues of a circuit with beats of `beat_bytes`.
    pub fn new(beat_bytes: usize, clock_ps: u64) -> Self {
        let (incoming, outgoing, spare) = (VecDeque::new(), None, Vec::new());
        Self { beat_bytes, clock_ps, incoming, outgoing, spare }
    }

    /// Bytes of a beat.
    pub const fn beat_bytes(&self) -> usize {
        self.beat_bytes
    }

    /// Number of TLPs that the circuit has not taken.
    pub fn waiting(&self) -> usize {
        self.incoming.len()
    }

    /// Whether a TLP is on its way into the circuit or out of it.
    pub fn is_busy(&self) -> bool {
        self.outgoing.is_some() || !self.incoming.is_empty()
    }

    /// Takes a TLP that arrives now, for the circuit if it is held; the BARs come with the numbers
    /// that the circuit has for them.
    pub fn receive<'a>(
        &mut self,
        tlp: Received,
        bars: impl IntoIterator<Item = (u32, &'a Option<Bar>)>,
        port: &mut DevicePort<'_>,
    ) -> Consumed {
        let header = port.header(tlp);
        let bar = bar_of(&header, bars);
        // Configuration requests take no simulated time; messages have no effect.
        let Some(words) = pins::packed(&header, bar) else { return Consumed::Now };
        if bar == NO_BAR && header.kind.is_routed_by_address() {
            let what = HeaderLine(&header).to_string();
            port.report(ErrorKind::Unrouted { what, address: header.address });
        }
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.clear();
        payload.extend_from_slice(port.payload(tlp));
        let (data_credits, arrived_ps) = (port.data_credits(tlp), port.now_ps());
        self.incoming.push_back(Incoming {
            tlp,
            header,
            words,
            data_credits,
            payload,
            arrived_ps,
            taken: 0,
        });
        Consumed::Held
    }

    /// Offers the circuit the next beat of the received TLPs, if any. Returns its bytes.
    pub fn offer(&self, now_ps: u64, inputs: &mut Inputs) -> usize {
        let Some(front) = self.incoming.front().filter(|it| it.arrived_ps < now_ps) else {
            return 0;
        };
        let rest = &front.payload[front.taken..];
        let bytes = rest.len().min(self.beat_bytes);
        inputs.rx_valid = 1;
        inputs.rx_first = u8::from(front.taken == 0);
        inputs.rx_last = u8::from(bytes == rest.len());
        if front.taken == 0 {
            inputs.rx_header = front.words;
        }
        let words = rest[..bytes].as_chunks::<4>().0;
        for (word, bytes) in inputs.rx_data.iter_mut().zip(words) {
            *word = u32::from_le_bytes(*bytes);
        }
        bytes
    }

    /// Handles a beat that the circuit has taken. Returns the header of a TLP that it ends.
    pub fn taken(
        &mut self,
        bytes: usize,
        is_last: bool,
        port: &mut DevicePort<'_>,
    ) -> Option<Header> {
        let front = self.incoming.front_mut()?;
        front.taken += bytes;
        if !is_last {
            return None;
        }
        let Incoming { tlp, header, data_credits, payload, .. } = self.incoming.pop_front()?;
        port.release(tlp, &header, data_credits);
        self.spare.push(payload);
        Some(header)
    }

    /// Takes the beat that the circuit sends in this clock. Returns the header of a TLP that is
    /// whole, and sends it.
    pub fn send_beat(
        &mut self,
        outputs: &Outputs,
        now_ps: u64,
        port: &mut DevicePort<'_>,
    ) -> Option<Header> {
        if outputs.tx_valid == 0 {
            return None;
        }
        if outputs.tx_first != 0 {
            let header = pins::unpacked(&outputs.tx_header);
            let mut payload = self.spare.pop().unwrap_or_default();
            payload.clear();
            self.outgoing = Some(Outgoing { header, payload, begun_ps: now_ps });
        }
        let outgoing = self.outgoing.as_mut()?;
        let left = outgoing.header.payload_bytes() as usize - outgoing.payload.len();
        let words = left.min(self.beat_bytes) / 4;
        for word in &outputs.tx_data[..words] {
            outgoing.payload.extend_from_slice(&word.to_le_bytes());
        }
        if outputs.tx_last == 0 {
            return None;
        }
        let Outgoing { header, mut payload, begun_ps } = self.outgoing.take()?;
        payload.resize(header.payload_bytes() as usize, 0);
        // The first beat leaves at the end of its clock.
        port.send_begun(header, begun_ps + self.clock_ps, |place| place.copy_from_slice(&payload));
        self.spare.push(payload);
        Some(header)
    }
}
