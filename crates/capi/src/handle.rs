// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles: what C holds as a pointer is a number that leads to an entry of a table, and is never
//! followed. So a handle that is stale, of another kind, of another thread or of the process before
//! a fork is found out, not obeyed.
//!
//! Each thread has a table, and so has each session that threads share. A shared table has a lock,
//! which a call takes with its first handle and holds to its end. Objects are of one table only, so
//! those of a shared one, which are not `Send` by themselves, are reached by one thread at a time.
//!
//! A number has three parts: the table's tag, the entry's generation, the entry's index. Tags begin
//! above every address that Linux gives to a program, so no pointer is taken for a handle.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once};
use std::thread;

use crosslane::host::{ErrorKind, lock};

use crate::error::{Failure, Result};

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 24;
const TAG_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;
/// Addresses of a program have at most 57 bits (five levels of pages): a tag from here on is in
/// none.
const FIRST_TAG: u64 = 1 << (57 - TAG_SHIFT);
const TAGS: u64 = 1 << (64 - TAG_SHIFT);
/// Bit of a shared table's tag.
const SHARED_BIT: u64 = 1;
const MOST_ENTRIES: usize = 1 << INDEX_BITS;
const MOST_GENERATIONS: u64 = 1 << GENERATION_BITS;
/// Turns of the scheduler, of about 1 us each if nothing else runs, after which a thread that was
/// to have a lock first has lost its place.
const MOST_YIELDS: u32 = 1000;

/// The next table's tag, without `SHARED_BIT`.
static NEXT_TAG: AtomicU64 = AtomicU64::new(FIRST_TAG);
/// The first tag of this process: those before are of the processes that forked it.
static FIRST_OWN_TAG: AtomicU64 = AtomicU64::new(FIRST_TAG);
/// The shared tables; NULL until there is one, and again in a forked child, which may have
/// inherited a lock that is held.
static SHARED: AtomicPtr<Registry> = AtomicPtr::new(ptr::null_mut());

/// Leaves what a forked child has inherited alone.
extern "C" fn note_fork() {
    FIRST_OWN_TAG.store(NEXT_TAG.load(Ordering::Relaxed), Ordering::Relaxed);
    SHARED.store(ptr::null_mut(), Ordering::Relaxed);
}

/// Whether a tag is of a table that a forked process has inherited.
fn is_inherited(tag: u64) -> bool {
    (FIRST_TAG..FIRST_OWN_TAG.load(Ordering::Relaxed)).contains(&tag)
}

/// Whether a tag is, or was, that of a shared table of this process.
fn is_shared(tag: u64) -> bool {
    let known = FIRST_OWN_TAG.load(Ordering::Relaxed)..NEXT_TAG.load(Ordering::Relaxed);
    tag & SHARED_BIT != 0 && known.contains(&tag)
}

/// Takes the next tag. From the first on, forks are noticed.
fn next_tag() -> Result<u64> {
    static NOTICE: Once = Once::new();
    NOTICE.call_once(|| {
        // SAFETY: the function only stores atomic numbers, as a child of a fork may.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
        assert!(refused == 0, "no memory for a fork handler");
    });
    let tag = NEXT_TAG.fetch_add(2, Ordering::Relaxed);
    if tag < TAGS {
        return Ok(tag);
    }
    NEXT_TAG.store(TAGS, Ordering::Relaxed);
    Err(Failure::new(ErrorKind::Busy, "too many threads have used the library"))
}

/// An object that C has a handle on.
pub(crate) trait Handled: 'static {
    /// Type that C's pointer points to; it has no values.
    type Opaque;
    /// Name for messages, such as `session`.
    const NAME: &'static str;
}

struct Entry {
    generation: u64,
    object: Option<(Rc<dyn Any>, &'static str)>,
}

/// The objects of one thread, or of one session that threads share.
struct Table {
    /// 0 until it has its first object.
    tag: u64,
    entries: Vec<Entry>,
    free: Vec<usize>,
}

impl Table {
    const fn new() -> Self {
        Self { tag: 0, entries: Vec::new(), free: Vec::new() }
    }

