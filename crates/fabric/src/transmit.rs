// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmitting side of a link in the event loop: choosing and sending TLPs, credits, replay.
//!
//! The priority is that of the specification (PCIe 6.x 3.6.2.1, non-FLIT): due DLLPs, then replays,
//! then new TLPs.

use crosslane_pcie::config::DetectedError;
use crosslane_pcie::link::TLP_FRAMING_BYTES;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::counters::IdleReason;
use crate::direction::{ALL_CLASSES, News, REPLAYS_BEFORE_RETRAINING, Unacked};
use crate::egress::{Choice, Next, Refusal};
use crate::events::EventKind;
use crate::fabric::{Fabric, NodeState};
use crate::packet::{Buffer, JOINED, NONE, Packet, PacketIndex};
use crate::receiver::{LinkPair, Reception, pair};
use crate::topology::{DirectionId, NodeKind};
use crate::trace::{TraceEvent, TraceRecord, TraceSink};
use crate::wire::WireTime;

impl Fabric {
    /// Queues a packet for a direction and schedules its transmitter.
    pub(crate) fn enqueue(&mut self, direction: u32, source: u32, index: PacketIndex) {
        if self.has_flits {
            self.frame(direction, index);
        }
        if self.directions[direction as usize].disturbance.is_some() {
            self.enqueue_disturbed(direction, source, index);
        } else {
            self.enqueue_as_it_is(direction, source, index);
        }
    }

    #[inline]
    pub(crate) fn enqueue_as_it_is(&mut self, direction: u32, source: u32, index: PacketIndex) {
        let state = &mut self.directions[direction as usize];
        if state.enqueue(&mut self.packets, &mut self.events, source, index) {
            self.lose_queued(direction);
        }
    }

    /// Sets the length of a packet on the wire of a direction, in FLITs or not.
    #[cold]
    pub(crate) fn frame(&mut self, direction: u32, index: PacketIndex) {
        let framing_bytes = self.directions[direction as usize].wire.framing_bytes;
        let packet = self.packets.get_mut(index);
        packet.wire_bytes = packet.header.wire_bytes() - TLP_FRAMING_BYTES + framing_bytes;
    }

    fn schedule_pick(&mut self, direction: u32, time_ps: u64) {
        self.directions[direction as usize].schedule_pick(&mut self.events, time_ps);
    }

    fn schedule_wake(&mut self, direction: u32, time_ps: u64) {
        let state = &mut self.directions[direction as usize];
        let time_ps = time_ps.max(self.events.now_ps());
        if time_ps < state.wake_ps {
            state.wake_ps = time_ps;
            self.events.schedule(time_ps, EventKind::Wake, direction, 0);
        }
    }

    /// Lets the transmitter of a direction choose a TLP.
    pub(crate) fn pick(&mut self, direction: u32) {
        let now_ps = self.events.now_ps();
        let mut link = pair(&mut self.directions, direction);
        if link.wire.pick_ps != now_ps {
            // An earlier event took its place.
            return;
        }
        // Due DLLPs take the wire first; the chosen TLP follows them.
        if link.has_due(now_ps) && link.reborrow().settle(now_ps, &mut self.random, &mut self.trace)
        {
            self.detect_corrupt_dllp(direction);
            link = pair(&mut self.directions, direction);
        }
        link.wire.pick_ps = u64::MAX;
        if self.shuffle || link.wire.is_held_up(now_ps) || link.wire.is_short_of_credits() {
            return self.pick_with_care(direction);
        }
        let (egress, room) = link.wire.egress_and_room(true);
        let index = match egress.take_next(&self.packets, now_ps, &room) {
            Next::Send(index) => index,
            Next::Later(later_ps) => return self.stay_idle(direction, Refusal::until(later_ps)),
            Next::Unclear => return self.pick_with_care(direction),
        };
        let packet = self.packets.get_mut(index);
        let buffer = packet.buffer();
        let flight = link.take_wire(packet, now_ps);
        self.hops += 1;
        let trace = &mut self.trace;
        let landing = link.fly::<false>(packet, flight, &mut self.random, trace);
        self.land(direction, index, landing);
        self.leave(direction, buffer, flight.end.ceil_ps());
    }

