// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offsets of the registers of configuration space, and their bits.
//!
//! Offsets are in bytes, of the double word that holds the register. Bits of a register in the
//! upper half of its double word are given by their position in the double word. Offsets within a
//! capability are relative to its header.

/// Vendor ID (low half) and Device ID (PCIe 6.x 7.5.1.1.1, 7.5.1.1.2).
pub const VENDOR_DEVICE: u16 = 0x00;
/// Command (low half) and Status (PCIe 6.x 7.5.1.1.3, 7.5.1.1.4).
pub const COMMAND: u16 = 0x04;
/// Revision ID (lowest byte) and Class Code (PCIe 6.x 7.5.1.1.5, 7.5.1.1.6).
pub const CLASS_REVISION: u16 = 0x08;
/// Cache Line Size, Latency Timer, Header Type (bits 22:16), BIST (PCIe 6.x 7.5.1.1.7 to .10).
pub const HEADER_TYPE: u16 = 0x0c;
/// First Base Address Register; an endpoint has six, four bytes apart (PCIe 6.x 7.5.1.2.1).
pub const BAR0: u16 = 0x10;
/// Subsystem Vendor ID and Subsystem ID of a type 0 header (PCIe 6.x 7.5.1.2.3).
pub const SUBSYSTEM: u16 = 0x2c;
/// Capabilities Pointer, lowest byte (PCIe 6.x 7.5.1.1.11).
pub const CAPABILITIES_POINTER: u16 = 0x34;
/// Interrupt Line and Interrupt Pin; Bridge Control in the upper half of a type 1 header
/// (PCIe 6.x 7.5.1.1.12, 7.5.1.1.13, 7.5.1.3.13).
pub const INTERRUPT_BRIDGE_CONTROL: u16 = 0x3c;

/// Primary, Secondary and Subordinate Bus Number, lowest byte first (PCIe 6.x 7.5.1.3.2 to .4).
pub const PRIMARY_BUS: u16 = 0x18;
/// I/O Base and Limit (not implemented, 0) and Secondary Status (PCIe 6.x 7.5.1.3.6, .7).
pub const SECONDARY_STATUS: u16 = 0x1c;
/// Memory Base (low half) and Memory Limit, address bits 31:20 in bits 15:4 of each
/// (PCIe 6.x 7.5.1.3.8).
pub const MEMORY_BASE_LIMIT: u16 = 0x20;
/// Prefetchable Memory Base and Limit, as above (PCIe 6.x 7.5.1.3.9).
pub const PREFETCHABLE_BASE_LIMIT: u16 = 0x24;
/// Upper 32 bits of the prefetchable base (PCIe 6.x 7.5.1.3.10).
pub const PREFETCHABLE_BASE_UPPER: u16 = 0x28;
/// Upper 32 bits of the prefetchable limit (PCIe 6.x 7.5.1.3.10).
pub const PREFETCHABLE_LIMIT_UPPER: u16 = 0x2c;

/// Command: respond to memory requests (a bridge: forward them downstream).
pub const COMMAND_MEMORY_SPACE: u32 = 1 << 1;
/// Command: send memory requests (a bridge: forward them upstream).
pub const COMMAND_BUS_MASTER: u32 = 1 << 2;
/// Command: Parity Error Response, SERR# Enable and Interrupt Disable.
pub const COMMAND_OTHER: u32 = 1 << 6 | 1 << 8 | 1 << 10;
/// Status: a capability list is present (always 1).
pub const STATUS_CAPABILITIES_LIST: u32 = 1 << 20;
/// Status, and Secondary Status: the error bits that a write of 1 clears (8, 11 to 15).
pub const STATUS_ERRORS: u32 = 0xf900_0000;

/// BAR and memory base/limit registers: the low bits, which are flags.
pub const BAR_FLAGS: u32 = 0xf;
/// BAR: bits 2:0, the type of the range.
pub const BAR_TYPE: u32 = 0b111;
/// BAR: bit 0, I/O ports.
pub const BAR_PORTS: u32 = 1;
/// BAR: bits 2:1 = 10b, the register pair holds a 64-bit address.
pub const BAR_64_BIT: u32 = 0b10 << 1;
/// BAR: reads have no side effects.
pub const BAR_PREFETCHABLE: u32 = 1 << 3;
/// Memory base/limit registers: bits 3:0 = 1 in both; upper 32 bits are present.
pub const WINDOW_64_BIT: u32 = 0x0001_0001;
/// Bridge Control: Secondary Bus Reset.
pub const BRIDGE_CONTROL_SECONDARY_RESET: u32 = 1 << 22;

