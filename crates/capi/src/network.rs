// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network processors: gets and credits between host memory and the links of a torus.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::rc::Rc;

use crosslane::driver::network_processor::{
    Buffers, Ended, InFlight, Key, Message, Modes, NetworkError, NetworkProcessor, Requests,
};
use crosslane::host::{Bus, ErrorKind, Mapping, Waiting};
use crosslane::open::AnyBus;

use crate::buffer::{BufferObject, crosslane_buffer};
use crate::channel::{CROSSLANE_LEVEL_VISIBLE, crosslane_completion};
use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::session::{SessionObject, crosslane_session};
use crate::structs::{self, sized};

/// Messages lie in registered pages of the program's.
pub const CROSSLANE_NETWORK_BUFFERS_USER: u32 = 0;
/// Messages are copied to and from the driver's memory.
pub const CROSSLANE_NETWORK_BUFFERS_COPIED: u32 = 1;
/// Messages lie in contiguous memory that the driver has mapped.
pub const CROSSLANE_NETWORK_BUFFERS_MAPPED: u32 = 2;

/// Requests are stored write-combined if the card's aperture can be, else uncached.
pub const CROSSLANE_NETWORK_REQUESTS_FASTEST: u32 = 0;
/// Requests are made by one system call each.
pub const CROSSLANE_NETWORK_REQUESTS_SYSTEM_CALL: u32 = 1;
/// Requests are stored uncached.
pub const CROSSLANE_NETWORK_REQUESTS_UNCACHED: u32 = 2;

/// The program polls for the end of a message.
pub const CROSSLANE_NETWORK_WAIT_POLLING: u32 = 0;
/// The kernel polls for it.
pub const CROSSLANE_NETWORK_WAIT_KERNEL: u32 = 1;
/// The processor watches the notification and rests.
pub const CROSSLANE_NETWORK_WAIT_MONITOR: u32 = 2;

/// The message goes to any node of the torus, by its number, and not along a link.
pub const CROSSLANE_MESSAGE_ROUTED: u32 = 1;

/// A message that is sent.
pub const CROSSLANE_GET: u32 = 0;
/// Room for one that is received.
pub const CROSSLANE_CREDIT: u32 = 1;

/// An open network processor.
pub struct crosslane_network {
    _private: (),
}

/// How to open a network processor. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_network_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Memory of messages: a CROSSLANE_NETWORK_BUFFERS_*.
    pub buffers: u32,
    /// How requests are written: a CROSSLANE_NETWORK_REQUESTS_*.
    pub requests: u32,
    /// How the end of a message is awaited: a CROSSLANE_NETWORK_WAIT_*.
    pub waiting: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// A message to be sent, or room for one. Link, channel and tag, or node and tag, are its key: two
/// that are sent at the same time have different keys, and so do two that are received.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_message {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The caller's number, which its completion has.
    pub wr_id: u64,
    /// Memory of crosslane_network_buffer_create.
    pub buffer: *mut crosslane_buffer,
    /// First byte of the buffer.
    pub offset: u64,
    /// Length of the message, or of the room for it, in bytes.
    pub bytes: u64,
    /// Longest wait for a place for the request, in ns; 0 for one second.
    pub timeout_ns: u64,
    /// Number of the link.
    pub link: u32,
    /// Virtual channel, 0 to 7.
    pub channel: u32,
    /// Tag, 0 to 63.
    pub tag: u32,
    /// Number of the other node, of a routed message.
    pub node: u32,
    /// CROSSLANE_MESSAGE_* that hold, joined by |.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
}

sized!(crosslane_network_attr, crosslane_message);

/// A message that was posted and not waited for.
struct Flight {
    posted: InFlight,
    wr_id: u64,
    total_bytes: u64,
    _buffer: Rc<BufferObject>,
}

/// Object behind a handle on a network processor.
struct NetworkObject {
    session: Rc<SessionObject>,
    processor: NetworkProcessor,
    /// By kind and key.
    flights: RefCell<BTreeMap<(u32, Key), Flight>>,
}

impl Handled for NetworkObject {
    type Opaque = crosslane_network;
    const NAME: &'static str = "network";
}

