// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions: cards that are open, and the clock of their bus.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int};
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use crosslane::blocking::{Error, Session};
use crosslane::host::{Bus, ErrorKind, FunctionInfo, HostWork, Topology};
use crosslane::lab::EngineKind;
use crosslane::open::{AnyBus, SessionOptions};
use crosslane::pcie::units::Picoseconds;
use futures_util::future::{Either, select};

use crate::error::{Failure, Result, c_text, guard};
use crate::handle::{self, Handled};
use crate::structs::{self, sized};

/// Simulated time that a poll of a lab's card takes if it finds nothing: a load that misses the
/// caches, and a branch (assumption).
const DEFAULT_POLL_NS: u64 = 100;
/// Deadline of a transfer that names none, and of other waits.
const DEFAULT_TIMEOUT_NS: u64 = 1_000_000_000;
/// Longest time for which a wait keeps other threads from a session of real or served cards.
const SLICE: Duration = Duration::from_millis(1);

/// No deadline.
pub const CROSSLANE_FOREVER: u64 = 0xffff_ffff_ffff_ffff;
/// Engines of a lab are behavioural models.
pub const CROSSLANE_ENGINE_MODEL: u32 = 0;
/// Engines of a lab are the gateware, in a library that was built with it.
pub const CROSSLANE_ENGINE_RTL: u32 = 1;

/// Threads may share the session and everything in it. Their calls take turns.
pub const CROSSLANE_SESSION_SHARED: u32 = 1;

/// Cards that are open, with the lab if they are simulated. It belongs to the thread that opened
/// it, or to all if it was opened with CROSSLANE_SESSION_SHARED.
pub struct crosslane_session {
    _private: (),
}

/// How to open a session. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_session_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Random seed of a lab; 0 for 1.
    pub seed: u64,
    /// Simulated time, in ns, that crosslane_channel_poll takes if it finds nothing, so that a
    /// program which polls a lab gets on; 0 for 100.
    pub poll_ns: u64,
    /// The engines of a lab: CROSSLANE_ENGINE_MODEL or CROSSLANE_ENGINE_RTL.
    pub engine: u32,
    /// CROSSLANE_SESSION_* that hold, joined by |.
    pub flags: u32,
}

/// A card of a session. The texts live until the session is closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_card {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Name of the card: its endpoint in the lab, or the name by which it was opened.
    pub name: *const c_char,
    /// Name of its function in the tree: the endpoint in the lab, or the slot.
    pub endpoint: *const c_char,
    /// Bus, device and function number, as in a TLP: 8, 5 and 3 bits.
    pub function: u32,
    /// Must be ignored.
    pub reserved: u32,
}

sized!(crosslane_session_attr, crosslane_card);

/// Object behind a handle on a session.
pub(crate) struct SessionObject {
    pub session: Session,
    /// Simulated time of a poll that finds nothing.
    poll_time: Picoseconds,
    /// Whether threads share it.
    is_shared: bool,
    /// Name and endpoint of each card.
    names: Vec<(CString, CString)>,
    /// Cards that are open.
    pub devices: RefCell<BTreeSet<usize>>,
}

impl Handled for SessionObject {
    type Opaque = crosslane_session;
    const NAME: &'static str = "session";
}

impl SessionObject {
    pub fn bus(&self) -> &AnyBus {
        self.session.inner().bus()
    }

    /// Runs an asynchronous call to its end.
    #[inline]
    pub fn run<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T>
    where
        Failure: From<E>,
    {
        // Pinned where it is made: it is too large to be handed on by value.
        Ok(self.run_plain(pin!(call))??)
    }

    /// Runs a part of a wait that may be given up and begun again: to its outcome, or at most until
    /// a time. The part is short if other threads may want the session.
    #[inline]
    pub fn run_slice<T>(
        &self,
        until: Picoseconds,
        wait: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        let wait = pin!(wait);
        let is_sliced = self.is_shared && self.session.inner().simulation().is_none();
        let until = if is_sliced { until.min(self.bus().after(SLICE)) } else { until };
        if until == Picoseconds::NEVER {
            return self.run_plain(wait).map(Some);
        }
        self.run_plain(async {
            let sleep = pin!(self.bus().sleep_until(until));
            match select(wait, sleep).await {
                Either::Left((outcome, _)) => Some(outcome),
                Either::Right(_) => None,
            }
        })
    }

    /// Whether a wait has time for a next slice. Other threads have the session before.
    pub fn has_time(&self, until: Picoseconds) -> Result<bool> {
        handle::yield_to_others()?;
        Ok(self.bus().now() < until)
    }

    /// Runs a call that cannot fail by itself.
    #[inline]
    pub fn run_plain<T>(&self, call: impl Future<Output = T>) -> Result<T> {
        Ok(self.session.inner().block_on(call).map_err(Error::from)?)
    }

