// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binding: libfabric's objects as values that free themselves in the right order, and keep
//! the memory that an operation uses until it has ended.
//!
//! One network's objects are used by one thread at a time: all of them live in one `State`
//! behind one lock (`state.rs`), and none ever leaves it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, OnceLock};

use crosslane_host::RemoteAccess;

use super::ffi;
use crate::memory::Mapping;

/// Longest address of an endpoint or socket, bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// libfabric's own words for what went wrong, with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiError(pub c_int);

impl FiError {
    /// Not now: the queue is full, or nothing is there.
    pub const AGAIN: Self = Self(11);
    /// What was under way when the connection ended.
    pub const CANCELED: Self = Self(125);
    /// No provider has what was asked for.
    pub const NO_DATA: Self = Self(61);

    fn check(result: c_int) -> Result<c_int, Self> {
        if result < 0 { Err(Self(-result)) } else { Ok(result) }
    }

    pub fn text(self) -> String {
        // SAFETY: only what is loaded makes errors; it returns a constant string for every number.
        let text = unsafe { CStr::from_ptr(ffi::crosslane_fi_error_text(self.0)) };
        text.to_string_lossy().into_owned()
    }
}

/// A text that the shim has filled, with a zero at its end.
fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|c| c.to_ne_bytes()[0]).take_while(|c| *c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn c_string(text: &str) -> CString {
    // What goes in are names of providers and numbers; a zero would be cut off.
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// The library, loaded: what calls it needs one.
#[derive(Clone, Copy, Debug)]
pub struct Library(());

/// Loads it the first time; why it cannot be had.
pub fn load() -> Result<Library, String> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        // The library keeps registrations of memory that nobody has any more, and finds out by
        // watching the C library's calls that the addresses have other memory now. This program
        // makes its mappings by system calls of its own: an adapter would go on with the old
        // pages. What is registered here is kept as long as it is needed anyway.
        // SAFETY: only what reads the environment without the standard library's lock could be
        // in the way, at this moment; the library to be loaded is the one that reads it.
        unsafe { std::env::set_var("FI_MR_CACHE_MAX_COUNT", "0") };
        // SAFETY: it is called once, and nothing else of the shim before it has returned. What
        // it returns is null or a text that stays until the next call of the loader.
        let why = unsafe {
            let why = ffi::crosslane_fi_load();
            if why.is_null() {
                return Ok(());
            }
            CStr::from_ptr(why)
        };
        Err(format!("{} (Debian: package libfabric1)", why.to_string_lossy()))
    });
    loaded.clone().map(|()| Library(()))
}

/// Version of the library that is loaded, such as 1.17.
pub fn version(_: Library) -> String {
    // SAFETY: it is loaded; it only returns a number.
    let version = unsafe { ffi::crosslane_fi_version() };
    format!("{}.{}", version >> 16, version & 0xffff)
}

/// How a provider is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// As libfabric calls it.
    pub provider: &'static str,
    /// Connected endpoints, else reliable datagrams with one peer each.
    pub with_connections: bool,
    /// An adapter that reads and writes memory itself.
    pub hardware: bool,
}

/// Whether a provider has something to offer.
pub fn probe(_: Library, way: Way) -> Result<(), FiError> {
    let provider = c_string(way.provider);
    // SAFETY: the string lives through the call.
    let result = unsafe {
        ffi::crosslane_fi_probe(provider.as_ptr(), way.with_connections.into(), way.hardware.into())
    };
    FiError::check(result).map(|_| ())
}

/// What a provider is like.
#[derive(Clone, Debug)]
pub struct Facts {
    pub max_message_bytes: u64,
    pub transmit_slots: u64,
    pub addresses_are_virtual: bool,
    pub provider_gives_keys: bool,
    pub domain: String,
}

struct Handle {
    network: *mut ffi::NetworkC,
}

// SAFETY: libfabric's objects belong to no thread, and the lock of the state that they are in is
// held whenever one is used (module description).
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was opened and is closed once, after everything that was made from it: each
        // of those has an `Arc` of this.
        unsafe { ffi::crosslane_fi_close(self.network) };
    }
}

/// An opened provider.
pub struct RawNetwork {
    handle: Arc<Handle>,
    way: Way,
    pub facts: Facts,
}

