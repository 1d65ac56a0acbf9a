// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs and outputs of a card in one clock, as the C++ shim takes them, and the layout of a TLP
//! header in the packed structure `tlp_header_t`.
//!
//! Read first: `gateware/rtl/crosslane_pkg.sv`.

use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::tlp::{Attributes, CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, RoutingId, Tag};

/// Words of a header: 153 bits.
pub(crate) const HEADER_WORDS: usize = 5;
/// Words of the widest beat: 512 bits.
pub(crate) const DATA_WORDS: usize = 16;
/// Value of `bar` for a request that no BAR claims.
pub(crate) const NO_BAR: u32 = 7;

/// Inputs of one clock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Reset.
    pub reset: u8,
    /// `s_rx_valid`.
    pub rx_valid: u8,
    /// `s_rx_first`.
    pub rx_first: u8,
    /// `s_rx_last`.
    pub rx_last: u8,
    /// `m_tx_ready`.
    pub tx_ready: u8,
    /// `room_t`: posted, non-posted, completion, from bit 2 down.
    pub room: u8,
    /// `time_set_valid`.
    pub time_is_set: u8,
    /// `function_t`.
    pub function: u32,
    /// `time_set_value`.
    pub time: u64,
    /// `s_rx_header`.
    pub rx_header: [u32; HEADER_WORDS],
    /// `s_rx_data`.
    pub rx_data: [u32; DATA_WORDS],
}

/// Outputs of one clock, sampled before its edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// `s_rx_ready`.
    pub rx_ready: u8,
    /// `m_tx_valid`.
    pub tx_valid: u8,
    /// `m_tx_first`.
    pub tx_first: u8,
    /// `m_tx_last`.
    pub tx_last: u8,
    /// `busy_o`.
    pub busy: u8,
    /// Set if a poisoned write has been dropped.
    pub poisoned_write: u8,
    /// Set if a completion has come for no read.
    pub unexpected_completion: u8,
    /// Set if a read has timed out.
    pub completion_timeout: u8,
    /// `time_o`.
    pub time: u64,
    /// `m_tx_header`.
    pub tx_header: [u32; HEADER_WORDS],
    /// `m_tx_data`.
    pub tx_data: [u32; DATA_WORDS],
}

/// Inputs of an AXI4 port of a card in one clock; names are AXI's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AxiInputs {
    /// `awready`.
    pub aw_ready: u8,
    /// `wready`.
    pub w_ready: u8,
    /// `bvalid`.
    pub b_valid: u8,
    /// `bresp`.
    pub b_response: u8,
    /// `arready`.
    pub ar_ready: u8,
    /// `rvalid`.
    pub r_valid: u8,
    /// `rlast`.
    pub r_last: u8,
    /// `rresp`.
    pub r_response: u8,
    /// `rdata`.
    pub r_data: [u32; DATA_WORDS],
}

/// Outputs of an AXI4 port of a card in one clock, sampled before its edge. The size of a beat is
/// the datapath's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AxiOutputs {
    /// `awvalid`.
    pub aw_valid: u8,
    /// `wvalid`.
    pub w_valid: u8,
    /// `wlast`.
    pub w_last: u8,
    /// `bready`.
    pub b_ready: u8,
    /// `arvalid`.
    pub ar_valid: u8,
    /// `rready`.
    pub r_ready: u8,
    /// `awlen`: beats less one.
    pub aw_length: u8,
    /// `arlen`: beats less one.
    pub ar_length: u8,
    /// `awaddr`.
    pub aw_address: u64,
    /// `araddr`.
    pub ar_address: u64,
    /// `wstrb`.
    pub w_strobe: u64,
    /// `wdata`.
    pub w_data: [u32; DATA_WORDS],
}

/// Inputs of one clock of a card with memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryInputs {
    /// Those of any card.
    pub tlps: Inputs,
    /// Ports of the channels and of the window.
    pub ports: [AxiInputs; 2],
}

/// Outputs of one clock of a card with memory, sampled before its edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryOutputs {
    /// Those of any card.
    pub tlps: Outputs,
    /// Ports of the channels and of the window.
    pub ports: [AxiOutputs; 2],
}

/// Most links of a network processor.
pub const MAX_LINKS: usize = 8;
/// Words of 32 bits for the line bits of a link's word: at most 66 of each of 8 lanes.
pub const LINE_WORDS: usize = 17;

/// Inputs of one clock of a network processor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkInputs {
    /// Those of the TLPs; it has no time.
    pub tlps: Inputs,
    /// `first_session`.
    pub first_session: u32,
    /// `rx_clk`, a bit of each link.
    pub rx_clocks: u8,
    /// `rx_rst`, a bit of each link.
    pub rx_resets: u8,
    /// `rx_detected`: a bit of each lane of each link.
    pub rx_detected: [u8; MAX_LINKS],
    /// `rx_words` of each link.
    pub rx_words: [[u32; LINE_WORDS]; MAX_LINKS],
}