    /// Returns the deadline that is so long from now: 0 stands for the default.
    pub fn deadline(&self, timeout_ns: u64) -> Picoseconds {
        self.until(if timeout_ns == 0 { DEFAULT_TIMEOUT_NS } else { timeout_ns })
    }

    /// Returns the end of a wait of so long.
    pub fn until(&self, timeout_ns: u64) -> Picoseconds {
        match timeout_ns {
            CROSSLANE_FOREVER => Picoseconds::NEVER,
            timeout => self.bus().after(Duration::from_nanos(timeout)),
        }
    }

    /// Lets a lab's time pass by that of a poll that has found nothing.
    pub fn spend_poll(&self) -> Result<()> {
        if self.session.inner().simulation().is_none() {
            return Ok(());
        }
        self.run_plain(self.bus().work(HostWork::Time(self.poll_time)))
    }

    /// Finds a function of the cards' host by its name in the tree.
    pub fn function(&self, name: &str) -> Result<FunctionInfo> {
        let mut functions = self.bus().functions()?;
        let is_it =
            |function: &FunctionInfo| function.name == name || function.id.to_string() == name;
        if let Some(found) = functions.iter().position(is_it) {
            return Ok(functions.swap_remove(found));
        }
        let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        let sentence = format!("there is no function {name:?}: there are {}", names.join(", "));
        Err(Failure::new(ErrorKind::NotFound, sentence))
    }
}

/// Opens the cards that names stand for.
///
/// # Safety
/// See the two functions that call it.
unsafe fn open(
    names: &[*const c_char],
    attr: *const crosslane_session_attr,
    session: *mut *mut crosslane_session,
) -> Result<c_int> {
    structs::check_place(session, "session")?;
    // SAFETY: as the caller promises.
    let attr = unsafe { structs::read_or_default(attr)? };
    let mut cards = Vec::new();
    for &name in names {
        // SAFETY: as the caller promises.
        cards.push(unsafe { structs::text(name, "name of a card")? }.parse()?);
    }
    let engines = match attr.engine {
        CROSSLANE_ENGINE_MODEL => EngineKind::Model,
        CROSSLANE_ENGINE_RTL => EngineKind::Rtl,
        engine => return Err(Failure::argument(format!("there is no kind of engines {engine}"))),
    };
    if attr.flags & !CROSSLANE_SESSION_SHARED != 0 {
        let sentence = format!("there are no such session flags {:#x}", attr.flags);
        return Err(Failure::argument(sentence));
    }
    let seed = if attr.seed == 0 { 1 } else { attr.seed };
    let options =
        SessionOptions::default().with_engines(engines).with_seed(seed).with_any_endpoint(true);
    let opened = crosslane::open::Session::open_all(&cards, options)?;
    let names = opened.cards().iter().map(|card| (c_text(&card.name), c_text(&card.endpoint)));
    let poll_ns = if attr.poll_ns == 0 { DEFAULT_POLL_NS } else { attr.poll_ns };
    let is_shared = attr.flags & CROSSLANE_SESSION_SHARED != 0;
    let object = SessionObject {
        poll_time: Picoseconds::from(Duration::from_nanos(poll_ns)),
        is_shared,
        names: names.collect(),
        devices: RefCell::default(),
        session: Session::new(opened),
    };
    let opened = match is_shared {
        true => handle::insert_shared(object)?,
        false => handle::insert(object)?,
    };
    // SAFETY: checked above not to be NULL.
    unsafe { structs::put(session, "session", opened)? };
    Ok(0)
}

/// Opens the cards of one name: `lab:LAB/ENDPOINT`, `lab:LAB` for every engine of the lab's first
/// host that has one, `vfio:ADDRESS` or `vfio-user:SOCKET`. All handles of the session belong to
/// the calling thread, unless it is opened with CROSSLANE_SESSION_SHARED.
///
/// @param name  The name; see `crosslane device list`.
/// @param attr  How to open it; NULL for the defaults.
/// @param session  Gets the session.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `name` is NULL or ends with a NUL; `attr` and `session` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_open(
    name: *const c_char,
    attr: *const crosslane_session_attr,
    session: *mut *mut crosslane_session,
) -> c_int {
    // SAFETY: as the caller promises.
    guard("crosslane_session_open", || unsafe { open(&[name], attr, session) })
}

/// Opens several cards that share a host: all of one lab, all of this machine, or all of servers.
///
/// @param names  `count` names.
/// @param attr  How to open them; NULL for the defaults.
/// @param session  Gets the session.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `names` is NULL or has `count` names, each NULL or ending with a NUL; `attr` and `session` are
/// NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_open_all(
    names: *const *const c_char,
    count: usize,
    attr: *const crosslane_session_attr,
    session: *mut *mut crosslane_session,
) -> c_int {
    guard("crosslane_session_open_all", || {
        if names.is_null() || count == 0 {
            return Err(Failure::argument("no names of cards are given"));
        }
        if count > MOST_NAMES {
            let sentence = format!("{count} names of cards are given, of {MOST_NAMES} at most");
            return Err(Failure::argument(sentence));
        }
        // SAFETY: as the caller promises.
        unsafe { open(std::slice::from_raw_parts(names, count), attr, session) }
    })
}

