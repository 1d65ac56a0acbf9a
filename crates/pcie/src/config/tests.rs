// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of configuration space.

use super::registers::*;
use super::*;
use crate::link::Width;
use crate::link::tests::rate;

fn capability() -> Capability {
    Capability {
        max_payload_bytes: 512,
        max_rate: rate(3, 8),
        extended_tags: true,
        ten_bit_tags: false,
        acs: true,
    }
}

const IDENTITY: Identity = Identity {
    vendor: 0x1de5,
    device: 0xbeef,
    class_code: 0x12_0000,
    revision: 7,
    subsystem_vendor: 0x1111,
    subsystem: 0x2222,
};

const BAR_32: BarRequest =
    BarRequest { kind: BarKind::Memory32 { prefetchable: false }, size_bytes: 1 << 16 };
const BAR_64: BarRequest =
    BarRequest { kind: BarKind::Memory64 { prefetchable: true }, size_bytes: 1 << 33 };

fn endpoint() -> ConfigSpace {
    let bars = [Some(BAR_32), None, Some(BAR_64), None, None, None];
    ConfigSpace::endpoint(IDENTITY, capability(), bars).unwrap()
}

fn bridge(port_type: PortType) -> ConfigSpace {
    ConfigSpace::bridge(port_type, IDENTITY, capability())
}

fn express(space: &ConfigSpace, offset: u16) -> u16 {
    space.find_capability(CAPABILITY_PCI_EXPRESS).unwrap() + offset
}

#[test]
fn identity_is_read_only() {
    let mut space = endpoint();
    for offset in [VENDOR_DEVICE, CLASS_REVISION, SUBSYSTEM, CAPABILITIES_POINTER] {
        let before = space.read(offset);
        space.write(offset, !before, 0xf);
        assert_eq!(space.read(offset), before, "offset {offset:#x}");
    }
    assert_eq!(space.read(VENDOR_DEVICE), 0xbeef_1de5);
    assert_eq!(space.read(CLASS_REVISION), 0x1200_0007);
    assert_eq!(space.read(SUBSYSTEM), 0x2222_1111);
    assert_eq!(space.read(HEADER_TYPE) >> 16 & 0x7f, 0);
    assert_eq!(bridge(PortType::RootPort).read(HEADER_TYPE) >> 16 & 0x7f, 1);
}

#[test]
fn bars_tell_their_size_and_keep_their_base() {
    let mut space = endpoint();
    for index in 0..6 {
        space.write(BAR0 + 4 * index, u32::MAX, 0xf);
    }
    assert_eq!(space.read(BAR0), 0xffff_0000);
    assert_eq!(space.read(BAR0 + 4), 0, "not implemented");
    assert_eq!(space.read(BAR0 + 8), 0x0000_000c, "64-bit, prefetchable, no low address bit");
    assert_eq!(space.read(BAR0 + 12), 0xffff_fffe);
    space.write(BAR0, 0xfe01_2345, 0xf);
    space.write(BAR0 + 8, 0xffff_ffff, 0xf);
    space.write(BAR0 + 12, 0x0000_0045, 0xf);
    let bar = space.bar(0).unwrap();
    assert_eq!(bar.base, BusAddress(0xfe01_0000));
    assert!(bar.contains(BusAddress(0xfe01_ffff)) && !bar.contains(BusAddress(0xfe02_0000)));
    assert!(!bar.contains(BusAddress(0xfe00_ffff)));
    let bar = space.bar(2).unwrap();
    assert_eq!((bar.base, bar.size_bytes), (BusAddress(0x44_0000_0000), 1 << 33));
    assert_eq!(bar.kind, BAR_64.kind);
    assert_eq!([1, 3, 4, 5, 6].map(|index| space.bar(index)), [None; 5]);
    assert_eq!(space.bar_requests()[2], Some(BAR_64));
}

