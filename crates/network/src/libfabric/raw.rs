// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The binding: libfabric's objects as values that are freed in the right order, and that keep the
//! memory of an operation until it has ended.
//!
//! One network's objects are used by one thread at a time: all of them are in one `State` behind
//! one lock (`state.rs`), and none leaves it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use crosslane_host::RemoteAccess;

use super::abi;
use super::endpoint::RawEndpoint;
use super::library::{
    FiError, Info, KeptSignals, Library, Object, ProviderOptions, Result, api, c_string, text_of,
};
use crate::memory::Mapping;

/// Longest address of an endpoint or socket, bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Most bytes of data with a request for a connection.
const MAX_GREETING_BYTES: usize = 32;

/// Properties of a provider.
#[derive(Clone, Debug)]
pub struct Facts {
    pub max_message_bytes: u64,
    pub transmit_slots: u64,
    pub addresses_are_virtual: bool,
    pub provider_gives_keys: bool,
    pub domain: String,
}

/// The open objects of a network, closed in this order once nothing made from them is left.
pub struct Handle {
    pub domain: Object<abi::Domain>,
    /// Queue of events, with its descriptor; only for endpoints with connections.
    pub events: Option<(Object<abi::Eq>, RawFd)>,
    pub fabric: Object<abi::Fabric>,
    pub info: Info,
    pub is_hardware: bool,
}

impl Handle {
    /// Returns whether the descriptor of a queue will signal all that comes from now on.
    pub fn may_wait(&self, mut queue: *mut abi::Fid) -> bool {
        let fabric = self.fabric.get();
        // SAFETY: fabric and queue are open.
        unsafe { ((*(*fabric).ops).trywait)(fabric, &raw mut queue, 1) == 0 }
    }

