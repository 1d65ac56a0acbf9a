// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of another program that replaces a host's: data in both directions, uncovered requests,
//! mappings withdrawn too early, and peers beside it.

use crate::support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crosslane_fabric::*;
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};
use support::*;

const PAGE_BYTES: u64 = 4096;

/// Pages by requester and number, and a log of the requests.
#[derive(Default)]
struct Pages {
    pages: BTreeMap<(RoutingId, u64), Vec<u8>>,
    /// Number of reads and writes that find the pages promised by `covers`; later ones fail.
    left: Option<u32>,
    asked: u64,
}

impl Pages {
    fn page(&mut self, requester: RoutingId, address: u64, bytes: usize) -> Option<&mut [u8]> {
        match &mut self.left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        let at = (address % PAGE_BYTES) as usize;
        self.pages.get_mut(&(requester, address / PAGE_BYTES))?.get_mut(at..at + bytes)
    }
}

#[derive(Clone, Default)]
struct Program(Arc<Mutex<Pages>>);

impl Program {
    fn map(&self, requester: RoutingId, address: u64, bytes: u64) {
        let pages = &mut self.0.lock().unwrap().pages;
        for page in address / PAGE_BYTES..(address + bytes) / PAGE_BYTES {
            pages.insert((requester, page), vec![0; PAGE_BYTES as usize]);
        }
    }

    fn bytes_written(&self) -> usize {
        let pages = &self.0.lock().unwrap().pages;
        pages.values().flatten().filter(|byte| **byte != 0).count()
    }
}

impl OutsideMemory for Program {
    fn covers(
        &mut self,
        requester: RoutingId,
        address: BusAddress,
        bytes: u32,
        _is_write: bool,
    ) -> bool {
        let mut pages = self.0.lock().unwrap();
        pages.asked += 1;
        let (first, last) = (address.0, address.0 + u64::from(bytes) - 1);
        let mut all = first / PAGE_BYTES..=last / PAGE_BYTES;
        all.all(|page| pages.pages.contains_key(&(requester, page)))
    }

    fn read(&mut self, requester: RoutingId, address: BusAddress, into: &mut [u8]) -> bool {
        let mut pages = self.0.lock().unwrap();
        let page = pages.page(requester, address.0, into.len());
        page.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&mut self, requester: RoutingId, address: BusAddress, from: &[u8]) -> bool {
        let mut pages = self.0.lock().unwrap();
        let page = pages.page(requester, address.0, from.len());
        page.map(|into| into.copy_from_slice(from)).is_some()
    }
}

/// Two endpoints on separate root ports, and another program's memory.
fn stand() -> (Stand, Program, [RoutingId; 2]) {
    let mut settings = Settings::ideal(rate(2, 4), 256);
    settings.completer.read_latency = ns(500);
    settings.completer.write_latency = ns(200);
    let mut stand = root_ports(&settings, 2);
    let program = Program::default();
    assert!(stand.fabric.set_outside_memory(HOST, Some(Box::new(program.clone()))));
    let ids = [stand.function(0), stand.function(1)];
    (stand, program, ids)
}

/// Addresses in the lab's memory, where memory never is, and beyond it.
const PLACES: [u64; 3] = [0x10_0000, 0xa000_0000, 0x12_3456_7000];

/// Runs flows to their end without an error on the way. (Their final check reads the lab's memory.)
fn run(stand: &mut Stand, flows: Vec<Flow>) {
    let ids: Vec<_> =
        flows.into_iter().map(|flow| (flow.operations, stand.fabric.start_flow(flow))).collect();
    assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
    assert_eq!(stand.fabric.errors(), &[]);
    for (operations, id) in ids {
        assert_eq!(stand.fabric.flow_report(id.unwrap()).operations, operations);
    }
}