#[test]
fn smallest_and_largest_bars() {
    let make = |kind, size_bytes| {
        let bars = [Some(BarRequest { kind, size_bytes }), None, None, None, None, None];
        ConfigSpace::endpoint(IDENTITY, capability(), bars)
    };
    let narrow = BarKind::Memory32 { prefetchable: true };
    let wide = BarKind::Memory64 { prefetchable: false };
    for (kind, size_bytes, low, high) in [
        (narrow, 128, 0xffff_ff88, 0),
        (narrow, 1 << 31, 0x8000_0008, 0),
        (wide, 128, 0xffff_ff84, 0xffff_ffff),
        (wide, 1 << 32, 0x0000_0004, 0xffff_ffff),
        (wide, 1 << 63, 0x0000_0004, 0x8000_0000),
    ] {
        let mut space = make(kind, size_bytes).unwrap();
        space.write(BAR0, u32::MAX, 0xf);
        space.write(BAR0 + 4, u32::MAX, 0xf);
        assert_eq!((space.read(BAR0), space.read(BAR0 + 4)), (low, high), "{kind:?} {size_bytes}");
    }
    assert_eq!(make(narrow, 64).unwrap_err(), ConfigError::BarSize { index: 0, size_bytes: 64 });
    assert_eq!(make(wide, 384).unwrap_err(), ConfigError::BarSize { index: 0, size_bytes: 384 });
    let too_large = ConfigError::BarTooLarge { index: 0, size_bytes: 1 << 32 };
    assert_eq!(make(narrow, 1 << 32).unwrap_err(), too_large);
}

#[test]
fn what_no_register_can_express_is_refused() {
    let make = |bars| ConfigSpace::endpoint(IDENTITY, capability(), bars).unwrap_err();
    let taken = [Some(BAR_64), Some(BAR_32), None, None, None, None];
    assert_eq!(make(taken), ConfigError::BarPair { index: 0 });
    let last = [None, None, None, None, None, Some(BAR_64)];
    assert_eq!(make(last), ConfigError::BarPair { index: 5 });
    for bytes in [0, 64, 192, 8192] {
        let wrong = Capability { max_payload_bytes: bytes, ..capability() };
        let error = ConfigSpace::endpoint(IDENTITY, wrong, [None; 6]).unwrap_err();
        assert_eq!(error, ConfigError::MaxPayload { bytes });
        assert!(error.to_string().contains(&format!("{bytes} bytes")));
    }
    let identity = Identity { class_code: 0x100_0000, ..IDENTITY };
    let error = ConfigSpace::endpoint(identity, capability(), [None; 6]).unwrap_err();
    assert_eq!(error, ConfigError::ClassCode { class_code: 0x100_0000 });
}

#[test]
fn device_control_defaults_and_writes() {
    let mut space = endpoint();
    let offset = express(&space, DEVICE_CONTROL);
    assert_eq!(space.read(offset), 0x2810);
    assert_eq!((space.max_payload_bytes(), space.max_read_request_bytes()), (128, 512));
    assert_eq!(space.max_payload_supported_bytes(), 512);
    assert!(space.relaxed_ordering_enabled());
    assert!(!space.extended_tags_enabled());
    // Max_Payload_Size 256, Max_Read_Request_Size 4096, 8-bit tags, all else off.
    space.write(offset, 0x5120, 0b0011);
    assert_eq!((space.max_payload_bytes(), space.max_read_request_bytes()), (256, 4096));
    assert!(!space.relaxed_ordering_enabled());
    assert!(space.extended_tags_enabled());
    // More than supported: the register holds it, but the function does not use it.
    space.write(offset, 0x00a0, 0b0011);
    assert_eq!(space.read(offset), 0x00a0);
    assert_eq!(space.max_payload_bytes(), 512);
    // Reserved codes.
    space.write(offset, 0x70e0, 0b0011);
    assert_eq!((space.max_payload_bytes(), space.max_read_request_bytes()), (512, 4096));
    let offset = express(&space, DEVICE_CONTROL_2);
    assert_eq!(space.read(offset), 0);
    space.write(offset, DEVICE_CONTROL_2_IDO_REQUESTS, 0xf);
    assert_eq!(space.read(offset), DEVICE_CONTROL_2_IDO_REQUESTS);
}

