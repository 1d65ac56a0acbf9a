// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers of a bridge's client: blocking ones, and one at a time that is posted, watched and
//! cancelled.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use crosslane::bridge::messages::PeerTarget;
use crosslane::bridge::{BridgeError, CardPlace, MemoryPart, Mode, Outcome, TransferOptions};
use crosslane::host::{Clock, DmaMemory, ErrorKind, RdmaRegion};
use crosslane::network::Region;
use crosslane::pcie::units::Picoseconds;
use futures_executor::block_on;
use futures_util::future::{Either, poll_immediate, select};

use crate::bridge::{
    BridgeMemoryObject, BridgeObject, DEFAULT_TIMEOUT, NetworkClient, crosslane_bridge,
    crosslane_bridge_memory, optional, time,
};
use crate::channel::{CROSSLANE_LEVEL_VISIBLE, crosslane_completion};
use crate::dma::{CROSSLANE_DMA_FROM_CARD, CROSSLANE_DMA_THROUGH_CARD, CROSSLANE_DMA_TO_CARD};
use crate::error::{Failure, Result, guard, remember};
use crate::handle;
use crate::session::CROSSLANE_FOREVER;
use crate::structs::{self, Array, sized};

/// The server computes a checksum of the data, and the client compares.
pub const CROSSLANE_BRIDGE_CHECKSUM: u32 = 1;
/// The stages are made one after the other, each with all data, as the sbdt paper does for
/// comparison; not to a peer.
pub const CROSSLANE_BRIDGE_NAIVE: u32 = 2;

/// A kind of transfer: from the card's memory into that of a card of another server.
pub const CROSSLANE_BRIDGE_TO_PEER: u32 = 4;

/// A transfer with a card of the server's. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_bridge_job {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Name of the card at the server.
    pub card: *const c_char,
    /// Memory that is read, unless the card's is.
    pub from: *mut crosslane_bridge_memory,
    /// Memory that is written, unless the card's is.
    pub to: *mut crosslane_bridge_memory,
    /// First byte of the memory that is read.
    pub from_offset: u64,
    /// First byte of the memory that is written.
    pub to_offset: u64,
    /// First byte of the card's memory.
    pub card_address: u64,
    /// Length, in bytes.
    pub bytes: u64,
    /// Longest time, in ns; 0 for a minute.
    pub timeout_ns: u64,
    /// CROSSLANE_DMA_TO_CARD, CROSSLANE_DMA_FROM_CARD, CROSSLANE_DMA_THROUGH_CARD or
    /// CROSSLANE_BRIDGE_TO_PEER.
    pub kind: u32,
    /// CROSSLANE_BRIDGE_CHECKSUM and CROSSLANE_BRIDGE_NAIVE, those that hold joined by |.
    pub flags: u32,
    /// Address and port of the other server, as the first one reaches it (to a peer only).
    pub peer_server: *const c_char,
    /// Name of its card.
    pub peer_card: *const c_char,
    /// First byte of that card's memory.
    pub peer_address: u64,
    /// Bytes at the beginning that an earlier, failed transfer has moved, by the moved_bytes of
    /// crosslane_last_error or the bytes of its completion: this one continues behind them.
    pub first: u64,
}

sized!(crosslane_bridge_job until first);

/// The way of a transfer's data.
enum Way {
    To(MemoryPart<Region>),
    From(MemoryPart<Region>),
    Through(MemoryPart<Region>, MemoryPart<Region>),
    Copy(PeerTarget),
}

/// A transfer that is ready to be made.
struct Job {
    client: Rc<NetworkClient>,
    way: Way,
    place: CardPlace,
    bytes: u64,
    options: TransferOptions,
    /// Bytes that have arrived, as far as the server has said.
    arrived: Rc<Cell<u64>>,
}

impl Job {
    /// Makes the transfer, and compares its checksum.
    async fn make(self) -> Result<Outcome, BridgeError> {
        let Self { client, way, place, bytes, options, arrived } = self;
        let progress = |bytes| arrived.set(bytes);
        let (outcome, near) = match &way {
            Way::To(from) => (client.put(from, &place, &options, progress).await?, Some(from)),
            Way::From(to) => (client.get(&place, to, &options, progress).await?, Some(to)),
            Way::Through(from, to) => {
                let trip = client.round_trip(&place.card, from, to, &options, progress);
                (trip.await?, Some(from))
            }
            Way::Copy(peer) => {
                (client.copy(&place, peer.clone(), bytes, &options, progress).await?, None)
            }
        };
        near.map_or(Ok(()), |near| outcome.check(near))?;
        arrived.set(bytes);
        Ok(outcome)
    }
}