/// Something of connections that has happened. `fid` says whose.
pub enum Event {
    /// Somebody asks to be accepted.
    Request {
        fid: usize,
        request: Request,
        greeting: Vec<u8>,
    },
    Connected {
        fid: usize,
        greeting: Vec<u8>,
    },
    Shutdown {
        fid: usize,
    },
    Failed {
        fid: usize,
        why: String,
    },
}

/// To be accepted or rejected.
pub struct Request {
    info: *mut ffi::InfoC,
}

impl Request {
    fn give_up(self) -> *mut ffi::InfoC {
        std::mem::ManuallyDrop::new(self).info
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: it came with an event, and nobody has taken it.
        unsafe { ffi::crosslane_fi_forget(self.info) };
    }
}

// SAFETY: as of `Handle`.
unsafe impl Send for Request {}

impl RawNetwork {
    pub fn open(_: Library, way: Way) -> Result<Self, FiError> {
        let provider = c_string(way.provider);
        let mut network = std::ptr::null_mut();
        let mut facts = MaybeUninit::<ffi::Facts>::zeroed();
        // SAFETY: all pointers are valid for the call; `facts` is filled where it succeeds, and
        // zeros are one.
        let (result, facts) = unsafe {
            let result = ffi::crosslane_fi_open(
                provider.as_ptr(),
                way.with_connections.into(),
                way.hardware.into(),
                &raw mut network,
                facts.as_mut_ptr(),
            );
            (result, facts.assume_init())
        };
        FiError::check(result)?;
        let facts = Facts {
            max_message_bytes: facts.max_message_bytes,
            transmit_slots: facts.transmit_slots,
            addresses_are_virtual: facts.addresses_are_virtual != 0,
            provider_gives_keys: facts.provider_gives_keys != 0,
            domain: text_of(&facts.domain),
        };
        Ok(Self { handle: Arc::new(Handle { network }), way, facts })
    }

    pub const fn way(&self) -> Way {
        self.way
    }

    /// The descriptor that says that events may be there, where the provider has connections.
    pub fn event_fd(&self) -> Option<RawFd> {
        // SAFETY: the network is open.
        let fd = unsafe { ffi::crosslane_fi_event_fd(self.handle.network) };
        (fd >= 0).then_some(fd)
    }

    /// Registers a whole mapping.
    pub fn register(
        &self,
        mapping: &Arc<Mapping>,
        bytes: u64,
        access: RemoteAccess,
        key: u64,
    ) -> Result<Arc<Registration>, FiError> {
        let mut out = ffi::RegistrationC {
            region: std::ptr::null_mut(),
            descriptor: std::ptr::null_mut(),
            key: 0,
        };
        // SAFETY: the mapping has at least so many bytes, and outlives the registration, which
        // keeps it; so is the network open.
        let result = unsafe {
            ffi::crosslane_fi_register(
                self.handle.network,
                mapping.start(),
                bytes.max(1),
                access.read.into(),
                access.write.into(),
                key,
                &raw mut out,
            )
        };
        FiError::check(result)?;
        Ok(Arc::new(Registration {
            region: out.region,
            descriptor: out.descriptor,
            key: out.key,
            bytes,
            mapping: mapping.clone(),
            _network: self.handle.clone(),
        }))
    }

    fn endpoint(&self, endpoint: *mut ffi::EndpointC, slots: u32) -> RawEndpoint {
        let held = (0..slots).map(|_| None).collect();
        RawEndpoint { endpoint, held, _network: self.handle.clone() }
    }

    /// An endpoint for one peer, without a connection; its name is for the peer.
    pub fn datagram_endpoint(
        &self,
        slots: u32,
        service: Option<&str>,
    ) -> Result<(RawEndpoint, Vec<u8>), FiError> {
        let service = service.map(c_string);
        let mut endpoint = std::ptr::null_mut();
        let mut name = [0; MAX_NAME_BYTES];
        let mut bytes = name.len() as u64;
        // SAFETY: all pointers are valid for the call, and `bytes` is the room that `name` has.
        let result = unsafe {
            ffi::crosslane_fi_endpoint_new(
                self.handle.network,
                slots,
                service.as_ref().map_or(std::ptr::null(), |service| service.as_ptr()),
                name.as_mut_ptr(),
                &raw mut bytes,
                &raw mut endpoint,
            )
        };
        FiError::check(result)?;
        let name = name[..(bytes as usize).min(MAX_NAME_BYTES)].to_vec();
        Ok((self.endpoint(endpoint, slots), name))
    }