#[test]
fn extended_tags_cannot_be_enabled_where_they_are_missing() {
    let without = Capability { extended_tags: false, ..capability() };
    let mut space = ConfigSpace::endpoint(IDENTITY, without, [None; 6]).unwrap();
    space.write(express(&space, DEVICE_CONTROL), u32::MAX, 0xf);
    assert!(!space.extended_tags_enabled());
}

#[test]
fn status_bits_are_cleared_by_one_in_enabled_bytes_only() {
    let mut space = endpoint();
    let offset = express(&space, DEVICE_CONTROL);
    let errors = |space: &ConfigSpace| space.read(offset) >> 16;
    space.record_error(DetectedError::Correctable);
    space.record_error(DetectedError::UnsupportedRequest);
    assert_eq!(errors(&space), 0b1001);
    space.write(offset, 0xf << 16, 0b1011);
    assert_eq!(errors(&space), 0b1001, "byte 2 was not enabled");
    space.write(offset, 0, 0xf);
    assert_eq!(errors(&space), 0b1001, "zeros clear nothing");
    space.write(offset, 0b1000 << 16, 0b0100);
    assert_eq!(errors(&space), 0b0001);
    space.record_error(DetectedError::NonFatal);
    space.record_error(DetectedError::Fatal);
    space.write(offset, u32::MAX, 0b0100);
    assert_eq!(errors(&space), 0);
}

#[test]
fn byte_enables_pick_bytes() {
    let mut space = endpoint();
    space.write(BAR0, 0x1122_3344, 0b1000);
    assert_eq!(space.read(BAR0), 0x1100_0000);
    space.write(BAR0, 0x5566_7788, 0b0100);
    assert_eq!(space.read(BAR0), 0x1166_0000);
    space.write(BAR0, u32::MAX, 0);
    assert_eq!(space.read(BAR0), 0x1166_0000);
}

#[test]
fn command_enables() {
    let mut space = endpoint();
    assert!(!space.memory_enabled() && !space.bus_master_enabled());
    assert_eq!(space.read(COMMAND), STATUS_CAPABILITIES_LIST);
    space.write(COMMAND, COMMAND_MEMORY_SPACE, 0b0011);
    assert!(space.memory_enabled() && !space.bus_master_enabled());
    space.write(COMMAND, u32::MAX, 0b0011);
    assert!(space.memory_enabled() && space.bus_master_enabled());
    assert_eq!(space.read(COMMAND) & 1, 0, "no I/O space");
}

#[test]
fn what_is_not_implemented_reads_zero_and_ignores_writes() {
    let mut space = endpoint();
    for offset in [0x28, 0x30, 0x38, 0x7c, 0x80, 0xfc, 0x100, 0x104, 0x108, 0xffc, 0xfffc] {
        space.write(offset, u32::MAX, 0xf);
        assert_eq!(space.read(offset), 0, "offset {offset:#x}");
    }
}