    /// Does the same where more has to be looked at: DLLPs, replays or silence come first, several
    /// TLPs may go, or the first one cannot.
    #[inline(never)]
    fn pick_with_care(&mut self, direction: u32) {
        if !self.may_choose(direction) {
            return;
        }
        // If credits are plentiful, those on their way back do not matter.
        if self.directions[direction as usize].is_short_of_credits() {
            return self.pick_with_news(direction);
        }
        match self.choose(direction, true) {
            Choice::Send(index) => self.send(direction, index),
            Choice::Refuse(refusal) if refusal.lacks_something() => self.pick_with_news(direction),
            Choice::Refuse(refusal) => self.stay_idle(direction, refusal),
        }
    }

    /// Chooses a TLP, or goes on with a replay, with the DLLPs that have arrived.
    #[inline(never)]
    fn pick_with_news(&mut self, direction: u32) {
        if self.refresh(direction).nak {
            return self.start_replay(direction);
        }
        self.pick_informed(direction);
    }

    /// Chooses a TLP when all DLLPs that have arrived are taken in.
    fn pick_informed(&mut self, direction: u32) {
        match self.choose(direction, false) {
            Choice::Send(index) => self.send(direction, index),
            Choice::Refuse(refusal) => self.stay_idle(direction, refusal),
        }
    }

    /// Whether a transmitter whose wire is up to date may choose a TLP: there is no DLLP, replay or
    /// silence before one. If there is, goes on with that.
    fn may_choose(&mut self, direction: u32) -> bool {
        let now_ps = self.events.now_ps();
        let state = &mut self.directions[direction as usize];
        let after_ps = if state.silent_until_ps > now_ps {
            state.silent_until_ps
        } else if state.dllp_waits() {
            state.wire.free.ceil_ps()
        } else if let Some(at) = state.replay_at {
            self.send_again(direction, at);
            return false;
        } else {
            return true;
        };
        self.schedule_pick(direction, after_ps);
        false
    }

    /// Notes why nothing can be sent, and schedules the next attempt.
    fn stay_idle(&mut self, direction: u32, refusal: Refusal) {
        let state = &mut self.directions[direction as usize];
        state.blocked = refusal.lacks_something().then_some(if refusal.replay_buffer {
            ALL_CLASSES
        } else {
            refusal.no_credit
        });
        let reason = if refusal.no_credit != 0 {
            let class = Class::ALL[refusal.no_credit.trailing_zeros() as usize];
            let translating = self.port_states[state.receiving_port as usize].translating;
            match state.receiver_is_full(class) {
                true if translating[class.index()] > 0 => IdleReason::Translation,
                true => IdleReason::ReceiverBusy,
                false => IdleReason::NoCredit,
            }
        } else if refusal.replay_buffer {
            IdleReason::ReplayBuffer
        } else {
            self.empty_reasons[direction as usize]
        };
        self.note_idle(direction, reason);
        if refusal.lacks_something() {
            self.arrange_wake(direction);
        }
        if refusal.later_ps != u64::MAX {
            self.schedule_pick(direction, refusal.later_ps);
        }
    }

    #[inline(always)]
    fn choose(&mut self, direction: u32, stale: bool) -> Choice {
        let now_ps = self.events.now_ps();
        let (egress, room) = self.directions[direction as usize].egress_and_room(stale);
        if self.shuffle {
            egress.choose_shuffled(&mut self.packets, now_ps, &room, &mut self.random)
        } else {
            egress.choose(&self.packets, now_ps, &room)
        }
    }

