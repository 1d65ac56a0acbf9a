// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Function of a device as its configuration space sets it, and the TLPs that arrive at it.

use crosslane_fabric::trace::HeaderLine;
use crosslane_fabric::{DevicePort, ErrorKind};
use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};

use super::completer::Answer;
use super::registers::ALL_BYTES;

/// Address range of a BAR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aperture {
    /// First address.
    pub base: u64,
    /// Size in bytes; 0 while the BAR is absent or memory requests are disabled.
    pub bytes: u64,
}

/// Position of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the BAR.
    pub bar: usize,
    /// Offset of the first byte in it.
    pub offset: u64,
}

/// TLP that has arrived, by its effect on a device.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Write into an aperture.
    Write(Place),
    /// Write whose data are poisoned and have no effect.
    Poisoned(Place),
    /// Read of one or two registers behind BAR 0.
    Registers(RegisterRead),
    /// Read of another aperture.
    Read(Place),
    /// Read whose answer does not depend on the device.
    Answered(Answer),
    /// Completion.
    Completion,
    /// TLP without an effect.
    Ignored,
}

/// Read of a register, or of some of its bytes, or of an aligned pair of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterRead {
    /// Offset of the (low) register in BAR 0.
    pub offset: u32,
    /// Whether the register behind it is read, too.
    pub is_pair: bool,
}

impl RegisterRead {
    /// Reads the registers, the low one first.
    pub fn answer(self, mut read: impl FnMut(u32) -> u32) -> Answer {
        let low = read(self.offset);
        if !self.is_pair {
            return Answer::Word(low);
        }
        let words = [low, read(self.offset + 4)];
        Answer::Data(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}

/// Settings of a function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Apertures of the BARs.
    pub bars: [Aperture; 6],
    /// Max_Payload_Size, bytes.
    pub max_payload_bytes: u32,
    /// Max_Read_Request_Size, bytes.
    pub max_read_request_bytes: u32,
    /// Whether requests may have relaxed ordering.
    pub relaxed_ordering: bool,
    /// Whether the function may send requests.
    pub is_bus_master: bool,
}

impl Default for Function {
    /// Returns the settings after a reset.
    fn default() -> Self {
        Self {
            bars: [Aperture::default(); 6],
            max_payload_bytes: 128,
            max_read_request_bytes: 128,
            relaxed_ordering: false,
            is_bus_master: false,
        }
    }
}

impl From<&ConfigSpace> for Function {
    fn from(config: &ConfigSpace) -> Self {
        let bars = [0, 1, 2, 3, 4, 5].map(|number| {
            let bar = config.bar(number).filter(|_| config.memory_enabled());
            bar.map_or(Aperture::default(), |bar| Aperture {
                base: bar.base.0,
                bytes: bar.size_bytes,
            })
        });
        Self {
            bars,
            max_payload_bytes: config.max_payload_bytes(),
            max_read_request_bytes: config.max_read_request_bytes(),
            relaxed_ordering: config.relaxed_ordering_enabled(),
            is_bus_master: config.bus_master_enabled(),
        }
    }
}

impl Function {
    /// Returns the position of a request; `None` unless one aperture contains all of it.
    pub fn place(&self, request: &Header) -> Option<Place> {
        let bytes = u64::from(request.request_bytes());
        (0..).zip(&self.bars).find_map(|(bar, aperture)| {
            let offset = request.address.0.checked_sub(aperture.base)?;
            // A request of no bytes addresses one, too.
            let end = offset.checked_add(bytes.max(1))?;
            (end <= aperture.bytes).then_some(Place { bar, offset })
        })
    }

    /// Sorts a TLP that has arrived, and reports its errors.
    ///
    /// Registers are behind BAR 0. A read of bytes of a double word reads that one; one of 8 B at
    /// a multiple of 8 B reads both, as software may read MSI-X's structures (7.7.2); any longer
    /// or unaligned one violates the programming model and gets Completer Abort (PCIe 6.x 2.3.1).
    /// A read of no bytes is a flush and always valid. A request that no aperture contains gets
    /// Unsupported Request, whether or not it is poisoned (6.2.3.2.3).
    pub fn sort(&self, header: &Header, port: &mut DevicePort<'_>) -> Arrival {
        let place = match header.kind {
            TlpKind::MemoryWrite | TlpKind::MemoryRead => self.place(header),
            TlpKind::Completion | TlpKind::CompletionData => return Arrival::Completion,
            // Configuration requests take no simulated time; messages have no effect.
            TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => {
                return Arrival::Ignored;
            }
        };
        let is_write = header.kind == TlpKind::MemoryWrite;
        let enables = (header.first_byte_enables, header.last_byte_enables);
        let is_whole = enables == (ALL_BYTES, ALL_BYTES);
        match place {
            None => {
                let what = HeaderLine(header).to_string();
                port.report(ErrorKind::Unrouted { what, address: header.address });
                match is_write {
                    true => Arrival::Ignored,
                    false => {
                        Arrival::Answered(Answer::Refused(CompletionStatus::UnsupportedRequest))
                    }
                }
            }
            Some(place) if is_write && header.poisoned => {
                port.report(ErrorKind::PoisonedWrite { what: HeaderLine(header).to_string() });
                Arrival::Poisoned(place)
            }
            Some(place) if is_write => Arrival::Write(place),
            Some(_) if header.request_bytes() == 0 => Arrival::Answered(Answer::Word(0)),
            Some(Place { bar: 0, offset }) => {
                let is_pair = header.length_dw == 2 && is_whole && offset % 8 == 0;
                let offset = offset as u32 & !3;
                if header.length_dw == 1 || is_pair {
                    return Arrival::Registers(RegisterRead { offset, is_pair });
                }
                Arrival::Answered(Answer::Refused(CompletionStatus::CompleterAbort))
            }
            Some(place) => Arrival::Read(place),
        }
    }
}

/// Reports a completion that no read waits for (PCIe 6.x 2.3.2).
pub fn report_unexpected(header: &Header, port: &mut DevicePort<'_>) {
    let what = HeaderLine(header).to_string();
    port.report(ErrorKind::UnexpectedCompletion { what });
}
