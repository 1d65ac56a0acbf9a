// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations that a kernel's driver performs on a NIC. They take no simulated time; the caller
//! accounts for it.

use crosslane_fabric::parameters::Parameters;
use crosslane_fabric::{DevicePort, Fabric, NodeId};
use crosslane_pcie::kinds;
use thiserror::Error;

use super::layout::{DOORBELL_BYTES, QueueLayout, Status};
use super::link::{Link, NetworkCounters};
use super::pair::{QueuePair, State};
use super::parameters::NetworkParameters;
use super::regions::{Access, Runs};
use super::{MAX_QUEUE_PAIRS, Nic, NicParameters, STEP};

/// Handle of a queue pair of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairNumber(pub(super) u32);

impl PairNumber {
    /// Returns the offset of its doorbells in BAR 0.
    pub const fn doorbells(self) -> u64 {
        (self.0 & 0xffff) as u64 * DOORBELL_BYTES
    }
}

/// Error of an operation on a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NicError {
    /// All queue pairs with doorbells are in use; holds their number.
    #[error("all {0} queue pairs of the adapter are in use")]
    NoPairLeft(usize),
    /// The rings do not fit their memory.
    #[error("rings of {bytes} B do not fit memory of {have_bytes} B in whole pages")]
    Rings {
        /// Bytes of the rings.
        bytes: u64,
        /// Bytes of the memory.
        have_bytes: u64,
    },
    /// The ends are not NICs, not new queue pairs, or not joined by a network.
    #[error("two queue pairs cannot be connected: {0}")]
    Connect(&'static str),
}

kinds!(NicError {
    Self::NoPairLeft(_) => Busy,
    Self::Rings { .. } | Self::Connect(_) => InvalidArgument,
});

/// Page size: queue memory consists of runs of whole pages.
const PAGE_BYTES: u64 = 4096;

impl Nic {
    /// Joins two NICs by a network link. Returns false if one of the nodes is not a NIC.
    ///
    /// # Panics
    /// Panics if [`Parameters::check`] rejects the parameters, or both ends are one node.
    pub fn join(fabric: &mut Fabric, ends: [NodeId; 2], parameters: NetworkParameters) -> bool {
        parameters.assert_valid();
        assert_ne!(ends[0], ends[1], "a network link has two ends");
        let room = |nic: &mut Self, _: &mut DevicePort<'_>| nic.parameters.receive_buffer_bytes;
        let rooms = ends.map(|end| fabric.command(end, room));
        let [Some(first), Some(second)] = rooms else { return false };
        for (end, far, room_bytes) in [(ends[0], ends[1], second), (ends[1], ends[0], first)] {
            fabric.command(end, |nic: &mut Self, _| {
                nic.link = Some(Link::new(parameters, far, room_bytes));
            });
        }
        true
    }

    /// Returns the NIC at the other end of the network link.
    pub fn far(&self) -> Option<NodeId> {
        self.link.as_ref().map(|link| link.far)
    }

    /// Returns the build parameters.
    pub const fn parameters(&self) -> &NicParameters {
        &self.parameters
    }

    /// Returns the parameters of the network link, if it is joined to one.
    pub fn network(&self) -> Option<&NetworkParameters> {
        self.link.as_ref().map(|link| &link.parameters)
    }

    /// Returns the counters of traffic sent to the network.
    pub fn counters(&self) -> NetworkCounters {
        self.link.as_ref().map(|link| link.counters).unwrap_or_default()
    }

    /// Registers memory whose first byte has `address` on the network, and returns its key.
    pub fn register(&mut self, address: u64, access: Access, runs: Runs) -> u32 {
        self.regions.add(address, access, runs)
    }

    /// Ends a registration. Returns false if the key is not registered. Writes of requests that
    /// have begun end with an error.
    pub fn deregister(&mut self, key: u32) -> bool {
        self.regions.remove(key)
    }

    /// Returns the number of registrations.
    pub fn registrations(&self) -> usize {
        self.regions.count()
    }

    /// Returns the number of queue pairs.
    pub fn pairs(&self) -> usize {
        self.slots.iter().filter(|slot| slot.pair.is_some()).count()
    }

    /// Returns the number of tags in use: reads of host memory in flight, and tags kept back after
    /// a time-out.
    pub fn tags_in_use(&self) -> usize {
        self.requester.in_use()
    }

    /// Creates a queue pair with its rings in `memory`, which must be zeroed.
    ///
    /// # Errors
    /// Returns an error if all queue pairs are in use or the rings do not fit.
    pub fn create_pair(
        &mut self,
        layout: QueueLayout,
        memory: Runs,
    ) -> Result<PairNumber, NicError> {
        let whole = |offset: u64| {
            memory.locate(offset).is_some_and(|(address, _)| address % PAGE_BYTES == 0)
        };
        let bytes = if layout.is_valid() { layout.bytes() } else { u64::MAX };
        let have_bytes = memory.bytes();
        if bytes > have_bytes || !(0..bytes.div_ceil(PAGE_BYTES)).all(|at| whole(at * PAGE_BYTES)) {
            return Err(NicError::Rings { bytes, have_bytes });
        }
        let most = (self.function.bars[0].bytes / DOORBELL_BYTES) as usize;
        let most = most.min(MAX_QUEUE_PAIRS);
        let free = self.slots.iter().position(|slot| slot.pair.is_none());
        let at = free.unwrap_or(self.slots.len());
        if at >= most {
            return Err(NicError::NoPairLeft(most));
        }
        if at == self.slots.len() {
            self.slots.push(super::Slot::default());
        }
        let slot = &mut self.slots[at];
        slot.pair = Some(Box::new(QueuePair::new(layout, memory)));
        Ok(PairNumber(u32::from(slot.turn) << 16 | at as u32))
    }