    /// Begins to connect.
    pub fn connect(
        &self,
        to: SocketAddr,
        slots: u32,
        greeting: &[u8],
    ) -> Result<RawEndpoint, FiError> {
        let (node, service) = node_and_service(to);
        let mut endpoint = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call.
        let result = unsafe {
            ffi::crosslane_fi_connect(
                self.handle.network,
                node.as_ptr(),
                service.as_ptr(),
                self.way.hardware.into(),
                slots,
                greeting.as_ptr(),
                greeting.len() as u64,
                &raw mut endpoint,
            )
        };
        FiError::check(result)?;
        Ok(self.endpoint(endpoint, slots))
    }

    pub fn accept(
        &self,
        request: Request,
        slots: u32,
        greeting: &[u8],
    ) -> Result<RawEndpoint, FiError> {
        let mut endpoint = std::ptr::null_mut();
        // SAFETY: the request came with an event and is given up here; the other pointers are
        // valid for the call.
        let result = unsafe {
            ffi::crosslane_fi_accept(
                self.handle.network,
                request.give_up(),
                slots,
                greeting.as_ptr(),
                greeting.len() as u64,
                &raw mut endpoint,
            )
        };
        FiError::check(result)?;
        Ok(self.endpoint(endpoint, slots))
    }

    /// Waits for connections; where, with the port that was chosen.
    pub fn listen(&self, at: SocketAddr) -> Result<(RawListener, SocketAddr), FiError> {
        let (node, service) = node_and_service(at);
        let mut listener = std::ptr::null_mut();
        let mut address = [0; MAX_NAME_BYTES];
        let mut bytes = address.len() as u64;
        // SAFETY: all pointers are valid for the call, and `bytes` is the room that `address` has.
        let result = unsafe {
            ffi::crosslane_fi_listen(
                self.handle.network,
                node.as_ptr(),
                service.as_ptr(),
                self.way.hardware.into(),
                address.as_mut_ptr(),
                &raw mut bytes,
                &raw mut listener,
            )
        };
        FiError::check(result)?;
        let listener = RawListener { listener, _network: self.handle.clone() };
        let address = &address[..(bytes as usize).min(MAX_NAME_BYTES)];
        Ok((listener, socket_address(address).unwrap_or(at)))
    }

    pub fn next_event(&mut self) -> Result<Option<Event>, FiError> {
        let mut event = MaybeUninit::<ffi::EventC>::zeroed();
        // SAFETY: the network is open; the event is filled, and zeros are one.
        let (result, event) = unsafe {
            let result = ffi::crosslane_fi_next_event(self.handle.network, event.as_mut_ptr());
            (result, event.assume_init())
        };
        if FiError::check(result)? == 0 {
            return Ok(None);
        }
        let fid = event.fid.addr();
        let length = (event.greeting_bytes as usize).min(event.greeting.len());
        let greeting = event.greeting[..length].to_vec();
        Ok(Some(match event.kind {
            ffi::EVENT_REQUEST => {
                Event::Request { fid, request: Request { info: event.request }, greeting }
            }
            ffi::EVENT_CONNECTED => Event::Connected { fid, greeting },
            ffi::EVENT_SHUTDOWN => Event::Shutdown { fid },
            ffi::EVENT_ERROR => Event::Failed { fid, why: text_of(&event.text) },
            // Of no interest: nobody has this address.
            _ => Event::Shutdown { fid: 0 },
        }))
    }

    /// Whether the descriptor of the events tells of all that comes from now on.
    pub fn may_wait(&self) -> bool {
        // SAFETY: the network is open.
        unsafe { ffi::crosslane_fi_may_wait_events(self.handle.network) == 0 }
    }
}

fn node_and_service(address: SocketAddr) -> (CString, CString) {
    let node = match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => {
            format!("{}%{}", address.ip(), address.scope_id())
        }
        address => address.ip().to_string(),
    };
    (c_string(&node), c_string(&address.port().to_string()))
}