    fn note_idle(&mut self, direction: u32, reason: IdleReason) {
        let now_ps = self.events.now_ps();
        let state = &mut self.directions[direction as usize];
        if state.idle(now_ps, reason)
            && let Some(sink) = &mut self.trace
        {
            sink.record(&TraceRecord {
                time: Picoseconds(now_ps),
                direction: state.id,
                event: TraceEvent::Idle { reason },
            });
        }
    }

    /// Takes in the DLLPs that have arrived at a direction's transmitter.
    fn refresh(&mut self, direction: u32) -> News {
        let now_ps = self.events.now_ps();
        self.settle(direction ^ 1, now_ps);
        let state = &mut self.directions[direction as usize];
        let news = state.take_inbound(now_ps, &mut self.acknowledged);
        while let Some(index) = self.acknowledged.pop() {
            self.packets.remove(index);
        }
        news
    }

    /// Schedules the next moment at which DLLPs can unblock a direction.
    fn arrange_wake(&mut self, direction: u32) {
        let state = &self.directions[direction as usize];
        let reverse = &self.directions[(direction ^ 1) as usize];
        if state.is_down {
            return;
        }
        if let Some(next_ps) = state.next_news_ps(reverse) {
            self.schedule_wake(direction, next_ps);
        }
    }

    /// Checks whether DLLPs have unblocked a direction.
    pub(crate) fn wake(&mut self, direction: u32) {
        let now_ps = self.events.now_ps();
        let state = &mut self.directions[direction as usize];
        if state.wake_ps != now_ps {
            return;
        }
        state.wake_ps = u64::MAX;
        let news = self.refresh(direction);
        if news.nak {
            self.start_replay(direction);
        }
        let state = &mut self.directions[direction as usize];
        let waiting = state.blocked.is_some() && state.pick_ps == u64::MAX;
        if waiting && news.any {
            // Due DLLPs take the wire first; the chosen TLP follows them.
            self.settle(direction, now_ps);
            self.directions[direction as usize].pick_ps = u64::MAX;
            if self.may_choose(direction) {
                self.pick_informed(direction);
            }
        } else if waiting || state.eager {
            self.arrange_wake(direction);
        }
    }

    /// Schedules events for the DLLPs of an eager direction.
    pub(crate) fn follow_dllps(&mut self, direction: u32) {
        if self.directions[direction as usize].eager {
            self.arrange_wake(direction);
        }
    }

    /// Frees a receive buffer at `time_ps`.
    pub(crate) fn release(&mut self, direction: u32, time_ps: u64, class: Class, data: u32) {
        self.free_buffer(direction, time_ps, class, data);
    }

    /// Does the same where most TLPs leave.
    #[inline(always)]
    fn free_buffer(&mut self, direction: u32, time_ps: u64, class: Class, data: u32) {
        let state = &mut self.directions[direction as usize];
        let late = state.receiver.release(time_ps, class, data);
        if late || state.blocked.is_some() || state.eager {
            self.after_release(direction);
        }
    }

    /// Arranges for a transmitter that waits to hear of a freed buffer; otherwise takes in the
    /// DLLPs that have piled up.
    #[inline(never)]
    fn after_release(&mut self, direction: u32) {
        let state = &self.directions[direction as usize];
        if state.blocked.is_some() || state.eager {
            self.arrange_wake(direction);
        } else {
            self.refresh(direction);
        }
    }

    /// Frees the receive buffer of a TLP that a device has held.
    pub(crate) fn let_go(&mut self, direction: u32, time_ps: u64, class: Class, data: u32) {
        self.directions[direction as usize].receiver.let_go(class, data);
        self.release(direction, time_ps, class, data);
    }

