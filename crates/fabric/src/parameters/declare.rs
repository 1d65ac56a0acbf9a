// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of a device or another part from one declaration: structure, bounds, check, and keys
//! in lab files.

use std::convert::Infallible;

use crosslane_pcie::kinds;
use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

/// Parameter of a device or another part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name in errors, with its unit.
    pub name: &'static str,
    /// Key in lab files.
    pub key: &'static str,
    /// Type.
    pub kind: ParameterKind,
    /// Meaning of its absence.
    pub absent: Absent,
    /// Its docstring, which says its bounds.
    pub words: &'static str,
}

/// Type of a parameter, with its bounds. In [`Parameters::ALL`] bounds that depend on other
/// parameters are those of the type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterKind {
    /// Whole number between two.
    Whole(u64, u64),
    /// Whole number between two that costs time: with less of it a device is faster.
    Cost(u64, u64),
    /// Whole number between two, or without limit: `u32::MAX`.
    WholeOrInfinite(u64, u64),
    /// Power of two between two.
    PowerOfTwo(u64, u64),
    /// One of these numbers.
    OneOf(&'static [u64]),
    /// Time between two, picoseconds.
    Time(u64, u64),
    /// Rate in bytes per second, or without limit.
    Rate,
    /// Probability or share, 0 up to this.
    Share(f64),
    /// Truth value: 0 or 1.
    Truth,
    /// One of these words, by its index.
    Choice(&'static [&'static str]),
}

impl ParameterKind {
    /// Returns it with other bounds, if it is a whole number or a time.
    pub const fn within(self, least: u64, most: u64) -> Self {
        match self {
            Self::Whole(..) => Self::Whole(least, most),
            Self::Time(..) => Self::Time(least, most),
            other => other,
        }
    }

    /// Returns the value with which a device is fastest; `None` if it has no such end.
    fn fastest(self) -> Option<Value> {
        Some(match self {
            Self::Whole(_, most) | Self::PowerOfTwo(_, most) => Value::Whole(most),
            Self::Cost(least, _) | Self::Time(least, _) => Value::Whole(least),
            Self::WholeOrInfinite(..) => Value::Whole(u32::MAX.into()),
            Self::OneOf(numbers) => Value::Whole(numbers[numbers.len() - 1]),
            Self::Rate => Value::Real(f64::INFINITY),
            Self::Share(_) => Value::Real(0.0),
            Self::Truth | Self::Choice(_) => return None,
        })
    }
}

impl Parameter {
    /// Whether a value stands for a parameter that is left out.
    fn is_absent(&self, value: Value) -> bool {
        value == Value::Absent || value == Value::Whole(0) && self.absent == Absent::Nothing
    }

    /// Returns the value within bounds that is closest to a value; of powers of two, the next.
    fn nearest(&self, kind: ParameterKind, value: Value) -> Value {
        let Value::Whole(number) = value else { return value };
        Value::Whole(match kind {
            _ if self.is_absent(value) => number,
            ParameterKind::Whole(least, most)
            | ParameterKind::Cost(least, most)
            | ParameterKind::Time(least, most) => number.clamp(least, most),
            ParameterKind::PowerOfTwo(least, most) => number.clamp(least, most).next_power_of_two(),
            _ => number,
        })
    }

    /// Checks a value against bounds.
    fn check(&self, kind: ParameterKind, value: Value) -> Result<(), ParameterError> {
        let Value::Whole(number) = value else { return Ok(()) };
        let name = (self.name, self.key);
        match kind {
            _ if self.is_absent(value) => Ok(()),
            ParameterKind::WholeOrInfinite(..) if number == u32::MAX.into() => Ok(()),
            ParameterKind::Whole(least, most)
            | ParameterKind::WholeOrInfinite(least, most)
            | ParameterKind::Cost(least, most)
            | ParameterKind::Time(least, most) => within(name, number, least, most),
            ParameterKind::PowerOfTwo(least, most) => power_of_two(name, number, least, most),
            ParameterKind::OneOf(numbers) => one_of(name, number, numbers),
            _ => Ok(()),
        }
    }
}

/// Meaning of a parameter's or key's absence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Absent {
    /// The key must be there.
    Error,
    /// The parameter has this value: a number, 1 for true, or infinity for none.
    Is(f64),
    /// The subject of the key is absent, or its words say what holds.
    Nothing,
}

/// Value of a parameter. Times are in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Whole number, truth value or index of a word.
    Whole(u64),
    /// Real number.
    Real(f64),
    /// The key is left out.
    Absent,
}