impl SessionObject {
    /// Returns the bus of the host that has an endpoint: in a lab any of its hosts.
    fn bus_of(&self, endpoint: &str) -> AnyBus {
        let simulation = self.session.inner().simulation();
        let host = simulation.and_then(|simulation| {
            let mut hosts = simulation.hosts().iter();
            Some((simulation, hosts.find(|host| host.tree.find(endpoint).is_some())?.id))
        });
        host.map_or_else(
            || self.bus().clone(),
            |(simulation, host)| AnyBus::new(simulation.bus(host)),
        )
    }
}

fn modes(attr: &crosslane_network_attr, bus: &AnyBus, name: &str) -> Result<Modes> {
    use crosslane::host::Topology;
    let buffers = match attr.buffers {
        CROSSLANE_NETWORK_BUFFERS_USER => Buffers::User,
        CROSSLANE_NETWORK_BUFFERS_COPIED => Buffers::Copied,
        CROSSLANE_NETWORK_BUFFERS_MAPPED => Buffers::Mapped,
        other => return Err(Failure::argument(format!("there are no such buffers {other}"))),
    };
    let requests = match attr.requests {
        CROSSLANE_NETWORK_REQUESTS_FASTEST => {
            let functions = bus.functions()?;
            let function = functions.iter().find(|function| function.name == name);
            // Without the function the opening fails, and says so.
            function.map_or(Requests::SystemCall, |found| Requests::fastest(bus, found.id))
        }
        CROSSLANE_NETWORK_REQUESTS_SYSTEM_CALL => Requests::SystemCall,
        CROSSLANE_NETWORK_REQUESTS_UNCACHED => Requests::Stores(Mapping::Uncached),
        other => return Err(Failure::argument(format!("there are no such requests {other}"))),
    };
    let waiting = match attr.waiting {
        CROSSLANE_NETWORK_WAIT_POLLING => Waiting::Polling,
        CROSSLANE_NETWORK_WAIT_KERNEL => Waiting::KernelPolling,
        CROSSLANE_NETWORK_WAIT_MONITOR => Waiting::Monitor,
        other => return Err(Failure::argument(format!("there is no such waiting {other}"))),
    };
    let modes = Modes::default().with_buffers(buffers).with_requests(requests);
    Ok(modes.with_waiting(waiting))
}

/// Opens a network processor: resets it, and enables its bus mastering. In a lab it may be that of
/// any host, so that one program acts for several nodes.
///
/// @param function  Name of its function in the tree.
/// @param attr  How to open it; NULL for the defaults.
/// @param network  Gets the network processor.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `function` is NULL or ends with a NUL; `attr` and `network` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_open(
    session: *const crosslane_session,
    function: *const c_char,
    attr: *const crosslane_network_attr,
    network: *mut *mut crosslane_network,
) -> c_int {
    guard("crosslane_network_open", || {
        structs::check_place(network, "network")?;
        let session = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        let (attr, name) = unsafe {
            (structs::read_or_default(attr)?, structs::text(function, "name of the function")?)
        };
        let bus = session.bus_of(&name);
        let modes = modes(&attr, &bus, &name)?;
        let processor = session.run(NetworkProcessor::init(bus, &name, modes))?;
        let flights = RefCell::default();
        let opened = handle::insert(NetworkObject { session, processor, flights })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(network, "network", opened)? };
        Ok(0)
    })
}

/// Resets a network processor, and closes it. Messages in flight end. Its buffers must be destroyed
/// before.
///
/// @return 0; -EBUSY if a buffer of it is still there: it then stays open.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_close(network: *mut crosslane_network) -> c_int {
    guard("crosslane_network_close", || {
        let object = handle::take::<NetworkObject>(network)?;
        object.session.run(object.processor.release())?;
        Ok(0)
    })
}

/// Checks a number of at most 8 bits.
fn byte(number: u32, name: &str) -> Result<u8> {
    u8::try_from(number).map_err(|_| Failure::argument(format!("there is no {name} {number}")))
}

/// Enables a link, which then trains. Both ends must be enabled.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_enable_link(
    network: *const crosslane_network,
    link: u32,
) -> c_int {
    guard("crosslane_network_enable_link", || {
        let object = handle::get::<NetworkObject>(network)?;
        object.session.run(object.processor.enable_link(byte(link, "link")?))?;
        Ok(0)
    })
}