#[test]
fn data_go_there_and_come_back() {
    const BYTES: usize = 192 * 4000;
    let round_trips = |stand: &Stand, place| {
        // Each is written and read back; the flow checks the data.
        let flow = stand.flow(0, FlowKind::WriteRead, BusAddress(place), 192);
        Flow { operations: 4000, window_bytes: BYTES as u64, ..flow }
    };
    let (mut plain, _, _) = stand();
    plain.fabric.set_outside_memory(HOST, None);
    let flow = round_trips(&plain, 0);
    plain.run(vec![flow]);
    let mut expected = vec![0; BYTES];
    plain.fabric.peek(HOST, BusAddress(0), &mut expected);
    for place in PLACES {
        let (mut stand, program, [first, _]) = stand();
        program.map(first, place, 1 << 20);
        let flow = round_trips(&stand, place);
        run(&mut stand, vec![flow]);
        let pages = &program.0.lock().unwrap().pages;
        let there: Vec<u8> = pages.values().flatten().take(BYTES).copied().collect();
        assert!(there == expected, "{place:#x}");
        // The lab's memory stays unwritten.
        let mut own = [0; 256];
        stand.fabric.peek(HOST, BusAddress(place), &mut own);
        assert_eq!(own, [0; 256]);
    }
}

#[test]
fn what_it_does_not_cover_is_refused_and_noted() {
    for place in PLACES {
        for kind in [FlowKind::Read, FlowKind::Write] {
            let (mut stand, program, [_, second]) = stand();
            // The other endpoint's mapping does not apply to this one.
            program.map(second, place, 1 << 20);
            let flow = stand.flow(0, kind, BusAddress(place), 64).times(5).at_once(1);
            let id = stand.fabric.start_flow(flow).unwrap();
            stand.fabric.run(Some(ns(100_000)));
            let unrouted = stand.count(|kind| {
                matches!(kind, ErrorKind::Unrouted { address, .. }
                    if (place..place + 5 * 64).contains(&address.0))
            });
            // A writer gets no error, and its second operation waits for the first for ever.
            let (refused, failed) = if kind == FlowKind::Read { (5, 5) } else { (1, 0) };
            assert_eq!(unrouted, refused, "{kind:?}: {:?}", stand.fabric.errors());
            assert_eq!(stand.fabric.flow_report(id).failed, failed);
            assert_eq!(program.bytes_written(), 0);
        }
    }
}

/// A mapping withdrawn between the arrival of a request and its data.
#[test]
fn a_mapping_that_goes_is_an_error() {
    // An operation is two writes and two completions.
    for left in [0, 1, 2, 3, 5, 7] {
        let (mut stand, program, [first, _]) = stand();
        program.map(first, 0, 1 << 20);
        program.0.lock().unwrap().left = Some(left);
        let mut flow = stand.flow(0, FlowKind::WriteRead, BusAddress(0), 512);
        (flow.operations, flow.outstanding, flow.window_bytes) = (4, 1, 2048);
        let id = stand.fabric.start_flow(flow).unwrap();
        stand.fabric.run(Some(ns(100_000)));
        let address = BusAddress(u64::from(left) / 4 * 512 + u64::from(left) % 2 * 256);
        let gone = ErrorKind::MappingGone { requester: first, address };
        assert_eq!(stand.fabric.errors()[0].kind, gone, "{left}");
        let report = stand.fabric.flow_report(id);
        let done = u64::from(left) / 4;
        assert_eq!((report.operations, report.failed), (done, 4 - done), "{left}");
    }
}

#[test]
fn peers_reach_each_other_beside_it() {
    let (mut stand, program, [first, second]) = stand();
    program.map(first, 0, 1 << 20);
    program.map(second, 0, 1 << 20);
    let to_peer = stand.flow(0, FlowKind::WriteRead, stand.bar(1), 128);
    let to_memory = stand.flow(1, FlowKind::WriteRead, BusAddress(0), 128);
    run(&mut stand, vec![to_peer, to_memory]);
    let bar = stand.bar(1);
    assert_ne!(stand.peek(bar), [0; 128]);
    assert_ne!(program.bytes_written(), 0);
}

#[test]
fn without_it_the_lab_s_own_memory_is_back() {
    let (mut stand, program, _) = stand();
    assert!(stand.fabric.set_outside_memory(HOST, None));
    assert!(!stand.fabric.set_outside_memory(HostId(7), Some(Box::new(program.clone()))));
    stand.run_one(stand.flow(0, FlowKind::WriteRead, BusAddress(0), 128));
    assert_eq!(program.0.lock().unwrap().asked, 0);
}