    /// Sends a TLP for the first time.
    fn send(&mut self, direction: u32, index: PacketIndex) {
        let now_ps = self.events.now_ps();
        let packet = self.packets.get_mut(index);
        let buffer = packet.buffer();
        let mut link = pair(&mut self.directions, direction);
        let flight = link.take_wire(packet, now_ps);
        let is_eager = link.wire.eager;
        self.hops += 1;
        let end_ps = flight.end.ceil_ps();
        if is_eager {
            self.keep(direction, index, flight.sequence, end_ps);
        }
        let mut link = pair(&mut self.directions, direction);
        let (packet, trace) = (self.packets.get_mut(index), &mut self.trace);
        let landing = match is_eager {
            true => link.fly::<true>(packet, flight, &mut self.random, trace),
            false => link.fly::<false>(packet, flight, &mut self.random, trace),
        };
        self.land(direction, index, landing);
        self.leave(direction, buffer, end_ps);
    }

    /// Frees the buffer that a TLP leaves whose last byte takes the wire of a direction by
    /// `end_ps`, and schedules what comes next there.
    #[inline(always)]
    fn leave(&mut self, direction: u32, buffer: Buffer, end_ps: u64) {
        let Buffer { ingress, class, data } = buffer;
        if ingress < JOINED {
            self.free_buffer(ingress, end_ps, class, data);
        } else if ingress != NONE {
            let node = self.directions[direction as usize].transmitting_node;
            self.note_joined(node, ingress, end_ps);
        }
        self.after_send(direction, end_ps);
    }

    /// Keeps a copy of the TLP that has just been sent until its Ack comes.
    #[cold]
    fn keep(&mut self, direction: u32, index: PacketIndex, sequence: u64, end_ps: u64) {
        let packet = self.packets.duplicate(index);
        self.directions[direction as usize].keep(Unacked { sequence, packet });
        self.start_replay_timer(direction, end_ps);
    }

    /// Replays a TLP of the replay buffer. It needs no credits.
    #[cold]
    fn send_again(&mut self, direction: u32, at: usize) {
        let now_ps = self.events.now_ps();
        let state = &mut self.directions[direction as usize];
        let Some(unacked) = state.replay.get(at).copied() else {
            state.replay_at = None;
            self.schedule_pick(direction, now_ps);
            return;
        };
        let (sequence, sent) = (unacked.sequence, state.sent);
        assert_of!(
            sequence < sent,
            [sequence, sent],
            "TLP {sequence} is sent again, and {sent} were sent"
        );
        state.replay_at = (at + 1 < state.replay.len()).then_some(at + 1);
        let wire_bytes = self.packets.get(unacked.packet).wire_bytes;
        let ticks = u64::from(wire_bytes) * state.wire.byte_ticks;
        let (start, end) = state.occupy(state.wire.free.resumed_at(now_ps), ticks);
        state.counters.replayed_tlps += 1;
        state.counters.replayed_bytes += u64::from(wire_bytes);
        if at == 0 {
            state.replay_deadline_ps = end.ceil_ps() + state.replay_limit_ps;
        }
        let copy = self.packets.duplicate(unacked.packet);
        let flight = Flight { sequence, start, end, is_replay: true };
        let (random, trace) = (&mut self.random, &mut self.trace);
        let mut link = pair(&mut self.directions, direction);
        let landing = link.fly::<true>(self.packets.get_mut(copy), flight, random, trace);
        self.land(direction, copy, landing);
        self.after_send(direction, end.ceil_ps());
    }

    #[inline(always)]
    fn after_send(&mut self, direction: u32, end_ps: u64) {
        let state = &mut self.directions[direction as usize];
        let (node, kind, is_eager) = (state.transmitting_node, state.transmitter, state.eager);
        if !state.egress.is_empty() || state.replay_at.is_some() {
            state.schedule_pick(&mut self.events, end_ps);
        }
        if is_eager {
            self.arrange_wake(direction);
        }
        match kind {
            NodeKind::Switch => {}
            NodeKind::Endpoint => {
                self.with_device(node, |device, port| device.transmit_ready(port));
            }
            NodeKind::RootComplex => {
                if let NodeState::RootComplex(Some(root)) = &self.node_states[node as usize]
                    && root.processor.has_stalled_cores()
                {
                    self.resume_cores(node, direction);
                }
            }
        }
    }

