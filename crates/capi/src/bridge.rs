// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of a bridge: memory of this node to a card of another node and back, through a server
//! (`crosslane bridge serve`).

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crosslane::bridge::{Client, Identity, Key};
use crosslane::host::{DmaMemory, ErrorKind, PageSize, Rdma, RdmaRegion, RemoteAccess};
use crosslane::network::{MachineClock, Network, Provider, Region, SharedKey, Trust};
use futures_executor::block_on;

use crate::bridge_transfer::Posted;
use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::session::CROSSLANE_FOREVER;
use crate::structs::{self, sized};

/// Time to connect, and for a transfer, that names none: a minute.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time that a server accepts for a transfer, and the stand-in for none: a year.
const MOST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

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

sized!(crosslane_bridge_attr until tls_cert);

/// Client of a connection.
pub(crate) type NetworkClient = Client<Network, MachineClock>;

/// Object behind a handle on a bridge.
pub(crate) struct BridgeObject {
    pub client: Rc<NetworkClient>,
    /// The transfer that was posted, until its completion was given.
    pub posted: RefCell<Option<Posted>>,
    /// Texts that the last description of the server or its cards points to.
    pub texts: RefCell<Vec<CString>>,
}

/// Object behind a handle on a bridge's memory.
pub(crate) struct BridgeMemoryObject {
    /// Keeps the connection, and its network, open.
    pub bridge: Rc<BridgeObject>,
    pub region: Region,
    /// Shared with the transfer that was posted and uses it.
    pub in_use: Rc<()>,
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
pub(crate) fn time(timeout_ns: u64, default: Duration) -> Duration {
    match timeout_ns {
        0 => default,
        CROSSLANE_FOREVER => MOST_TIMEOUT,
        timeout => Duration::from_nanos(timeout).min(MOST_TIMEOUT),
    }
}

/// Copies a text of the caller's; NULL is none.
///
/// # Safety
/// `text` is NULL or ends with a NUL.
pub(crate) unsafe fn optional(text: *const c_char, name: &str) -> Result<Option<String>> {
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
        let time = time(attr.timeout_ns, DEFAULT_TIMEOUT);
        let client = block_on(Client::connect(network, clock, &server, &identity, time))?;
        let connected = handle::insert(BridgeObject {
            client: Rc::new(client),
            posted: RefCell::default(),
            texts: RefCell::default(),
        })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(bridge, "bridge", connected)? };
        Ok(0)
    })
}

/// Ends a connection, and with it a transfer that was posted. Its memory must be destroyed before.
///
/// @return 0; -EBUSY if memory of it is still there: it then stays connected.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_close(bridge: *mut crosslane_bridge) -> c_int {
    guard("crosslane_bridge_close", || {
        let object = handle::take::<BridgeObject>(bridge)?;
        // It holds the client.
        drop(object.posted);
        if let Some(client) = Rc::into_inner(object.client) {
            block_on(client.close());
        }
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
        let made = handle::insert(BridgeMemoryObject { bridge, region, in_use: Rc::default() })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(memory, "memory", made)? };
        Ok(0)
    })
}

/// Destroys memory of a bridge.
///
/// @return 0; -EBUSY if a transfer that was posted uses it: it then stays.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_bridge_memory_destroy(
    memory: *mut crosslane_bridge_memory,
) -> c_int {
    guard("crosslane_bridge_memory_destroy", || {
        if Rc::strong_count(&handle::get::<BridgeMemoryObject>(memory)?.in_use) > 1 {
            let sentence = "cannot destroy the memory: a transfer that was posted uses it";
            return Err(Failure::new(ErrorKind::Busy, sentence));
        }
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