    /// Returns the text of an error: the provider's for its number, or libfabric's.
    pub fn why(&self, number: c_int, text: impl FnOnce() -> *const c_char, error: c_int) -> String {
        // The providers in software leave in their number whatever errno was.
        let known = self.is_hardware && number != 0;
        // SAFETY: the text is copied before the next call.
        let why = if known { unsafe { text_of(text()) } } else { String::new() };
        if why.is_empty() { FiError(error).text() } else { why }
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
pub struct Request(Info);

impl RawNetwork {
    pub fn open(_: Library, options: ProviderOptions) -> Result<Self> {
        let info = Info::wished(options)?.offers(None, 0)?;
        let offer = info.get();
        // SAFETY: offers have all their parts, and all arguments are valid for the call.
        let fabric = Object::made(|out| unsafe {
            (api().fabric)((*offer).fabric_attr, out, ptr::null_mut())
        })?;
        let events = match options.with_connections {
            true => Some(events_of(&fabric)?),
            false => None,
        };
        // SAFETY: as above; the fabric is open.
        let domain = Object::made(|out| unsafe {
            ((*(*fabric.get()).ops).domain)(fabric.get(), offer, out, ptr::null_mut())
        })?;
        // SAFETY: offers have all their parts.
        let facts = unsafe {
            let attributes = (*offer).domain_attr;
            Facts {
                max_message_bytes: (*(*offer).ep_attr).max_msg_size as u64,
                transmit_slots: (*(*offer).tx_attr).size as u64,
                addresses_are_virtual: (*attributes).mr_mode & abi::MR_VIRT_ADDR != 0,
                provider_gives_keys: (*attributes).mr_mode & abi::MR_PROV_KEY != 0,
                domain: text_of((*attributes).name),
            }
        };
        let handle = Handle { domain, events, fabric, info, is_hardware: options.hardware };
        Ok(Self { handle: Arc::new(handle), options, facts })
    }

    pub const fn options(&self) -> ProviderOptions {
        self.options
    }

    /// Returns the descriptor that signals events, if the provider has connections.
    pub fn event_fd(&self) -> Option<RawFd> {
        self.handle.events.as_ref().map(|(_, descriptor)| *descriptor)
    }

    /// Registers a whole mapping.
    pub fn register(
        &self,
        mapping: &Arc<Mapping>,
        bytes: u64,
        access: RemoteAccess,
        key: u64,
    ) -> Result<Arc<Registration>> {
        let mut rights = abi::SEND | abi::RECV | abi::READ | abi::WRITE;
        rights |= if access.read { abi::REMOTE_READ } else { 0 };
        rights |= if access.write { abi::REMOTE_WRITE } else { 0 };
        let (domain, start, length) = (&self.handle.domain, mapping.start(), bytes.max(1) as usize);
        // SAFETY: the mapping has at least `bytes` bytes, and outlives the registration, which
        // holds it; the domain is open and held, too.
        let region = Object::made(|out| unsafe {
            let register = (*(*domain.get()).mr).reg;
            register(domain.fid(), start, length, rights, 0, key, 0, out, ptr::null_mut())
        })?;
        Ok(Arc::new(Registration {
            region,
            bytes,
            mapping: mapping.clone(),
            _network: self.handle.clone(),
        }))
    }

    /// Makes a connectionless endpoint for one peer; returns its name, for the peer.
    pub fn datagram_endpoint(
        &self,
        slots: u32,
        service: Option<&str>,
    ) -> Result<(RawEndpoint, Vec<u8>)> {
        let mut info = self.handle.info.copy()?;
        if let Some(service) = service {
            info.forget_source();
            let name = c_string(service);
            // SAFETY: the copy is ours, and frees its addresses as the C library's memory.
            unsafe {
                (*info.get()).src_addr = libc::strdup(name.as_ptr()).cast();
                (*info.get()).src_addrlen = name.as_bytes_with_nul().len();
            }
        }
        info.forget_target();
        let kept = KeptSignals::keep();
        let endpoint = RawEndpoint::new(&self.handle, &info, slots);
        drop(kept);
        let endpoint = endpoint?;
        let name = endpoint.name()?;
        Ok((endpoint, name))
    }

    /// Starts to connect; an event tells the outcome.
    pub fn connect(&self, to: SocketAddr, slots: u32, greeting: &[u8]) -> Result<RawEndpoint> {
        let by_device = self.options.hardware;
        let wished = self.handle.info.elsewhere(by_device)?;
        let mut info = wished.offers(Some(&node_and_service(to)), 0)?;
        if !by_device {
            info.forget_source();
        }
        let endpoint = RawEndpoint::new(&self.handle, &info, slots)?;
        let (ep, bytes) = (endpoint.object(), greeting.len());
        // SAFETY: the endpoint is open; the address is the offer's.
        let result = unsafe {
            ((*endpoint.calls()).connect)(ep, (*info.get()).dest_addr, greeting.as_ptr(), bytes)
        };
        FiError::check(result)?;
        Ok(endpoint)
    }

    pub fn accept(&self, request: Request, slots: u32, greeting: &[u8]) -> Result<RawEndpoint> {
        let endpoint = RawEndpoint::new(&self.handle, &request.0, slots)?;
        let ep = endpoint.object();
        // SAFETY: the endpoint is open, and made from the request.
        let result = unsafe { ((*endpoint.calls()).accept)(ep, greeting.as_ptr(), greeting.len()) };
        FiError::check(result)?;
        Ok(endpoint)
    }

    /// Starts to listen; returns the address with the chosen port.
    pub fn listen(&self, at: SocketAddr) -> Result<(RawListener, SocketAddr)> {
        let (events, _) = self.handle.events.as_ref().expect("listeners have connections");
        let wished = self.handle.info.elsewhere(self.options.hardware)?;
        let info = wished.offers(Some(&node_and_service(at)), abi::SOURCE)?;
        let fabric = self.handle.fabric.get();
        // SAFETY: the fabric is open, and all arguments are valid for the call.
        let listener: Object<abi::Pep> = Object::made(|out| unsafe {
            ((*(*fabric).ops).passive_ep)(fabric, info.get(), out, ptr::null_mut())
        })?;
        listener.bind(events.fid(), 0)?;
        let listener = RawListener { listener, _network: self.handle.clone() };
        let pep = listener.listener.get();
        // SAFETY: the listener is open.
        FiError::check(unsafe { ((*listener.calls()).listen)(pep) })?;
        // SAFETY: the listener is open; `name` has as many bytes as `bytes` says.
        let address = name_of(|name, bytes| unsafe {
            ((*listener.calls()).getname)(listener.listener.fid(), name, bytes)
        })?;
        Ok((listener, socket_address(&address).unwrap_or(at)))
    }

    pub fn next_event(&mut self) -> Result<Option<Event>> {
        /// Event of a connection, with room for its greeting.
        #[repr(C)]
        struct Read {
            entry: abi::EqCmEntry,
            room: [u8; 512],
        }
        let Some((events, _)) = &self.handle.events else { return Ok(None) };
        // SAFETY: zeros are a valid value of it.
        let mut read: Read = unsafe { std::mem::zeroed() };
        let (mut kind, queue) = (0, events.get());
        // SAFETY: the queue is open.
        let functions = unsafe { (*queue).ops };
        let (into, room) = ((&raw mut read).cast(), size_of::<Read>());
        // SAFETY: the queue is open, and `into` has `room` bytes.
        let got = unsafe { ((*functions).read)(queue, &raw mut kind, into, room, 0) };
        if got == -(abi::EAVAIL as isize) {
            // SAFETY: zeros are a valid value of it.
            let mut error: abi::EqErrEntry = unsafe { std::mem::zeroed() };
            // SAFETY: the queue is open, and the entry is ours.
            let got = unsafe { ((*functions).readerr)(queue, &raw mut error, 0) };
            return Ok(FiError::count(got)?.map(|_| {
                // Of a refused connection the number is an event's, and negative.
                let number = error.prov_errno.max(0);
                // SAFETY: the queue is open; number and data are those of its error.
                let text = || unsafe {
                    ((*functions).strerror)(queue, number, error.err_data, ptr::null_mut(), 0)
                };
                let why = self.handle.why(number, text, error.err);
                Event::Failed { fid: error.fid.addr(), why }
            }));
        }
        let Some(got) = FiError::count(got)? else { return Ok(None) };
        let fid = read.entry.fid.addr();
        let length = got.saturating_sub(size_of::<abi::EqCmEntry>()).min(MAX_GREETING_BYTES);
        let greeting = read.room[..length].to_vec();
        Ok(Some(match kind {
            abi::CONNREQ => {
                // SAFETY: the request comes with the event, and is ours.
                let info = unsafe { Info::of(read.entry.info) };
                let request = Request(info.ok_or(FiError::NO_DATA)?);
                Event::Request { fid, request, greeting }
            }
            abi::CONNECTED => Event::Connected { fid, greeting },
            abi::SHUTDOWN => Event::Shutdown { fid },
            // An event of no interest: no endpoint has this address.
            _ => Event::Shutdown { fid: 0 },
        }))
    }

    /// Returns whether the descriptor will signal all events from now on.
    pub fn may_wait(&self) -> bool {
        self.handle.events.as_ref().is_none_or(|(events, _)| self.handle.may_wait(events.fid()))
    }
}

/// Opens a queue of events with a descriptor.
fn events_of(fabric: &Object<abi::Fabric>) -> Result<(Object<abi::Eq>, RawFd)> {
    let fabric = fabric.get();
    // SAFETY: the fabric is open, and the attributes, of which zeros are valid values, are valid
    // for the call.
    let events = Object::made(|out| unsafe {
        let mut attributes: abi::EqAttr = std::mem::zeroed();
        attributes.wait_obj = abi::WAIT_FD;
        ((*(*fabric).ops).eq_open)(fabric, &raw mut attributes, out, ptr::null_mut())
    })?;
    let mut descriptor = -1;
    events.control(abi::GETWAIT, Some(&mut descriptor))?;
    Ok((events, descriptor))
}

/// Returns the name that a call writes.
pub fn name_of(write: impl FnOnce(*mut u8, *mut usize) -> c_int) -> Result<Vec<u8>> {
    let mut name = [0; MAX_NAME_BYTES];
    let mut bytes = name.len();
    FiError::check(write(name.as_mut_ptr(), &raw mut bytes))?;
    Ok(name[..bytes.min(MAX_NAME_BYTES)].to_vec())
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
pub fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
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
    // Ended first.
    pub region: Object<abi::Mr>,
    pub bytes: u64,
    mapping: Arc<Mapping>,
    _network: Arc<Handle>,
}

impl Registration {
    /// Returns its key, for other nodes.
    pub fn key(&self) -> u64 {
        // SAFETY: it is registered.
        unsafe { (*self.region.get()).key }
    }

    pub const fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Returns its address for providers with virtual addresses.
    pub fn virtual_address(&self) -> u64 {
        self.mapping.start().addr() as u64
    }

    /// Returns the address of a part.
    pub fn part(&self, offset: u64, bytes: u64) -> *mut c_void {
        let within = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(within, "{bytes} B at {offset} of a registration of {} B", self.bytes);
        // SAFETY: the part is within the mapping, which has at least `self.bytes`.
        unsafe { self.mapping.start().byte_add(offset as usize) }
    }
}

pub struct RawListener {
    listener: Object<abi::Pep>,
    _network: Arc<Handle>,
}

impl RawListener {
    /// Returns the identity used in its events.
    pub fn fid(&self) -> usize {
        self.listener.fid().addr()
    }

    fn calls(&self) -> *const abi::OpsCm {
        // SAFETY: it is open.
        unsafe { (*self.listener.get()).cm }
    }

    pub fn reject(&self, request: Request) {
        let (listener, info) = (self.listener.get(), request.0.get());
        // SAFETY: it is open, and the request came with one of its events.
        unsafe { ((*self.calls()).reject)(listener, (*info).handle, ptr::null(), 0) };
    }
}

/// Borrows a descriptor of libfabric's for polling.
pub fn borrow_fd<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: it is only polled. If it is closed meanwhile, as when a connection ends while the
    // thread waits, the poll reports that or another file, and the thread checks again.
    unsafe { BorrowedFd::borrow_raw(fd) }
}
