// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Setters of option structs.

/// Makes methods that set the fields of an option struct and return it. A parameter may have any
/// type that converts into that of its field.
///
/// ```
/// # use std::time::Duration;
/// # use crosslane_pcie::units::Picoseconds;
/// #[derive(Default)]
/// #[non_exhaustive]
/// pub struct Options {
///     /// Number of retries.
///     pub retries: u32,
///     /// Time until the deadline.
///     pub time: Picoseconds,
/// }
///
/// crosslane_host::setters!(Options {
///     with_retries(retries: u32),
///     with_time(time: impl Into<Picoseconds>),
/// });
///
/// let options = Options::default().with_time(Duration::from_millis(5));
/// assert_eq!(options.time, Picoseconds::from_ms(5));
/// ```
#[macro_export]
macro_rules! setters {
    (
        $options:ident $(<$lifetime:lifetime>)?
        { $($setter:ident($field:ident: $type:ty)),+ $(,)? }
    ) => {
        impl $options $(<$lifetime>)? {
            $(
                #[doc = concat!("Sets `", stringify!($field), "`.")]
                #[must_use]
                pub fn $setter(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}