    /// After a fork, leaves what belongs to the parent alone, and starts anew.
    fn notice_fork(&mut self) {
        if is_inherited(self.tag) {
            // Devices and their memory are the parent's: nothing may be given back here.
            mem::forget(mem::replace(self, Self::new()));
        }
    }

    fn find<T: Handled>(&self, handle: *const T::Opaque) -> Result<usize> {
        let number = handle.addr() as u64;
        if number >> TAG_SHIFT != self.tag || self.tag == 0 {
            return Err(foreign::<T>(number));
        }
        let name = T::NAME;
        let index = (number & ((1 << INDEX_BITS) - 1)) as usize;
        let generation = number >> INDEX_BITS & (MOST_GENERATIONS - 1);
        let entry = self.entries.get(index).filter(|entry| entry.generation == generation);
        let Some((object, kind)) = entry.and_then(|entry| entry.object.as_ref()) else {
            return Err(refused(number, libc::EBADF, &format!("this {name} was closed before")));
        };
        if !object.is::<T>() {
            return Err(refused(number, libc::EBADF, &format!("this is a {kind}, not a {name}")));
        }
        Ok(index)
    }

    fn get<T: Handled>(&self, handle: *const T::Opaque) -> Result<Rc<T>> {
        let index = self.find::<T>(handle)?;
        let object = self.entries[index].object.as_ref().map(|(object, _)| Rc::clone(object));
        let object = object.and_then(|object| object.downcast::<T>().ok());
        object.ok_or_else(|| Failure::argument(format!("this is not a {}", T::NAME)))
    }

    fn insert<T: Handled>(&mut self, object: T) -> Result<*mut T::Opaque> {
        if self.tag == 0 {
            self.tag = next_tag()?;
        }
        let object = Some((Rc::new(object) as Rc<dyn Any>, T::NAME));
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index].object = object;
                index
            }
            None if self.entries.len() == MOST_ENTRIES => {
                let sentence = format!("{MOST_ENTRIES} handles are open in this thread");
                return Err(Failure::new(ErrorKind::Busy, sentence));
            }
            None => {
                self.entries.push(Entry { generation: 0, object });
                self.entries.len() - 1
            }
        };
        let generation = self.entries[index].generation;
        let number = self.tag << TAG_SHIFT | generation << INDEX_BITS | index as u64;
        Ok(ptr::without_provenance_mut(number as usize))
    }

    /// Takes an object that nothing else holds out of the table.
    fn take<T: Handled>(&mut self, handle: *const T::Opaque) -> Result<Rc<dyn Any>> {
        let index = self.find::<T>(handle)?;
        let entry = &mut self.entries[index];
        if entry.object.as_ref().is_some_and(|(object, _)| Rc::strong_count(object) > 1) {
            let name = T::NAME;
            let sentence = format!(
                "cannot close the {name}: something that stands on it is open, or in flight and \
                 not polled"
            );
            return Err(Failure::new(ErrorKind::Busy, sentence));
        }
        entry.generation += 1;
        // An entry whose generations are used up is left empty for good.
        if entry.generation < MOST_GENERATIONS {
            self.free.push(index);
        }
        let object = entry.object.take().map(|(object, _)| object);
        object.ok_or_else(|| Failure::argument(format!("this is not a {}", T::NAME)))
    }

    /// Whether no object is open.
    fn is_empty(&self) -> bool {
        self.entries.iter().all(|entry| entry.object.is_none())
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if is_inherited(self.tag) {
            mem::forget(mem::take(&mut self.entries));
            return;
        }
        // Youngest first, so that channels go before their devices and these before the session.
        while self.entries.pop().is_some() {}
    }
}

