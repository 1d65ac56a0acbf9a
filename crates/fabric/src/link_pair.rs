// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both directions of a link together: each acknowledges the other's TLPs.

use crosslane_pcie::credits::UPDATE_FC_LIMIT_PS;
use crosslane_pcie::link::DLLP_BYTES;
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::direction::Direction;
use crate::receiver::Dllp;
use crate::trace::{DllpKind, TraceEvent, TraceRecord, TraceSink};
use crate::wire::WireTime;

/// Outcome of a TLP at the receiver's data link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// In order and clean; passed to the transaction layer.
    Accepted,
    /// Corrupt, duplicate or behind a gap.
    Dropped,
}

/// Both directions of a link: `wire` carries the DLLPs that the receiver of `other` sends.
pub(crate) struct LinkPair<'a> {
    pub wire: &'a mut Direction,
    pub other: &'a mut Direction,
}

/// Borrows the two directions of the link of direction `index`, that direction first.
pub(crate) fn pair(directions: &mut [Direction], index: u32) -> LinkPair<'_> {
    let base = (index & !1) as usize;
    let (down, up) = directions[base..base + 2].split_at_mut(1);
    if index & 1 == 0 {
        LinkPair { wire: &mut down[0], other: &mut up[0] }
    } else {
        LinkPair { wire: &mut up[0], other: &mut down[0] }
    }
}

impl LinkPair<'_> {
    /// Brings `wire` up to `now`: works out the DLLPs that the receiver of `other` had to send by
    /// then, and sends those that find the wire free. Returns whether one of them was corrupt.
    pub fn settle(
        &mut self,
        now_ps: u64,
        random: &mut Random,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) -> bool {
        self.absorb(now_ps);
        let mut corrupt = false;
        while self.wire.outbound.first_ps <= now_ps && self.wire.wire.free.ceil_ps() <= now_ps {
            let ready = WireTime::at(self.wire.outbound.first_ps);
            let (start, end) = self.wire.occupy(ready, self.wire.dllp_time_bytes);
            let Some(dllp) = self.wire.outbound.take_merged(start.ps) else { break };
            corrupt |= self.send(dllp, start, end, random, trace);
        }
        corrupt
    }

    /// Whether [`settle`](Self::settle) has something to do.
    #[inline]
    pub fn has_due(&self, now_ps: u64) -> bool {
        self.other.receiver.next_due_ps <= now_ps || self.wire.outbound.first_ps <= now_ps
    }

    /// Sends a DLLP. Returns whether it arrives corrupt.
    fn send(
        &mut self,
        dllp: Dllp,
        start: WireTime,
        end: WireTime,
        random: &mut Random,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) -> bool {
        let wire = &mut *self.wire;
        wire.counters.dllp_bytes += u64::from(DLLP_BYTES);
        match dllp.kind {
            DllpKind::Ack => wire.counters.acks += 1,
            DllpKind::Nak => wire.counters.naks += 1,
            DllpKind::UpdateFc(_) => wire.counters.update_fcs += 1,
        }
        let corrupt = wire.is_corrupted(DLLP_BYTES, random);
        if let Some(sink) = trace {
            sink.record(&TraceRecord {
                time: Picoseconds(start.ps),
                direction: wire.id,
                event: TraceEvent::Dllp {
                    kind: dllp.kind,
                    end: Picoseconds(end.ceil_ps()),
                    corrupt,
                },
            });
        }
        if corrupt {
            wire.counters.corrupt_dllps += 1;
            if let DllpKind::UpdateFc(_) = dllp.kind {
                // Credits are repeated after at most 30 us.
                let again = Dllp { time_ps: end.ceil_ps() + UPDATE_FC_LIMIT_PS, ..dllp };
                wire.outbound.put(again);
            }
        } else {
            let time_ps = end.ceil_ps() + wire.flight_ps;
            let last_ps = self.other.inbound.back().map_or(0, |last| last.time_ps);
            assert_of!(
                time_ps >= last_ps,
                [time_ps, last_ps],
                "a DLLP of {time_ps} ps overtakes that of {last_ps} ps"
            );
            self.other.inbound.push_back(Dllp { time_ps, ..dllp });
        }
        corrupt
    }

    /// Turns freed buffers and received TLPs into DLLPs, as far as they are due by `now`. Whether
    /// an UpdateFC is due at once depends on the TLPs that `other` had sent when the buffer became
    /// free, so call this before each new TLP of `other`.
    #[inline]
    pub fn absorb(&mut self, now_ps: u64) {
        self.other.receiver.absorb(now_ps, &mut self.wire.outbound);
    }

    /// Passes a TLP of `wire`, numbered `sequence`, to the receiver's data link layer. Its last
    /// byte arrives at `tail_ps`. Acks and Naks go to `other`.
    #[inline(always)]
    pub fn receive(
        &mut self,
        sequence: u64,
        wire_bytes: u32,
        corrupt: bool,
        tail_ps: u64,
    ) -> Reception {
        let (eager, sent) = (self.wire.eager, self.wire.sent);
        let receiver = &mut self.wire.receiver;
        let due = receiver.ack_timer_ps();
        assert_of!(
            sequence < sent,
            [sequence, sent],
            "TLP {sequence} arrives, and {sent} were sent"
        );
        // Without bit errors nothing is lost, so nothing comes twice.
        let accepted = receiver.accepted;
        assert_of!(
            eager || sequence == accepted,
            [sequence, accepted],
            "TLP {sequence} arrives, {accepted} are here"
        );
        if due <= tail_ps {
            let dllp = receiver.acknowledge(DllpKind::Ack, due);
            self.other.outbound.put(dllp);
        }
        let receiver = &mut self.wire.receiver;
        if corrupt || sequence > receiver.accepted {
            self.wire.counters.corrupt_tlps += u64::from(corrupt);
            if !receiver.nak_scheduled {
                receiver.nak_scheduled = true;
                let dllp = receiver.acknowledge(DllpKind::Nak, tail_ps);
                self.other.outbound.put(dllp);
            }
            return Reception::Dropped;
        }
        if sequence < receiver.accepted {
            // A duplicate, because its Ack was lost.
            let dllp = receiver.acknowledge(DllpKind::Ack, tail_ps);
            self.other.outbound.put(dllp);
            return Reception::Dropped;
        }
        receiver.nak_scheduled = false;
        receiver.accepted += 1;
        receiver.accepted_bytes += u64::from(wire_bytes);
        let pending = &mut receiver.unacknowledged;
        if pending.tlps == 0 {
            pending.since_ps = tail_ps;
        }
        pending.tlps += 1;
        let timer_ps = pending.since_ps + receiver.ack.within_ps;
        receiver.next_due_ps = receiver.next_due_ps.min(timer_ps);
        if pending.tlps >= receiver.ack.tlps {
            let dllp = receiver.acknowledge(DllpKind::Ack, tail_ps);
            self.other.outbound.put(dllp);
        }
        Reception::Accepted
    }
}
