// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control of a network processor outside simulated time: connecting, cutting and mending cables,
//! and reading counters.

use crosslane_fabric::{DevicePort, Fabric, NodeId};

use super::link::Cable;
use super::{CableParameters, NetworkProcessor, NetworkProcessorParameters};

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Datagrams sent for the first time, or taken in mode `sink`.
    pub sent: u64,
    /// Datagrams delivered in order.
    pub delivered: u64,
    /// Datagrams sent again.
    pub repeated: u64,
    /// Damaged frames received.
    pub damaged: u64,
    /// NACK commands sent.
    pub nacks: u64,
    /// RESTART commands sent.
    pub restarts: u64,
    /// Number of times that the oldest datagram was not acknowledged in time.
    pub timeouts: u64,
}

impl NetworkProcessor {
    /// Joins links of two network processors with a cable; each end is `(node, link number)`.
    /// Returns false if a node is not a network processor or lacks the link.
    ///
    /// # Panics
    /// Panics if [`CableParameters::check`] rejects the parameters, or both ends are one node.
    pub fn join(fabric: &mut Fabric, ends: [(NodeId, u8); 2], parameters: CableParameters) -> bool {
        if let Err(error) = parameters.check() {
            panic!("the parameters of a cable are checked before: {error}");
        }
        assert_ne!(ends[0].0, ends[1].0, "a cable leads from one node to another");
        let has_link = |(node, link): (NodeId, u8), fabric: &mut Fabric| {
            let found = fabric.command(node, |nwp: &mut Self, _: &mut DevicePort<'_>| {
                usize::from(link) < nwp.links.len()
            });
            found == Some(true)
        };
        if !ends.into_iter().all(|end| has_link(end, fabric)) {
            return false;
        }
        for (end, far) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            fabric.command(end.0, |nwp: &mut Self, _: &mut DevicePort<'_>| {
                nwp.links[usize::from(end.1)].cable = Some(Cable::new(parameters, far));
            });
        }
        true
    }

    /// Returns the build parameters.
    pub const fn parameters(&self) -> &NetworkProcessorParameters {
        &self.parameters
    }

    /// Cuts the cable of a link. Frames in flight are lost, and both ends train after it is mended.
    pub fn cut(&mut self, link: u8, port: &mut DevicePort<'_>) {
        self.set_cut(link, true, port);
        self.go_on(port);
    }

    /// Mends the cable of a link.
    pub fn mend(&mut self, link: u8, port: &mut DevicePort<'_>) {
        self.set_cut(link, false, port);
        self.go_on(port);
    }

    /// Sets the bit error rate of a link's cable in both directions.
    pub fn set_bit_error_rate(&mut self, link: u8, rate: f64, port: &mut DevicePort<'_>) {
        let Some(cable) = self.cable(link) else { return };
        cable.set_bit_error_rate(rate);
        let (node, far_link) = cable.far;
        if let Some(far) = port.other::<Self>(node).and_then(|far| far.cable(far_link)) {
            far.set_bit_error_rate(rate);
        }
    }

    /// Returns the counters of a link since its last reset.
    pub fn link_counters(&self, link: u8) -> Option<LinkCounters> {
        let link = self.links.get(usize::from(link))?;
        let of_end = link.cable.as_ref().map(|cable| *cable.end.counters()).unwrap_or_default();
        Some(LinkCounters {
            sent: of_end.sent + u64::from(link.sunk),
            delivered: of_end.delivered,
            repeated: of_end.repeated,
            damaged: of_end.damaged,
            nacks: of_end.nacks,
            restarts: of_end.restarts,
            timeouts: of_end.timeouts,
        })
    }

    /// Returns the number of datagrams forwarded to other nodes.
    pub const fn forwarded(&self) -> u32 {
        self.counters.forwarded
    }
}
