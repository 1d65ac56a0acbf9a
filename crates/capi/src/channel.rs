// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels: transfers that are posted and polled, or block.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ops::Range;
use std::rc::Rc;

use crosslane::blocking::Error;
use crosslane::driver::{
    Channel, ChannelKind, ChannelOptions, Completed, CompletionLevel, DescriptorSource,
    Notification, Target, Ticket, Transfer, TransferError,
};
use crosslane::host::ErrorKind;
use crosslane::pcie::units::Picoseconds;

use crate::buffer::{BufferObject, crosslane_buffer};
use crate::device::{DeviceObject, crosslane_device};
use crate::error::{Failure, Result, guard, remember};
use crate::event::Event;
use crate::handle::{self, Handled};
use crate::packets::Parts;
use crate::peer::{PeerMemoryObject, PeerObject, crosslane_peer, crosslane_peer_memory};
use crate::structs::{self, Array, sized};

/// Host to card.
pub const CROSSLANE_H2C: u32 = 0;
/// Card to host.
pub const CROSSLANE_C2H: u32 = 1;
/// Card to another card.
pub const CROSSLANE_PEER: u32 = 2;

/// Completions are polled for in host memory.
pub const CROSSLANE_NOTIFY_POLL: u32 = 0;
/// A wait sleeps until an interrupt; needed for crosslane_channel_fd.
pub const CROSSLANE_NOTIFY_INTERRUPT: u32 = 1;

/// Data TLPs may pass earlier ones.
pub const CROSSLANE_CHANNEL_RELAXED_ORDERING: u32 = 1;
/// Transfers are to or from the card's memory (H2C 0 and C2H 0, if the engine supports it).
pub const CROSSLANE_CHANNEL_CARD_MEMORY: u32 = 2;
/// Descriptors are in a table of the engine's, which the processor stores word by word.
pub const CROSSLANE_CHANNEL_TABLE: u32 = 4;
/// Data are packets, with their ends and user bits (H2C 0 and C2H 0, if the engine has them).
pub const CROSSLANE_CHANNEL_PACKETS: u32 = 8;
/// The engine drops and counts packets that no part of a buffer is posted for; otherwise they wait,
/// and with them the stream (C2H 0 with packets).
pub const CROSSLANE_CHANNEL_DROP_PACKETS: u32 = 16;

/// The strongest level that the channel can promise: visible, or for peers acknowledged with
/// credits and sent without.
pub const CROSSLANE_LEVEL_STRONGEST: u32 = 0;
/// The engine has been told.
pub const CROSSLANE_LEVEL_ACCEPTED: u32 = 1;
/// The last TLP has been handed to the link.
pub const CROSSLANE_LEVEL_SENT: u32 = 2;
/// The data can be seen: in host memory (C2H), or in the card's stream or memory (H2C).
pub const CROSSLANE_LEVEL_VISIBLE: u32 = 3;
/// The peer has taken the data, as its credit counter shows.
pub const CROSSLANE_LEVEL_ACKNOWLEDGED: u32 = 4;

/// Copy within the card's memory, from card_address to card_to (C2H 0).
pub const CROSSLANE_TRANSFER_CARD_TO_CARD: u32 = 1;

/// An open channel.
pub struct crosslane_channel {
    _private: (),
}

/// How to open a channel. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_channel_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Descriptors in the ring, a power of two from 16 to 65536; 0 for 1024.
    pub ring_entries: u32,
    /// Longest payload or read request, a power of two in bytes; 0 for the longest allowed.
    pub payload_bytes: u32,
    /// CROSSLANE_NOTIFY_POLL or CROSSLANE_NOTIFY_INTERRUPT.
    pub notify: u32,
    /// CROSSLANE_CHANNEL_* that hold, joined by |.
    pub flags: u32,
}