type Making = Pin<Box<dyn Future<Output = Result<Outcome, BridgeError>>>>;

/// A transfer that was posted.
pub(crate) struct Posted {
    making: Making,
    /// Its end, if it was seen by another call than the one that waits for it.
    ended: Option<Result<Outcome, BridgeError>>,
    arrived: Rc<Cell<u64>>,
    at: Picoseconds,
    bytes: u64,
    is_cancelled: bool,
    /// Memory that it uses.
    _in_use: Vec<Rc<()>>,
}

impl Posted {
    /// Takes in what the server has said so far.
    fn look(&mut self) {
        if self.ended.is_none() {
            self.ended = block_on(poll_immediate(&mut self.making));
        }
    }
}

/// Returns a part of memory of a bridge, and what says that it is in use.
fn part(
    bridge: &Rc<BridgeObject>,
    memory: *const crosslane_bridge_memory,
    offset: u64,
    bytes: u64,
) -> Result<(MemoryPart<Region>, Rc<()>)> {
    let object = handle::get::<BridgeMemoryObject>(memory)?;
    if !Rc::ptr_eq(&object.bridge, bridge) {
        return Err(Failure::argument("the memory is that of another connection"));
    }
    let (range, size) = (offset..offset.saturating_add(bytes), object.region.memory().size_bytes());
    if range.end > size {
        let sentence = format!("bytes {offset} to {} are not in its {size} B", range.end);
        return Err(Failure::argument(sentence));
    }
    Ok((MemoryPart { region: object.region.clone(), range }, Rc::clone(&object.in_use)))
}

/// Reads the far end of a transfer between cards, if there is one.
///
/// # Safety
/// The texts of the job are NULL or end with a NUL.
unsafe fn peer(job: &crosslane_bridge_job) -> Result<Option<PeerTarget>> {
    // SAFETY: as the caller promises.
    let (server, card) = unsafe {
        (optional(job.peer_server, "peer's server")?, optional(job.peer_card, "peer's card")?)
    };
    let address = job.peer_address;
    Ok(server.zip(card).map(|(server, card)| PeerTarget { server, card, address }))
}

/// Refuses another request while a transfer is posted: a connection makes one thing at a time.
pub(crate) fn check_idle(bridge: &BridgeObject) -> Result<()> {
    match bridge.posted.borrow().is_some() {
        true => Err(Failure::new(
            ErrorKind::Busy,
            "the transfer that was posted has not been waited for: crosslane_bridge_wait gives its \
             completion",
        )),
        false => Ok(()),
    }
}