/// ID of the PCI Express capability (PCIe 6.x 7.5.3.1).
pub const CAPABILITY_PCI_EXPRESS: u8 = 0x10;
/// ID of the MSI-X capability (PCIe 6.x 7.7.2.1).
pub const CAPABILITY_MSIX: u8 = 0x11;
/// ID of the Access Control Services extended capability (PCIe 6.x 7.7.11.1).
pub const EXTENDED_CAPABILITY_ACS: u16 = 0x000d;
/// Offset of the first extended capability (PCIe 6.x 7.6.1).
pub const EXTENDED_SPACE: u16 = 0x100;

/// PCI Express Capabilities register, in the capability's header (PCIe 6.x 7.5.3.2).
pub const EXPRESS_CAPABILITIES: u16 = 0x00;
/// Device Capabilities (PCIe 6.x 7.5.3.3).
pub const DEVICE_CAPABILITIES: u16 = 0x04;
/// Device Control (low half) and Device Status (PCIe 6.x 7.5.3.4, 7.5.3.5).
pub const DEVICE_CONTROL: u16 = 0x08;
/// Link Capabilities (PCIe 6.x 7.5.3.6).
pub const LINK_CAPABILITIES: u16 = 0x0c;
/// Link Control (low half) and Link Status (PCIe 6.x 7.5.3.7, 7.5.3.8).
pub const LINK_CONTROL: u16 = 0x10;
/// Slot Control (low half) and Slot Status; ports with a slot (PCIe 6.x 7.5.3.10, .11).
pub const SLOT_CONTROL: u16 = 0x18;
/// Root Control (low half) and Root Capabilities; root ports only (PCIe 6.x 7.5.3.12, .13).
pub const ROOT_CONTROL: u16 = 0x1c;
/// Device Capabilities 2 (PCIe 6.x 7.5.3.15).
pub const DEVICE_CAPABILITIES_2: u16 = 0x24;
/// Device Control 2 (low half) and Device Status 2 (PCIe 6.x 7.5.3.16).
pub const DEVICE_CONTROL_2: u16 = 0x28;
/// Link Capabilities 2 (PCIe 6.x 7.5.3.18).
pub const LINK_CAPABILITIES_2: u16 = 0x2c;
/// Link Control 2 (low half) and Link Status 2 (PCIe 6.x 7.5.3.19).
pub const LINK_CONTROL_2: u16 = 0x30;

/// The capability's header: the port has a slot.
pub const EXPRESS_SLOT: u32 = 1 << 24;
/// Slot Status, upper half: Presence Detect State.
pub const SLOT_STATUS_PRESENT: u32 = 1 << 22;
/// Device Capabilities: 8-bit tags as requester.
pub const DEVICE_CAPABILITIES_EXTENDED_TAG: u32 = 1 << 5;
/// Device Capabilities: role-based error reporting, present in every function since 1.1.
pub const DEVICE_CAPABILITIES_ROLE_BASED_ERRORS: u32 = 1 << 15;
/// Device Control: the four error reporting enables.
pub const DEVICE_CONTROL_ERROR_REPORTING: u32 = 0xf;
/// Device Control: Enable Relaxed Ordering, 1 after reset.
pub const DEVICE_CONTROL_RELAXED_ORDERING: u32 = 1 << 4;
/// Device Control: shift of Max_Payload_Size (three bits: 128 bytes times two to its power).
pub const DEVICE_CONTROL_MAX_PAYLOAD_SHIFT: u32 = 5;
/// Device Control: Extended Tag Field Enable.
pub const DEVICE_CONTROL_EXTENDED_TAG: u32 = 1 << 8;
/// Device Control: Enable No Snoop, 1 after reset.
pub const DEVICE_CONTROL_NO_SNOOP: u32 = 1 << 11;
/// Device Control: shift of Max_Read_Request_Size (three bits, coded as Max_Payload_Size).
pub const DEVICE_CONTROL_MAX_READ_SHIFT: u32 = 12;
/// Device Status, upper half: correctable, non-fatal, fatal, unsupported request detected.
pub const DEVICE_STATUS_ERRORS: u32 = 0xf << 16;