/// Outputs of one clock of a network processor, sampled before its edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkOutputs {
    /// Those of the TLPs; it has no time and reports no errors.
    pub tlps: Outputs,
    /// `settled_o`, a bit of each link.
    pub settled: u8,
    /// `tx_enable`, a bit of each link.
    pub tx_enable: u8,
    /// `tx_begins_word`, a bit of each link.
    pub tx_begins_word: u8,
    /// `tx_words` of each link.
    pub tx_words: [[u32; LINE_WORDS]; MAX_LINKS],
}

/// Settings of the function's configuration space for the card: `function_t`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FunctionSettings {
    pub max_payload_bytes: u32,
    pub max_read_request_bytes: u32,
    pub bus_master: bool,
    pub relaxed_ordering: bool,
    pub extended_tags: bool,
    pub msix_enabled: bool,
}

impl From<&ConfigSpace> for FunctionSettings {
    fn from(config: &ConfigSpace) -> Self {
        Self {
            max_payload_bytes: config.max_payload_bytes(),
            max_read_request_bytes: config.max_read_request_bytes(),
            bus_master: config.bus_master_enabled(),
            relaxed_ordering: config.relaxed_ordering_enabled(),
            extended_tags: config.extended_tags_enabled(),
            msix_enabled: config.msix().is_some_and(|msix| msix.enabled && !msix.function_masked),
        }
    }
}

impl FunctionSettings {
    pub fn packed(&self, id: RoutingId, link_up: bool) -> u32 {
        // Encodes 128 << n bytes as n.
        let code = |bytes: u32| bytes.max(128).ilog2() - 7;
        u32::from(id.0) << 11
            | code(self.max_payload_bytes) << 8
            | code(self.max_read_request_bytes) << 5
            | u32::from(self.bus_master) << 4
            | u32::from(self.relaxed_ordering) << 3
            | u32::from(self.extended_tags) << 2
            | u32::from(self.msix_enabled) << 1
            | u32::from(link_up)
    }
}

/// Field of `tlp_header_t`: its lowest bit and its width.
#[derive(Clone, Copy)]
struct Field(usize, usize);

const BAR: Field = Field(0, 3);
const COMPLETER: Field = Field(3, 16);
const BYTE_COUNT: Field = Field(19, 13);
const STATUS: Field = Field(32, 3);
const POISONED: Field = Field(35, 1);
const ATTRIBUTES: Field = Field(36, 3);
const TAG: Field = Field(42, 10);
const REQUESTER: Field = Field(52, 16);
const LAST_ENABLES: Field = Field(68, 4);
const FIRST_ENABLES: Field = Field(72, 4);
const LENGTH: Field = Field(76, 11);
const ADDRESS: Field = Field(87, 64);
const KIND: Field = Field(151, 2);

const MEMORY_READ: u64 = 0;
const MEMORY_WRITE: u64 = 1;
const COMPLETION: u64 = 2;
const COMPLETION_DATA: u64 = 3;

fn put(words: &mut [u32; HEADER_WORDS], Field(low, width): Field, value: u64) {
    for bit in 0..width {
        let (word, at) = ((low + bit) / 32, (low + bit) % 32);
        words[word] |= ((value >> bit & 1) as u32) << at;
    }
}

fn get(words: &[u32; HEADER_WORDS], Field(low, width): Field) -> u64 {
    (0..width).fold(0, |value, bit| {
        let (word, at) = ((low + bit) / 32, (low + bit) % 32);
        value | u64::from(words[word] >> at & 1) << bit
    })
}

/// Packs a header for the card; `None` for configuration requests and messages, which it does not
/// take.
pub(crate) fn packed(header: &Header, bar: u32) -> Option<[u32; HEADER_WORDS]> {
    let (kind, address) = match header.kind {
        TlpKind::MemoryRead => (MEMORY_READ, header.address.0 & !3),
        TlpKind::MemoryWrite => (MEMORY_WRITE, header.address.0 & !3),
        TlpKind::Completion => (COMPLETION, header.address.0),
        TlpKind::CompletionData => (COMPLETION_DATA, header.address.0),
        TlpKind::ConfigurationRead | TlpKind::ConfigurationWrite | TlpKind::Message => return None,
    };
    let attributes = u64::from(header.attributes.id_based_ordering) << 2
        | u64::from(header.attributes.relaxed_ordering) << 1
        | u64::from(header.attributes.no_snoop);
    let mut words = [0; HEADER_WORDS];
    for (field, value) in [
        (KIND, kind),
        (ADDRESS, address),
        (LENGTH, header.length_dw.into()),
        (FIRST_ENABLES, header.first_byte_enables.into()),
        (LAST_ENABLES, header.last_byte_enables.into()),
        (REQUESTER, header.requester.0.into()),
        (TAG, header.tag.0.into()),
        (ATTRIBUTES, attributes),
        (POISONED, header.poisoned.into()),
        (STATUS, header.status as u64),
        (BYTE_COUNT, header.byte_count.into()),
        (COMPLETER, header.completer.0.into()),
        (BAR, bar.into()),
    ] {
        put(&mut words, field, value);
    }
    Some(words)
}