/// Waits until a link is up.
///
/// @param timeout_ns  Longest wait, in ns; 0 for one second.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_wait_link(
    network: *const crosslane_network,
    link: u32,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_network_wait_link", || {
        let object = handle::get::<NetworkObject>(network)?;
        let deadline = object.session.deadline(timeout_ns);
        object.session.run(object.processor.wait_link_up(byte(link, "link")?, deadline))?;
        Ok(0)
    })
}

/// Makes a buffer for messages. It is read, written and destroyed as any other.
///
/// @param bytes  Its size.
/// @param buffer  Gets the buffer.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `buffer` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_buffer_create(
    network: *const crosslane_network,
    bytes: u64,
    buffer: *mut *mut crosslane_buffer,
) -> c_int {
    guard("crosslane_network_buffer_create", || {
        structs::check_place(buffer, "buffer")?;
        let object = handle::get::<NetworkObject>(network)?;
        if bytes == 0 {
            return Err(Failure::argument("a buffer of 0 B is not possible"));
        }
        let session = Rc::clone(&object.session);
        let made = session.run(object.processor.buffer(bytes))?;
        let made = BufferObject::insert(&session, object, made, ptr::null_mut())?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(buffer, "buffer", made)? };
        Ok(0)
    })
}

/// Returns the key of a message.
fn key(message: &crosslane_message) -> Result<Key> {
    let tag = byte(message.tag, "tag")?;
    match message.flags {
        0 => {
            let channel = byte(message.channel, "channel")?;
            Ok(Key::Neighbour { link: byte(message.link, "link")?, channel, tag })
        }
        CROSSLANE_MESSAGE_ROUTED => {
            let node = u16::try_from(message.node);
            let no_node = |_| Failure::argument(format!("there is no node {}", message.node));
            Ok(Key::Routed { node: node.map_err(no_node)?, tag })
        }
        flags => Err(Failure::argument(format!("there are no such message flags {flags:#x}"))),
    }
}

/// Posts a message, or room for one.
///
/// # Safety
/// `message` is NULL or valid.
unsafe fn post(
    kind: u32,
    network: *const crosslane_network,
    message: *const crosslane_message,
) -> Result<c_int> {
    let object = handle::get::<NetworkObject>(network)?;
    // SAFETY: as the caller promises.
    let asked = unsafe { structs::read(message)? };
    let key = key(&asked)?;
    let buffer = handle::get::<BufferObject>(asked.buffer)?;
    let mut flights = object.flights.borrow_mut();
    let Entry::Vacant(place) = flights.entry((kind, key)) else {
        let sentence = format!("{key} is in flight, or was not waited for");
        return Err(Failure::new(ErrorKind::Busy, sentence));
    };
    let deadline = object.session.deadline(asked.timeout_ns);
    let part = asked.offset..asked.offset.saturating_add(asked.bytes);
    let message = Message { key, buffer: buffer.buffer.clone(), part, deadline };
    let posted = match kind {
        CROSSLANE_GET => object.session.run(object.processor.nget(message))?,
        _ => object.session.run(object.processor.credit(message))?,
    };
    let (wr_id, total_bytes) = (asked.wr_id, asked.bytes);
    place.insert(Flight { posted, wr_id, total_bytes, _buffer: buffer });
    Ok(0)
}

/// Sends a message, once there is a place for its request. Its part of the buffer belongs to the
/// card until its end was waited for.
///
/// @return 0, or a negative number of errno.h; -EBUSY if the key is in use.
///
/// # Safety
/// `message` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_get(
    network: *const crosslane_network,
    message: *const crosslane_message,
) -> c_int {
    // SAFETY: as the caller promises.
    guard("crosslane_network_get", || unsafe { post(CROSSLANE_GET, network, message) })
}

/// Makes room for a message. Its part of the buffer belongs to the card until its end was waited
/// for.
///
/// @return 0, or a negative number of errno.h; -EBUSY if the key is in use.
///
/// # Safety
/// `message` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_credit(
    network: *const crosslane_network,
    message: *const crosslane_message,
) -> c_int {
    // SAFETY: as the caller promises.
    guard("crosslane_network_credit", || unsafe { post(CROSSLANE_CREDIT, network, message) })
}

