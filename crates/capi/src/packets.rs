// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of streams: sent in batches, and received into buffers that were posted for them.

use std::collections::VecDeque;
use std::ffi::c_int;

use crosslane::driver::{CompletionLevel, Packet, ReceivedPacket};
use crosslane::pcie::units::Picoseconds;

use crate::buffer::{BufferObject, crosslane_buffer};
use crate::channel::{ChannelObject, Held, Request, State, crosslane_channel};
use crate::completions::MOST_COMPLETIONS;
use crate::error::{Failure, Result, guard};
use crate::handle;
use crate::structs::{Array, sized};

/// The part has the first byte that was received of its packet.
pub const CROSSLANE_PACKET_BEGINS: u32 = 1;
/// The part has the last byte that was received of its packet.
pub const CROSSLANE_PACKET_ENDS: u32 = 2;
/// The packet is not whole: its first or its last bytes were lost.
pub const CROSSLANE_PACKET_CUT: u32 = 4;

/// A packet to be sent by H2C channel 0 that is open with CROSSLANE_CHANNEL_PACKETS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_packet {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The caller's number, which its completion has.
    pub wr_id: u64,
    /// Host memory.
    pub buffer: *mut crosslane_buffer,
    /// First byte of the buffer.
    pub offset: u64,
    /// Length, in bytes; at least one.
    pub bytes: u64,
    /// User bits beside the packet's last beat in the card (tuser): 16 bits.
    pub user: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Bytes of a received packet in one posted part of a buffer. Of an array only the first needs its
/// size set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_packet_part {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The caller's number of the transfer that was posted for it.
    pub wr_id: u64,
    /// First byte in its buffer.
    pub offset: u64,
    /// Bytes of the packet there.
    pub bytes: u64,
    /// Bytes of the packet in all its parts.
    pub packet_bytes: u64,
    /// CROSSLANE_PACKET_* that hold, joined by |.
    pub flags: u32,
    /// User bits beside the packet's last beat (tuser); 0 if the packet is not whole.
    pub user: u32,
}

sized!(crosslane_packet, crosslane_packet_part);

impl ChannelObject {
    /// Makes the driver's packet of the caller's.
    fn packet(asked: &crosslane_packet) -> Result<(Packet, Request)> {
        let user = u16::try_from(asked.user);
        let user = user.map_err(|_| Failure::argument("user has more than 16 bits"))?;
        if asked.reserved != 0 {
            return Err(Failure::argument("reserved is not 0 in the crosslane_packet"));
        }
        let object = handle::get::<BufferObject>(asked.buffer)?;
        let part = asked.offset..asked.offset.saturating_add(asked.bytes);
        object.copy_in(&part)?;
        let packet = Packet::new(object.buffer.clone(), part.clone()).with_user(user);
        let held = Held::Buffer { buffer: object, part, is_written: false };
        let (wr_id, level) = (asked.wr_id, CompletionLevel::Visible);
        Ok((packet, Request { wr_id, level, bytes: asked.bytes, held }))
    }

    fn send(&self, packets: &Array<crosslane_packet>, timeout_ns: u64) -> Result<()> {
        let (mut batch, mut requests) = (Vec::new(), Vec::new());
        for index in 0..packets.len() {
            let made = packets.get(index).and_then(|asked| Self::packet(&asked));
            let count = packets.len();
            let (packet, request) =
                made.map_err(|failure| failure.of_element("packet", index, count))?;
            batch.push(packet);
            requests.push(request);
        }
        let deadline = self.device.session.deadline(timeout_ns);
        let mut state = self.state.borrow_mut();
        let State { channel, pending, .. } = &mut *state;
        let tickets = self.device.session.run(channel.send_packets(&batch, deadline))?;
        pending.extend(tickets.into_iter().zip(requests));
        Ok(())
    }

    /// Waits until a packet has come, at most until a time, and gives the parts of all that have.
    fn receive(&self, into: &Array<crosslane_packet_part>, until: Picoseconds) -> Result<usize> {
        let session = &self.device.session;
        let mut taken = 0;
        loop {
            let mut state = self.state.borrow_mut();
            if let Some(event) = &mut state.event {
                event.arm()?;
            }
            if state.parts.is_empty() {
                // A packet has one part or more.
                let most = into.len();
                let came = session.run_slice(until, state.channel.recv_packets(most, until))?;
                match came {
                    Some(Ok(packets)) => state.take_in(packets)?,
                    Some(Err(error)) => {
                        state.drop_failed();
                        return Err(error.into());
                    }
                    None => {}
                }
            }
            while taken < into.len()
                && let Some(part) = state.parts.pop_front()
            {
                into.put(taken, part);
                taken += 1;
            }
            drop(state);
            if taken > 0 || into.len() == 0 || !session.has_time(until)? {
                return Ok(taken);
            }
        }
    }
}