/// A transfer to be posted. Members that are 0 have their defaults. It has one far end: `buffer`,
/// `peer` or `peer_memory`, or none for a copy within the card's memory. On a channel for packets
/// it is a packet to be sent, or a part of a buffer for packets to be received.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_transfer {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The caller's number, which its completion has.
    pub wr_id: u64,
    /// Host memory (H2C and C2H channels).
    pub buffer: *mut crosslane_buffer,
    /// Receive queue of another card (peer channels).
    pub peer: *mut crosslane_peer,
    /// Memory of another card, which is read into the stream (H2C channels).
    pub peer_memory: *mut crosslane_peer_memory,
    /// First byte of the buffer or of the peer's memory.
    pub offset: u64,
    /// Length, in bytes.
    pub bytes: u64,
    /// First byte of the card's memory, on a channel that was opened for it.
    pub card_address: u64,
    /// Target of a copy within the card's memory.
    pub card_to: u64,
    /// Time from now at which it fails if it is not complete, in ns; 0 for one second,
    /// CROSSLANE_FOREVER for none. A missed deadline cancels all transfers of the channel. What is
    /// posted for packets to be received has none unless it is named.
    pub timeout_ns: u64,
    /// When it counts as complete: a CROSSLANE_LEVEL_*.
    pub level: u32,
    /// CROSSLANE_TRANSFER_* that hold, joined by |.
    pub flags: u32,
}

/// End of a transfer. Of an array only the first needs its size set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_completion {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The caller's number of the transfer.
    pub wr_id: u64,
    /// 0, or a negative number of errno.h. Then crosslane_last_error has the sentence of the last
    /// failed one of the call.
    pub status: i32,
    /// Kind of the failure, CROSSLANE_KIND_*, or 0.
    pub kind: u32,
    /// The level that is reached: a CROSSLANE_LEVEL_*; 0 if it failed.
    pub level: u32,
    /// Must be ignored.
    pub reserved: u32,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes of the transfer.
    pub total_bytes: u64,
    /// Time of the doorbell, in ps by the clock of the session; 0 if it failed.
    pub posted_ps: u64,
    /// Time at which the host learnt of the end, in ps by the clock of the session; 0 if it failed.
    pub completed_ps: u64,
}

sized!(crosslane_channel_attr, crosslane_transfer, crosslane_completion);

/// A transfer that was posted, with all that it uses until its completion is polled.
pub(crate) struct Request {
    pub wr_id: u64,
    pub level: CompletionLevel,
    pub bytes: u64,
    /// The far end, which cannot be closed meanwhile.
    pub held: Held,
}

/// The far end of a transfer.
pub(crate) enum Held {
    /// A copy within the card's memory.
    Nothing,
    /// Part of a buffer, and whether the card writes it.
    Buffer { buffer: Rc<BufferObject>, part: Range<u64>, is_written: bool },
    /// A peer, or memory of another card.
    Peer { _peer: Rc<dyn Any> },
}

pub(crate) struct State {
    pub channel: Channel,
    /// Transfers whose completion was not polled, in the order in which they were posted.
    pub pending: VecDeque<(Ticket, Request)>,
    pub event: Option<Event>,
    pub parts: Parts,
}

/// Object behind a handle on a channel.
pub(crate) struct ChannelObject {
    pub device: Rc<DeviceObject>,
    kind: ChannelKind,
    options: ChannelOptions,
    pub state: RefCell<State>,
}

impl Handled for ChannelObject {
    type Opaque = crosslane_channel;
    const NAME: &'static str = "channel";
}

fn options(attr: &crosslane_channel_attr) -> Result<ChannelOptions> {
    let known = CROSSLANE_CHANNEL_RELAXED_ORDERING
        | CROSSLANE_CHANNEL_CARD_MEMORY
        | CROSSLANE_CHANNEL_TABLE
        | CROSSLANE_CHANNEL_PACKETS
        | CROSSLANE_CHANNEL_DROP_PACKETS;
    if attr.flags & !known != 0 {
        return Err(Failure::argument(format!(
            "there are no such channel flags {:#x}",
            attr.flags
        )));
    }
    let is = |flag| attr.flags & flag != 0;
    let notification = match attr.notify {
        CROSSLANE_NOTIFY_POLL => Notification::Poll,
        CROSSLANE_NOTIFY_INTERRUPT => Notification::Interrupt,
        other => return Err(Failure::argument(format!("there is no notification {other}"))),
    };
    let descriptors = match (is(CROSSLANE_CHANNEL_TABLE), attr.ring_entries) {
        (true, 0) => DescriptorSource::Table,
        (true, _) => return Err(Failure::argument("a table has no ring_entries")),
        (false, 0) => ChannelOptions::default().descriptors,
        (false, entries) => DescriptorSource::Ring { entries },
    };
    Ok(ChannelOptions::default()
        .with_descriptors(descriptors)
        .with_notification(notification)
        .with_payload_bytes((attr.payload_bytes > 0).then_some(attr.payload_bytes))
        .with_relaxed_ordering(is(CROSSLANE_CHANNEL_RELAXED_ORDERING))
        .with_card_memory(is(CROSSLANE_CHANNEL_CARD_MEMORY))
        .with_packets(is(CROSSLANE_CHANNEL_PACKETS))
        .with_drop_packets(is(CROSSLANE_CHANNEL_DROP_PACKETS)))
}