fn refused(number: u64, errno: c_int, why: &str) -> Failure {
    Failure::argument(format!("{number:#x}: {why}")).with_errno(errno)
}

/// Returns the failure of a handle that is not of the table where it is looked for.
fn foreign<T: Handled>(number: u64) -> Failure {
    let (name, tag) = (T::NAME, number >> TAG_SHIFT);
    if number == 0 {
        return Failure::argument(format!("the {name} is NULL"));
    }
    if is_inherited(tag) {
        let why = format!("this {name} belongs to the process before a fork: open one here");
        return refused(number, libc::EPERM, &why);
    }
    let is_known = (FIRST_TAG..NEXT_TAG.load(Ordering::Relaxed)).contains(&tag);
    match (is_known, tag & SHARED_BIT != 0) {
        (false, _) => refused(number, libc::EBADF, &format!("this is not the handle of a {name}")),
        (true, false) => {
            refused(number, libc::EPERM, &format!("this {name} belongs to another thread"))
        }
        (true, true) => refused(number, libc::EBADF, &format!("this {name} was closed before")),
    }
}

/// A table that threads share. It lives as long as the program, and is used again.
struct Shared {
    table: Mutex<Table>,
    /// Calls that wait for the lock.
    waiting: AtomicUsize,
}

// SAFETY: all that the objects of the table refer to is theirs alone, and is used only by a call
// that holds the lock: `get`, `insert` and `take` refuse to mix tables within a call. No part of a
// session depends on the thread that uses it: nothing in it is `thread_local`, and a lab's tasks
// are run by whichever call waits.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn lock(&'static self) -> MutexGuard<'static, Table> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let table = lock(&self.table);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        table
    }

    /// Lets a call that waits for the lock have it first; the lock itself would favour this thread,
    /// which is awake.
    fn let_others(&'static self, table: MutexGuard<'static, Table>) -> MutexGuard<'static, Table> {
        let before = self.waiting.load(Ordering::Relaxed);
        if before == 0 {
            return table;
        }
        drop(table);
        for _ in 0..MOST_YIELDS {
            if self.waiting.load(Ordering::Relaxed) < before {
                break;
            }
            thread::yield_now();
        }
        self.lock()
    }
}

#[derive(Default)]
struct Registry {
    by_tag: Mutex<BTreeMap<u64, &'static Shared>>,
    /// Tables of sessions that were closed.
    free: Mutex<Vec<&'static Shared>>,
}

/// Returns the shared tables of this process.
fn registry() -> &'static Registry {
    let found = SHARED.load(Ordering::Acquire);
    if !found.is_null() {
        // SAFETY: it was made below, and is never freed.
        return unsafe { &*found };
    }
    let made = Box::into_raw(Box::<Registry>::default());
    match SHARED.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it is never freed from here on.
        Ok(_) => unsafe { &*made },
        Err(found) => {
            // SAFETY: it was made above, and no one else has seen it.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: another thread has made it as above.
            unsafe { &*found }
        }
    }
}

/// The table that the call of a thread uses.
enum Used {
    /// No handle was looked up yet.
    None,
    /// That of the thread.
    Own,
    /// A shared one, locked until the call ends.
    Shared(&'static Shared, MutexGuard<'static, Table>),
}

/// The objects of a thread, and what its call uses.
struct Thread {
    used: Used,
    table: Table,
}

impl Thread {
    /// Returns the table of a handle, locked if it is shared.
    fn table<T: Handled>(&mut self, handle: *const T::Opaque) -> Result<&mut Table> {
        let number = handle.addr() as u64;
        let tag = number >> TAG_SHIFT;
        if is_shared(tag) {
            if matches!(self.used, Used::None) {
                let found = lock(&registry().by_tag).get(&tag).copied();
                let shared = found.ok_or_else(|| foreign::<T>(number))?;
                self.used = Used::Shared(shared, shared.lock());
            }
            let Used::Shared(_, table) = &mut self.used else { return Err(mixed::<T>(number)) };
            return match table.tag {
                own if own == tag => Ok(table),
                // It was closed while this call waited for the lock.
                0 => Err(foreign::<T>(number)),
                _ => Err(mixed::<T>(number)),
            };
        }
        if matches!(self.used, Used::Shared(..)) {
            let is_own = self.table.tag != 0 && self.table.tag == tag;
            return Err(if is_own { mixed::<T>(number) } else { foreign::<T>(number) });
        }
        self.table.notice_fork();
        self.used = Used::Own;
        Ok(&mut self.table)
    }
}