    /// Connects two new queue pairs of two NICs joined by a network.
    ///
    /// # Errors
    /// Returns [`NicError::Connect`] if the ends cannot be connected.
    pub fn connect(fabric: &mut Fabric, ends: [(NodeId, PairNumber); 2]) -> Result<(), NicError> {
        let mut facts = Vec::new();
        for (node, number) in ends {
            let fact = fabric.command(node, |nic: &mut Self, _| {
                let far = nic.far();
                let reads = nic.parameters.outstanding_reads;
                let pair = nic.pair(number.0).filter(|pair| pair.state == State::New);
                pair.map(|pair| (far, reads, pair.layout.messages))
            });
            let fact = fact.ok_or(NicError::Connect("one end is not a NIC"))?;
            facts.push(fact.ok_or(NicError::Connect("one does not exist, or is not new"))?);
        }
        let [(first_far, first_reads, first_slots), (second_far, second_reads, second_slots)] =
            facts[..]
        else {
            return Err(NicError::Connect("one does not exist"));
        };
        if first_far != Some(ends[1].0) || second_far != Some(ends[0].0) {
            return Err(NicError::Connect("no network joins their NICs"));
        }
        let reads_allowed = first_reads.min(second_reads);
        for (at, slots) in [(0, second_slots), (1, first_slots)] {
            let ((node, number), (_, far)) = (ends[at], ends[1 - at]);
            fabric.command(node, |nic: &mut Self, port| {
                let now_ps = port.now_ps();
                let down_ps = nic.link.as_ref().and_then(|link| link.down_since_ps);
                let Some(pair) = nic.pair(number.0) else { return };
                pair.state = State::Connected;
                pair.far = far.0;
                pair.reads_allowed = reads_allowed;
                pair.may_send = slots;
                pair.told = pair.layout.messages;
                pair.sign_ps = now_ps;
                if down_ps.is_some() {
                    nic.retry.at(now_ps + nic.parameters.retry_timeout.0, port);
                }
            });
        }
        Ok(())
    }

    /// Ends a queue pair and its peer at the other end: see
    /// [`EntryKind::Closed`](super::layout::EntryKind::Closed).
    pub fn close(&mut self, number: PairNumber, port: &mut DevicePort<'_>) {
        self.end_pair(number.0, Status::ClosedHere, port);
        self.go_on(port);
    }

    /// Destroys a queue pair that is new, or whose last entry has been written. Returns false for
    /// others.
    pub fn destroy(&mut self, number: PairNumber) -> bool {
        let is_at_rest = |state| matches!(state, State::New | State::Ended);
        if self.entries.iter().any(|(of, _)| *of == number.0) {
            return false;
        }
        if self.pair(number.0).is_none_or(|pair| !is_at_rest(pair.state)) {
            return false;
        }
        let slot = &mut self.slots[(number.0 & 0xffff) as usize];
        slot.pair = None;
        slot.turn = slot.turn.wrapping_add(1);
        true
    }

    /// Whether the network link is up; `None` without a link.
    pub fn is_link_up(&self) -> Option<bool> {
        self.link.as_ref().map(|link| link.down_since_ps.is_none())
    }

    /// Cuts both directions of a NIC's network link and holds back its packets. Connections cut for
    /// longer than their NIC's time-out end. Returns false if the node has no link.
    pub fn cut(fabric: &mut Fabric, node: NodeId) -> bool {
        Self::at_both_ends(fabric, node, |nic, port| {
            let (now_ps, timeout_ps) = (port.now_ps(), nic.parameters.retry_timeout.0);
            if let Some(link) = nic.link.as_mut() {
                link.down_since_ps.get_or_insert(now_ps);
            }
            nic.retry.at(now_ps + timeout_ps, port);
        })
    }

    /// Mends a NIC's network link and releases the held packets. Returns false if the node has no
    /// link.
    pub fn mend(fabric: &mut Fabric, node: NodeId) -> bool {
        Self::at_both_ends(fabric, node, |nic, port| {
            let latency_ps = nic.parameters.packet_latency.0;
            let now_ps = port.now_ps();
            let link = nic.link.as_mut();
            for time_ps in link.map_or_else(Vec::new, |link| link.repair(now_ps, latency_ps)) {
                port.timer(time_ps, STEP);
            }
            nic.go_on(port);
        })
    }

    fn at_both_ends(
        fabric: &mut Fabric,
        node: NodeId,
        mut order: impl FnMut(&mut Self, &mut DevicePort<'_>),
    ) -> bool {
        let far = fabric.command(node, |nic: &mut Self, _| nic.far()).flatten();
        let Some(far) = far else { return false };
        for end in [node, far] {
            fabric.command(end, |nic: &mut Self, port| order(nic, port));
        }
        true
    }
}
