// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores into mapped device memory. Each is one instruction, and so one write of its width in an
//! uncached mapping: a compiler must not join, split or omit any.
#![allow(unsafe_code)]

/// Width of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreWidth {
    /// 8 bytes, on every processor.
    B8 = 8,
    /// 16 bytes: SSE2, or Advanced SIMD.
    B16 = 16,
    /// 32 bytes: AVX.
    B32 = 32,
    /// 64 bytes, a whole line: AVX-512.
    B64 = 64,
}

impl StoreWidth {
    /// All widths, narrowest first.
    pub const ALL: [Self; 4] = [Self::B8, Self::B16, Self::B32, Self::B64];

    /// Detects the widest store of this processor at run time.
    pub fn widest() -> Self {
        Self::ALL.into_iter().rfind(|width| width.is_there()).unwrap_or(Self::B8)
    }

    /// Bytes of a store of this width.
    pub const fn bytes(self) -> usize {
        self as usize
    }

    /// Whether this processor has stores of this width.
    pub fn is_there(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::B8 | Self::B16 => true,
            Self::B32 => std::arch::is_x86_feature_detected!("avx"),
            Self::B64 => std::arch::is_x86_feature_detected!("avx512f"),
        };
        #[cfg(target_arch = "aarch64")]
        return self <= Self::B16;
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return self == Self::B8;
    }

    /// Stores `bytes` at `target`, lowest address first: as many aligned stores of this width as
    /// fit, and narrower aligned ones before and after them.
    ///
    /// # Panics
    /// If the processor does not have this width.
    ///
    /// # Safety
    /// `target` is valid for writes of `bytes.len()` bytes, and the memory mapped there accepts
    /// aligned stores of every width up to this one. Nothing else writes there meanwhile.
    pub unsafe fn store(self, target: *mut u8, bytes: &[u8]) {
        assert!(self.is_there(), "this processor has no stores of {} B", self.bytes());
        let mut done = 0;
        while done < bytes.len() {
            // SAFETY: `done` is within `bytes`, and the caller vouches for as many bytes at
            // `target`.
            let (to, from) = unsafe { (target.add(done), bytes.as_ptr().add(done)) };
            let left = bytes.len() - done;
            let aligned = 1 << to.addr().trailing_zeros().min(6);
            let width = self.bytes().min(aligned).min(1 << left.ilog2());
            // SAFETY: `width` bytes are left on both sides, `to` is aligned to it, and the
            // processor has it, as it is no wider than `self`.
            unsafe { store_one(to, from, width) };
            done += width;
        }
    }
}

/// Executes the fence of this processor's architecture: that of x86-64 or that of aarch64, else the
/// strongest one of the language. The compiler moves no access across it.
macro_rules! fence {
    ($x86_64:literal, $aarch64:literal) => {{
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every processor of this architecture has the instruction; it changes no register.
        unsafe {
            std::arch::asm!($x86_64, options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!($aarch64, options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }};
}

/// Empties the processor's combining buffers.
pub(crate) fn empty_combining_buffers() {
    fence!("sfence", "dsb st");
}

/// Empties the combining buffers, and holds later loads back until that is done.
pub(crate) fn finish_combined_stores() {
    fence!("mfence", "dsb sy");
}

/// Makes earlier stores to memory visible to devices before later stores to devices, and orders
/// earlier loads before later ones. An x86 processor keeps that order itself (Intel SDM 3A, 9.2.2
/// and 12.3.1), so only the compiler needs a fence: no instruction.
pub(crate) fn keep_order() {
    fence!("", "dmb osh");
}

/// Makes one store.
///
/// # Safety
/// `width` bytes can be read at `from` and written at `to`, which is aligned to `width`: a power of
/// two of at most 64 that the processor supports.
unsafe fn store_one(to: *mut u8, from: *const u8, width: usize) {
    // SAFETY: as the caller vouches; reads from `from` need no alignment.
    unsafe {
        match width {
            1 => to.write_volatile(from.read()),
            2 => to.cast::<u16>().write_volatile(from.cast::<u16>().read_unaligned()),
            4 => to.cast::<u32>().write_volatile(from.cast::<u32>().read_unaligned()),
            8 => to.cast::<u64>().write_volatile(from.cast::<u64>().read_unaligned()),
            _ => store_vector(to, from, width),
        }
    }
}

/// Makes one store of 16 bytes or more, like [`store_one`].
#[cfg(target_arch = "x86_64")]
unsafe fn store_vector(to: *mut u8, from: *const u8, width: usize) {
    use std::arch::asm;
    /// Loads and stores by an upper register, and clears all upper halves.
    macro_rules! store_wide {
        ($load:literal, $store:literal) => {
            asm!($load, $store, "vzeroupper", from = in(reg) from, to = in(reg) to,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                out("xmm15") _, options(nostack, preserves_flags))
        };
    }
    // SAFETY: as the caller vouches. The instructions access nothing else, and the registers that
    // they change are named.
    unsafe {
        match width {
            16 => asm!("movups xmm0, [{from}]", "movaps [{to}], xmm0", from = in(reg) from,
                to = in(reg) to, out("xmm0") _, options(nostack, preserves_flags)),
            32 => store_wide!("vmovups ymm0, [{from}]", "vmovaps [{to}], ymm0"),
            _ => store_wide!("vmovups zmm0, [{from}]", "vmovaps [{to}], zmm0"),
        }
    }
}

/// Makes one store of 16 bytes, like [`store_one`].
#[cfg(target_arch = "aarch64")]
unsafe fn store_vector(to: *mut u8, from: *const u8, _width: usize) {
    // SAFETY: as the caller vouches. The instructions read and write nothing else.
    unsafe {
        std::arch::asm!("ldr q0, [{from}]", "str q0, [{to}]", from = in(reg) from,
            to = in(reg) to, out("v0") _, options(nostack, preserves_flags));
    }
}

/// Panics: these processors have no such store.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn store_vector(_to: *mut u8, _from: *const u8, width: usize) {
    unreachable!("no store of {width} B: the widest is of 8")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes before and after the stored ones that must not change.
    const AROUND: usize = 64;

    #[test]
    fn every_byte_is_stored_and_no_other() {
        let mut rng = crosslane_random::Random::with_seed(1);
        for width in StoreWidth::ALL.into_iter().filter(|width| width.is_there()) {
            for round in 0..2000 {
                let length = rng.usize(..if round % 10 == 0 { 5000 } else { 200 });
                let skip = rng.usize(..AROUND);
                let bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
                let mut memory = vec![0xa5; skip + length + AROUND];
                // SAFETY: `length + AROUND` bytes follow `skip`.
                unsafe { width.store(memory.as_mut_ptr().add(skip), &bytes) };
                assert_eq!(memory[skip..skip + length], bytes, "{width:?}, {skip}, {length}");
                let around = memory[..skip].iter().chain(&memory[skip + length..]);
                assert!(
                    around.into_iter().all(|byte| *byte == 0xa5),
                    "{width:?}, {skip}, {length}"
                );
            }
        }
    }

    #[test]
    fn the_widest_is_there_and_none_above_it() {
        let widest = StoreWidth::widest();
        assert!(widest.is_there());
        let wider = StoreWidth::ALL.into_iter().filter(|width| *width > widest);
        assert!(wider.into_iter().all(|width| !width.is_there()));
        assert_eq!(StoreWidth::ALL.map(StoreWidth::bytes), [8, 16, 32, 64]);
        #[cfg(target_arch = "x86_64")]
        assert!(widest >= StoreWidth::B16);
    }
}