/// Opens a channel.
///
/// @param kind  CROSSLANE_H2C, CROSSLANE_C2H or CROSSLANE_PEER.
/// @param number  Number of the channel among those of its kind, from 0 on.
/// @param attr  How to open it; NULL for the defaults.
/// @param channel  Gets the channel.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `attr` and `channel` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_open(
    device: *const crosslane_device,
    kind: u32,
    number: u32,
    attr: *const crosslane_channel_attr,
    channel: *mut *mut crosslane_channel,
) -> c_int {
    guard("crosslane_channel_open", || {
        structs::check_place(channel, "channel")?;
        let device = handle::get::<DeviceObject>(device)?;
        // SAFETY: as the caller promises.
        let options = options(&unsafe { structs::read_or_default(attr)? })?;
        let kind = match kind {
            CROSSLANE_H2C => ChannelKind::H2c,
            CROSSLANE_C2H => ChannelKind::C2h,
            CROSSLANE_PEER => ChannelKind::Peer,
            kind => return Err(Failure::argument(format!("there is no kind of channels {kind}"))),
        };
        let number = u8::try_from(number)
            .map_err(|_| Failure::argument(format!("there is no {kind} channel {number}")))?;
        let opened = device.session.run(device.device.channel(kind, number, options))?;
        let (pending, parts) = (VecDeque::new(), VecDeque::new());
        let state = RefCell::new(State { channel: opened, pending, event: None, parts });
        let opened = handle::insert(ChannelObject { device, kind, options, state })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(channel, "channel", opened)? };
        Ok(0)
    })
}

/// Stops and closes a channel. Transfers that have not ended are cancelled, and completions that
/// were not polled are lost.
///
/// @return 0, or a negative number of errno.h: the channel is closed all the same, and memory that
/// the device may still use is kept.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_close(channel: *mut crosslane_channel) -> c_int {
    guard("crosslane_channel_close", || {
        let object = handle::take::<ChannelObject>(channel)?;
        let state = object.state.into_inner();
        drop(state.event);
        object.device.session.run(state.channel.close())?;
        Ok(0)
    })
}

impl ChannelObject {
    fn receives_packets(&self) -> bool {
        self.options.packets && self.kind == ChannelKind::C2h
    }

    /// Refuses to give completions of what is posted for packets: the packets themselves end it.
    fn check_completes(&self) -> Result<()> {
        if self.receives_packets() {
            let sentence = "the channel receives packets: use crosslane_channel_recv_packets";
            return Err(Failure::argument(sentence));
        }
        Ok(())
    }

