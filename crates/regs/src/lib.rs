// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Register map of the DMA engine, and the layouts that engine and driver share in memory.
//!
//! The modules are generated: change the map, then run `make registers`. Offsets are in bytes.

#![forbid(unsafe_code)]

pub mod engine;
pub mod memory_card;
pub mod network_notification;
pub mod network_processor;
pub mod network_request;
pub mod push_line;
pub mod put_control;
pub mod ring_descriptor;
pub mod status_block;
pub mod table_descriptor;

/// A field of a 32-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Number of its lowest bit.
    pub shift: u32,
    /// Number of its bits, 1 to 32.
    pub width: u32,
}

impl Field {
    /// The field's value in `word`.
    pub const fn get(self, word: u32) -> u32 {
        (word & self.mask()) >> self.shift
    }

    /// `value` at the field's position, cut to the field's width; all other bits are 0.
    pub const fn put(self, value: u32) -> u32 {
        (value << self.shift) & self.mask()
    }

    /// A word with the bits of the field set.
    pub const fn mask(self) -> u32 {
        (u32::MAX >> (u32::BITS - self.width)) << self.shift
    }
}

/// Fields of a register, each with its highest and its lowest bit.
macro_rules! fields {
    () => {};
    ($(#[$of_field:meta])* $field:ident[$bit:literal], $($others:tt)*) => {
        $(#[$of_field])*
        #[doc = concat!("Bit ", $bit, ".")]
        pub const $field: crate::Field = crate::Field { shift: $bit, width: 1 };
        crate::fields! { $($others)* }
    };
    ($(#[$of_field:meta])* $field:ident[$high:literal:$low:literal], $($others:tt)*) => {
        $(#[$of_field])*
        #[doc = concat!("Bits ", $high, ":", $low, ".")]
        pub const $field: crate::Field = crate::Field { shift: $low, width: $high - $low + 1 };
        crate::fields! { $($others)* }
    };
}
use fields;

/// Registers, each with its offset, its reset value unless 0, the bits that software writes and a
/// module of its fields. `WRITTEN;` before them makes the table of those that software writes.
macro_rules! registers {
    (WRITTEN; $(
        $(#[$of_register:meta])*
        $register:ident = $offset:literal $(, $reset:ident = $after_reset:literal)?
            $((keeps $keeps:literal, acts $acts:literal))? $(=> $fields:ident $of_fields:tt)? $(;)?
    )+) => {
        crate::registers! {$(
            $(#[$of_register])*
            $register = $offset $(, $reset = $after_reset)? $(=> $fields $of_fields)? ;
        )+}

        /// Registers that software writes.
        pub const WRITTEN: &[crate::Written] = &[$($(
            crate::Written { offset: $register, keeps: $keeps, acts: $acts },
        )?)+];
    };
    ($(
        $(#[$of_register:meta])*
        $register:ident = $offset:literal $(, $reset:ident = $after_reset:literal)?
            $(=> $fields:ident { $($of_fields:tt)+ })? $(;)?
    )+) => {
        $(
            $(#[$of_register])*
            pub const $register: u32 = $offset;
            $(
                #[doc = concat!("Reset value of [`", stringify!($register), "`].")]
                pub const $reset: u32 = $after_reset;
            )?
            $(
                #[doc = concat!("Fields of `", stringify!($fields), "`.")]
                pub mod $fields {
                    crate::fields! { $($of_fields)+ }
                }
            )?
        )+
    };
}
use registers;

/// An enum of the values of a field. The default is 0.
macro_rules! encoding {
    (
        $(#[$of_enum:meta])*
        $name:ident:
        $(#[$of_zero:meta])* $zero:ident = 0,
        $($(#[$of_value:meta])* $value:ident = $bits:literal,)*
    ) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $(#[$of_zero])*
            #[default]
            $zero = 0,
            $($(#[$of_value])* $value = $bits,)*
        }

        impl $name {
            /// The value with these bits; none for undefined bits.
            pub const fn from_bits(bits: u32) -> Option<Self> {
                match bits {
                    0 => Some(Self::$zero),
                    $($bits => Some(Self::$value),)*
                    _ => None,
                }
            }

            /// The field's bits.
            pub const fn bits(self) -> u32 {
                self as u32
            }
        }
    };
}
use encoding;

/// Register files of one type, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// Offset of the first in bytes.
    pub base: u32,
    /// Distance from one to the next in bytes.
    pub stride: u32,
    /// Number of register files.
    pub count: u32,
}

impl Array {
    /// Offset of number `index` in bytes.
    ///
    /// # Panics
    ///
    /// If `index` is not less than `count`.
    pub const fn at(self, index: u32) -> u32 {
        assert!(index < self.count, "there are fewer register files than that");
        self.base + index * self.stride
    }

    /// Number of the register file that has `offset`, and the offset in it.
    pub const fn find(self, offset: u32) -> Option<(u32, u32)> {
        let Some(within) = offset.checked_sub(self.base) else { return None };
        let index = within / self.stride;
        if index < self.count { Some((index, within % self.stride)) } else { None }
    }
}

/// A register that software writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its offset in bytes.
    pub offset: u32,
    /// Bits that keep what is written.
    pub keeps: u32,
    /// Bits that act once when a 1 is written, and read as 0.
    pub acts: u32,
}

/// A memory among the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its offset in bytes.
    pub base: u32,
    /// Its size in bytes.
    pub bytes: u32,
}

impl Memory {
    /// Offset in the memory, if it has `offset`.
    pub const fn find(self, offset: u32) -> Option<u32> {
        match offset.checked_sub(self.base) {
            Some(within) if within < self.bytes => Some(within),
            _ => None,
        }
    }
}
