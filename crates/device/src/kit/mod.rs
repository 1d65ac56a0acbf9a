// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts that every device needs, by the rules of PCI Express; a model adds its own behaviour.
//! `docs/own-device.md` explains them and shows a device.
//!
//! Read first: [`Function`] sorts the TLPs that arrive; [`RegisterFile`] has the words that
//! software writes; [`Completer`] answers reads; [`Requester`] reads host memory.

mod completer;
mod function;
mod msix;
mod registers;
mod requester;
mod tags;
mod timer;

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::BusAddress;

pub use completer::{Answer, Completer, Completion, Held};
pub use function::{Aperture, Arrival, Function, Place, RegisterRead, report_unexpected};
pub use msix::Msix;
pub use registers::{RegisterFile, whole_words};
pub use requester::{Completed, Requester};
pub use tags::{Answered, CompletionCredits, ReadError, Tag, TagState, Tags};
pub use timer::Timer;

/// Returns how many of `left` bytes at an address one TLP carries that ends at a multiple of
/// `most_bytes`, a power of two up to 4096: so none crosses a boundary of 4 KiB (PCIe 6.x 2.2.7).
pub fn part_bytes(address: u64, left: u64, most_bytes: u32) -> u32 {
    let most = u64::from(most_bytes);
    left.min(most - address % most) as u32
}

/// Sends a write of `data`, which lies within 4 KiB.
pub fn send_write(address: u64, data: &[u8], port: &mut DevicePort<'_>) {
    let header = Header::memory_write(port.routing_id(), BusAddress(address), data.len() as u32);
    let skip = (address & 3) as usize;
    port.send(header, |payload| {
        if payload.len() > data.len() {
            payload.fill(0);
        }
        payload[skip..skip + data.len()].copy_from_slice(data);
    });
}

/// Returns a sentence for each count that is not 0, for `Device::unfinished`.
pub fn unfinished(counts: &[(usize, &str)]) -> Vec<String> {
    let open = counts.iter().filter(|(count, _)| *count > 0);
    open.map(|(count, what)| format!("{count} {what}")).collect()
}