    /// Makes the driver's transfer of the caller's.
    fn made(&self, asked: &crosslane_transfer) -> Result<(Transfer, Request)> {
        if asked.flags & !CROSSLANE_TRANSFER_CARD_TO_CARD != 0 {
            let sentence = format!("there are no such transfer flags {:#x}", asked.flags);
            return Err(Failure::argument(sentence));
        }
        let is_copy = asked.flags & CROSSLANE_TRANSFER_CARD_TO_CARD != 0;
        let part = asked.offset..asked.offset.saturating_add(asked.bytes);
        let ends =
            [!asked.buffer.is_null(), !asked.peer.is_null(), !asked.peer_memory.is_null(), is_copy];
        let is_written = self.kind == ChannelKind::C2h;
        let mut has_credits = false;
        let (target, held) = match ends {
            [true, false, false, false] => {
                let object = handle::get::<BufferObject>(asked.buffer)?;
                let buffer = object.buffer.clone();
                let held = Held::Buffer { buffer: object, part: part.clone(), is_written };
                match self.options.card_memory {
                    true => (Target::Card(buffer, part, asked.card_address), held),
                    false => (Target::Buffer(buffer, part), held),
                }
            }
            [false, true, false, false] => {
                let object = handle::get::<PeerObject>(asked.peer)?;
                object.check_sender(&self.device)?;
                has_credits = object.has_credits;
                (object.peer.target(asked.bytes), Held::Peer { _peer: object })
            }
            [false, false, true, false] => {
                let object = handle::get::<PeerMemoryObject>(asked.peer_memory)?;
                (object.memory.target(part), Held::Peer { _peer: object })
            }
            [false, false, false, true] => {
                let (from, to, bytes) = (asked.card_address, asked.card_to, asked.bytes);
                (Target::CardToCard { from, to, bytes }, Held::Nothing)
            }
            [false, false, false, false] => {
                return Err(Failure::argument("the transfer has no buffer, peer or peer_memory"));
            }
            _ => {
                let sentence = "the transfer has several of buffer, peer, peer_memory and a copy";
                return Err(Failure::argument(sentence));
            }
        };
        if !self.options.card_memory && !is_copy && asked.card_address != 0 {
            let sentence = "the channel is not open with CROSSLANE_CHANNEL_CARD_MEMORY, and the \
                            transfer has a card_address";
            return Err(Failure::argument(sentence));
        }
        let level = match asked.level {
            CROSSLANE_LEVEL_STRONGEST if self.kind != ChannelKind::Peer => CompletionLevel::Visible,
            CROSSLANE_LEVEL_STRONGEST if has_credits => CompletionLevel::Acknowledged,
            CROSSLANE_LEVEL_STRONGEST | CROSSLANE_LEVEL_SENT => CompletionLevel::Sent,
            CROSSLANE_LEVEL_ACCEPTED => CompletionLevel::Accepted,
            CROSSLANE_LEVEL_VISIBLE => CompletionLevel::Visible,
            CROSSLANE_LEVEL_ACKNOWLEDGED => CompletionLevel::Acknowledged,
            level => return Err(Failure::argument(format!("there is no level {level}"))),
        };
        if let Held::Buffer { buffer, part, .. } = &held {
            if self.kind == ChannelKind::H2c {
                buffer.copy_in(part)?;
            } else if level == CompletionLevel::Accepted && buffer.is_registered() {
                let sentence = "the level accepted cannot be promised for registered memory: data \
                                are copied into it at the completion";
                return Err(Failure::new(ErrorKind::Unsupported, sentence));
            }
        }
        let deadline = match asked.timeout_ns {
            0 if self.receives_packets() => Picoseconds::NEVER,
            timeout_ns => self.device.session.deadline(timeout_ns),
        };
        let transfer = Transfer::new(target, deadline).with_level(level);
        let (wr_id, bytes) = (asked.wr_id, asked.bytes);
        Ok((transfer, Request { wr_id, level, bytes, held }))
    }

    /// Posts a batch.
    fn post(&self, transfers: &Array<crosslane_transfer>) -> Result<()> {
        if transfers.len() == 1 {
            let (transfer, request) = self.made(&transfers.get(0)?)?;
            return self.post_made(&[transfer], [request]);
        }
        let (mut batch, mut requests) = (Vec::new(), Vec::new());
        for index in 0..transfers.len() {
            let made = self.made(&transfers.get(index)?);
            let count = transfers.len();
            let (transfer, request) =
                made.map_err(|failure| failure.of_element("transfer", index, count))?;
            batch.push(transfer);
            requests.push(request);
        }
        self.post_made(&batch, requests)
    }

    fn post_made(
        &self,
        batch: &[Transfer],
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State { channel, pending, .. } = &mut *state;
        let tickets = self.device.session.run(channel.post(batch))?;
        pending.extend(tickets.into_iter().zip(requests));
        Ok(())
    }

