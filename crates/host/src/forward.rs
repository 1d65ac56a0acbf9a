// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The methods of a bus that pass their call on: for layers, and for a bus of any kind.

/// Defines the methods of a [`Topology`](crate::Topology), each of which passes its call to
/// `$plain!(self, method(arguments))`.
#[macro_export]
#[doc(hidden)]
macro_rules! forward_topology {
    ($self:ident, $plain:ident) => {
        /// Passes the call on, with its errors.
        fn functions(&$self) -> Result<Vec<$crate::FunctionInfo>, $crate::TopologyError> {
            $plain!($self, functions())
        }

        /// Passes the call on, with its errors.
        fn is_translated(
            &$self,
            function: ::crosslane_pcie::units::RoutingId,
        ) -> Result<bool, $crate::TopologyError> {
            $plain!($self, is_translated(function))
        }

        /// Passes the call on, with its errors.
        fn translation(
            &$self,
            function: ::crosslane_pcie::units::RoutingId,
        ) -> Result<Option<$crate::IoTranslation>, $crate::TopologyError> {
            $plain!($self, translation(function))
        }

        /// Passes the call on, with its errors.
        fn config_read(
            &$self,
            function: ::crosslane_pcie::units::RoutingId,
            offset: u16,
        ) -> Result<u32, $crate::TopologyError> {
            $plain!($self, config_read(function, offset))
        }

        /// Passes the call on, with its errors.
        fn config_write(
            &$self,
            function: ::crosslane_pcie::units::RoutingId,
            offset: u16,
            value: u32,
            byte_enables: u8,
        ) -> Result<(), $crate::TopologyError> {
            $plain!($self, config_write(function, offset, value, byte_enables))
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
        /// Passes the call on.
        fn now(&$self) -> $time {
            $plain!($self, now())
        }

        /// Passes the call on.
        fn sleep_until(&$self, time: $time) -> impl Future<Output = ()> {
            $wait!($self, sleep_until(time))
        }

        /// Passes the call on.
        fn cores(&$self) -> u16 {
            $plain!($self, cores())
        }

        /// Passes the call on.
        fn widest_store_bytes(&$self) -> u32 {
            $plain!($self, widest_store_bytes())
        }

        /// Passes the call on, with its errors.
        fn check_mapping(
            &$self,
            function: $function,
            bar: u8,
            mapping: $crate::Mapping,
        ) -> Result<(), $crate::BusError> {
            $plain!($self, check_mapping(function, bar, mapping))
        }

        /// Passes the call on, with its errors.
        fn check_waiting(&$self, waiting: $crate::Waiting) -> Result<(), $crate::BusError> {
            $plain!($self, check_waiting(waiting))
        }

        /// Passes the call on.
        fn abandon(&$self, what: impl ::std::any::Any + Send) {
            $plain!($self, abandon(what))
        }

        /// Passes the call on, with its errors.
        fn read_register(
            &$self,
            at: $crate::RegisterAddress,
        ) -> impl Future<Output = Result<u32, $crate::BusError>> {
            $wait!($self, read_register(at))
        }

        /// Passes the call on, with its errors.
        fn write_register(
            &$self,
            at: $crate::RegisterAddress,
            value: u32,
        ) -> impl Future<Output = Result<(), $crate::BusError>> {
            $wait!($self, write_register(at, value))
        }

        /// Passes the call on, with its errors.
        fn store(
            &$self,
            at: $crate::RegisterAddress,
            bytes: &[u8],
            stores: $crate::Stores,
        ) -> impl Future<Output = Result<(), $crate::BusError>> {
            $wait!($self, store(at, bytes, stores))
        }

        /// Passes the call on, with its errors.
        fn load(
            &$self,
            at: $crate::RegisterAddress,
            into: &mut [u8],
            mapping: $crate::Mapping,
        ) -> impl Future<Output = Result<(), $crate::BusError>> {
            $wait!($self, load(at, into, mapping))
        }

        /// Passes the call on, with its errors.
        fn fence(&$self) -> impl Future<Output = Result<(), $crate::BusError>> {
            $wait!($self, fence())
        }

        /// Passes the call on, with its errors.
        fn pin(
            &$self,
            function: $function,
            memory: &$of,
        ) -> impl Future<Output = Result<Vec<$crate::Segment>, $crate::BusError>> {
            $memory!($self, pin(function; memory))
        }

        /// Passes the call on, with its errors.
        fn unpin(
            &$self,
            function: $function,
            memory: &$of,
        ) -> impl Future<Output = Result<(), $crate::BusError>> {
            $memory!($self, unpin(function; memory))
        }

        /// Passes the call on, with its errors.
        fn pin_bar(
            &$self,
            function: $function,
            peer: $function,
            bar: u8,
        ) -> impl Future<Output = Result<::crosslane_pcie::units::BusAddress, $crate::BusError>>
        {
            $wait!($self, pin_bar(function, peer, bar))
        }

        /// Passes the call on, with its errors.
        fn unpin_bar(
            &$self,
            function: $function,
            peer: $function,
            bar: u8,
        ) -> impl Future<Output = Result<(), $crate::BusError>> {
            $wait!($self, unpin_bar(function, peer, bar))
        }

        /// Passes the call on, with its errors.
        fn wait_memory_by(
            &$self,
            waiting: $crate::Waiting,
            memory: &$of,
            offset_bytes: u64,
            seen: u32,
            deadline: $time,
        ) -> impl Future<Output = Result<u32, $crate::BusError>> {
            $memory!($self, wait_memory_by(waiting; memory, offset_bytes, seen, deadline))
        }

        /// Passes the call on, with its errors.
        fn enable_interrupts(
            &$self,
            function: $function,
            vectors: u16,
        ) -> impl Future<Output = Result<(), $crate::BusError>> {
            $wait!($self, enable_interrupts(function, vectors))
        }

        /// Passes the call on, with its errors.
        fn wait_interrupt(
            &$self,
            function: $function,
            vector: u16,
            deadline: $time,
        ) -> impl Future<Output = Result<u64, $crate::BusError>> {
            $wait!($self, wait_interrupt(function, vector, deadline))
        }

        /// Passes the call on.
        fn work(&$self, work: $crate::HostWork) -> impl Future<Output = ()> {
            $wait!($self, work(work))
        }
    };
}