impl State {
    /// Takes packets in: their parts of buffers are no longer in flight.
    fn take_in(&mut self, packets: Vec<ReceivedPacket>) -> Result<()> {
        for packet in packets {
            let (packet_bytes, last) = (packet.bytes(), packet.parts.len() - 1);
            for (index, part) in packet.parts.into_iter().enumerate() {
                let request = loop {
                    match self.pending.pop_front() {
                        // One before it has failed, or its record is lost.
                        Some((ticket, _)) if ticket < part.ticket => {}
                        Some((_, request)) => break request,
                        None => {
                            return Err(Failure::argument(
                                "a packet has come that no part of \
                            a buffer was posted for",
                            ));
                        }
                    }
                };
                if let Held::Buffer { buffer, .. } = &request.held {
                    buffer.copy_out(&part.range)?;
                }
                let flag = |is_set, flag| if is_set { flag } else { 0 };
                self.parts.push_back(crosslane_packet_part {
                    size: 0,
                    wr_id: request.wr_id,
                    offset: part.range.start,
                    bytes: part.range.end - part.range.start,
                    packet_bytes,
                    flags: flag(index == 0, CROSSLANE_PACKET_BEGINS)
                        | flag(index == last, CROSSLANE_PACKET_ENDS)
                        | flag(!packet.is_whole, CROSSLANE_PACKET_CUT),
                    user: packet.user.into(),
                });
            }
        }
        Ok(())
    }

    /// Lets the parts of buffers go whose transfers have ended without a packet.
    fn drop_failed(&mut self) {
        let next = self.channel.first_unreceived();
        while self.pending.front().is_some_and(|(ticket, _)| *ticket < next) {
            self.pending.pop_front();
        }
    }
}

/// Parts of packets that were received and not given to the caller.
pub(crate) type Parts = VecDeque<crosslane_packet_part>;

/// Sends packets with one doorbell: all of them or, if one is wrong, none. Waits for room if what
/// is in flight fills the ring. Each has a completion, which crosslane_channel_poll and
/// crosslane_channel_wait give when all of it is in the card's stream.
///
/// @param packets  `count` packets.
/// @param timeout_ns  Time from now at which those have failed that are not complete, in ns; 0 for
/// one second, CROSSLANE_FOREVER for none.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `packets` is NULL or has `count` packets, each of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_send_packets(
    channel: *const crosslane_channel,
    packets: *const crosslane_packet,
    count: usize,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_channel_send_packets", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        object.send(&unsafe { Array::new(packets.cast_mut(), count)? }, timeout_ns)?;
        Ok(0)
    })
}

/// Waits until a packet has come, and takes all that have come then. C2H channel 0 is open with
/// CROSSLANE_CHANNEL_PACKETS, and the program has posted parts of buffers for packets, with
/// crosslane_channel_post. A packet that is longer than such a part goes on in the next one: it has
/// several parts here, one behind the other. Parts that do not fit into the array are given by the
/// next call. A part of a buffer that was given belongs to the program again.
///
/// @param parts  Gets up to `capacity` parts; the size of the first is set.
/// @param timeout_ns  Longest wait, in ns; 0 for what has come already, CROSSLANE_FOREVER for no
/// end.
/// @return The number of parts: 0 if the time is over; or a negative number of errno.h: nothing is
/// posted, or less than the rest of a long packet needs, or the channel has stopped.
///
/// # Safety
/// `parts` is NULL or has `capacity` of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_recv_packets(
    channel: *const crosslane_channel,
    parts: *mut crosslane_packet_part,
    capacity: usize,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_channel_recv_packets", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        let into = unsafe { Array::new(parts, capacity.min(MOST_COMPLETIONS))? };
        let session = &object.device.session;
        let taken = object.receive(&into, session.until(timeout_ns))?;
        if taken == 0 && timeout_ns == 0 {
            session.spend_poll()?;
        }
        Ok(taken as c_int)
    })
}
