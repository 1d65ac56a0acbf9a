// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles: what C holds as a pointer is a number that leads to an entry of the thread's table, and
//! is never followed. So a handle that is stale, of another kind, of another thread or of the
//! process before a fork is found out, not obeyed.
//!
//! A number has three parts: the table's tag, the entry's generation, the entry's index. Tags begin
//! above every address that Linux gives to a program, so no pointer is taken for a handle.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;
use std::mem;
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane::host::ErrorKind;

use crate::error::{Failure, Result};

const INDEX_BITS: u32 = 20;
const GENERATION_BITS: u32 = 24;
const TAG_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;
/// Addresses of a program have at most 57 bits (five levels of pages): a tag from here on is in
/// none.
const FIRST_TAG: u64 = 1 << (57 - TAG_SHIFT);
const TAGS: u64 = 1 << (64 - TAG_SHIFT);
const MOST_ENTRIES: usize = 1 << INDEX_BITS;
const MOST_GENERATIONS: u64 = 1 << GENERATION_BITS;

/// The next table's tag.
static NEXT_TAG: AtomicU64 = AtomicU64::new(FIRST_TAG);
/// Forks between the process that loaded the library and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns the forks so far; from the first call on the kernel's are counted.
fn forks() -> u64 {
    static COUNT: Once = Once::new();
    COUNT.call_once(|| {
        // SAFETY: the function only adds to an atomic number, as a child of a fork may.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        assert!(refused == 0, "no memory for a fork handler");
    });
    FORKS.load(Ordering::Relaxed)
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

/// The objects of one thread.
struct Table {
    tag: u64,
    /// Forks when it was made.
    forks: u64,
    entries: Vec<Entry>,
    free: Vec<usize>,
    /// Tags of this thread's tables in the processes before.
    inherited: Vec<u64>,
}

impl Table {
    fn new(inherited: Vec<u64>) -> Self {
        Self { tag: 0, forks: forks(), entries: Vec::new(), free: Vec::new(), inherited }
    }

    /// After a fork, leaves what belongs to the parent alone, and starts anew.
    fn notice_fork(&mut self) {
        if self.forks == forks() {
            return;
        }
        let mut inherited = mem::take(&mut self.inherited);
        inherited.push(self.tag);
        // Devices and their memory are the parent's: nothing may be given back here.
        mem::forget(mem::replace(self, Self::new(inherited)));
    }

    fn find<T: Handled>(&self, handle: *const T::Opaque) -> Result<usize> {
        let name = T::NAME;
        if handle.is_null() {
            return Err(Failure::argument(format!("the {name} is NULL")));
        }
        let number = handle.addr() as u64;
        let tag = number >> TAG_SHIFT;
        let refused = |errno: c_int, why: &str| {
            Err(Failure::argument(format!("{number:#x}: {why}")).with_errno(errno))
        };
        if self.inherited.contains(&tag) {
            let why = format!("this {name} belongs to the process before a fork: open one here");
            return refused(libc::EPERM, &why);
        }
        if tag != self.tag || self.tag == 0 {
            let is_known = (FIRST_TAG..NEXT_TAG.load(Ordering::Relaxed)).contains(&tag);
            return match is_known {
                true => refused(libc::EPERM, &format!("this {name} belongs to another thread")),
                false => refused(libc::EBADF, &format!("this is not the handle of a {name}")),
            };
        }
        let index = (number & ((1 << INDEX_BITS) - 1)) as usize;
        let generation = number >> INDEX_BITS & (MOST_GENERATIONS - 1);
        let entry = self.entries.get(index).filter(|entry| entry.generation == generation);
        let Some((object, kind)) = entry.and_then(|entry| entry.object.as_ref()) else {
            return refused(libc::EBADF, &format!("this {name} was closed before"));
        };
        if !object.is::<T>() {
            return refused(libc::EBADF, &format!("this is a {kind}, not a {name}"));
        }
        Ok(index)
    }

    fn insert<T: Handled>(&mut self, object: T) -> Result<*mut T::Opaque> {
        if self.tag == 0 {
            self.tag = NEXT_TAG.fetch_add(1, Ordering::Relaxed);
            if self.tag >= TAGS {
                NEXT_TAG.store(TAGS, Ordering::Relaxed);
                self.tag = 0;
                let sentence = "too many threads have used the library";
                return Err(Failure::new(ErrorKind::Busy, sentence));
            }
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
        Ok(std::ptr::without_provenance_mut(number as usize))
    }

    /// Takes an object that nothing else holds out of the table.
    fn remove<T: Handled>(&mut self, index: usize) -> Option<Rc<dyn Any>> {
        let entry = &mut self.entries[index];
        entry.generation += 1;
        // An entry whose generations are used up is left empty for good.
        if entry.generation < MOST_GENERATIONS {
            self.free.push(index);
        }
        entry.object.take().map(|(object, _)| object)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.forks != forks() {
            mem::forget(mem::take(&mut self.entries));
            return;
        }
        // Youngest first, so that channels go before their devices and these before the session.
        while self.entries.pop().is_some() {}
    }
}

thread_local! {
    static TABLE: RefCell<Option<Table>> = const { RefCell::new(None) };
}

/// Gives a call the table of its thread.
fn with_table<R>(look: impl FnOnce(&mut Table) -> Result<R>) -> Result<R> {
    let ended = || {
        let failure = Failure::argument("the thread ends: its handles are closed already");
        failure.with_errno(libc::EPERM)
    };
    let outcome = TABLE.try_with(|table| {
        let mut table = table.borrow_mut();
        let table = table.get_or_insert_with(|| Table::new(Vec::new()));
        table.notice_fork();
        look(table)
    });
    outcome.map_err(|_| ended())?
}

/// Gives C a handle on an object.
pub(crate) fn insert<T: Handled>(object: T) -> Result<*mut T::Opaque> {
    with_table(|table| table.insert(object))
}

/// Returns the object of a handle.
pub(crate) fn get<T: Handled>(handle: *const T::Opaque) -> Result<Rc<T>> {
    with_table(|table| {
        let index = table.find::<T>(handle)?;
        let object = table.entries[index].object.as_ref().map(|(object, _)| Rc::clone(object));
        let object = object.and_then(|object| object.downcast::<T>().ok());
        object.ok_or_else(|| Failure::argument(format!("this is not a {}", T::NAME)))
    })
}

/// Ends a handle and returns its object.
///
/// # Errors
/// A wrong handle; or objects of it are still open, or used by transfers: it then stays valid.
pub(crate) fn take<T: Handled>(handle: *const T::Opaque) -> Result<T> {
    let object = with_table(|table| {
        let index = table.find::<T>(handle)?;
        let holders =
            table.entries[index].object.as_ref().map_or(1, |(it, _)| Rc::strong_count(it));
        if holders > 1 {
            let name = T::NAME;
            let sentence = format!(
                "cannot close the {name}: something that stands on it is open, or in flight and \
                 not polled"
            );
            return Err(Failure::new(ErrorKind::Busy, sentence));
        }
        Ok(table.remove::<T>(index))
    })?;
    let object = object.and_then(|object| object.downcast::<T>().ok()).and_then(Rc::into_inner);
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
