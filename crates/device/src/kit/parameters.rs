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
    /// Type.
    pub kind: ParameterKind,
    /// Value if it is left out; `None` if it must be given.
    pub default: Option<u64>,
    /// Its docstring, which says its bounds.
    pub words: &'static str,
}

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Whole number between two. Bounds that depend on other parameters are left to
    /// [`Parameters::check`].
    Whole(u64, u64),
    /// Power of two between two.
    PowerOfTwo(u64, u64),
    /// Time.
    Time,
    /// Truth value: 0 or 1.
    Truth,
}

/// Build parameters of a device as numbers. Times are in picoseconds.
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
    fn assert_valid(&self) {
        if let Err(error) = self.check() {
            panic!("parameters are checked before: {error}");
        }
    }
}

/// Type of a parameter.
pub(crate) trait Number: Copy {
    /// Its kind, of whole numbers with the bounds of the type.
    const KIND: ParameterKind;

    fn number(self) -> u64;

    /// Returns the value of a number that the type has.
    fn of(number: u64) -> Self;
}

impl ParameterKind {
    /// Returns it with other bounds, if it is a whole number.
    pub(crate) const fn within(self, least: u64, most: u64) -> Self {
        match self {
            Self::Whole(..) => Self::Whole(least, most),
            other => other,
        }
    }
}

macro_rules! numbers {
    ($($kind:ident)*) => {$(
        impl Number for $kind {
            const KIND: ParameterKind =
                ParameterKind::Whole(0, $kind::MAX as u64 >> ($kind::BITS / 64));

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
    const KIND: ParameterKind = ParameterKind::Time;

    fn number(self) -> u64 {
        self.0
    }

    fn of(number: u64) -> Self {
        Self(number)
    }
}

impl Number for bool {
    const KIND: ParameterKind = ParameterKind::Truth;

    fn number(self) -> u64 {
        self.into()
    }

    fn of(number: u64) -> Self {
        number != 0
    }
}

/// Declares build parameters: `name: type [least, most]`, `[least, most; default]`, or `[power of
/// two, least, most]`. Bounds that depend on other parameters use the structure by a name given in
/// bars before them. Behind them come the parameters of parts that not every device has.
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[doc = $doc:literal])* $field:ident: $kind:tt $bounds:tt,)*
            $(; $(#[$part_doc:meta])* $part:ident: $part_kind:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $kind,)*
            $($(#[$part_doc])* pub $part: Option<$part_kind>,)*
        }

        impl $name {
            /// Checks that a device can be built with these parameters.
            ///
            /// # Errors
            /// Returns the first parameter that is out of bounds.
            pub fn check(&self) -> Result<(), $crate::ParameterError> {
                $({
                    let name = (
                        $crate::kit::parameters!(@name $field $kind),
                        $crate::kit::parameters!(@key $field $kind),
                    );
                    let value = $crate::kit::Number::number(self.$field);
                    $crate::kit::parameters!(@check self name value $bounds)
                }?;)*
                $(self.$part.as_ref().map_or(Ok(()), |part| part.check())?;)*
                Ok(())
            }
        }

        impl $crate::kit::Parameters for $name {
            const ALL: &'static [$crate::kit::Parameter] = &[$($crate::kit::Parameter {
                name: $crate::kit::parameters!(@name $field $kind),
                key: $crate::kit::parameters!(@key $field $kind),
                kind: $crate::kit::parameters!(@kind $kind $bounds),
                default: $crate::kit::parameters!(@default $bounds),
                words: concat!($($doc),*),
            },)*];

            fn of<E>(
                mut value: impl FnMut(&'static $crate::kit::Parameter) -> Result<u64, E>,
            ) -> Result<Self, E> {
                let mut all = Self::ALL.iter();
                let mut next = || all.next().map_or(Ok(0), &mut value);
                Ok(Self { $($field: $crate::kit::Number::of(next()?),)* $($part: None,)* })
            }

            fn check(&self) -> Result<(), $crate::ParameterError> {
                self.check()
            }
        }
    };
    (@name $field:ident Picoseconds) => { concat!(stringify!($field), " (ps)") };
    (@name $field:ident $kind:tt) => { stringify!($field) };
    (@key $field:ident Picoseconds) => { concat!(stringify!($field), "_ns") };
    (@key $field:ident $kind:tt) => { stringify!($field) };
    (@default [|$all:ident| $($bounds:tt)*]) => { None };
    (@default [$least:expr, $most:expr; $default:expr]) => { Some($default) };
    (@default $bounds:tt) => { None };
    (@kind $kind:tt [|$all:ident| $($bounds:tt)*]) => { <$kind as $crate::kit::Number>::KIND };
    (@kind $kind:tt [power of two, $least:expr, $most:expr]) => {
        $crate::kit::ParameterKind::PowerOfTwo($least, $most)
    };
    (@kind $kind:tt [$least:expr, $most:expr $(; $default:expr)?]) => {
        <$kind as $crate::kit::Number>::KIND.within($least, $most)
    };
    (@check $self:ident $name:ident $value:ident [|$all:ident| $($bounds:tt)*]) => {{
        let $all = $self;
        $crate::kit::parameters!(@check $self $name $value [$($bounds)*])
    }};
    (@check $self:ident $name:ident $value:ident [power of two, $least:expr, $most:expr]) => {
        $crate::parameters::power_of_two($name, $value, $least, $most)
    };
    (@check $self:ident $name:ident $value:ident
        [$least:expr, $most:expr $(; $default:expr)?]) => {
        $crate::parameters::within($name, $value, $least, $most)
    };
}

pub(crate) use parameters;