    /// Takes what is complete, oldest first, without waiting.
    fn reap(&self, into: &Array<crosslane_completion>, mut taken: usize) -> Result<usize> {
        self.check_completes()?;
        let session = &self.device.session;
        let mut state = self.state.borrow_mut();
        if let Some(event) = &mut state.event {
            event.arm()?;
        }
        let State { channel, pending, .. } = &mut *state;
        while let Some(&(ticket, _)) = pending.front()
            && taken < into.len()
        {
            let outcome = match session.session.run(channel.poll(ticket)) {
                Ok(None) => break,
                Ok(Some(completed)) => Ok(completed),
                Err(Error::Transfer(error)) => Err(*error),
                // The caller gets those that were taken; the next call fails again.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error.into()),
            };
            if let Some((_, request)) = pending.pop_front() {
                into.put(taken, completion(&request, outcome));
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Waits until the oldest transfer has ended, at most until a time, and takes all that have.
    fn wait(&self, into: &Array<crosslane_completion>, until: Picoseconds) -> Result<usize> {
        self.check_completes()?;
        let session = &self.device.session;
        loop {
            let mut state = self.state.borrow_mut();
            let State { channel, pending, .. } = &mut *state;
            // Another thread that shares the channel may have taken what this one has waited for.
            let first = pending.front().filter(|_| into.len() > 0);
            let Some(&(ticket, _)) = first else { return Ok(0) };
            let ended = session.run_slice(until, channel.wait(ticket))?;
            let Some(outcome) = ended else {
                drop(state);
                if session.has_time(until)? {
                    continue;
                }
                return Ok(0);
            };
            if let Some((_, request)) = pending.pop_front() {
                into.put(0, completion(&request, outcome));
            }
            if pending.is_empty() || into.len() == 1 {
                return Ok(1);
            }
            break;
        }
        self.reap(into, 1)
    }
}

/// Makes the caller's completion of the driver's. A failure becomes the thread's last error.
fn completion(
    request: &Request,
    outcome: Result<Completed, TransferError>,
) -> crosslane_completion {
    let mut made = crosslane_completion {
        size: 0,
        wr_id: request.wr_id,
        status: 0,
        kind: 0,
        level: 0,
        reserved: 0,
        bytes: 0,
        total_bytes: request.bytes,
        posted_ps: 0,
        completed_ps: 0,
    };
    let copied = || match &request.held {
        Held::Buffer { buffer, part, is_written: true } => buffer.copy_out(part),
        _ => Ok(()),
    };
    let failure = match outcome {
        Ok(completed) => match copied() {
            Ok(()) => {
                made.bytes = completed.bytes;
                made.level = level_number(request.level);
                made.posted_ps = completed.posted.0;
                made.completed_ps = completed.completed.0;
                return made;
            }
            Err(failure) => failure,
        },
        Err(error) => {
            made.bytes = error.moved_bytes;
            error.into()
        }
    };
    made.kind = failure.kind() as u32;
    made.status = remember("a transfer", &failure);
    made
}

const fn level_number(level: CompletionLevel) -> u32 {
    match level {
        CompletionLevel::Accepted => CROSSLANE_LEVEL_ACCEPTED,
        CompletionLevel::Sent => CROSSLANE_LEVEL_SENT,
        CompletionLevel::Visible => CROSSLANE_LEVEL_VISIBLE,
        CompletionLevel::Acknowledged => CROSSLANE_LEVEL_ACKNOWLEDGED,
    }
}

/// Posts transfers with one doorbell: all of them or, if one is wrong, none. Waits for room if
/// transfers in flight fill the ring.
///
/// @param transfers  `count` transfers.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `transfers` is NULL or has `count` transfers, each of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_post(
    channel: *const crosslane_channel,
    transfers: *const crosslane_transfer,
    count: usize,
) -> c_int {
    guard("crosslane_channel_post", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        object.post(&unsafe { Array::new(transfers.cast_mut(), count)? })?;
        Ok(0)
    })
}

/// Takes the completions of transfers that have ended, in the order in which they were posted,
/// without waiting. In a lab a call that finds none takes simulated time: poll_ns of the session.
///
/// @param completions  Gets up to `capacity` completions; the size of the first is set.
/// @return The number of completions, or a negative number of errno.h.
///
/// # Safety
/// `completions` is NULL or has `capacity` of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_poll(
    channel: *const crosslane_channel,
    completions: *mut crosslane_completion,
    capacity: usize,
) -> c_int {
    guard("crosslane_channel_poll", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        let into = unsafe { Array::new(completions, capacity.min(MOST_COMPLETIONS))? };
        let taken = object.reap(&into, 0)?;
        if taken == 0 {
            object.device.session.spend_poll()?;
        }
        Ok(taken as c_int)
    })
}

