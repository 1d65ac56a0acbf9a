// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits of a program for memory that a device writes, with the core at rest: `umonitor` and
//! `umwait` of x86 processors with WAITPKG (Intel SDM volume 2; CPUID leaf 7, ECX bit 5).
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use crosslane_host::kinds;
use thiserror::Error;

/// The error of a processor that does not have the instructions.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the processor has no umonitor and umwait (CPUID: WAITPKG)")]
pub struct NoUserMonitor;

kinds!(NoUserMonitor {
    Self => Unsupported,
});

/// Proof that the processor has the instructions.
#[derive(Clone, Copy, Debug)]
pub struct UserMonitor(());

impl UserMonitor {
    /// Asks the processor for the instructions.
    ///
    /// # Errors
    /// [`NoUserMonitor`] if it does not have them.
    pub fn find() -> Result<Self, NoUserMonitor> {
        if has_waitpkg() { Ok(Self(())) } else { Err(NoUserMonitor) }
    }

    /// The processor's time-stamp counter, the clock of [`wait`](Self::wait)'s deadline.
    pub fn ticks(self) -> u64 {
        ticks()
    }

    /// Rests until the word differs from `seen` or the time-stamp counter has reached
    /// `until_ticks`, and returns the word: `seen` if the time has run out. Continues to rest after
    /// interrupts and after the kernel's limit of a rest.
    pub fn wait(self, word: &AtomicU32, seen: u32, until_ticks: u64) -> u32 {
        loop {
            // Read after the watch begins: a write between the two ends the rest immediately.
            watch(word);
            let now = word.load(Ordering::Acquire);
            if now != seen || ticks() >= until_ticks {
                return now;
            }
            rest(until_ticks);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_waitpkg() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const FEATURES: u32 = 7;
    const WAITPKG: u32 = 1 << 5;
    // SAFETY: every processor of this architecture has the instruction, and leaf 0 gives the
    // highest leaf. Newer compilers know that it is safe.
    #[allow(unused_unsafe)]
    unsafe {
        __cpuid(0).eax >= FEATURES && __cpuid_count(FEATURES, 0).ecx & WAITPKG != 0
    }
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction. It changes nothing, and no
    // system that this runs on forbids it to programs.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
fn watch(word: &AtomicU32) {
    // SAFETY: a `UserMonitor` exists, so the processor has the instruction. It takes a readable
    // address, which a reference is, and changes neither memory nor registers.
    unsafe {
        std::arch::asm!("umonitor {word}", word = in(reg) word.as_ptr(),
            options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "x86_64")]
fn rest(until_ticks: u64) {
    /// The lighter of the two states, C0.1, which wakes sooner.
    const LIGHT: u32 = 1;
    // SAFETY: a `UserMonitor` exists, so the processor has the instruction. It waits for a write to
    // the watched word, an interrupt or the time in EDX:EAX, and changes only the flags.
    unsafe {
        std::arch::asm!("umwait {state:e}", state = in(reg) LIGHT,
            in("edx") (until_ticks >> 32) as u32, in("eax") until_ticks as u32,
            options(nostack));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has_waitpkg() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    unreachable!("this architecture has no `UserMonitor`")
}

#[cfg(not(target_arch = "x86_64"))]
fn watch(_word: &AtomicU32) {
    unreachable!("this architecture has no `UserMonitor`")
}

#[cfg(not(target_arch = "x86_64"))]
fn rest(_until_ticks: u64) {
    unreachable!("this architecture has no `UserMonitor`")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Whether the kernel lists the feature for the processor.
    fn kernel_names_it() -> bool {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        flags.split_whitespace().any(|flag| flag == "waitpkg")
    }

    #[test]
    fn a_processor_with_it_waits_and_any_other_is_refused() {
        let Ok(monitor) = UserMonitor::find() else {
            assert!(!kernel_names_it());
            assert_eq!(
                UserMonitor::find().unwrap_err().to_string(),
                "the processor has no umonitor and umwait (CPUID: WAITPKG)"
            );
            return;
        };
        // A past change is seen immediately, and an expired time ends a wait.
        let word = Arc::new(AtomicU32::new(7));
        assert_eq!(monitor.wait(&word, 6, u64::MAX), 7);
        let until = monitor.ticks() + 100_000;
        assert_eq!(monitor.wait(&word, 7, until), 7);
        assert!(monitor.ticks() >= until);
        let writer = std::thread::spawn({
            let word = Arc::clone(&word);
            move || word.store(8, Ordering::Release)
        });
        assert_eq!(monitor.wait(&word, 7, u64::MAX), 8);
        writer.join().unwrap();
    }
}
