// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Build parameters of a device from one declaration: structure, bounds, check, and keys in lab
//! files.

use crosslane_pcie::units::Picoseconds;

use crate::parameters::ParameterError;

/// Parameter of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in errors, with its unit.
    pub name: &'static str,
    /// Key in lab files.
    pub key: &'static str,
    /// Whether it is a time.
    pub is_time: bool,
    /// Largest value of its type.
    pub most: u64,
}

/// Build parameters of a device. Times are in picoseconds.
pub trait Parameters: Sized {
    /// All parameters, in the order of the structure.
    const ALL: &'static [Parameter];

    /// Builds the structure from the value of each parameter.
    ///
    /// # Errors
    /// Returns the first error of `value`.
    fn of<E>(value: impl FnMut(&'static Parameter) -> Result<u64, E>) -> Result<Self, E>;

    /// Checks that a device can be built with these parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of bounds.
    fn check(&self) -> Result<(), ParameterError>;

    /// Asserts that a device can be built with these parameters.
    ///
    /// # Panics
    /// Panics if [`check`](Self::check) rejects them.
    fn assert_good(&self) {
        if let Err(error) = self.check() {
            panic!("parameters are checked before: {error}");
        }
    }
}

/// Type of a parameter.
pub(crate) trait Number: Copy {
    const MOST: u64;

    fn number(self) -> u64;

    /// Returns the value up to [`MOST`](Self::MOST).
    fn of(number: u64) -> Self;
}

macro_rules! numbers {
    ($($kind:ident)*) => {$(
        impl Number for $kind {
            const MOST: u64 = $kind::MAX as u64 >> ($kind::BITS / 64);

            fn number(self) -> u64 {
                self.into()
            }

            fn of(number: u64) -> Self {
                number as Self
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64);

impl Number for Picoseconds {
    const MOST: u64 = u64::MAX >> 1;

    fn number(self) -> u64 {
        self.0
    }

    fn of(number: u64) -> Self {
        Self(number)
    }
}

/// Declares build parameters: `name: type [least, most]`, or `[power of two, least, most]`. The
/// bounds may use the structure by the name given in bars.
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        $name:ident |$all:ident| {
            $($(#[$doc:meta])* $field:ident: $kind:tt $bounds:tt,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)*
        }

        impl $crate::kit::Parameters for $name {
            const ALL: &'static [$crate::kit::Parameter] = &[$($crate::kit::Parameter {
                name: $crate::kit::parameters!(@name $field $kind),
                key: $crate::kit::parameters!(@key $field $kind),
                is_time: $crate::kit::parameters!(@is_time $kind),
                most: <$kind as $crate::kit::Number>::MOST,
            },)*];

            fn of<E>(
                mut value: impl FnMut(&'static $crate::kit::Parameter) -> Result<u64, E>,
            ) -> Result<Self, E> {
                let mut all = Self::ALL.iter();
                let mut next = || all.next().map_or(Ok(0), &mut value);
                Ok(Self { $($field: $crate::kit::Number::of(next()?),)* })
            }

            fn check(&self) -> Result<(), $crate::ParameterError> {
                let $all = self;
                $({
                    let name = $crate::kit::parameters!(@name $field $kind);
                    let value = $crate::kit::Number::number($all.$field);
                    $crate::kit::parameters!(@check name value $bounds)
                }?;)*
                Ok(())
            }
        }
    };
    (@name $field:ident Picoseconds) => { concat!(stringify!($field), " (ps)") };
    (@name $field:ident $kind:tt) => { stringify!($field) };
    (@key $field:ident Picoseconds) => { concat!(stringify!($field), "_ns") };
    (@key $field:ident $kind:tt) => { stringify!($field) };
    (@is_time Picoseconds) => { true };
    (@is_time $kind:tt) => { false };
    (@check $name:ident $value:ident [power of two, $least:expr, $most:expr]) => {
        $crate::parameters::power_of_two($name, $value, $least, $most)
    };
    (@check $name:ident $value:ident [$least:expr, $most:expr]) => {
        $crate::parameters::within($name, $value, $least, $most)
    };
}

pub(crate) use parameters;