/// A `sockaddr_in` or `sockaddr_in6`.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let family = i32::from(family);
    if family == i32::from(rustix::net::AddressFamily::INET.as_raw()) {
        let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
        Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), port))
    } else if family == i32::from(rustix::net::AddressFamily::INET6.as_raw()) {
        let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
        Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)), port))
    } else {
        None
    }
}

/// Memory that the network may reach.
pub struct Registration {
    region: *mut ffi::RegionC,
    descriptor: *mut c_void,
    pub key: u64,
    pub bytes: u64,
    mapping: Arc<Mapping>,
    _network: Arc<Handle>,
}

// SAFETY: as of `Handle`.
unsafe impl Send for Registration {}
// SAFETY: as of `Handle`.
unsafe impl Sync for Registration {}

impl Registration {
    pub const fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Its address as the provider counts, if those are virtual.
    pub fn virtual_address(&self) -> u64 {
        self.mapping.start().addr() as u64
    }

    /// Where a part of it begins.
    fn part(&self, offset: u64, bytes: u64) -> *mut c_void {
        let within = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(within, "{bytes} B at {offset} of a registration of {} B", self.bytes);
        // SAFETY: within the mapping, which has at least `self.bytes`.
        unsafe { self.mapping.start().byte_add(offset as usize) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it is registered, once; no operation of this node uses it, since each has an
        // `Arc` of this.
        unsafe { ffi::crosslane_fi_unregister(self.region) };
    }
}

pub struct RawListener {
    listener: *mut ffi::ListenerC,
    _network: Arc<Handle>,
}

// SAFETY: as of `Handle`.
unsafe impl Send for RawListener {}

impl RawListener {
    /// What its events are known by.
    pub fn fid(&self) -> usize {
        // SAFETY: it is open.
        unsafe { ffi::crosslane_fi_listener_fid(self.listener) }.addr()
    }

    pub fn reject(&self, request: Request) {
        // SAFETY: the request came with an event of this listener and is given up here.
        unsafe { ffi::crosslane_fi_reject(self.listener, request.give_up()) };
    }
}

impl Drop for RawListener {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { ffi::crosslane_fi_listener_free(self.listener) };
    }
}

/// An operation that has ended.
#[derive(Clone, Debug)]
pub struct Completion {
    pub slot: u32,
    /// The provider's words where it failed.
    pub error: Option<(FiError, String)>,
    /// Of a message that was received.
    pub bytes: u64,
}

/// One end of a way to another node, with numbered slots for operations.
pub struct RawEndpoint {
    endpoint: *mut ffi::EndpointC,
    /// What the operation of each slot uses.
    held: Vec<Option<Arc<Registration>>>,
    _network: Arc<Handle>,
}

// SAFETY: as of `Handle`.
unsafe impl Send for RawEndpoint {}

/// A part of registered memory.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub registration: &'a Arc<Registration>,
    pub offset: u64,
    pub bytes: u64,
}

/// A part of another node's memory.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    pub address: u64,
    pub key: u64,
}

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Send,
    Receive,
    Read(Far),
    Write(Far),
}

impl RawEndpoint {
    /// What its events are known by.
    pub fn fid(&self) -> usize {
        // SAFETY: it is open.
        unsafe { ffi::crosslane_fi_endpoint_fid(self.endpoint) }.addr()
    }

    /// The descriptor that says that completions may be there, if the provider has one.
    pub fn wait_fd(&self) -> Option<RawFd> {
        // SAFETY: it is open.
        let fd = unsafe { ffi::crosslane_fi_wait_fd(self.endpoint) };
        (fd >= 0).then_some(fd)
    }

    /// Whether that descriptor tells of all that comes from now on.
    pub fn may_wait(&self) -> bool {
        // SAFETY: it is open.
        unsafe { ffi::crosslane_fi_may_wait(self.endpoint) == 0 }
    }

