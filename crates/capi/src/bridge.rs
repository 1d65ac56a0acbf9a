// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of a bridge: memory of this node to a card of another node and back, through a server
//! (`crosslane bridge serve`).

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crosslane::bridge::messages::PeerTarget;
use crosslane::bridge::{CardPlace, Client, Identity, Key, MemoryPart, TransferOptions};
use crosslane::host::{Clock, DmaMemory, PageSize, Rdma, RdmaRegion, RemoteAccess};
use crosslane::network::{MachineClock, Network, Provider, Region, SharedKey, Trust};
use crosslane::pcie::units::Picoseconds;
use futures_executor::block_on;

use crate::channel::{CROSSLANE_LEVEL_VISIBLE, crosslane_completion};
use crate::dma::{CROSSLANE_DMA_FROM_CARD, CROSSLANE_DMA_THROUGH_CARD, CROSSLANE_DMA_TO_CARD};
use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::session::CROSSLANE_FOREVER;
use crate::structs::{self, sized};

/// Time to connect, and for a transfer, that names none: a minute.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time that a server accepts for a transfer, and the stand-in for none: a year.
const MOST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The server computes a checksum of the data, and the client compares.
pub const CROSSLANE_BRIDGE_CHECKSUM: u32 = 1;

/// A kind of transfer: from the card's memory into that of a card of another server.
pub const CROSSLANE_BRIDGE_TO_PEER: u32 = 4;

/// A connection to a bridge's server.
pub struct crosslane_bridge {
    _private: (),
}

/// Memory of this node that a bridge's server reads and writes.
pub struct crosslane_bridge_memory {
    _private: (),
}

/// How to connect to a server. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_bridge_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The network: verbs, efa, shm, tls or tcp; NULL for the fastest that fits the address.
    pub network: *const c_char,
    /// The client's name in the server's policy; NULL for none.
    pub name: *const c_char,
    /// The key shared with the server, in hexadecimal digits; NULL for none.
    pub key: *const c_char,
    /// Longest time to connect, in ns; 0 for a minute.
    pub timeout_ns: u64,
    /// In place of a key, over tls: the path of a file (PEM) with the client's certificate, those
    /// between it and its authority behind it; NULL for none. The server's certificate has to be
    /// for the host that is connected to. Without a name the client is the one of the server's
    /// policy that its certificate is of.
    pub tls_cert: *const c_char,
    /// With it: the path of the file with its private key, which only its owner may read.
    pub tls_key: *const c_char,
    /// With it: the path of the file with certificates of the authorities that the client trusts.
    pub tls_ca: *const c_char,
    /// Not 0: nobody on the network means harm. Nothing is sealed over tls then, and tcp may leave
    /// this machine.
    pub trust_network: u32,
    /// 0.
    pub reserved: u32,
}

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
    /// CROSSLANE_BRIDGE_CHECKSUM, or 0.
    pub flags: u32,
    /// Address and port of the other server, as the first one reaches it (to a peer only).
    pub peer_server: *const c_char,
    /// Name of its card.
    pub peer_card: *const c_char,
    /// First byte of that card's memory.
    pub peer_address: u64,
}

sized!(crosslane_bridge_attr until tls_cert, crosslane_bridge_job);

/// Object behind a handle on a bridge.
struct BridgeObject {
    client: Client<Network, MachineClock>,
}

/// Object behind a handle on a bridge's memory.
struct BridgeMemoryObject {
    /// Keeps the connection, and its network, open.
    bridge: Rc<BridgeObject>,
    region: Region,
}

impl Handled for BridgeObject {
    type Opaque = crosslane_bridge;
    const NAME: &'static str = "bridge";
}

impl Handled for BridgeMemoryObject {
    type Opaque = crosslane_bridge_memory;
    const NAME: &'static str = "bridge_memory";
}

/// Returns the time that a number of the caller's stands for.
fn time(timeout_ns: u64) -> Duration {
    match timeout_ns {
        0 => DEFAULT_TIMEOUT,
        CROSSLANE_FOREVER => MOST_TIMEOUT,
        timeout => Duration::from_nanos(timeout).min(MOST_TIMEOUT),
    }
}

