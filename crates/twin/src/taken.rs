// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of the library that a machine's devices are taken for.

use crosslane_sysfs::{Address, PciFunction};

use crate::library::{Library, Part, PartKind};
use crate::plan::Plan;
use crate::seen::MadeUp;

/// Devices that were taken for a part of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Kind of the part.
    pub kind: PartKind,
    /// Name of the part.
    pub part: String,
    /// Description of the part.
    pub summary: String,
    /// Whether the part is known by the devices' IDs or their class; otherwise it stands for all
    /// that no part is known for.
    pub is_match: bool,
    /// Addresses of root ports, upstream ports of switches, or endpoints; none of a host whose
    /// root ports no dump shows.
    pub devices: Vec<Address>,
}

/// A library, and what was taken from it so far.
pub(crate) struct PartsTaken<'a> {
    library: &'a Library,
    pub taken: Vec<Taken>,
}

impl<'a> PartsTaken<'a> {
    pub const fn of(library: &'a Library) -> Self {
        Self { library, taken: Vec::new() }
    }

    /// Finds the part of a device, and notes it.
    pub fn take(&mut self, kind: PartKind, device: &PciFunction) -> &'a Part {
        let part = self.library.part(kind, Some(device));
        let devices = self.note(part);
        devices.extend(Some(device.address).filter(|address| !MadeUp::is(*address)));
        part
    }

    /// Notes a part. Returns the devices that were taken for it.
    fn note(&mut self, part: &Part) -> &mut Vec<Address> {
        let known = self.taken.iter().position(|taken| taken.part == part.name);
        let at = known.unwrap_or_else(|| {
            self.taken.push(Taken {
                kind: part.kind,
                part: part.name.clone(),
                summary: part.summary.clone(),
                is_match: !part.is_general(),
                devices: Vec::new(),
            });
            self.taken.len() - 1
        });
        &mut self.taken[at].devices
    }

    /// Chooses the part of a host: of the root ports that the library knows, that of those with
    /// most lanes together. Returns it with the ports of other parts, and a phrase about each.
    pub fn host(&mut self, plan: &Plan<'_>) -> (&'a Part, Vec<(Address, String)>) {
        let of_port = |port| self.library.part(PartKind::RootComplex, port);
        let mut lanes: Vec<(&'a Part, u32)> = Vec::new();
        for link in plan.links.iter().filter(|link| link.switch.is_none()) {
            let (part, more) = (of_port(link.port), u32::from(link.rate.lanes));
            match lanes.iter_mut().find(|(known, _)| known.name == part.name) {
                Some((_, lanes)) => *lanes += more,
                None => lanes.push((part, more)),
            }
        }
        // The first of several with as many.
        let most = lanes.iter().rev().max_by_key(|(part, lanes)| (!part.is_general(), *lanes));
        let host = most.map_or_else(|| of_port(None), |(part, _)| *part);
        // Even if no dump shows a root port.
        self.note(host);
        let mut others = Vec::new();
        for port in plan.ports(None) {
            let part = self.library.part(PartKind::RootComplex, Some(port));
            if part.name == host.name {
                self.take(PartKind::RootComplex, port);
                continue;
            }
            let own = match part.is_general() {
                true => "the library does not know it".to_owned(),
                false => format!("it is of {}", part.name),
            };
            let what = format!("{own}, and the lab has one root complex, {}", host.name);
            others.push((port.address, what));
        }
        (host, others)
    }
}