/// Reads a job, and makes it ready.
///
/// # Safety
/// `job` is NULL or valid, and its texts are NULL or end with a NUL.
unsafe fn ready(
    bridge: &Rc<BridgeObject>,
    job: *const crosslane_bridge_job,
) -> Result<(Job, Vec<Rc<()>>)> {
    check_idle(bridge)?;
    // SAFETY: as the caller promises.
    let (job, card, peer) = unsafe {
        let job = structs::read(job)?;
        (job, structs::text(job.card, "name of the card")?, peer(&job)?)
    };
    if job.flags & !(CROSSLANE_BRIDGE_CHECKSUM | CROSSLANE_BRIDGE_NAIVE) != 0 {
        let sentence = format!("there are no such bridge flags {:#x}", job.flags);
        return Err(Failure::argument(sentence));
    }
    let is = |flag| job.flags & flag != 0;
    if is(CROSSLANE_BRIDGE_NAIVE) && (job.first > 0 || job.kind == CROSSLANE_BRIDGE_TO_PEER) {
        let sentence = "a naive transfer moves all data, and not to a peer";
        return Err(Failure::argument(sentence));
    }
    let options = TransferOptions::default()
        .with_mode(if is(CROSSLANE_BRIDGE_NAIVE) { Mode::Naive } else { Mode::Pipelined })
        .with_time(Picoseconds::from(time(job.timeout_ns, DEFAULT_TIMEOUT)))
        .with_checksum(is(CROSSLANE_BRIDGE_CHECKSUM))
        .with_first(job.first);
    let from = || part(bridge, job.from, job.from_offset, job.bytes);
    let to = || part(bridge, job.to, job.to_offset, job.bytes);
    let (way, in_use) = match job.kind {
        CROSSLANE_DMA_TO_CARD => {
            let (from, used) = from()?;
            (Way::To(from), vec![used])
        }
        CROSSLANE_DMA_FROM_CARD => {
            let (to, used) = to()?;
            (Way::From(to), vec![used])
        }
        CROSSLANE_DMA_THROUGH_CARD => {
            let ((from, read), (to, written)) = (from()?, to()?);
            (Way::Through(from, to), vec![read, written])
        }
        CROSSLANE_BRIDGE_TO_PEER => {
            let missing = || Failure::argument("the peer's server or card is NULL");
            (Way::Copy(peer.ok_or_else(missing)?), Vec::new())
        }
        kind => return Err(Failure::argument(format!("there is no kind of transfer {kind}"))),
    };
    let place = CardPlace { card, address: job.card_address };
    let (client, bytes) = (Rc::clone(&bridge.client), job.bytes);
    let arrived = Rc::new(Cell::new(job.first));
    Ok((Job { client, way, place, bytes, options, arrived }, in_use))
}

/// Makes the completion of a transfer that has moved its data.
fn completed(outcome: &Outcome, posted: Picoseconds, total_bytes: u64) -> crosslane_completion {
    crosslane_completion {
        size: 0,
        wr_id: 0,
        status: 0,
        kind: 0,
        level: CROSSLANE_LEVEL_VISIBLE,
        reserved: 0,
        bytes: outcome.report.bytes,
        total_bytes,
        posted_ps: posted.0,
        completed_ps: (posted + outcome.elapsed).0,
    }
}

/// Makes a transfer, and waits until it has ended. A failed one, unless the server has merely
/// refused it, makes the connection unusable.
///
/// @param completion  Gets how it went, with times of a clock of this machine; its size is set. May
/// be NULL.
/// @return 0, or a negative number of errno.h; -EBUSY while a transfer is posted.
///
/// # Safety
/// `job` and `completion` are NULL or valid, and the job's texts are NULL or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_transfer(
    bridge: *const crosslane_bridge,
    job: *const crosslane_bridge_job,
    completion: *mut crosslane_completion,
) -> c_int {
    guard("crosslane_bridge_transfer", || {
        let bridge = handle::get::<BridgeObject>(bridge)?;
        // SAFETY: as the caller promises.
        let (job, _in_use) = unsafe { ready(&bridge, job)? };
        let (posted, bytes) = (bridge.client.clock().now(), job.bytes);
        let outcome = block_on(job.make())?;
        if !completion.is_null() {
            // SAFETY: as the caller promises.
            unsafe { structs::write(completion, completed(&outcome, posted, bytes))? };
        }
        Ok(0)
    })
}

/// Posts a transfer, which crosslane_bridge_wait then gives the completion of. A connection has one
/// at a time. The server moves the data meanwhile; what it says of them is heard in
/// crosslane_bridge_wait and crosslane_bridge_progress, which a naive transfer needs to continue.
/// Its memory belongs to the server until the completion was given.
///
/// @return 0; -EBUSY if one is posted already; or another negative number of errno.h.
///
/// # Safety
/// `job` is NULL or valid, and its texts are NULL or end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_post(
    bridge: *const crosslane_bridge,
    job: *const crosslane_bridge_job,
) -> c_int {
    guard("crosslane_bridge_post", || {
        let bridge = handle::get::<BridgeObject>(bridge)?;
        // SAFETY: as the caller promises.
        let (job, in_use) = unsafe { ready(&bridge, job)? };
        let mut posted = Posted {
            ended: None,
            arrived: Rc::clone(&job.arrived),
            at: bridge.client.clock().now(),
            bytes: job.bytes,
            is_cancelled: false,
            _in_use: in_use,
            making: Box::pin(job.make()),
        };
        // The request is on its way when this returns.
        posted.look();
        *bridge.posted.borrow_mut() = Some(posted);
        Ok(0)
    })
}