/// Copies a text of the caller's; NULL is none.
///
/// # Safety
/// `text` is NULL or ends with a NUL.
unsafe fn optional(text: *const c_char, name: &str) -> Result<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { structs::text(text, name) }.map(Some)
}

/// Copies the path of a file; NULL is none. Paths need not be UTF-8.
///
/// # Safety
/// `path` is NULL or ends with a NUL.
unsafe fn optional_path(path: *const c_char) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) };
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// Connects to a bridge's server, and proves the client's identity by a key or by certificates.
///
/// @param server  Address and port of the server, such as node7:7471.
/// @param attr  How to connect; NULL for the defaults.
/// @param bridge  Gets the connection.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `server` is NULL or ends with a NUL; `attr` and `bridge` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_connect(
    server: *const c_char,
    attr: *const crosslane_bridge_attr,
    bridge: *mut *mut crosslane_bridge,
) -> c_int {
    guard("crosslane_bridge_connect", || {
        structs::check_place(bridge, "bridge")?;
        // SAFETY: as the caller promises; the texts of the attributes, too.
        let (server, attr, network, name, key, files) = unsafe {
            let attr = structs::read_or_default(attr)?;
            let network = optional(attr.network, "network")?;
            let (name, key) = (optional(attr.name, "name")?, optional(attr.key, "key")?);
            let files = [attr.tls_cert, attr.tls_key, attr.tls_ca].map(|it| optional_path(it));
            (structs::text(server, "server")?, attr, network, name, key, files)
        };
        if attr.reserved != 0 {
            return Err(Failure::argument("reserved is not 0 in the crosslane_bridge_attr"));
        }
        let provider = network.map(|network| network.parse::<Provider>()).transpose()?;
        let key = key.map(|key| key.parse::<Key>()).transpose()?;
        let identity = Identity { name: name.unwrap_or_default(), key };
        let clock = MachineClock::new();
        let (present, everybody) =
            (identity.key.as_ref().map(|key| SharedKey(*key.bytes())), attr.trust_network != 0);
        let trust = Trust::of_client(present, files.each_ref().map(Option::as_deref), everybody)?;
        let network = Network::open_for(&server, provider, &clock, &trust)?;
        let time = time(attr.timeout_ns);
        let client = block_on(Client::connect(network, clock, &server, &identity, time))?;
        let connected = handle::insert(BridgeObject { client })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(bridge, "bridge", connected)? };
        Ok(0)
    })
}

/// Ends a connection. Its memory must be destroyed before.
///
/// @return 0; -EBUSY if memory of it is still there: it then stays connected.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_close(bridge: *mut crosslane_bridge) -> c_int {
    guard("crosslane_bridge_close", || {
        let object = handle::take::<BridgeObject>(bridge)?;
        block_on(object.client.close());
        Ok(0)
    })
}

/// Makes memory that is registered with the network, zeroed.
///
/// @param bytes  Its size.
/// @param memory  Gets the memory.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `memory` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_memory_create(
    bridge: *const crosslane_bridge,
    bytes: u64,
    memory: *mut *mut crosslane_bridge_memory,
) -> c_int {
    guard("crosslane_bridge_memory_create", || {
        structs::check_place(memory, "memory")?;
        let bridge = handle::get::<BridgeObject>(bridge)?;
        if bytes == 0 {
            return Err(Failure::argument("memory of 0 B is not possible"));
        }
        let pages = bridge.client.rdma().allocate(bytes, PageSize::Huge)?;
        let region = block_on(bridge.client.register(&pages, RemoteAccess::READ_WRITE))?;
        let made = handle::insert(BridgeMemoryObject { bridge, region })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(memory, "memory", made)? };
        Ok(0)
    })
}

/// Destroys memory of a bridge.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_memory_destroy(
    memory: *mut crosslane_bridge_memory,
) -> c_int {
    guard("crosslane_bridge_memory_destroy", || {
        handle::take::<BridgeMemoryObject>(memory).map(|_| 0)
    })
}

/// Copies bytes into memory of a bridge.
///
/// @param offset  First byte of the memory.
/// @param from  `bytes` bytes.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `from` has `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_memory_write(
    memory: *const crosslane_bridge_memory,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard("crosslane_bridge_memory_write", || {
        let object = handle::get::<BridgeMemoryObject>(memory)?;
        // SAFETY: as the caller promises.
        let from = unsafe { structs::bytes(from.cast(), bytes, "source")? };
        object.region.memory().write(offset, from)?;
        Ok(0)
    })
}