/// Most cards of one session: more than a host has slots for.
const MOST_NAMES: usize = 4096;

/// Closes a session. Its devices and windows must be closed before.
///
/// @return 0; -EBUSY if something of it is still open: it then stays open.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_close(session: *mut crosslane_session) -> c_int {
    guard("crosslane_session_close", || handle::take::<SessionObject>(session).map(|_| 0))
}

/// Counts the cards of a session.
///
/// @param count  Gets the number, at least 1.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `count` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_card_count(
    session: *const crosslane_session,
    count: *mut usize,
) -> c_int {
    guard("crosslane_session_card_count", || {
        let object = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        unsafe { structs::put(count, "count", object.names.len())? };
        Ok(0)
    })
}

/// Describes a card of a session.
///
/// @param index  Number of the card, from 0 on, in the order in which they were named.
/// @param card  Gets the description; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `card` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_card(
    session: *const crosslane_session,
    index: usize,
    card: *mut crosslane_card,
) -> c_int {
    guard("crosslane_session_card", || {
        let object = handle::get::<SessionObject>(session)?;
        object.check_card(index)?;
        let (name, endpoint) = &object.names[index];
        let function = u32::from(object.session.inner().cards()[index].function.0);
        let (name, endpoint) = (name.as_ptr(), endpoint.as_ptr());
        // SAFETY: as the caller promises.
        unsafe {
            structs::write(
                card,
                crosslane_card { size: 0, name, endpoint, function, reserved: 0 },
            )?;
        }
        Ok(0)
    })
}

impl SessionObject {
    /// Checks the number of a card.
    pub fn check_card(&self, index: usize) -> Result<()> {
        let count = self.names.len();
        if index < count {
            return Ok(());
        }
        let sentence = format!("there is no card {index}: the session has {count}, from 0 on");
        Err(Failure::new(ErrorKind::NotFound, sentence))
    }
}

/// Reads the clock of a session's bus: simulated time in a lab, else the machine's time.
///
/// @param now_ps  Gets the time, in ps.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `now_ps` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_now(
    session: *const crosslane_session,
    now_ps: *mut u64,
) -> c_int {
    guard("crosslane_session_now", || {
        let object = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        unsafe { structs::put(now_ps, "time", object.bus().now().0)? };
        Ok(0)
    })
}

/// Waits, by the clock of the session's bus.
///
/// @param time_ns  How long, in ns.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_sleep(
    session: *const crosslane_session,
    time_ns: u64,
) -> c_int {
    guard("crosslane_session_sleep", || {
        let object = handle::get::<SessionObject>(session)?;
        let until = object.bus().after(Duration::from_nanos(time_ns));
        while object.run_slice(until, pending::<()>())?.is_none() && object.has_time(until)? {}
        Ok(0)
    })
}

/// Tells whether the cards are a lab's, whose time is simulated.
///
/// @return 1 if they are, 0 if they are not, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_is_simulated(
    session: *const crosslane_session,
) -> c_int {
    guard("crosslane_session_is_simulated", || {
        let object = handle::get::<SessionObject>(session)?;
        Ok(object.session.inner().simulation().is_some().into())
    })
}

/// In a lab, runs what the program has left, such as TLPs, to its end.
///
/// @return 0; an error if a port has detected an error in the session, or work can never end.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_finish(session: *const crosslane_session) -> c_int {
    guard("crosslane_session_finish", || {
        let object = handle::get::<SessionObject>(session)?;
        let finished = object.session.inner().finish();
        finished.map_err(|error| Failure::new(error.kind(), error.to_string()))?;
        Ok(0)
    })
}

/// Resets a card: through the kernel or its server, or in a lab by taking its link down and up
/// again. Transfers in flight are lost, and the card has to be opened anew.
///
/// @param index  Number of the card, from 0 on.
/// @return 0; -EBUSY if the card is open as a device: close it before; or another negative number
/// of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_session_reset(
    session: *const crosslane_session,
    index: usize,
) -> c_int {
    guard("crosslane_session_reset", || {
        let object = handle::get::<SessionObject>(session)?;
        object.check_card(index)?;
        let card = &object.session.inner().cards()[index];
        if object.devices.borrow().contains(&index) {
            let sentence =
                format!("cannot reset {}: it is open as a device; close that before", card.name);
            return Err(Failure::new(ErrorKind::Busy, sentence));
        }
        object.run(object.session.inner().reset(card.function))?;
        Ok(0)
    })
}