fn mixed<T: Handled>(number: u64) -> Failure {
    let why = format!("this {} is of another session than the call's first handle", T::NAME);
    refused(number, libc::EINVAL, &why)
}

thread_local! {
    static THREAD: RefCell<Thread> =
        const { RefCell::new(Thread { used: Used::None, table: Table::new() }) };
}

/// Gives a call what its thread has.
fn with_thread<R>(look: impl FnOnce(&mut Thread) -> Result<R>) -> Result<R> {
    let ended = |_| {
        let failure = Failure::argument("the thread ends: its handles are closed already");
        failure.with_errno(libc::EPERM)
    };
    THREAD.try_with(|thread| look(&mut thread.borrow_mut())).map_err(ended)?
}

/// Ends a call: a shared table that it has used is free for other threads.
pub(crate) fn end_call() {
    // A thread at its end has used nothing.
    let _ = THREAD.try_with(|thread| thread.borrow_mut().used = Used::None);
}

/// Lets other threads use a shared table for a moment, in the middle of a call. The call has to
/// hold an object of the table, so that its session is not closed meanwhile.
pub(crate) fn yield_to_others() -> Result<()> {
    with_thread(|thread| {
        thread.used = match mem::replace(&mut thread.used, Used::None) {
            Used::Shared(shared, table) => Used::Shared(shared, shared.let_others(table)),
            own => own,
        };
        Ok(())
    })
}

/// Gives C a handle on an object, in the table that the call has used so far.
pub(crate) fn insert<T: Handled>(object: T) -> Result<*mut T::Opaque> {
    with_thread(|thread| match &mut thread.used {
        Used::Shared(_, table) => table.insert(object),
        used => {
            *used = Used::Own;
            thread.table.notice_fork();
            thread.table.insert(object)
        }
    })
}

/// Gives C a handle on an object that begins a table of its own, which threads share.
pub(crate) fn insert_shared<T: Handled>(object: T) -> Result<*mut T::Opaque> {
    let registry = registry();
    let spare = lock(&registry.free).pop();
    let shared = spare.unwrap_or_else(|| {
        let table = Mutex::new(Table::new());
        Box::leak(Box::new(Shared { table, waiting: AtomicUsize::new(0) }))
    });
    let mut table = shared.lock();
    table.tag = next_tag()? | SHARED_BIT;
    let handle = table.insert(object)?;
    lock(&registry.by_tag).insert(table.tag, shared);
    Ok(handle)
}

/// Returns the object of a handle.
pub(crate) fn get<T: Handled>(handle: *const T::Opaque) -> Result<Rc<T>> {
    with_thread(|thread| thread.table::<T>(handle)?.get::<T>(handle))
}