/// Parameters of a device or another part.
pub trait Parameters: Copy {
    /// All parameters, in the order of the structure.
    const ALL: &'static [Parameter];

    /// Builds the structure from the value of each parameter.
    ///
    /// # Errors
    /// Returns the first error of `value`.
    fn of<E>(value: impl FnMut(&'static Parameter) -> Result<Value, E>) -> Result<Self, E>;

    /// Changes each parameter, given its kind, with the bounds that the others leave it, and its
    /// value.
    ///
    /// # Errors
    /// Returns the first error of `change`.
    fn each<E>(
        &mut self,
        change: impl FnMut(&'static Parameter, ParameterKind, Value) -> Result<Value, E>,
    ) -> Result<(), E>;

    /// Checks that a device can be built with these parameters.
    ///
    /// # Errors
    /// Returns the first parameter that is out of bounds.
    fn check(&self) -> Result<(), ParameterError>;

    /// Checks each parameter alone.
    ///
    /// # Errors
    /// Returns the first parameter that is out of bounds.
    fn check_each(&self) -> Result<(), ParameterError> {
        let mut all = *self;
        all.each(|parameter, kind, value| parameter.check(kind, value).map(|()| value))
    }

    /// Returns them with each at the end of its bounds that makes a device fastest: the value to
    /// which a limit is lifted. Truth values and choices stay.
    fn fastest(&self) -> Self {
        let mut all = *self;
        let Ok(()) =
            all.each(|_, kind, value| Ok::<_, Infallible>(kind.fastest().unwrap_or(value)));
        all
    }

    /// Brings each within its bounds, after others have changed on which these depend.
    fn fit(&mut self) {
        let Ok(()) =
            self.each(|parameter, kind, value| Ok::<_, Infallible>(parameter.nearest(kind, value)));
    }

    /// Returns the value of the parameter with a key in lab files, if there is one.
    fn value(&self, key: &str) -> Option<Value> {
        let (mut all, mut found) = (*self, None);
        let Ok(()) = all.each(|parameter, _, value| {
            found = found.or((parameter.key == key).then_some(value));
            Ok::<_, Infallible>(value)
        });
        found
    }

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

/// Parameter value with which no device can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// The value is too small or too large.
    #[error("{} of {value} is not between {least} and {most}", .name.0)]
    OutOfRange {
        /// Name of the parameter, with its unit, and its key in lab files.
        name: Name,
        /// Rejected value.
        value: u64,
        /// Smallest valid value.
        least: u64,
        /// Largest valid value.
        most: u64,
    },
    /// The value is not a power of two.
    #[error("{} of {value} is not a power of two", .name.0)]
    NoPowerOfTwo {
        /// Name of the parameter, with its unit, and its key in lab files.
        name: Name,
        /// Rejected value.
        value: u64,
    },
}

kinds!(ParameterError {
    _ => InvalidArgument,
});

/// Name of a parameter, with its unit, and its key in lab files.
pub type Name = (&'static str, &'static str);

impl ParameterError {
    /// Returns the key of the parameter in lab files.
    pub const fn key(&self) -> &'static str {
        let (Self::OutOfRange { name, .. } | Self::NoPowerOfTwo { name, .. }) = self;
        name.1
    }
}

/// Checks that a value is between two.
///
/// # Errors
/// Returns [`ParameterError::OutOfRange`] otherwise.
pub fn within(name: Name, value: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    let fits = (least..=most).contains(&value);
    fits.then_some(()).ok_or(ParameterError::OutOfRange { name, value, least, most })
}

/// Checks that a value is a power of two between two.
///
/// # Errors
/// Returns an error otherwise.
pub fn power_of_two(name: Name, value: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    within(name, value, least, most)?;
    let fits = value.is_power_of_two();
    fits.then_some(()).ok_or(ParameterError::NoPowerOfTwo { name, value })
}

/// Checks that a value is one of some, which ascend.
///
/// # Errors
/// Returns [`ParameterError::OutOfRange`] otherwise.
pub fn one_of(name: Name, value: u64, numbers: &[u64]) -> Result<(), ParameterError> {
    let (least, most) = (numbers[0], numbers[numbers.len() - 1]);
    let fits = numbers.contains(&value);
    fits.then_some(()).ok_or(ParameterError::OutOfRange { name, value, least, most })
}

/// Type of a parameter.
pub trait Number: Copy {
    /// Its kind, of whole numbers with the bounds of the type.
    const KIND: ParameterKind;

    /// Returns its value.
    fn value(self) -> Value;

    /// Returns the value of a number that the type has; 0, zero or none if it is left out.
    fn of(value: Value) -> Self;
}

impl Value {
    fn whole(self) -> u64 {
        if let Self::Whole(number) = self { number } else { 0 }
    }
}

macro_rules! numbers {
    ($($kind:ident)*) => {$(
        impl Number for $kind {
            const KIND: ParameterKind =
                ParameterKind::Whole(0, $kind::MAX as u64 >> ($kind::BITS / 64));

            fn value(self) -> Value {
                Value::Whole(self.into())
            }

            fn of(value: Value) -> Self {
                value.whole() as Self
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64);

impl Number for Picoseconds {
    const KIND: ParameterKind = ParameterKind::Time(0, u64::MAX);

    fn value(self) -> Value {
        Value::Whole(self.0)
    }

    fn of(value: Value) -> Self {
        Self(value.whole())
    }
}

impl Number for Option<Picoseconds> {
    const KIND: ParameterKind = Picoseconds::KIND;

    fn value(self) -> Value {
        self.map_or(Value::Absent, Number::value)
    }

    fn of(value: Value) -> Self {
        (value != Value::Absent).then(|| Number::of(value))
    }
}

impl Number for bool {
    const KIND: ParameterKind = ParameterKind::Truth;

    fn value(self) -> Value {
        Value::Whole(self.into())
    }

    fn of(value: Value) -> Self {
        value.whole() != 0
    }
}

impl Number for f64 {
    const KIND: ParameterKind = ParameterKind::Rate;

    fn value(self) -> Value {
        Value::Real(self)
    }

    fn of(value: Value) -> Self {
        if let Value::Real(number) = value { number } else { 0.0 }
    }
}

/// Declares parameters, each as `name: type [bounds]`. Its key in lab files is its name, of a time
/// with `_ns` behind it. Bounds are one of
///
/// * `any` that the type has;
/// * `least, most`, and `cost, least, most` of a number with less of which a device is faster;
/// * `power of two, least, most`;
/// * `one of, numbers`;
/// * `or infinite, least, most`: without limit, `u32::MAX` stands for it;
/// * `|all| least, most` and `|all| power of two, least, most`, which depend on the other
///   parameters of the structure;
/// * `rate, key`: bytes per second under that key, without limit if left out;
/// * `share, most`: a probability or share, 0 if left out.
///
/// Behind bounds may stand `; value` for a parameter that is left out. Before them, `or zero` makes
/// a parameter 0 if it is left out, and `or none` makes it an `Option`.
///
/// Behind the parameters come parts that not every device has, and after `check` a method that
/// checks what bounds cannot say.
#[macro_export]
macro_rules! parameters {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[doc = $doc:literal])* $field:ident: $kind:tt $bounds:tt,)*
            $(; $($(#[$part_doc:meta])* $part:ident: $part_kind:ty,)*)?
        }
        $(check $more:ident)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $crate::parameters!(@type $kind $bounds),)*
            $($($(#[$part_doc])* pub $part: Option<$part_kind>,)*)?
        }

        impl $name {
            /// Checks that a device can be built with these parameters.
            ///
            /// # Errors
            /// Returns the first parameter that is out of bounds.
            pub fn check(&self) -> Result<(), $crate::parameters::ParameterError> {
                $crate::parameters::Parameters::check_each(self)?;
                $($(self.$part.as_ref().map_or(Ok(()), |part| part.check())?;)*)?
                $(self.$more()?;)?
                Ok(())
            }
        }

        impl $crate::parameters::Parameters for $name {
            const ALL: &'static [$crate::parameters::Parameter] =
                &[$($crate::parameters::Parameter {
                    name: $crate::parameters!(@name $field $kind),
                    key: $crate::parameters!(@key $field $kind $bounds),
                    kind: $crate::parameters!(@kind $kind $bounds),
                    absent: $crate::parameters!(@absent $bounds),
                    words: concat!($($doc),*),
                },)*];

            fn of<E>(
                mut value: impl FnMut(
                    &'static $crate::parameters::Parameter,
                ) -> Result<$crate::parameters::Value, E>,
            ) -> Result<Self, E> {
                let mut all = Self::ALL.iter();
                let mut next =
                    || all.next().map_or(Ok($crate::parameters::Value::Absent), &mut value);
                Ok(Self {
                    $($field: $crate::parameters::Number::of(next()?),)*
                    $($($part: None,)*)?
                })
            }

            fn each<E>(
                &mut self,
                mut change: impl FnMut(
                    &'static $crate::parameters::Parameter,
                    $crate::parameters::ParameterKind,
                    $crate::parameters::Value,
                ) -> Result<$crate::parameters::Value, E>,
            ) -> Result<(), E> {
                let mut all = Self::ALL.iter();
                $(
                    let kind = $crate::parameters!(@bounded self $kind $bounds);
                    if let Some(parameter) = all.next() {
                        let value = $crate::parameters::Number::value(self.$field);
                        self.$field =
                            $crate::parameters::Number::of(change(parameter, kind, value)?);
                    }
                )*
                Ok(())
            }

            fn check(&self) -> Result<(), $crate::parameters::ParameterError> {
                self.check()
            }
        }
    };
    (@type $kind:tt [or none, $($bounds:tt)*]) => { Option<$kind> };
    (@type $kind:tt $bounds:tt) => { $kind };
    (@name $field:ident Picoseconds) => { concat!(stringify!($field), " (ps)") };
    (@name $field:ident $kind:tt) => { stringify!($field) };
    (@key $field:ident $kind:tt [rate, $key:literal]) => { $key };
    (@key $field:ident Picoseconds $bounds:tt) => { concat!(stringify!($field), "_ns") };
    (@key $field:ident $kind:tt $bounds:tt) => { stringify!($field) };
    (@absent [or $nothing:ident, $($bounds:tt)*]) => {
        $crate::parameters!(@absent $nothing [$($bounds)*])
    };
    (@absent infinite $bounds:tt) => { $crate::parameters!(@absent $bounds) };
    (@absent $nothing:ident $bounds:tt) => { $crate::parameters::Absent::Nothing };
    (@absent [rate, $key:literal]) => { $crate::parameters::Absent::Is(f64::INFINITY) };
    (@absent [share, $most:expr]) => { $crate::parameters::Absent::Is(0.0) };
    (@absent [|$all:ident| $least:expr, $most:expr; $value:expr]) => {
        $crate::parameters::Absent::Is($value as f64)
    };
    (@absent [|$all:ident| $($bounds:tt)*]) => { $crate::parameters::Absent::Error };
    (@absent [any; $value:expr]) => { $crate::parameters::Absent::Is($value as f64) };
    (@absent [power of two, $least:expr, $most:expr; $value:expr]) => {
        $crate::parameters::Absent::Is($value as f64)
    };
    (@absent [cost, $least:expr, $most:expr; $value:expr]) => {
        $crate::parameters::Absent::Is($value as f64)
    };
    (@absent [$least:expr, $most:expr; $value:expr]) => {
        $crate::parameters::Absent::Is($value as f64)
    };
    (@absent $bounds:tt) => { $crate::parameters::Absent::Error };
    (@kind $kind:tt [or infinite, $least:expr, $most:expr]) => {
        $crate::parameters::ParameterKind::WholeOrInfinite($least, $most)
    };
    (@kind $kind:tt [or $nothing:ident, $($bounds:tt)*]) => {
        $crate::parameters!(@kind $kind [$($bounds)*])
    };
    (@kind $kind:tt [any $($bounds:tt)*]) => { <$kind as $crate::parameters::Number>::KIND };
    (@kind $kind:tt [rate, $key:literal]) => { <$kind as $crate::parameters::Number>::KIND };
    (@kind $kind:tt [share, $most:expr]) => {
        $crate::parameters::ParameterKind::Share($most)
    };
    (@kind $kind:tt [|$all:ident| $($bounds:tt)*]) => {
        <$kind as $crate::parameters::Number>::KIND
    };
    (@kind $kind:tt [cost, $least:expr, $most:expr $(; $value:expr)?]) => {
        $crate::parameters::ParameterKind::Cost($least, $most)
    };
    (@kind $kind:tt [one of, $numbers:expr]) => {
        $crate::parameters::ParameterKind::OneOf($numbers)
    };
    (@kind $kind:tt [power of two, $least:expr, $most:expr $(; $value:expr)?]) => {
        $crate::parameters::ParameterKind::PowerOfTwo($least, $most)
    };
    (@kind $kind:tt [$least:expr, $most:expr $(; $value:expr)?]) => {
        <$kind as $crate::parameters::Number>::KIND.within($least, $most)
    };
    (@bounded $self:ident $kind:tt [|$all:ident| $($bounds:tt)*]) => {{
        let $all = &*$self;
        $crate::parameters!(@kind $kind [$($bounds)*])
    }};
    (@bounded $self:ident $kind:tt $bounds:tt) => { $crate::parameters!(@kind $kind $bounds) };
}
