// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts, each with one device on a root port, and programs that use plain accesses.

use std::marker::PhantomData;

use crosslane_fabric::parameters::LinkParameters;
use crosslane_fabric::*;
use crosslane_pcie::config::{BarRequest, Identity};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

use super::fabric_support::{Settings, enumerate_host, ns, root_parameters};

pub struct End {
    pub host: HostId,
    pub root: NodeId,
    pub node: NodeId,
    /// Next free address of the host's memory for what programs and devices share.
    next: u64,
}

pub struct Hosts<T> {
    pub fabric: Fabric,
    pub ends: Vec<End>,
    device: PhantomData<T>,
}

impl<T: Device> Hosts<T> {
    /// Creates a host for each of the settings. Shared memory begins at `shared`.
    pub fn build(
        settings: &[Settings],
        shared: u64,
        bars: [Option<BarRequest>; 6],
        mut device: impl FnMut(usize) -> T,
    ) -> Self {
        let mut builder = FabricBuilder::new(settings[0].seed);
        let id = Identity::default();
        let ends = settings.iter().enumerate().map(|(at, settings)| {
            let host = HostId(at as u16);
            let root = builder.root_complex(&format!("host{at}"), host, root_parameters(settings));
            let top = builder.root_port(root, &format!("rp{at}"), id, settings.port.clone());
            let (name, port) = (format!("ep{at}"), settings.port.clone());
            let device = Box::new(device(at));
            let (node, lower) = builder.endpoint_with_device(&name, id, bars, None, port, device);
            builder.link(
                &name,
                top,
                lower,
                LinkParameters { rate: settings.rate, ..settings.link },
            );
            End { host, root, node, next: shared }
        });
        let ends: Vec<End> = ends.collect();
        let mut fabric = builder.build().unwrap();
        for (end, settings) in ends.iter().zip(settings) {
            enumerate_host(&mut fabric, settings, end.root);
        }
        Self { fabric, ends, device: PhantomData }
    }

    pub fn device(&mut self, end: usize) -> &mut T {
        self.fabric.device_as(self.ends[end].node).unwrap()
    }

    /// Takes zeroed memory that a program and the device share.
    pub fn share(&mut self, end: usize, bytes: u64) -> u64 {
        let address = self.ends[end].next;
        self.ends[end].next += bytes;
        self.poke(end, address, &vec![0; bytes as usize]);
        address
    }

    pub fn peek(&mut self, end: usize, address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        assert!(self.fabric.peek(self.ends[end].host, BusAddress(address), &mut out));
        out
    }

    pub fn poke(&mut self, end: usize, address: u64, bytes: &[u8]) {
        assert!(self.fabric.poke(self.ends[end].host, BusAddress(address), bytes));
    }

    /// Runs until the next event of a host.
    pub fn step(&mut self) {
        assert!(self.fabric.run_until_host_event(), "the fabric has run dry");
        self.fabric.take_host_events(&mut Vec::new());
    }

    /// Runs until nothing is left to do and the last writes can be seen, `seen_ns` later.
    pub fn run_and_see(&mut self, seen_ns: u64) {
        assert_eq!(self.fabric.run(None), RunEnd::Quiet);
        let seen = self.fabric.now() + ns(seen_ns);
        self.fabric.host_timer(seen, 8);
        while self.fabric.now() < seen {
            self.step();
        }
    }

    pub fn run_for(&mut self, time: Picoseconds) {
        let limit = self.fabric.now() + time;
        self.fabric.run(Some(limit));
    }

    /// Runs until four bytes of a host's memory change, or the next event of a host.
    pub fn wait_change(&mut self, end: usize, address: u64) {
        self.fabric.host_watch(self.ends[end].root, address..address + 4, 9);
        self.step();
    }

    /// Runs a command of a device's driver.
    pub fn command(&mut self, end: usize, order: impl FnOnce(&mut T, &mut DevicePort<'_>)) {
        self.fabric.command(self.ends[end].node, order).unwrap();
    }

    /// Asserts that nothing is left over.
    pub fn assert_at_rest(&mut self) {
        assert_eq!(self.fabric.check_quiet(), Vec::<String>::new());
        for end in 0..self.ends.len() {
            assert_eq!(self.device(end).unfinished(), Vec::<String>::new());
        }
    }
}

/// Returns pseudo-random bytes, so that misplaced data are noticed.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = crosslane_random::Random::with_seed(seed);
    (0..count).map(|_| random.u8(..)).collect()
}