    /// Schedules the arrival of a TLP on the wire, and notes an error of its reception.
    #[inline(always)]
    fn land(&mut self, direction: u32, index: PacketIndex, landing: Landing) {
        if landing.is_corrupt {
            let port = self.directions[direction as usize].receiving_port;
            self.detect(port, DetectedError::Correctable);
        }
        match landing.reception {
            Reception::Accepted => {
                self.events.schedule(landing.arrive_ps, EventKind::Arrive, direction, index);
            }
            Reception::Dropped => self.packets.remove(index),
        }
        if landing.is_late {
            self.refresh(direction);
        }
    }

    fn start_replay_timer(&mut self, direction: u32, end_ps: u64) {
        let state = &mut self.directions[direction as usize];
        if state.replay_deadline_ps == u64::MAX {
            state.replay_deadline_ps = end_ps + state.replay_limit_ps;
        }
        if state.replay_event_ps == u64::MAX {
            state.replay_event_ps = state.replay_deadline_ps;
            let deadline_ps = state.replay_deadline_ps;
            self.events.schedule(deadline_ps, EventKind::ReplayTimer, direction, 0);
        }
    }

    /// Checks whether the replay timer has run out.
    pub(crate) fn replay_timer(&mut self, direction: u32) {
        let now_ps = self.events.now_ps();
        let News { any, nak } = self.refresh(direction);
        let state = &mut self.directions[direction as usize];
        state.replay_event_ps = u64::MAX;
        if any && state.blocked.is_some() {
            // No other event reports these credits.
            self.schedule_pick(direction, now_ps);
        }
        let state = &mut self.directions[direction as usize];
        if state.replay.is_empty() {
            state.replay_deadline_ps = u64::MAX;
            return;
        }
        let timed_out = now_ps >= state.replay_deadline_ps;
        if timed_out || nak {
            self.start_replay(direction);
        }
        if timed_out {
            self.detect_at_transmitter(direction);
        }
        let state = &mut self.directions[direction as usize];
        state.replay_event_ps = state.replay_deadline_ps.max(now_ps + 1);
        let next_ps = state.replay_event_ps;
        self.events.schedule(next_ps, EventKind::ReplayTimer, direction, 0);
    }

    /// Records a time-out or roll-over of the replay mechanism: correctable (PCIe 6.x 6.2.7).
    fn detect_at_transmitter(&mut self, direction: u32) {
        let port = self.directions[(direction ^ 1) as usize].receiving_port;
        self.detect(port, DetectedError::Correctable);
    }

    /// Replays every TLP without an Ack, oldest first. At the fourth time without progress the link
    /// retrains first.
    fn start_replay(&mut self, direction: u32) {
        let now_ps = self.events.now_ps();
        let state = &mut self.directions[direction as usize];
        if state.replay.is_empty() {
            return;
        }
        state.replay_at = Some(0);
        state.replay_number += 1;
        let number = state.replay_number;
        assert_of!(
            number <= REPLAYS_BEFORE_RETRAINING,
            [number],
            "replay {number} without a retraining"
        );
        let mut ready_ps = state.wire.free.ceil_ps().max(now_ps);
        if state.replay_number >= REPLAYS_BEFORE_RETRAINING {
            state.replay_number = 0;
            state.counters.retrainings += 1;
            ready_ps += state.retrain_ps;
            let id = state.id;
            for way in [direction, direction ^ 1] {
                let state = &mut self.directions[way as usize];
                state.silence(now_ps, ready_ps, IdleReason::Retraining);
            }
            if let Some(sink) = &mut self.trace {
                sink.record(&TraceRecord {
                    time: Picoseconds(now_ps),
                    direction: id,
                    event: TraceEvent::Retrain { end: Picoseconds(ready_ps) },
                });
            }
            self.detect_at_transmitter(direction);
        }
        let state = &mut self.directions[direction as usize];
        state.replay_deadline_ps = ready_ps + state.replay_limit_ps;
        self.schedule_pick(direction, ready_ps);
    }
}