/// Link Capabilities, Status and Control 2: bits 3:0 are a speed, bits 9:4 a width.
pub const LINK_SPEED_MASK: u32 = 0xf;
/// Shift of the width in Link Capabilities.
pub const LINK_CAPABILITIES_WIDTH_SHIFT: u32 = 4;
/// Link Capabilities: Data Link Layer Link Active is reported.
pub const LINK_CAPABILITIES_ACTIVE_REPORTING: u32 = 1 << 20;
/// Link Capabilities: changes of bandwidth are reported.
pub const LINK_CAPABILITIES_BANDWIDTH_NOTIFICATION: u32 = 1 << 21;
/// Link Capabilities: ASPM Optionality Compliance (1 in every new design).
pub const LINK_CAPABILITIES_ASPM_OPTIONALITY: u32 = 1 << 22;
/// Link Control: Read Completion Boundary, 0 = 64 bytes, 1 = 128 bytes.
pub const LINK_CONTROL_READ_COMPLETION_BOUNDARY: u32 = 1 << 3;
/// Link Control: Link Disable (ports above a link).
pub const LINK_CONTROL_DISABLE: u32 = 1 << 4;
/// Link Status, upper half: shift of the current speed.
pub const LINK_STATUS_SPEED_SHIFT: u32 = 16;
/// Link Status, upper half: Data Link Layer Link Active.
pub const LINK_STATUS_ACTIVE: u32 = 1 << 29;
/// Link Status, upper half: Bandwidth Management and Autonomous Bandwidth, cleared by 1.
pub const LINK_STATUS_BANDWIDTH: u32 = 0b11 << 30;
/// Device Capabilities 2: 10-bit tags as completer and as requester.
pub const DEVICE_CAPABILITIES_2_TEN_BIT_TAGS: u32 = 0b11 << 16;
/// Device Control 2: 10-Bit Tag Requester Enable.
pub const DEVICE_CONTROL_2_TEN_BIT_TAG: u32 = 1 << 12;
/// Device Control 2: Completion Timeout Value and Completion Timeout Disable.
pub const DEVICE_CONTROL_2_COMPLETION_TIMEOUT: u32 = 0x1f;
/// Device Control 2: ID-based ordering of requests.
pub const DEVICE_CONTROL_2_IDO_REQUESTS: u32 = 1 << 8;
/// Device Control 2: ID-based ordering of completions.
pub const DEVICE_CONTROL_2_IDO_COMPLETIONS: u32 = 1 << 9;

/// MSI-X: Table Offset and Table BIR, within the capability (PCIe 6.x 7.7.2.3). Its header
/// holds Message Control in the upper half (PCIe 6.x 7.7.2.2).
pub const MSIX_TABLE: u16 = 0x04;
/// MSI-X: PBA Offset and PBA BIR, within the capability (PCIe 6.x 7.7.2.4).
pub const MSIX_PENDING: u16 = 0x08;
/// MSI-X, both of these: number of the BAR; the other bits are the offset.
pub const MSIX_BAR: u32 = 0b111;
/// Message Control, upper half: shift of Table Size, entries less one.
pub const MSIX_TABLE_SIZE_SHIFT: u32 = 16;
/// Message Control: Table Size, shifted down.
pub const MSIX_TABLE_SIZE: u32 = 0x7ff;
/// Message Control, upper half: Function Mask.
pub const MSIX_FUNCTION_MASK: u32 = 1 << 30;
/// Message Control, upper half: MSI-X Enable.
pub const MSIX_ENABLE: u32 = 1 << 31;

/// ACS Capability (low half) and ACS Control, within the capability (PCIe 6.x 7.7.11.2, .3).
pub const ACS_CONTROL: u16 = 0x04;
/// ACS services implemented by switch and root complex ports: source validation (bit 0),
/// translation blocking, request redirect, completion redirect, upstream forwarding.
pub const ACS_IMPLEMENTED: u32 = 0x1f;
/// ACS Control, upper half: P2P Request Redirect Enable.
pub const ACS_CONTROL_REQUEST_REDIRECT: u32 = 1 << 18;
/// ACS Control, upper half: P2P Completion Redirect Enable.
pub const ACS_CONTROL_COMPLETION_REDIRECT: u32 = 1 << 19;
/// ACS Control, upper half: Upstream Forwarding Enable.
pub const ACS_CONTROL_UPSTREAM_FORWARDING: u32 = 1 << 20;
