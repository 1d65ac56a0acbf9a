// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the driver in a kernel orders of a NIC. None of it takes simulated time: what it takes is
//! up to who calls.

use crosslane_fabric::{DevicePort, Fabric, NodeId};
use thiserror::Error;

use super::layout::{DOORBELL_BYTES, QueueLayout, Status};
use super::link::{Link, NetworkCounters};
use super::pair::{QueuePair, State};
use super::parameters::NetworkParameters;
use super::regions::{Access, Runs};
use super::{MAX_QUEUE_PAIRS, Nic, NicParameters, STEP};

/// A queue pair of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairNumber(pub(super) u32);

impl PairNumber {
    /// Where its doorbells are in BAR 0.
    #[must_use]
    pub const fn doorbells(self) -> u64 {
        (self.0 & 0xffff) as u64 * DOORBELL_BYTES
    }
}

/// What a NIC cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NicError {
    /// All queue pairs that it has doorbells for are in use.
    #[error("all {0} queue pairs of the adapter are in use")]
    NoPairLeft(usize),
    /// Rings that do not fit their memory.
    #[error("rings of {bytes} B do not fit memory of {have_bytes} B in whole pages")]
    Rings {
        /// What they take.
        bytes: u64,
        /// What there is.
        have_bytes: u64,
    },
    /// No NIC, no queue pair that has not been used, or NICs that no network joins.
    #[error("two queue pairs cannot be connected: {0}")]
    Connect(&'static str),
}

/// Runs of queue memory are made of these.
const PAGE_BYTES: u64 = 4096;

impl Nic {
    /// Joins two NICs by a network link. False where one of the nodes is no NIC.
    ///
    /// # Panics
    /// If there is no such network: see [`NetworkParameters::check`]; or both are one.
    pub fn join(fabric: &mut Fabric, ends: [NodeId; 2], parameters: NetworkParameters) -> bool {
        if let Err(error) = parameters.check() {
            panic!("the parameters of a network are checked before: {error}");
        }
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

    /// The NIC at the other end of the network link.
    #[must_use]
    pub fn far(&self) -> Option<NodeId> {
        self.link.as_ref().map(|link| link.far)
    }

    /// How it is built.
    #[must_use]
    pub const fn parameters(&self) -> &NicParameters {
        &self.parameters
    }

    /// The network that it is joined to.
    #[must_use]
    pub fn network(&self) -> Option<&NetworkParameters> {
        self.link.as_ref().map(|link| &link.parameters)
    }

    /// What has left it for the network so far.
    #[must_use]
    pub fn counters(&self) -> NetworkCounters {
        self.link.as_ref().map(|link| link.counters).unwrap_or_default()
    }

    /// Registers memory, whose first byte has `address` for the network. Its key.
    pub fn register(&mut self, address: u64, access: Access, runs: Runs) -> u32 {
        self.regions.add(address, access, runs)
    }

    /// Ends a registration. False where there is none. What is written there by a request that has
    /// begun before ends with an error.
    pub fn deregister(&mut self, key: u32) -> bool {
        self.regions.remove(key)
    }

    /// Registrations that there are.
    #[must_use]
    pub fn registrations(&self) -> usize {
        self.regions.count()
    }

    /// Queue pairs that there are.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.slots.iter().filter(|slot| slot.pair.is_some()).count()
    }

    /// Tags in use: reads of host memory that are under way, and those kept back after a time-out.
    #[must_use]
    pub fn tags_in_use(&self) -> usize {
        self.reads.in_use()
    }

    /// Makes a queue pair with rings in this memory, which is zeroed.
    ///
    /// # Errors
    /// None is left, or rings that do not fit.
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
        let most = (self.function.doorbells.bytes / DOORBELL_BYTES) as usize;
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

    /// Connects two queue pairs that are new, of two NICs that a network joins.
    ///
    /// # Errors
    /// [`NicError::Connect`].
    pub fn connect(fabric: &mut Fabric, ends: [(NodeId, PairNumber); 2]) -> Result<(), NicError> {
        let mut facts = Vec::new();
        for (node, number) in ends {
            let fact = fabric.command(node, |nic: &mut Self, _| {
                let far = nic.far();
                let reads = nic.parameters.outstanding_reads;
                let pair = nic.pair(number.0).filter(|pair| pair.state == State::New);
                pair.map(|pair| (far, reads, pair.layout.messages))
            });
            let fact = fact.ok_or(NicError::Connect("one is of no NIC"))?;
            facts.push(fact.ok_or(NicError::Connect("one is none, or not new"))?);
        }
        let [(first_far, first_reads, first_slots), (second_far, second_reads, second_slots)] =
            facts[..]
        else {
            return Err(NicError::Connect("one is none"));
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
                    nic.arm_retry(now_ps + nic.parameters.retry_timeout.0, port);
                }
            });
        }
        Ok(())
    }

    /// Ends a queue pair, and that at the other end: see
    /// [`EntryKind::Closed`](super::layout::EntryKind::Closed).
    pub fn close(&mut self, number: PairNumber, port: &mut DevicePort<'_>) {
        self.end_pair(number.0, Status::ClosedHere, port);
        self.go_on(port);
    }

    /// Gives up a queue pair that is new, or whose last entry has come. False for any other.
    pub fn destroy(&mut self, number: PairNumber) -> bool {
        let is_at_rest = |state| matches!(state, State::New | State::Ended);
        if self.pair(number.0).is_none_or(|pair| !is_at_rest(pair.state)) {
            return false;
        }
        let slot = &mut self.slots[(number.0 & 0xffff) as usize];
        slot.pair = None;
        slot.turn = slot.turn.wrapping_add(1);
        true
    }

    /// Whether the network link is up. None: there is no link.
    #[must_use]
    pub fn is_link_up(&self) -> Option<bool> {
        self.link.as_ref().map(|link| link.down_since_ps.is_none())
    }

    /// Cuts the network link of a NIC, both ways. What is on its way is held back; connections
    /// that have been without it for the time-out of their NIC end. False where there is none.
    pub fn cut(fabric: &mut Fabric, node: NodeId) -> bool {
        Self::at_both_ends(fabric, node, |nic, port| {
            let (now_ps, timeout_ps) = (port.now_ps(), nic.parameters.retry_timeout.0);
            if let Some(link) = nic.link.as_mut() {
                link.down_since_ps.get_or_insert(now_ps);
            }
            nic.arm_retry(now_ps + timeout_ps, port);
        })
    }

    /// Mends the network link of a NIC: what was held back goes on. False where there is none.
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