/// Waits until the transfer that was posted has ended.
///
/// @param completion  Gets how it ended, also if it has failed; its size is set. May be NULL.
/// @param timeout_ns  Longest wait, in ns; 0 to look only, CROSSLANE_FOREVER for no end but the
/// transfer's own deadline.
/// @return 1 if it has ended, of which the completion's status tells how; 0 if it has not, or
/// nothing is posted; or a negative number of errno.h.
///
/// # Safety
/// `completion` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_wait(
    bridge: *const crosslane_bridge,
    completion: *mut crosslane_completion,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_bridge_wait", || {
        let bridge = handle::get::<BridgeObject>(bridge)?;
        // SAFETY: as the caller promises. A wrong size is found before the end is taken.
        let into = unsafe { Array::new(completion, (!completion.is_null()).into())? };
        let mut place = bridge.posted.borrow_mut();
        let Some(posted) = place.as_mut() else { return Ok(0) };
        if posted.ended.is_none() {
            let clock = bridge.client.clock();
            let until = match timeout_ns {
                CROSSLANE_FOREVER => Picoseconds::NEVER,
                timeout => clock.after(Duration::from_nanos(timeout)),
            };
            let late = pin!(clock.sleep_until(until));
            if let Either::Left((outcome, _)) = block_on(select(&mut posted.making, late)) {
                posted.ended = Some(outcome);
            }
        }
        let Some(outcome) = posted.ended.take() else { return Ok(0) };
        let (at, bytes, is_cancelled) = (posted.at, posted.bytes, posted.is_cancelled);
        *place = None;
        let made = match outcome {
            Ok(outcome) => completed(&outcome, at, bytes),
            Err(error) => {
                let error = if is_cancelled { cancelled(&error, bytes) } else { error };
                let failure = Failure::from(error.clone());
                crosslane_completion {
                    size: 0,
                    wr_id: 0,
                    kind: failure.kind() as u32,
                    status: remember("a transfer", &failure),
                    level: 0,
                    reserved: 0,
                    bytes: error.arrived_bytes,
                    total_bytes: bytes,
                    posted_ps: 0,
                    completed_ps: 0,
                }
            }
        };
        if into.len() == 1 {
            into.put(0, made);
        }
        Ok(1)
    })
}

/// The error of a transfer that the caller has cancelled.
fn cancelled(error: &BridgeError, bytes: u64) -> BridgeError {
    let why = "it was cancelled";
    BridgeError::new(error.stage, ErrorKind::Cancelled, why).arrived(error.arrived_bytes, bytes)
}

/// Tells how much of the transfer that was posted has arrived, as far as the server has said.
///
/// @param bytes  Gets the bytes from the beginning, those before its `first` among them.
/// @return 1 if it has not ended, 0 if it has or nothing is posted; or a negative number of
/// errno.h.
///
/// # Safety
/// `bytes` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_progress(
    bridge: *const crosslane_bridge,
    bytes: *mut u64,
) -> c_int {
    guard("crosslane_bridge_progress", || {
        structs::check_place(bytes, "bytes")?;
        let bridge = handle::get::<BridgeObject>(bridge)?;
        let mut place = bridge.posted.borrow_mut();
        let (arrived, goes_on) = match place.as_mut() {
            Some(posted) => {
                posted.look();
                (posted.arrived.get(), posted.ended.is_none())
            }
            None => (0, false),
        };
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(bytes, "bytes", arrived)? };
        Ok(goes_on.into())
    })
}

/// Has the server stop the transfer that was posted. crosslane_bridge_wait then gives its
/// completion, with the status -ECANCELED and what has arrived, unless it was complete before. The
/// connection is unusable afterwards.
///
/// @return 0, also if nothing is posted; or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_cancel(bridge: *const crosslane_bridge) -> c_int {
    guard("crosslane_bridge_cancel", || {
        let bridge = handle::get::<BridgeObject>(bridge)?;
        let mut place = bridge.posted.borrow_mut();
        let Some(posted) = place.as_mut() else { return Ok(0) };
        if posted.ended.is_none() && !posted.is_cancelled {
            posted.is_cancelled = true;
            block_on(bridge.client.cancel())?;
        }
        Ok(0)
    })
}
