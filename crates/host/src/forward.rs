// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methods of a bus that pass their call on: for layers, and for a bus of any kind.

/// Defines methods, each of which passes its call to the macro before its name, as
/// `name!(self, method(arguments))`.
#[macro_export]
#[doc(hidden)]
macro_rules! forward_methods {
    ($self:ident; $(
        $call:ident $method:ident($($argument:ident: $type:ty),* $(; $($behind:ident: $of:ty),+)?)
            -> $result:ty;
    )*) => {
        $(
            /// Passes the call on, with its errors.
            fn $method(
                &$self $(, $argument: $type)* $($(, $behind: $of)+)?
            ) -> $result {
                $call!($self, $method($($argument),* $(; $($behind),+)?))
            }
        )*
    };
}

/// Defines the methods of a [`Topology`](crate::Topology), each of which passes its call to
/// `$plain!(self, method(arguments))`.
#[macro_export]
#[doc(hidden)]
macro_rules! forward_topology {
    ($self:ident, $plain:ident) => {
        $crate::forward_topology! { $self, $plain, ::crosslane_pcie::units::RoutingId }
    };
    ($self:ident, $plain:ident, $function:ty) => {
        $crate::forward_methods! {
            $self;
            $plain functions() -> Result<Vec<$crate::FunctionInfo>, $crate::TopologyError>;
            $plain is_translated(function: $function) -> Result<bool, $crate::TopologyError>;
            $plain translation(function: $function)
                -> Result<Option<$crate::IoTranslation>, $crate::TopologyError>;
            $plain config_read(function: $function, offset: u16)
                -> Result<u32, $crate::TopologyError>;
            $plain config_write(function: $function, offset: u16, value: u32, byte_enables: u8)
                -> Result<(), $crate::TopologyError>;
        }
    };
}

/// Defines the methods of a [`Bus`](crate::Bus) but `on_core` and `allocate`. Each passes its call
/// to `$plain!(self, method(arguments))`, to `$wait!` if it returns a future, or to
/// `$memory!(self, method(arguments; memory, arguments))` if it also takes memory.
#[macro_export]
#[doc(hidden)]
macro_rules! forward_bus {
    ($self:ident, $plain:ident, $wait:ident, $memory:ident($of:ty)) => {
        $crate::forward_bus! {
            $self, $plain, $wait, $memory, $of, ::crosslane_pcie::units::RoutingId,
            ::crosslane_pcie::units::Picoseconds
        }
    };
    (
        $self:ident, $plain:ident, $wait:ident, $memory:ident, $of:ty, $function:ty, $time:ty
    ) => {
        $crate::forward_methods! {
            $self;
            $plain now() -> $time;
            $wait sleep_until(time: $time) -> impl Future<Output = ()> + Send;
            $plain processor_time() -> Option<$time>;
            $plain cores() -> u16;
            $plain widest_store_bytes() -> u32;
            $plain check_mapping(function: $function, bar: u8, mapping: $crate::Mapping)
                -> $crate::BusResult<()>;
            $plain check_waiting(waiting: $crate::Waiting) -> $crate::BusResult<()>;
            $plain abandon(what: Box<dyn ::std::any::Any + Send>) -> ();
            $wait read_register(at: $crate::RegisterAddress)
                -> impl Future<Output = $crate::BusResult<u32>> + Send;
            $wait write_register(at: $crate::RegisterAddress, value: u32)
                -> impl Future<Output = $crate::BusResult<()>> + Send;
            $wait store(at: $crate::RegisterAddress, bytes: &[u8], stores: $crate::Stores)
                -> impl Future<Output = $crate::BusResult<()>> + Send;
            $wait load(at: $crate::RegisterAddress, into: &mut [u8], mapping: $crate::Mapping)
                -> impl Future<Output = $crate::BusResult<()>> + Send;
            $wait fence() -> impl Future<Output = $crate::BusResult<()>> + Send;
            $memory pin(function: $function; memory: &$of)
                -> impl Future<Output = $crate::BusResult<Vec<$crate::Segment>>> + Send;
            $memory unpin(function: $function; memory: &$of)
                -> impl Future<Output = $crate::BusResult<()>> + Send;
            $wait pin_bar(function: $function, peer: $function, bar: u8)
                -> impl Future<
                    Output = $crate::BusResult<::crosslane_pcie::units::BusAddress>,
                > + Send;
            $wait unpin_bar(function: $function, peer: $function, bar: u8)
                -> impl Future<Output = $crate::BusResult<()>> + Send;
            $memory wait_memory_by(
                waiting: $crate::Waiting;
                memory: &$of, offset_bytes: u64, seen: u32, deadline: $time
            ) -> impl Future<Output = $crate::BusResult<u32>> + Send;
            $wait enable_interrupts(function: $function, vectors: u16)
                -> impl Future<Output = $crate::BusResult<()>> + Send;
            $wait wait_interrupt(function: $function, vector: u16, deadline: $time)
                -> impl Future<Output = $crate::BusResult<u64>> + Send;
            $wait work(work: $crate::HostWork) -> impl Future<Output = ()> + Send;
        }
    };
}