/// A TLP on a wire.
#[derive(Clone, Copy)]
struct Flight {
    sequence: u64,
    start: WireTime,
    end: WireTime,
    is_replay: bool,
}

/// The other end of a TLP's flight.
struct Landing {
    reception: Reception,
    /// Time at which it leaves the receiver.
    arrive_ps: u64,
    is_corrupt: bool,
    /// Whether DLLPs have piled up.
    is_late: bool,
}

impl LinkPair<'_> {
    /// Takes the wire for a TLP that is sent for the first time, and its credits.
    #[inline(always)]
    fn take_wire(&mut self, packet: &Packet, now_ps: u64) -> Flight {
        self.wire.receiver.absorb(now_ps, &mut self.other.outbound);
        let state = &mut *self.wire;
        state.blocked = None;
        let sequence = state.sent;
        let ticks = u64::from(packet.wire_bytes) * state.wire.byte_ticks;
        let (start, end) = state.occupy(state.wire.free.resumed_at(now_ps), ticks);
        state.consume(packet.class(), packet.data_credits, packet.wire_bytes);
        state.counters.payload_bytes += u64::from(packet.payload_bytes());
        Flight { sequence, start, end, is_replay: false }
    }

    /// Handles a TLP on the wire from start to end: works out how the receiver's data link layer
    /// treats it, and when the TLP leaves the receiver.
    #[inline(always)]
    fn fly<const EAGER: bool>(
        &mut self,
        packet: &mut Packet,
        flight: Flight,
        random: &mut Random,
        trace: &mut Option<Box<dyn TraceSink>>,
    ) -> Landing {
        let Flight { start, end, .. } = flight;
        let state = &mut *self.wire;
        let is_corrupt = EAGER && state.is_corrupted(packet.wire_bytes, random);
        if let Some(sink) = trace {
            record(&mut **sink, state.id, packet, flight, is_corrupt);
        }
        let tail_ps = end.ceil_ps() + state.flight_ps;
        let arrive_ps = if state.receiver_cuts_through {
            let behind = packet.payload_bytes() + state.wire.trailing_bytes;
            let head = u64::from(packet.wire_bytes - behind);
            start.plus_ticks(head * state.wire.byte_ticks).ceil_ps() + state.flight_ps
        } else {
            let taken_ps = state.intake.time_ps(packet.payload_bytes());
            // A short TLP must not overtake a long one ahead of it.
            let lead_ps = taken_ps.min(state.receive_latency_ps);
            let arrive_ps = tail_ps + state.receive_latency_ps - lead_ps;
            state.last_arrival_ps = arrive_ps.max(state.last_arrival_ps);
            state.last_arrival_ps
        };
        packet.tail_ps = tail_ps;
        packet.ingress = state.id.index();
        packet.held_data = packet.data_credits;
        let wire_bytes = packet.wire_bytes;
        let reception = self.receive::<EAGER>(flight.sequence, wire_bytes, is_corrupt, tail_ps);
        Landing { reception, arrive_ps, is_corrupt, is_late: self.other.outbound.is_late() }
    }
}

/// Tells a sink of a TLP on a wire.
#[cold]
#[inline(never)]
fn record(
    sink: &mut dyn TraceSink,
    direction: DirectionId,
    packet: &Packet,
    flight: Flight,
    corrupt: bool,
) {
    let Flight { sequence, start, end, is_replay } = flight;
    sink.record(&TraceRecord {
        time: Picoseconds(start.floor_ps()),
        direction,
        event: TraceEvent::Tlp {
            header: packet.header,
            sequence,
            wire_bytes: packet.wire_bytes,
            // A replayed TLP may have left the receiver in the meantime.
            ready: Picoseconds(packet.ready_ps.min(start.floor_ps())),
            end: Picoseconds(end.ceil_ps()),
            replay: is_replay,
            corrupt,
            flow: packet.flow.checked_sub(1),
        },
    });
}
