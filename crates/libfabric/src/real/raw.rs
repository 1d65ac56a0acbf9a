// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binding: libfabric's objects as values that are freed in the right order, and that keep the
//! memory of an operation until it has ended.
//!
//! One network's objects are used by one thread at a time: all of them are in one `State` behind
//! one lock (`state.rs`), and none leaves it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::{Arc, OnceLock};

use crosslane_host::{ErrorKind, RemoteAccess};

use super::ffi;
use crate::memory::Mapping;

/// Longest address of an endpoint or socket, bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// Error number of libfabric, with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiError(pub c_int);

impl FiError {
    /// Try again: the queue is full, or empty.
    pub const AGAIN: Self = Self(11);
    /// The operation was in flight when the connection ended.
    pub const CANCELED: Self = Self(125);
    /// No provider meets the request.
    pub const NO_DATA: Self = Self(61);

    fn check(result: c_int) -> Result<c_int, Self> {
        if result < 0 { Err(Self(-result)) } else { Ok(result) }
    }

    /// Returns the kind of the error: its numbers are those of Linux.
    pub fn kind(self) -> ErrorKind {
        ErrorKind::from_errno(self.0)
    }

    pub fn text(self) -> String {
        // SAFETY: only a loaded library makes errors; it returns a constant string for every
        // number.
        let text = unsafe { CStr::from_ptr(ffi::crosslane_fi_error_text(self.0)) };
        text.to_string_lossy().into_owned()
    }
}

/// Converts a zero-terminated text filled by the shim.
fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|c| c.to_ne_bytes()[0]).take_while(|c| *c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn c_string(text: &str) -> CString {
    // Only names of providers and numbers; a zero would cut them off.
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Proof that the library is loaded, required by all calls.
#[derive(Clone, Copy, Debug)]
pub struct Library(());

/// Loads the library the first time; returns the reason if it fails.
pub fn load() -> Result<Library, String> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        // libfabric caches registrations of memory that is no longer used, and notices new memory
        // at the same addresses by watching the C library's calls. This program makes its mappings
        // by direct system calls, so an adapter would keep using the old pages. Registrations here
        // are kept as long as needed anyway.
        // SAFETY: only a concurrent read of the environment without the standard library's lock
        // could conflict; the only such reader is the library about to be loaded.
        unsafe { std::env::set_var("FI_MR_CACHE_MAX_COUNT", "0") };
        // SAFETY: called once, and before anything else of the shim. It returns null or a text that
        // stays valid until the next call of the loader.
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

/// Returns the version of the loaded library, such as 1.17.
pub fn version(_: Library) -> String {
    // SAFETY: the library is loaded; the call only returns a number.
    let version = unsafe { ffi::crosslane_fi_version() };
    format!("{}.{}", version >> 16, version & 0xffff)
}

/// Options for opening a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderOptions {
    /// libfabric's name for it.
    pub provider: &'static str,
    /// Connected endpoints; else reliable datagrams with one peer each.
    pub with_connections: bool,
    /// Whether it is an adapter that accesses memory itself.
    pub hardware: bool,
}

/// Checks whether a provider is available.
pub fn probe(_: Library, options: ProviderOptions) -> Result<(), FiError> {
    let provider = c_string(options.provider);
    // SAFETY: the string lives through the call.
    let result = unsafe {
        ffi::crosslane_fi_probe(
            provider.as_ptr(),
            options.with_connections.into(),
            options.hardware.into(),
        )
    };
    FiError::check(result).map(|_| ())
}

/// Properties of a provider.
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

// SAFETY: libfabric's objects have no thread affinity, and the lock of their state is held whenever
// one is used (module description).
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is closed once, after everything made from it: each such
        // object has an `Arc` of this.
        unsafe { ffi::crosslane_fi_close(self.network) };
    }
}

/// An open provider.
pub struct RawNetwork {
    handle: Arc<Handle>,
    options: ProviderOptions,
    pub facts: Facts,
}

