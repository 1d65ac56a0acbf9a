// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control of a network processor outside simulated time: connecting, cutting and mending cables,
//! and reading counters.

use crosslane_fabric::{DevicePort, Fabric, NodeId};

use super::border::{CableEnd, Far, Outbox, Signal};
use super::link::Cable;
use super::{CableParameters, LINK_TIMER, NetworkProcessor, NetworkProcessorParameters};

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
    /// Panics if [`CableParameters::check`] rejects the parameters, both ends are one node, or the
    /// cable's datagrams have another length than a card's.
    pub fn join(fabric: &mut Fabric, ends: [(NodeId, u8); 2], parameters: CableParameters) -> bool {
        assert_ne!(ends[0].0, ends[1].0, "a cable leads from one node to another");
        let far = |(node, link)| Far::Here(node, link);
        ends.into_iter().all(|end| Self::has_link(fabric, end))
            && Self::plug(fabric, ends[0], far(ends[1]), parameters)
            && Self::plug(fabric, ends[1], far(ends[0]), parameters)
    }

    /// Joins a link, `(node, link number)`, with an end in another part of the torus. What is sent
    /// there goes to `outbox`, and [`carry`](Self::carry) brings what comes from there. Returns
    /// false as [`join`](Self::join).
    ///
    /// # Panics
    /// Panics if [`CableParameters::check`] rejects the parameters, or the cable's datagrams have
    /// another length than the card's.
    pub fn join_away(
        fabric: &mut Fabric,
        end: (NodeId, u8),
        far: CableEnd,
        parameters: CableParameters,
        outbox: &Outbox,
    ) -> bool {
        Self::has_link(fabric, end)
            && Self::plug(fabric, end, Far::Away(far, outbox.clone()), parameters)
    }

    fn has_link(fabric: &mut Fabric, (node, link): (NodeId, u8)) -> bool {
        let found = fabric.command(node, |nwp: &mut Self, _: &mut DevicePort<'_>| {
            usize::from(link) < nwp.links.len()
        });
        found == Some(true)
    }

    /// Connects a cable to a link.
    fn plug(
        fabric: &mut Fabric,
        (node, link): (NodeId, u8),
        far: Far,
        parameters: CableParameters,
    ) -> bool {
        if let Err(error) = parameters.check() {
            panic!("the parameters of a cable are checked before: {error}");
        }
        let seed = seed_of(fabric.seed(), &fabric.node(node).name, link);
        let plugged = fabric.command(node, |nwp: &mut Self, _: &mut DevicePort<'_>| {
            let (of_card, of_cable) = (nwp.parameters.long_datagrams, parameters.long_datagrams);
            assert_eq!(of_card, of_cable, "long datagrams of a card and of its cable");
            nwp.links[usize::from(link)].cable = Some(Cable::new(parameters, far, seed));
        });
        plugged.is_some()
    }

    /// Takes a signal that an end in another part has sent, before it arrives.
    ///
    /// # Panics
    /// If the time of its arrival has come already: a part ran too far ahead.
    pub fn carry(&mut self, link: u8, arrives_ps: u64, signal: Signal, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        assert!(now_ps < arrives_ps, "it is {now_ps} ps, and a signal came at {arrives_ps} ps");
        if let Some(cable) = self.cable(link) {
            cable.take(arrives_ps, signal);
            port.cable(port.node(), arrives_ps, LINK_TIMER + u32::from(link));
        }
    }

    /// Returns the build parameters.
    pub const fn parameters(&self) -> &NetworkProcessorParameters {
        &self.parameters
    }

    /// Cuts the cable of a link. Frames in flight are lost, and both ends train after it is mended.
    /// Of a cable to another part only this end is cut.
    pub fn cut(&mut self, link: u8, port: &mut DevicePort<'_>) {
        self.set_cut(link, true, port);
        self.go_on(port);
    }

    /// Mends the cable of a link; of one to another part only this end.
    pub fn mend(&mut self, link: u8, port: &mut DevicePort<'_>) {
        self.set_cut(link, false, port);
        self.go_on(port);
    }

    /// Sets the bit error rate of a link's cable in both directions; of one to another part only in
    /// that from here.
    pub fn set_bit_error_rate(&mut self, link: u8, rate: f64, port: &mut DevicePort<'_>) {
        let Some(cable) = self.cable(link) else { return };
        cable.set_bit_error_rate(rate);
        let Far::Here(node, far_link) = cable.far else { return };
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

/// Returns the seed of the wrong bits that an end sends. It does not depend on what else is in the
/// fabric (FNV-1a).
fn seed_of(seed: u64, node: &str, link: u8) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(node.bytes()).chain([link]);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