/// Ends a handle and returns its object.
///
/// # Errors
/// A wrong handle; or objects of it are still open, or used by transfers: it then stays valid.
pub(crate) fn take<T: Handled>(handle: *const T::Opaque) -> Result<T> {
    let object = with_thread(|thread| {
        let table = thread.table::<T>(handle)?;
        let object = table.take::<T>(handle)?;
        if table.tag & SHARED_BIT != 0 && table.is_empty() {
            // The session itself is closed: the table serves the next one.
            let shared = lock(&registry().by_tag).remove(&table.tag);
            *table = Table::new();
            lock(&registry().free).extend(shared);
        }
        Ok(object)
    })?;
    let object = object.downcast::<T>().ok().and_then(Rc::into_inner);
    object.ok_or_else(|| Failure::argument(format!("this is not a {}", T::NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Opaque;
    struct One(u32);
    struct Other;

    impl Handled for One {
        type Opaque = Opaque;
        const NAME: &'static str = "one";
    }
    impl Handled for Other {
        type Opaque = Opaque;
        const NAME: &'static str = "other";
    }

    fn code<T: Handled>(handle: *const T::Opaque) -> i32 {
        get::<T>(handle).err().map_or(0, |failure| failure.code())
    }

    #[test]
    fn shared_handles_are_good_in_every_thread() {
        let handle = insert_shared(One(7)).unwrap();
        assert_eq!(get::<One>(handle).unwrap().0, 7);
        let own = insert(One(8));
        end_call();
        let (number, own) = (handle.addr(), own.unwrap());
        // The object that the call above has made is in the same table.
        let elsewhere = move |number| {
            let handle: *mut Opaque = std::ptr::without_provenance_mut(number);
            let found = get::<One>(handle).map(|one| one.0).map_err(|failure| failure.code());
            end_call();
            found
        };
        let addresses = [number, own.addr()];
        let found = std::thread::spawn(move || addresses.map(elsewhere)).join().unwrap();
        assert_eq!(found, [Ok(7), Ok(8)]);
        // A call has handles of one table.
        let thread_own = insert(Other).unwrap();
        assert_eq!(code::<One>(handle), -libc::EINVAL);
        end_call();
        assert_eq!(get::<One>(handle).unwrap().0, 7);
        assert_eq!(code::<Other>(thread_own), -libc::EINVAL);
        end_call();
        assert_eq!(take::<Other>(thread_own).map(|_| ()).map_err(|it| it.code()), Ok(()));
        end_call();
        assert_eq!(take::<One>(own).unwrap().0, 8);
        assert_eq!(take::<One>(handle).unwrap().0, 7);
        end_call();
        // The table is used again, under another tag.
        let next = insert_shared(One(9)).unwrap();
        assert_eq!(code::<One>(handle), -libc::EBADF);
        assert_eq!(get::<One>(next).unwrap().0, 9);
        end_call();
    }

    #[test]
    fn waiting_thread_has_the_lock_first() {
        let handle = insert_shared(One(0)).unwrap();
        let _held = get::<One>(handle).unwrap();
        let number = handle.addr();
        let other = std::thread::spawn(move || {
            let found = code::<One>(std::ptr::without_provenance(number));
            end_call();
            found
        });
        while !other.is_finished() {
            yield_to_others().unwrap();
        }
        assert_eq!(other.join().unwrap(), 0);
        end_call();
    }

    #[test]
    fn wrong_handles_are_told_apart() {
        let handle = insert(One(7)).unwrap();
        assert_eq!(get::<One>(handle).unwrap().0, 7);
        assert_eq!(code::<Other>(handle), -libc::EBADF);
        assert_eq!(code::<One>(std::ptr::null()), -libc::EINVAL);
        let local = 0_u64;
        assert_eq!(code::<One>((&raw const local).cast()), -libc::EBADF);
        let number = handle.addr();
        let elsewhere =
            std::thread::spawn(move || code::<One>(std::ptr::without_provenance(number)));
        assert_eq!(elsewhere.join().unwrap(), -libc::EPERM);
        // Something holds it.
        let held = get::<One>(handle).unwrap();
        assert_eq!(take::<One>(handle).err().unwrap().code(), -libc::EBUSY);
        drop(held);
        assert_eq!(take::<One>(handle).ok().unwrap().0, 7);
        // The entry is used again, under another number.
        let next = insert(One(8)).unwrap();
        assert_eq!(code::<One>(handle), -libc::EBADF);
        assert_eq!(get::<One>(next).unwrap().0, 8);
    }
}