#[test]
fn bus_numbers_and_windows_of_a_bridge() {
    let mut space = bridge(PortType::DownstreamPort);
    assert_eq!((space.memory_window(), space.prefetchable_window()), (None, None));
    space.write(PRIMARY_BUS, 0xff07_0302, 0xf);
    assert_eq!((space.secondary_bus(), space.subordinate_bus()), (3, 7));
    assert_eq!(space.read(PRIMARY_BUS), 0x07_0302, "no secondary latency timer");
    space.write(MEMORY_BASE_LIMIT, 0xe01f_e00f, 0xf);
    assert_eq!(space.memory_window(), Some(0xe000_0000..=0xe01f_ffff));
    space.write(MEMORY_BASE_LIMIT, 0xe00f_e010, 0xf);
    assert_eq!(space.memory_window(), None);
    space.write(MEMORY_BASE_LIMIT, 0, 0xf);
    assert_eq!(space.memory_window(), Some(0..=0xf_ffff), "zeros open the first MiB");
    space.write(PREFETCHABLE_BASE_LIMIT, 0xfff0_0000, 0xf);
    assert_eq!(space.read(PREFETCHABLE_BASE_LIMIT), 0xfff1_0001);
    space.write(PREFETCHABLE_BASE_UPPER, 0x38, 0xf);
    assert_eq!(space.prefetchable_window(), None);
    space.write(PREFETCHABLE_LIMIT_UPPER, 0x39, 0xf);
    assert_eq!(space.prefetchable_window(), Some(0x38_0000_0000..=0x39_ffff_ffff));
    assert_eq!(bridge(PortType::RootPort).bar(0), None);
    assert_eq!(endpoint().memory_window(), None);
    assert_eq!(endpoint().secondary_bus(), 0);
}

#[test]
fn port_types_as_the_register_has_them() {
    use PortType::*;
    for (port_type, code) in [(RootPort, 4), (UpstreamPort, 5), (DownstreamPort, 6)] {
        let space = bridge(port_type);
        assert_eq!(space.read(express(&space, EXPRESS_CAPABILITIES)) >> 20 & 0xf, code);
        assert_eq!(PortType::from_encoding(code as u8), Some(port_type));
        assert_eq!(space.port_type(), port_type);
    }
    let space = endpoint();
    assert_eq!(space.read(express(&space, EXPRESS_CAPABILITIES)), 0x0002_0010);
    assert_eq!(PortType::from_encoding(0xf), None);
}

#[test]
fn access_control_is_in_ports_above_their_link() {
    for (port_type, has) in [
        (PortType::RootPort, true),
        (PortType::DownstreamPort, true),
        (PortType::UpstreamPort, false),
    ] {
        let found = bridge(port_type).find_extended_capability(EXTENDED_CAPABILITY_ACS);
        assert_eq!(found.is_some(), has, "{port_type:?}");
    }
    assert_eq!(endpoint().find_extended_capability(EXTENDED_CAPABILITY_ACS), None);
    let mut space = bridge(PortType::DownstreamPort);
    assert_eq!(space.find_extended_capability(0x0001), None);
    let offset = space.find_extended_capability(EXTENDED_CAPABILITY_ACS).unwrap() + ACS_CONTROL;
    assert!(!space.acs_request_redirect() && !space.acs_completion_redirect());
    space.write(offset, ACS_CONTROL_REQUEST_REDIRECT, 0b1100);
    assert!(space.acs_request_redirect() && !space.acs_completion_redirect());
    space.write(offset, u32::MAX, 0xf);
    assert!(space.acs_completion_redirect());
    assert_eq!(space.read(offset), 0x001f_001f);
}

#[test]
fn link_capability_and_status() {
    let mut space = endpoint();
    assert_eq!((space.link_capability(), space.link_status()), (rate(3, 8), rate(3, 8)));
    space.set_link_status(rate(1, 4));
    assert_eq!((space.link_capability(), space.link_status()), (rate(3, 8), rate(1, 4)));
    let offset = express(&space, LINK_CONTROL);
    space.write(offset, u32::MAX, 0xf);
    assert_eq!(space.link_status(), rate(1, 4), "read-only");
    assert_eq!(space.read(express(&space, LINK_CAPABILITIES_2)), 0b1110);
    let port = bridge(PortType::RootPort);
    assert_ne!(port.read(express(&port, LINK_CONTROL)) & LINK_STATUS_ACTIVE, 0);
    for number in 1..=6 {
        for width in Width::ALL {
            space.set_link_status(rate(number, width.lanes()));
            assert_eq!(space.link_status(), rate(number, width.lanes()));
        }
    }
}