/// Copies bytes out of memory of a bridge.
///
/// @param offset  First byte of the memory.
/// @param into  Gets `bytes` bytes.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `into` has `bytes` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_memory_read(
    memory: *const crosslane_bridge_memory,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guard("crosslane_bridge_memory_read", || {
        let object = handle::get::<BridgeMemoryObject>(memory)?;
        // SAFETY: as the caller promises.
        let into = unsafe { structs::bytes_mut(into.cast(), bytes, "target")? };
        object.region.memory().read(offset, into)?;
        Ok(0)
    })
}

/// Returns a part of memory of a bridge.
fn part(
    bridge: &Rc<BridgeObject>,
    memory: *const crosslane_bridge_memory,
    offset: u64,
    bytes: u64,
) -> Result<MemoryPart<Region>> {
    let object = handle::get::<BridgeMemoryObject>(memory)?;
    if !Rc::ptr_eq(&object.bridge, bridge) {
        return Err(Failure::argument("the memory is that of another connection"));
    }
    let (range, size) = (offset..offset.saturating_add(bytes), object.region.memory().size_bytes());
    if range.end > size {
        let sentence = format!("bytes {offset} to {} are not in its {size} B", range.end);
        return Err(Failure::argument(sentence));
    }
    Ok(MemoryPart { region: object.region.clone(), range })
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

/// Makes a transfer, and waits until it has ended. A failed one, unless the server has merely
/// refused it, makes the connection unusable.
///
/// @param completion  Gets how it went, with times of a clock of this machine; its size is set. May
/// be NULL.
/// @return 0, or a negative number of errno.h.
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
        let (job, card, peer) = unsafe {
            let job = structs::read(job)?;
            (job, structs::text(job.card, "name of the card")?, peer(&job)?)
        };
        if job.flags & !CROSSLANE_BRIDGE_CHECKSUM != 0 {
            let sentence = format!("there are no such bridge flags {:#x}", job.flags);
            return Err(Failure::argument(sentence));
        }
        let options = TransferOptions::default()
            .with_time(Picoseconds::from(time(job.timeout_ns)))
            .with_checksum(job.flags & CROSSLANE_BRIDGE_CHECKSUM != 0);
        let place = CardPlace { card, address: job.card_address };
        let from = || part(&bridge, job.from, job.from_offset, job.bytes);
        let to = || part(&bridge, job.to, job.to_offset, job.bytes);
        let client = &bridge.client;
        let posted = client.clock().now();
        let (outcome, near) = match job.kind {
            CROSSLANE_DMA_TO_CARD => {
                let from = from()?;
                (block_on(client.put(&from, &place, &options, |_| {}))?, Some(from))
            }
            CROSSLANE_DMA_FROM_CARD => {
                let to = to()?;
                (block_on(client.get(&place, &to, &options, |_| {}))?, Some(to))
            }
            CROSSLANE_DMA_THROUGH_CARD => {
                let (from, to) = (from()?, to()?);
                let trip = client.round_trip(&place.card, &from, &to, &options, |_| {});
                (block_on(trip)?, Some(from))
            }
            CROSSLANE_BRIDGE_TO_PEER => {
                let missing = || Failure::argument("the peer's server or card is NULL");
                let copy =
                    client.copy(&place, peer.ok_or_else(missing)?, job.bytes, &options, |_| {});
                (block_on(copy)?, None)
            }
            kind => return Err(Failure::argument(format!("there is no kind of transfer {kind}"))),
        };
        near.map_or(Ok(()), |near| outcome.check(&near))?;
        if !completion.is_null() {
            let made = crosslane_completion {
                size: 0,
                wr_id: 0,
                status: 0,
                kind: 0,
                level: CROSSLANE_LEVEL_VISIBLE,
                reserved: 0,
                bytes: outcome.report.bytes,
                total_bytes: job.bytes,
                posted_ps: posted.0,
                completed_ps: (posted + outcome.elapsed).0,
            };
            // SAFETY: as the caller promises.
            unsafe { structs::write(completion, made)? };
        }
        Ok(0)
    })
}