/// An event of a connection; `fid` identifies its endpoint or listener.
pub enum Event {
    /// A client asks for a connection.
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

/// A request to accept or reject.
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
        // SAFETY: it came with an event, and has not been given up.
        unsafe { ffi::crosslane_fi_forget(self.info) };
    }
}

// SAFETY: as of `Handle`.
unsafe impl Send for Request {}

impl RawNetwork {
    pub fn open(_: Library, options: ProviderOptions) -> Result<Self, FiError> {
        let provider = c_string(options.provider);
        let mut network = std::ptr::null_mut();
        let mut facts = MaybeUninit::<ffi::Facts>::zeroed();
        // SAFETY: all pointers are valid for the call; `facts` is filled on success, and zeros are
        // a valid value.
        let (result, facts) = unsafe {
            let result = ffi::crosslane_fi_open(
                provider.as_ptr(),
                options.with_connections.into(),
                options.hardware.into(),
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
        Ok(Self { handle: Arc::new(Handle { network }), options, facts })
    }

    pub const fn options(&self) -> ProviderOptions {
        self.options
    }

    /// Returns the descriptor that signals events, if the provider has connections.
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
        // SAFETY: the mapping has at least `bytes` bytes, and outlives the registration, which
        // holds it; the network is open and held, too.
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

    /// Makes a connectionless endpoint for one peer; returns its name, for the peer.
    pub fn datagram_endpoint(
        &self,
        slots: u32,
        service: Option<&str>,
    ) -> Result<(RawEndpoint, Vec<u8>), FiError> {
        let service = service.map(c_string);
        let mut endpoint = std::ptr::null_mut();
        let mut name = [0; MAX_NAME_BYTES];
        let mut bytes = name.len() as u64;
        // SAFETY: all pointers are valid for the call, and `bytes` is the size of `name`.
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

    /// Starts to connect.
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
                self.options.hardware.into(),
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
        // SAFETY: the request came with an event and is given up here; the other pointers are valid
        // for the call.
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

    /// Starts to listen; returns the address with the chosen port.
    pub fn listen(&self, at: SocketAddr) -> Result<(RawListener, SocketAddr), FiError> {
        let (node, service) = node_and_service(at);
        let mut listener = std::ptr::null_mut();
        let mut address = [0; MAX_NAME_BYTES];
        let mut bytes = address.len() as u64;
        // SAFETY: all pointers are valid for the call, and `bytes` is the size of `address`.
        let result = unsafe {
            ffi::crosslane_fi_listen(
                self.handle.network,
                node.as_ptr(),
                service.as_ptr(),
                self.options.hardware.into(),
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
        // SAFETY: the network is open; the event is filled, and zeros are a valid value.
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
            // An event of no interest: no endpoint has this address.
            _ => Event::Shutdown { fid: 0 },
        }))
    }

    /// Returns whether the descriptor will signal all events from now on.
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

/// Decodes a `sockaddr_in` or `sockaddr_in6`.
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

/// Memory registered with the network.
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

    /// Returns its address for providers with virtual addresses.
    pub fn virtual_address(&self) -> u64 {
        self.mapping.start().addr() as u64
    }

    /// Returns the address of a part.
    fn part(&self, offset: u64, bytes: u64) -> *mut c_void {
        let within = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(within, "{bytes} B at {offset} of a registration of {} B", self.bytes);
        // SAFETY: the part is within the mapping, which has at least `self.bytes`.
        unsafe { self.mapping.start().byte_add(offset as usize) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it is registered, and unregistered once; no operation of this node uses it, since
        // each has an `Arc` of this.
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
    /// Returns the identity used in its events.
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
    /// Error of the provider, with its text.
    pub error: Option<(FiError, String)>,
    /// Length of a received message.
    pub bytes: u64,
}

/// One end of a connection to another node, with numbered slots for operations.
pub struct RawEndpoint {
    endpoint: *mut ffi::EndpointC,
    /// Registration used by the operation of each slot.
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

/// Kind of operation.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Send,
    Receive,
    Read(Far),
    Write(Far),
}

impl RawEndpoint {
    /// Returns the identity used in its events.
    pub fn fid(&self) -> usize {
        // SAFETY: it is open.
        unsafe { ffi::crosslane_fi_endpoint_fid(self.endpoint) }.addr()
    }

    /// Returns the descriptor that signals completions, if the provider has one.
    pub fn wait_fd(&self) -> Option<RawFd> {
        // SAFETY: it is open.
        let fd = unsafe { ffi::crosslane_fi_wait_fd(self.endpoint) };
        (fd >= 0).then_some(fd)
    }

    /// Returns whether that descriptor will signal all completions from now on.
    pub fn may_wait(&self) -> bool {
        // SAFETY: it is open.
        unsafe { ffi::crosslane_fi_may_wait(self.endpoint) == 0 }
    }

    /// Sets the peer of a connectionless endpoint.
    pub fn set_peer(&mut self, name: &[u8]) -> Result<(), FiError> {
        // Providers read the full length of an address, not the length received.
        let mut room = [0; MAX_NAME_BYTES];
        let length = name.len().min(MAX_NAME_BYTES - 1);
        room[..length].copy_from_slice(&name[..length]);
        // SAFETY: it is open; the name has room for any address, and ends in a zero.
        let result = unsafe { ffi::crosslane_fi_endpoint_peer(self.endpoint, room.as_ptr()) };
        FiError::check(result).map(|_| ())
    }

    /// Returns the socket address of the other end.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let mut address = [0; MAX_NAME_BYTES];
        let mut bytes = address.len() as u64;
        // SAFETY: it is open; `bytes` is the size of `address`.
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

    /// Begins an operation in a free slot. Its memory is kept until it has ended.
    pub fn begin(&mut self, slot: u32, what: What, near: Part<'_>) -> Result<(), FiError> {
        let held = &mut self.held[slot as usize];
        assert!(held.is_none(), "slot {slot} has an operation");
        let start = near.registration.part(near.offset, near.bytes);
        let (endpoint, bytes, descriptor) =
            (self.endpoint, near.bytes, near.registration.descriptor);
        // SAFETY: the endpoint is open and has this slot, which is free. The memory is within a
        // registration of the same network, which is held from here on until the slot's completion
        // was read or the endpoint has been closed.
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

    /// Reads the available completions.
    pub fn completions(&mut self, into: &mut Vec<Completion>) -> Result<(), FiError> {
        /// Most completions read at once.
        const BATCH: usize = 32;
        let mut batch = [MaybeUninit::<ffi::CompletionC>::zeroed(); BATCH];
        loop {
            // SAFETY: the endpoint is open, and the batch has room for `BATCH` completions.
            let result = unsafe {
                ffi::crosslane_fi_completions(
                    self.endpoint,
                    batch.as_mut_ptr().cast(),
                    BATCH as u32,
                )
            };
            let count = FiError::check(result)? as usize;
            for completion in &batch[..count] {
                // SAFETY: the call filled this many, and zeros are a valid value too.
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
    /// Closes the endpoint; returns the memory of its unfinished operations.
    pub fn close(mut self) -> Vec<Arc<Registration>> {
        std::mem::take(&mut self.held).into_iter().flatten().collect()
    }
}

impl Drop for RawEndpoint {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once; the memory of its operations is held until
        // afterwards, here or by the caller of `close`.
        unsafe { ffi::crosslane_fi_endpoint_free(self.endpoint) };
    }
}

/// Borrows a descriptor of libfabric's for polling.
pub fn borrow_fd<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: it is only polled. If it is closed meanwhile, as when a connection ends while the
    // thread waits, the poll reports that or another file, and the thread checks again.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
