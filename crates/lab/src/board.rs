// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a card of gateware: that of the behavioural engine, with its time.

use crosslane_device::{CardMemory, CardMemoryParameters};
use crosslane_pcie::units::Picoseconds;

/// Memory of a card behind the AXI4 ports of its gateware.
pub(crate) struct Board(CardMemory);

impl Board {
    pub fn new(parameters: CardMemoryParameters) -> Self {
        Self(CardMemory::new(parameters))
    }
}

impl crosslane_cosim::CardMemory for Board {
    fn read(
        &mut self,
        from: Picoseconds,
        address: u64,
        out: &mut [u8],
    ) -> Result<Picoseconds, Picoseconds> {
        let (mut done, mut end) = (0, from);
        while done < out.len() {
            let at = address.wrapping_add(done as u64);
            let bytes = (out.len() - done).min(self.0.to_burst_end(at) as usize);
            let read = self.0.read(from.0, at, &mut out[done..done + bytes]);
            end = end.max(Picoseconds(read.map_err(|refused| Picoseconds(refused.at_ps))?));
            done += bytes;
        }
        Ok(end)
    }

    fn write(
        &mut self,
        from: Picoseconds,
        address: u64,
        data: &[u8],
    ) -> Result<Picoseconds, Picoseconds> {
        let written = self.0.write(from.0, address, data);
        written.map(Picoseconds).map_err(|refused| Picoseconds(refused.at_ps))
    }

    fn peek(&self, address: u64, out: &mut [u8]) -> bool {
        self.0.peek(address, out)
    }
}