    /// Tells an endpoint without connection who its peer is.
    pub fn set_peer(&mut self, name: &[u8]) -> Result<(), FiError> {
        // Providers read as many bytes as their addresses have, not as many as came.
        let mut room = [0; MAX_NAME_BYTES];
        let length = name.len().min(MAX_NAME_BYTES - 1);
        room[..length].copy_from_slice(&name[..length]);
        // SAFETY: it is open; the name has as much room as any address, and ends in a zero.
        let result = unsafe { ffi::crosslane_fi_endpoint_peer(self.endpoint, room.as_ptr()) };
        FiError::check(result).map(|_| ())
    }

    /// The socket at the other end.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let mut address = [0; MAX_NAME_BYTES];
        let mut bytes = address.len() as u64;
        // SAFETY: it is open; `bytes` is the room that `address` has.
        let result = unsafe {
            ffi::crosslane_fi_peer_address(self.endpoint, address.as_mut_ptr(), &raw mut bytes)
        };
        FiError::check(result).ok()?;
        socket_address(&address[..(bytes as usize).min(MAX_NAME_BYTES)])
    }

    pub fn shutdown(&mut self) {
        // SAFETY: it is open.
        unsafe { ffi::crosslane_fi_shutdown(self.endpoint) };
    }

    /// Begins an operation in a slot that has none. The memory is kept until it has ended.
    pub fn begin(&mut self, slot: u32, what: What, near: Part<'_>) -> Result<(), FiError> {
        let held = &mut self.held[slot as usize];
        assert!(held.is_none(), "slot {slot} has an operation");
        let start = near.registration.part(near.offset, near.bytes);
        let (endpoint, bytes, descriptor) =
            (self.endpoint, near.bytes, near.registration.descriptor);
        // SAFETY: the endpoint is open and has this slot, in which nothing goes on. The memory is
        // within a registration of the same network, which is held from here on until the slot's
        // completion was read or the endpoint has been closed.
        let result = unsafe {
            match what {
                What::Send => {
                    ffi::crosslane_fi_send(endpoint, slot, start.cast_const(), bytes, descriptor)
                }
                What::Receive => {
                    ffi::crosslane_fi_receive(endpoint, slot, start, bytes, descriptor)
                }
                What::Read(Far { address, key }) => {
                    ffi::crosslane_fi_read(endpoint, slot, start, bytes, descriptor, address, key)
                }
                What::Write(Far { address, key }) => {
                    ffi::crosslane_fi_write(endpoint, slot, start, bytes, descriptor, address, key)
                }
            }
        };
        FiError::check(result)?;
        *held = Some(near.registration.clone());
        Ok(())
    }

    /// Reads the completions that are there.
    pub fn completions(&mut self, into: &mut Vec<Completion>) -> Result<(), FiError> {
        /// How many are read at once.
        const BATCH: usize = 32;
        let mut batch = [MaybeUninit::<ffi::CompletionC>::zeroed(); BATCH];
        loop {
            // SAFETY: the endpoint is open, and there is room for so many.
            let result = unsafe {
                ffi::crosslane_fi_completions(
                    self.endpoint,
                    batch.as_mut_ptr().cast(),
                    BATCH as u32,
                )
            };
            let count = FiError::check(result)? as usize;
            for completion in &batch[..count] {
                // SAFETY: so many were filled, and zeros are one too.
                let completion = unsafe { completion.assume_init_ref() };
                let slot = completion.slot;
                let Some(held) = self.held.get_mut(slot as usize) else { continue };
                *held = None;
                let failed = completion.error != 0;
                let error = failed.then(|| (FiError(completion.error), text_of(&completion.text)));
                into.push(Completion { slot, error, bytes: completion.bytes });
            }
            if count == 0 {
                return Ok(());
            }
        }
    }
}

impl RawEndpoint {
    /// Closes it; what its operations used that had not ended.
    pub fn close(mut self) -> Vec<Arc<Registration>> {
        std::mem::take(&mut self.held).into_iter().flatten().collect()
    }
}

impl Drop for RawEndpoint {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once; what its operations use is held until afterwards,
        // here or by who has called `close`.
        unsafe { ffi::crosslane_fi_endpoint_free(self.endpoint) };
    }
}

/// A descriptor of libfabric's, to be polled.
pub fn borrow_fd<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: it is polled, nothing else. Were it closed in between, as when a connection ends
    // while the thread waits, the poll says so or finds another file, and the thread looks again.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