/// Unpacks a header sent by the card.
pub(crate) fn unpacked(words: &[u32; HEADER_WORDS]) -> Header {
    let field = |field| get(words, field);
    let kind = match field(KIND) {
        MEMORY_READ => TlpKind::MemoryRead,
        MEMORY_WRITE => TlpKind::MemoryWrite,
        COMPLETION => TlpKind::Completion,
        _ => TlpKind::CompletionData,
    };
    let is_request = matches!(kind, TlpKind::MemoryRead | TlpKind::MemoryWrite);
    let first_byte_enables = field(FIRST_ENABLES) as u8;
    // The fabric's address points to the first enabled byte.
    let skip = u64::from(first_byte_enables.trailing_zeros()) % 4;
    let address = match is_request {
        true if first_byte_enables != 0 => field(ADDRESS) & !3 | skip,
        true => field(ADDRESS) & !3,
        false => field(ADDRESS) & 0x7f,
    };
    let attributes = field(ATTRIBUTES);
    Header {
        kind,
        attributes: Attributes {
            relaxed_ordering: attributes >> 1 & 1 != 0,
            no_snoop: attributes & 1 != 0,
            id_based_ordering: attributes >> 2 & 1 != 0,
        },
        poisoned: field(POISONED) != 0,
        status: match field(STATUS) {
            _ if is_request => CompletionStatus::Successful,
            0 => CompletionStatus::Successful,
            2 => CompletionStatus::ConfigurationRetry,
            4 => CompletionStatus::CompleterAbort,
            _ => CompletionStatus::UnsupportedRequest,
        },
        first_byte_enables: if is_request { first_byte_enables } else { 0 },
        last_byte_enables: if is_request { field(LAST_ENABLES) as u8 } else { 0 },
        length_dw: if kind == TlpKind::Completion { 0 } else { field(LENGTH) as u16 },
        requester: RoutingId(field(REQUESTER) as u16),
        completer: RoutingId(if is_request { 0 } else { field(COMPLETER) as u16 }),
        tag: Tag(field(TAG) as u16),
        byte_count: if is_request { 0 } else { field(BYTE_COUNT) as u16 },
        address: BusAddress(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_go_through_their_packed_form() {
        let id = RoutingId(0x1234);
        let mut write = Header::memory_write(id, BusAddress(0x12_3456_7003), 250);
        write.attributes.relaxed_ordering = true;
        write.poisoned = true;
        let mut read = Header::memory_read(id, Tag(0x2a5), BusAddress(0xfedc_ba98_7654_3001), 2);
        read.attributes.no_snoop = true;
        let whole = Header::memory_read(id, Tag(1), BusAddress(0x1000), 4096);
        let flush = Header::memory_read(id, Tag(1), BusAddress(0x1000), 0);
        let abort = CompletionStatus::CompleterAbort;
        let completer = RoutingId(0x0300);
        for header in [
            write,
            read,
            whole,
            flush,
            Header::completion_data(&whole, completer, BusAddress(0x107c), 132, 3972),
            Header::completion_data(&whole, completer, BusAddress(0x1000), 128, 4096),
            Header::completion_error(&read, completer, abort),
        ] {
            let words = packed(&header, 1).unwrap();
            assert_eq!(unpacked(&words), header);
            assert_eq!((get(&words, BAR), words[4] >> 25), (1, 0));
        }
        // As in the structure: `kind` is above `address`, `bar` is lowest.
        let words = packed(&write, NO_BAR).unwrap();
        assert_eq!((words[0] & 7, words[4] >> 23), (7, 1));
    }

    #[test]
    fn a_function_is_packed_as_the_structure_says() {
        let settings = FunctionSettings {
            max_payload_bytes: 512,
            max_read_request_bytes: 4096,
            bus_master: true,
            relaxed_ordering: false,
            extended_tags: true,
            msix_enabled: false,
        };
        let packed = settings.packed(RoutingId(0x0300), true);
        assert_eq!(packed, 0x0300 << 11 | 2 << 8 | 5 << 5 | 0b1_0101);
    }
}