/// Waits until the oldest transfer has ended, and takes it and all that have ended then.
///
/// @param completions  Gets up to `capacity` completions; the size of the first is set.
/// @param timeout_ns  Longest wait, in ns; CROSSLANE_FOREVER for the transfer's own deadline.
/// @return The number of completions: 0 if the time is over or nothing is posted; or a negative
/// number of errno.h.
///
/// # Safety
/// `completions` is NULL or has `capacity` of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_wait(
    channel: *const crosslane_channel,
    completions: *mut crosslane_completion,
    capacity: usize,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_channel_wait", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        let into = unsafe { Array::new(completions, capacity.min(MOST_COMPLETIONS))? };
        let until = object.device.session.until(timeout_ns);
        Ok(object.wait(&into, until)? as c_int)
    })
}

/// Most completions of one call: they are counted by an int.
pub(crate) const MOST_COMPLETIONS: usize = 1 << 30;

/// Posts a transfer, and waits until it has ended.
///
/// @param completion  Gets how it ended, also if it failed; its size is set. May be NULL.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `transfer` and `completion` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_transfer(
    channel: *const crosslane_channel,
    transfer: *const crosslane_transfer,
    completion: *mut crosslane_completion,
) -> c_int {
    guard("crosslane_channel_transfer", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        let (asked, into) = unsafe {
            (structs::read(transfer)?, Array::new(completion, (!completion.is_null()).into())?)
        };
        object.check_completes()?;
        let (transfer, request) = object.made(&asked)?;
        let mut state = object.state.borrow_mut();
        let outcome = match object.device.session.session.run(state.channel.transfer(transfer)) {
            Ok(completed) => Ok(completed),
            Err(Error::Transfer(error)) => Err(*error),
            Err(error) => return Err(error.into()),
        };
        let failure = outcome.as_ref().err().map(|error| Failure::from(error.clone()));
        let ended = self::completion(&request, outcome);
        if into.len() == 1 {
            into.put(0, ended);
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(ended.status),
        }
    })
}

/// Cancels all transfers that have not ended, and restarts the channel if it has stopped. Their
/// completions say how much was moved.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_cancel(channel: *const crosslane_channel) -> c_int {
    guard("crosslane_channel_cancel", || {
        let object = handle::get::<ChannelObject>(channel)?;
        let mut state = object.state.borrow_mut();
        object.device.session.run(state.channel.cancel())?;
        Ok(0)
    })
}

/// Gives a file descriptor that becomes readable at an interrupt of the channel, for poll(2) or
/// epoll(7). Call crosslane_channel_poll until it returns 0, then wait for the descriptor. It
/// belongs to the channel, is never read by the program, and is closed with the channel. The
/// channel must be open with CROSSLANE_NOTIFY_INTERRUPT on a real or served card.
///
/// @param fd  Gets the descriptor.
/// @return 0; -EOPNOTSUPP in a lab, whose time does not pass while the program waits elsewhere.
///
/// # Safety
/// `fd` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_fd(
    channel: *const crosslane_channel,
    fd: *mut c_int,
) -> c_int {
    guard("crosslane_channel_fd", || {
        structs::check_place(fd, "descriptor")?;
        let object = handle::get::<ChannelObject>(channel)?;
        let unsupported = |why| Err(Failure::new(ErrorKind::Unsupported, why));
        let bus = object.device.session.bus();
        if bus.downcast::<crosslane::lab::LabBus>().is_some() {
            return unsupported(
                "a lab has no descriptor to wait on: its time stands while the program waits \
                 elsewhere; use crosslane_channel_wait",
            );
        }
        let mut state = object.state.borrow_mut();
        let Some(vector) = state.channel.vector() else {
            return unsupported("the channel is not open with CROSSLANE_NOTIFY_INTERRUPT");
        };
        let event = match state.event.take() {
            Some(event) => event,
            None => Event::new(bus, object.device.device.function().id, vector)?,
        };
        let descriptor = event.descriptor();
        state.event = Some(event);
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(fd, "descriptor", descriptor)? };
        Ok(0)
    })
}
