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
    Channel, ChannelKind, ChannelOptions, CompletionLevel, DescriptorSource, Notification, Target,
    Ticket, Transfer,
};
use crosslane::host::ErrorKind;
use crosslane::pcie::units::Picoseconds;

use crate::buffer::{BufferObject, crosslane_buffer};
use crate::completions::completed;
use crate::device::{DeviceObject, crosslane_device};
use crate::error::{Failure, Result, guard};
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
/// The circuit behind the engine starts peer writes at its command port (peer 0), for
/// crosslane_peer_command and crosslane_peer_ping_pong; nothing can be posted.
pub const CROSSLANE_CHANNEL_COMMAND_PORT: u32 = 32;
/// payload_bytes are used even beyond Max_Payload_Size, to see which port detects the error: a
/// failed transfer names it. Ports of the path are looked at after each transfer.
pub const CROSSLANE_CHANNEL_OVERSIZE: u32 = 64;

/// The strongest level that the channel can promise: visible, or for what goes to peers
/// acknowledged with credits and sent without.
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
    /// Memory of another card, which is read into the stream (H2C channels) or written from it
    /// (C2H channels); on a channel that was opened for the card's memory, to or from card_address.
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
        | CROSSLANE_CHANNEL_DROP_PACKETS
        | CROSSLANE_CHANNEL_COMMAND_PORT
        | CROSSLANE_CHANNEL_OVERSIZE;
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
    let sources = [is(CROSSLANE_CHANNEL_TABLE), is(CROSSLANE_CHANNEL_COMMAND_PORT)];
    let descriptors = match (sources, attr.ring_entries) {
        ([true, true], _) => {
            let sentence = "a channel has its descriptors from a table or from the command port";
            return Err(Failure::argument(sentence));
        }
        ([true, false], 0) => DescriptorSource::Table,
        ([true, false], _) => return Err(Failure::argument("a table has no ring_entries")),
        ([false, true], 0) => DescriptorSource::CommandPort,
        ([false, true], _) => {
            return Err(Failure::argument("the command port has no ring_entries"));
        }
        ([false, false], 0) => ChannelOptions::default().descriptors,
        ([false, false], entries) => DescriptorSource::Ring { entries },
    };
    Ok(ChannelOptions::default()
        .with_descriptors(descriptors)
        .with_notification(notification)
        .with_payload_bytes((attr.payload_bytes > 0).then_some(attr.payload_bytes))
        .with_relaxed_ordering(is(CROSSLANE_CHANNEL_RELAXED_ORDERING))
        .with_card_memory(is(CROSSLANE_CHANNEL_CARD_MEMORY))
        .with_packets(is(CROSSLANE_CHANNEL_PACKETS))
        .with_drop_packets(is(CROSSLANE_CHANNEL_DROP_PACKETS))
        .with_oversize(is(CROSSLANE_CHANNEL_OVERSIZE)))
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
    pub fn check_completes(&self) -> Result<()> {
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
                let target = match self.options.card_memory {
                    true => object.memory.target_in_card(part, asked.card_address),
                    false => object.memory.target(part),
                };
                (target, Held::Peer { _peer: object })
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
        let goes_to_peer = match self.kind {
            ChannelKind::H2c => false,
            ChannelKind::C2h => matches!(target, Target::Peer(..) | Target::PeerCard(..)),
            ChannelKind::Peer => true,
        };
        let level = match asked.level {
            CROSSLANE_LEVEL_STRONGEST if !goes_to_peer => CompletionLevel::Visible,
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
    fn post(&self, transfers: &Array<crosslane_transfer>, is_reported: bool) -> Result<()> {
        if transfers.len() == 1 {
            let (transfer, request) = self.made(&transfers.get(0)?)?;
            return self.post_made(&[transfer], [request], is_reported);
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
        self.post_made(&batch, requests, is_reported)
    }

    fn post_made(
        &self,
        batch: &[Transfer],
        requests: impl IntoIterator<Item = Request>,
        is_reported: bool,
    ) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State { channel, pending, .. } = &mut *state;
        let session = &self.device.session;
        let tickets = match is_reported {
            true => session.run(channel.post(batch))?,
            false => session.run(channel.post_unreported(batch))?,
        };
        pending.extend(tickets.into_iter().zip(requests));
        Ok(())
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
        object.post(&unsafe { Array::new(transfers.cast_mut(), count)? }, true)?;
        Ok(0)
    })
}

/// Posts transfers as crosslane_channel_post does, but without interrupts: on a channel that is
/// open with CROSSLANE_NOTIFY_INTERRUPT their ends are noticed with that of the next transfer that
/// has one, so post such a transfer behind them.
///
/// @param transfers  `count` transfers.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `transfers` is NULL or has `count` transfers, each of the size that the first begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_channel_post_unreported(
    channel: *const crosslane_channel,
    transfers: *const crosslane_transfer,
    count: usize,
) -> c_int {
    guard("crosslane_channel_post_unreported", || {
        let object = handle::get::<ChannelObject>(channel)?;
        // SAFETY: as the caller promises.
        object.post(&unsafe { Array::new(transfers.cast_mut(), count)? }, false)?;
        Ok(0)
    })
}

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
        let ended = completed(&request, outcome);
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