/// Waits until a message that was posted has ended, or takes its end if it has.
///
/// # Safety
/// `message` and `completion` are NULL or valid.
unsafe fn end(
    network: *const crosslane_network,
    kind: u32,
    message: *const crosslane_message,
    completion: *mut crosslane_completion,
    timeout_ns: Option<u64>,
) -> Result<c_int> {
    let object = handle::get::<NetworkObject>(network)?;
    // SAFETY: as the caller promises.
    let key = key(&unsafe { structs::read(message)? })?;
    let session = &object.session;
    let mut flights = object.flights.borrow_mut();
    let Entry::Occupied(place) = flights.entry((kind, key)) else {
        let what = if kind == CROSSLANE_GET { "get" } else { "credit" };
        let sentence = format!("no {what} of {key} is in flight");
        return Err(Failure::new(ErrorKind::NotFound, sentence));
    };
    let posted = &place.get().posted;
    let deadline = match timeout_ns {
        Some(timeout_ns) => session.deadline(timeout_ns),
        None => match object.processor.poll(posted) {
            Ok(None) => {
                drop(flights);
                session.spend_poll()?;
                return Ok(0);
            }
            // It has ended: the wait takes no time but that of a copy.
            Ok(Some(_)) | Err(_) => object.processor.bus().now(),
        },
    };
    let ended = session.run_plain(object.processor.wait(posted, deadline))?;
    let flight = place.remove();
    let made = completed(&flight, &ended);
    if !completion.is_null() {
        // SAFETY: as the caller promises.
        unsafe { structs::write(completion, made)? };
    }
    ended?;
    Ok(timeout_ns.is_none().into())
}

fn completed(flight: &Flight, ended: &Result<Ended, NetworkError>) -> crosslane_completion {
    let mut made = crosslane_completion {
        size: 0,
        wr_id: flight.wr_id,
        status: 0,
        kind: 0,
        level: 0,
        reserved: 0,
        bytes: 0,
        total_bytes: flight.total_bytes,
        posted_ps: 0,
        completed_ps: 0,
    };
    match ended {
        Ok(ended) => {
            made.level = CROSSLANE_LEVEL_VISIBLE;
            made.bytes = ended.bytes;
            (made.posted_ps, made.completed_ps) = (ended.posted.0, ended.ended.0);
        }
        Err(error) => {
            made.status = Failure::from(error.clone()).code();
            made.kind = error.kind() as u32;
            made.bytes = error.moved_bytes;
        }
    }
    made
}

/// Waits until all data of a message have left host memory, or have arrived in it. At the deadline
/// the message is taken back.
///
/// @param kind  CROSSLANE_GET or CROSSLANE_CREDIT.
/// @param message  Its key; the other members do not count.
/// @param timeout_ns  Longest wait, in ns; 0 for one second.
/// @param completion  Gets how it ended, also if it failed; its size is set. May be NULL.
/// @return 0, or a negative number of errno.h; -ENOENT if no such message is in flight.
///
/// # Safety
/// `message` and `completion` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_wait(
    network: *const crosslane_network,
    kind: u32,
    message: *const crosslane_message,
    timeout_ns: u64,
    completion: *mut crosslane_completion,
) -> c_int {
    guard("crosslane_network_wait", || {
        // SAFETY: as the caller promises.
        unsafe { end(network, kind, message, completion, Some(timeout_ns)) }
    })
}

/// Takes the end of a message if it has ended. In a lab a call that finds none takes simulated
/// time: poll_ns of the session.
///
/// @param kind  CROSSLANE_GET or CROSSLANE_CREDIT.
/// @param message  Its key; the other members do not count.
/// @param completion  Gets how it ended, also if it failed; its size is set. May be NULL.
/// @return 1 if it has ended, 0 if not, or a negative number of errno.h, that of a message that has
/// failed among them.
///
/// # Safety
/// `message` and `completion` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_network_poll(
    network: *const crosslane_network,
    kind: u32,
    message: *const crosslane_message,
    completion: *mut crosslane_completion,
) -> c_int {
    guard("crosslane_network_poll", || {
        // SAFETY: as the caller promises.
        unsafe { end(network, kind, message, completion, None) }
    })
}
