// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buses over buses, to watch, record or change what passes.

use std::future::Future;

use crate::bus::{Bus, PageSize};
use crate::error::BusError;
use crate::topology::Topology;
use crate::{forward_bus, forward_topology};

type MemoryBelow<L> = <<L as Layer>::Below as Bus>::Memory;

/// Calls the bus below a layer.
macro_rules! below {
    ($self:ident, $method:ident($($argument:ident),*)) => {
        $self.below().$method($($argument),*)
    };
    ($self:ident, $method:ident($($before:ident),*; $($argument:ident),*)) => {
        $self.below().$method($($before,)* $($argument),*)
    };
}

/// Calls the layer's method.
macro_rules! hook {
    ($self:ident, $method:ident($($argument:ident),*)) => {
        Layer::$method($self $(, $argument)*)
    };
    ($self:ident, $method:ident($($before:ident),*; $($argument:ident),*)) => {
        Layer::$method($self $(, $before)* $(, $argument)*)
    };
}

/// A bus over another one. It is a [`Bus`] itself, whose calls pass through the methods here; those
/// that an implementation does not override hand them to the bus below unchanged.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// use crosslane_host::{Bus, BusError, Layer, RegisterAddress};
///
/// /// Counts register reads.
/// #[derive(Clone)]
/// struct Counted<B> {
///     bus: B,
///     reads: Arc<AtomicU64>,
/// }
///
/// impl<B: Bus> Layer for Counted<B> {
///     type Below = B;
///
///     fn below(&self) -> &B {
///         &self.bus
///     }
///
///     fn over(&self, bus: B) -> Self {
///         Self { bus, reads: self.reads.clone() }
///     }
///
///     async fn read_register(&self, at: RegisterAddress) -> Result<u32, BusError> {
///         self.reads.fetch_add(1, Relaxed);
///         self.bus.read_register(at).await
///     }
/// }
/// # fn is_bus<B: Bus>() {}
/// # fn with<B: Bus>() { is_bus::<Counted<B>>() }
/// ```
pub trait Layer: Clone + Send + Sync + 'static {
    /// The bus below.
    type Below: Bus;

    /// Returns the bus below.
    fn below(&self) -> &Self::Below;

    /// Returns the same layer over the bus of another core.
    fn over(&self, below: Self::Below) -> Self;

    /// Passes the call on, with its errors.
    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<MemoryBelow<Self>, BusError> {
        self.below().allocate(bytes, pages)
    }

    forward_topology!(self, below);

    forward_bus!(self, below, below, below(MemoryBelow<Self>));
}

impl<L: Layer> Topology for L {
    forward_topology!(self, hook);
}

impl<L: Layer> Bus for L {
    type Memory = MemoryBelow<L>;

    fn on_core(&self, core: u16) -> Self {
        self.over(self.below().on_core(core))
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<Self::Memory, BusError> {
        Layer::allocate(self, bytes, pages)
    }

    forward_bus!(self, hook, hook, hook(Self::Memory));
}