#[test]
fn read_completion_boundary() {
    for (mut space, kept) in [(bridge(PortType::RootPort), 0), (endpoint(), 1 << 3)] {
        let offset = express(&space, LINK_CONTROL);
        space.write(offset, LINK_CONTROL_READ_COMPLETION_BOUNDARY, 0b1);
        let boundary = space.read(offset) & LINK_CONTROL_READ_COMPLETION_BOUNDARY;
        assert_eq!(boundary, kept, "{:?}", space.port_type());
    }
}

#[test]
fn capability_list_ends() {
    assert_eq!(endpoint().find_capability(0x05), None);
    assert_eq!(endpoint().find_capability(CAPABILITY_PCI_EXPRESS), Some(0x40));
    assert_eq!(endpoint().find_extended_capability(0), None);
}

const MSIX: MsixRequest = MsixRequest {
    vectors: 65,
    table_bar: 0,
    table_offset_bytes: 0x1000,
    pending_bar: 2,
    pending_offset_bytes: 0x800,
};

#[test]
fn msix_follows_pci_express_and_can_be_enabled_and_masked() {
    assert_eq!(endpoint().msix(), None);
    let mut space = endpoint().with_msix(MSIX).unwrap();
    let at = space.find_capability(CAPABILITY_MSIX).unwrap();
    assert!(space.find_capability(CAPABILITY_PCI_EXPRESS).is_some());
    assert_eq!(space.read(at), 64 << 16 | 0x11);
    assert_eq!(space.read(at + 4), 0x1000);
    assert_eq!(space.read(at + 8), 0x802);
    let now = |enabled, function_masked| Some(Msix { request: MSIX, enabled, function_masked });
    assert_eq!(space.msix(), now(false, false));
    space.write(at, u32::MAX, 0b1000);
    assert_eq!(space.msix(), now(true, true));
    space.write(at, MSIX_ENABLE, 0b1111);
    assert_eq!(space.msix(), now(true, false));
    space.write(at, 0, 0b0111);
    assert_eq!(space.msix(), now(true, false), "another byte");
    for offset in [at + 4, at + 8] {
        let before = space.read(offset);
        space.write(offset, !before, 0xf);
        assert_eq!(space.read(offset), before, "read-only");
    }
    assert_eq!((MSIX.table_bytes(), MSIX.pending_bytes()), (1040, 16));
}

#[test]
fn msix_parts_must_have_room() {
    let attempt = |request| endpoint().with_msix(request).map(|_| ());
    for vectors in [0, 2049] {
        let error = ConfigError::MsixVectors { vectors };
        assert_eq!(attempt(MsixRequest { vectors, ..MSIX }), Err(error));
    }
    let pending_bar = 0;
    // BAR 0 has 64 KiB, BAR 1 is none, BAR 3 is the upper half of BAR 2.
    let wrong = [
        MsixRequest { table_offset_bytes: 0x1004, ..MSIX },
        MsixRequest { table_offset_bytes: 0x1_0000 - 1032, ..MSIX },
        MsixRequest { table_bar: 1, ..MSIX },
        MsixRequest { table_bar: 3, ..MSIX },
        MsixRequest { table_bar: 7, ..MSIX },
        MsixRequest { pending_offset_bytes: 0x1000 - 8, pending_bar, ..MSIX },
        MsixRequest { pending_offset_bytes: 0x1000 + 1032, pending_bar, ..MSIX },
    ];
    for request in wrong {
        let error = attempt(request).unwrap_err();
        assert!(matches!(error, ConfigError::MsixPlace { .. }), "{error}");
    }
    let right = [
        MsixRequest { table_offset_bytes: 0x1_0000 - 1040, ..MSIX },
        MsixRequest { pending_offset_bytes: 0x1000 - 16, pending_bar, ..MSIX },
        MsixRequest { pending_offset_bytes: 0x1000 + 1040, pending_bar, ..MSIX },
        MsixRequest { vectors: 2048, ..MSIX },
    ];
    for request in right {
        assert_eq!(attempt(request), Ok(()));
    }
}
