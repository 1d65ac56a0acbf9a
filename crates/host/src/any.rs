// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One type for every bus and one for every memory, so that host code is compiled once.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId};

use crate::bus::{
    Bus, DmaMemory, HostWork, Mapping, PageSize, RegisterAddress, Segment, Stores, Waiting,
};
use crate::error::{BusError, BusResult};
use crate::topology::Topology;
use crate::{Call, forward_bus, forward_topology};

/// A call's outcome: there already, or still to be waited for.
enum Answer<'a, T> {
    Ready(Option<T>),
    Later(Call<'a, T>),
}

impl<'a, T> Answer<'a, T> {
    fn later(call: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(call))
    }

    /// The outcome of a call that never waits on buses that are [`Bus::AT_ONCE`].
    fn of<B: Bus>(call: impl Future<Output = T> + Send + 'a) -> Self {
        if !B::AT_ONCE {
            return Self::later(call);
        }
        match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Self::Ready(Some(outcome)),
            Poll::Pending => unreachable!("a bus whose calls end at once has waited"),
        }
    }
}

// An outcome is moved out, never pinned.
impl<T> Unpin for Answer<'_, T> {}

impl<T> Future for Answer<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.get_mut() {
            Self::Ready(outcome) => Poll::Ready(outcome.take().expect("polled after its end")),
            Self::Later(call) => call.as_mut().poll(context),
        }
    }
}

/// The whole, or what it holds, if that is of this type.
fn of_type<'a, T: 'static>(whole: &'a dyn Any, held: &'a dyn Any) -> Option<&'a T> {
    whole.downcast_ref().or_else(|| held.downcast_ref())
}

/// A [`DmaMemory`] whose type is chosen at run time.
trait Memory: Any + Send + Sync {
    fn size_bytes(&self) -> u64;
    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> BusResult<()>;
    fn write(&self, offset_bytes: u64, from: &[u8]) -> BusResult<()>;
}

impl<M: DmaMemory> Memory for M {
    fn size_bytes(&self) -> u64 {
        DmaMemory::size_bytes(self)
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> BusResult<()> {
        DmaMemory::read(self, offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> BusResult<()> {
        DmaMemory::write(self, offset_bytes, from)
    }
}

/// Memory of any bus or network.
#[derive(Clone)]
pub struct AnyMemory(Arc<dyn Memory>);

impl AnyMemory {
    /// Wraps memory; what is wrapped already stays as it is.
    pub fn new<M: DmaMemory>(memory: M) -> Self {
        match (&memory as &dyn Any).downcast_ref::<Self>() {
            Some(same) => same.clone(),
            None => Self(Arc::new(memory)),
        }
    }

    /// The memory itself, if it is of this type.
    pub fn downcast<M: DmaMemory>(&self) -> Option<&M> {
        of_type(self, &*self.0)
    }

    /// The memory itself, for the bus of whose type it has to be.
    fn of<M: DmaMemory>(&self) -> BusResult<&M> {
        let foreign = BusError::Pinning { address: 0, what: "belongs to another bus" };
        self.downcast().ok_or(foreign)
    }
}

impl fmt::Debug for AnyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyMemory({} B)", self.0.size_bytes())
    }
}

impl DmaMemory for AnyMemory {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> BusResult<()> {
        self.0.read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> BusResult<()> {
        self.0.write(offset_bytes, from)
    }
}

type Answered<'a, T> = Answer<'a, BusResult<T>>;

/// A [`Bus`] whose type is chosen at run time; its methods are those of the same names.
trait Calls: Topology + Any + Send + Sync {
    fn now(&self) -> Picoseconds;
    fn sleep_until(&self, time: Picoseconds) -> Answer<'_, ()>;
    fn processor_time(&self) -> Option<Picoseconds>;
    fn on_core(&self, core: u16) -> AnyBus;
    fn cores(&self) -> u16;
    fn read_register(&self, at: RegisterAddress) -> Answered<'_, u32>;
    fn write_register(&self, at: RegisterAddress, value: u32) -> Answered<'_, ()>;
    fn widest_store_bytes(&self) -> u32;
    fn check_mapping(&self, function: RoutingId, bar: u8, mapping: Mapping) -> BusResult<()>;
    fn store<'a>(
        &'a self,
        at: RegisterAddress,
        bytes: &'a [u8],
        stores: Stores,
    ) -> Answered<'a, ()>;
    fn load<'a>(
        &'a self,
        at: RegisterAddress,
        into: &'a mut [u8],
        mapping: Mapping,
    ) -> Answered<'a, ()>;
    fn fence(&self) -> Answered<'_, ()>;
    fn allocate(&self, bytes: u64, pages: PageSize) -> BusResult<AnyMemory>;
    fn pin<'a>(&'a self, function: RoutingId, memory: &'a AnyMemory) -> Answered<'a, Vec<Segment>>;
    fn unpin<'a>(&'a self, function: RoutingId, memory: &'a AnyMemory) -> Answered<'a, ()>;
    fn abandon(&self, what: Box<dyn Any + Send>);
    fn pin_bar(&self, function: RoutingId, peer: RoutingId, bar: u8) -> Answered<'_, BusAddress>;
    fn unpin_bar(&self, function: RoutingId, peer: RoutingId, bar: u8) -> Answered<'_, ()>;
    fn check_waiting(&self, waiting: Waiting) -> BusResult<()>;
    fn wait_memory_by<'a>(
        &'a self,
        waiting: Waiting,
        memory: &'a AnyMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Answered<'a, u32>;
    fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> Answered<'_, ()>;
    fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> Answered<'_, u64>;
    fn work(&self, work: HostWork) -> Answer<'_, ()>;
}

impl<B: Bus> Calls for B {
    fn now(&self) -> Picoseconds {
        Bus::now(self)
    }

    fn sleep_until(&self, time: Picoseconds) -> Answer<'_, ()> {
        Answer::later(Bus::sleep_until(self, time))
    }

    fn processor_time(&self) -> Option<Picoseconds> {
        Bus::processor_time(self)
    }

    fn on_core(&self, core: u16) -> AnyBus {
        AnyBus::new(Bus::on_core(self, core))
    }

    fn cores(&self) -> u16 {
        Bus::cores(self)
    }

    fn read_register(&self, at: RegisterAddress) -> Answered<'_, u32> {
        Answer::of::<B>(Bus::read_register(self, at))
    }

    fn write_register(&self, at: RegisterAddress, value: u32) -> Answered<'_, ()> {
        Answer::of::<B>(Bus::write_register(self, at, value))
    }

    fn widest_store_bytes(&self) -> u32 {
        Bus::widest_store_bytes(self)
    }

    fn check_mapping(&self, function: RoutingId, bar: u8, mapping: Mapping) -> BusResult<()> {
        Bus::check_mapping(self, function, bar, mapping)
    }

    fn store<'a>(
        &'a self,
        at: RegisterAddress,
        bytes: &'a [u8],
        stores: Stores,
    ) -> Answered<'a, ()> {
        Answer::of::<B>(Bus::store(self, at, bytes, stores))
    }

    fn load<'a>(
        &'a self,
        at: RegisterAddress,
        into: &'a mut [u8],
        mapping: Mapping,
    ) -> Answered<'a, ()> {
        Answer::of::<B>(Bus::load(self, at, into, mapping))
    }

    fn fence(&self) -> Answered<'_, ()> {
        Answer::of::<B>(Bus::fence(self))
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> BusResult<AnyMemory> {
        Bus::allocate(self, bytes, pages).map(AnyMemory::new)
    }

    fn pin<'a>(&'a self, function: RoutingId, memory: &'a AnyMemory) -> Answered<'a, Vec<Segment>> {
        match memory.of() {
            Ok(memory) => Answer::of::<B>(Bus::pin(self, function, memory)),
            Err(error) => Answer::Ready(Some(Err(error))),
        }
    }

    fn unpin<'a>(&'a self, function: RoutingId, memory: &'a AnyMemory) -> Answered<'a, ()> {
        match memory.of() {
            Ok(memory) => Answer::of::<B>(Bus::unpin(self, function, memory)),
            Err(error) => Answer::Ready(Some(Err(error))),
        }
    }

    fn abandon(&self, what: Box<dyn Any + Send>) {
        Bus::abandon(self, what);
    }

    fn pin_bar(&self, function: RoutingId, peer: RoutingId, bar: u8) -> Answered<'_, BusAddress> {
        Answer::of::<B>(Bus::pin_bar(self, function, peer, bar))
    }

    fn unpin_bar(&self, function: RoutingId, peer: RoutingId, bar: u8) -> Answered<'_, ()> {
        Answer::of::<B>(Bus::unpin_bar(self, function, peer, bar))
    }

    fn check_waiting(&self, waiting: Waiting) -> BusResult<()> {
        Bus::check_waiting(self, waiting)
    }

    fn wait_memory_by<'a>(
        &'a self,
        waiting: Waiting,
        memory: &'a AnyMemory,
        offset_bytes: u64,
        seen: u32,
        deadline: Picoseconds,
    ) -> Answered<'a, u32> {
        match memory.of() {
            Ok(memory) => Answer::later(Bus::wait_memory_by(
                self, waiting, memory, offset_bytes, seen, deadline,
            )),
            Err(error) => Answer::Ready(Some(Err(error))),
        }
    }

    fn enable_interrupts(&self, function: RoutingId, vectors: u16) -> Answered<'_, ()> {
        Answer::of::<B>(Bus::enable_interrupts(self, function, vectors))
    }

    fn wait_interrupt(
        &self,
        function: RoutingId,
        vector: u16,
        deadline: Picoseconds,
    ) -> Answered<'_, u64> {
        Answer::later(Bus::wait_interrupt(self, function, vector, deadline))
    }

    fn work(&self, work: HostWork) -> Answer<'_, ()> {
        Answer::of::<B>(Bus::work(self, work))
    }
}

/// A bus of any kind: that of a lab's host, or of opened cards.
#[derive(Clone)]
pub struct AnyBus(Arc<dyn Calls>);

impl AnyBus {
    /// Wraps a bus; what is wrapped already stays as it is.
    pub fn new<B: Bus>(bus: B) -> Self {
        match (&bus as &dyn Any).downcast_ref::<Self>() {
            Some(same) => same.clone(),
            None => Self(Arc::new(bus)),
        }
    }

    /// The bus itself, if it is of this type.
    pub fn downcast<B: Bus>(&self) -> Option<&B> {
        of_type(self, &*self.0)
    }
}

/// Calls the bus.
macro_rules! call {
    ($self:ident, $method:ident($($argument:ident),*)) => {
        $self.0.$method($($argument),*)
    };
}

/// Waits for a call to the bus.
macro_rules! wait {
    ($self:ident, $method:ident($($argument:ident),*)) => {
        async move { $self.0.$method($($argument),*).await }
    };
    ($self:ident, $method:ident($before:ident; $($argument:ident),*)) => {
        async move { $self.0.$method($before, $($argument),*).await }
    };
}

impl Topology for AnyBus {
    forward_topology!(self, call);
}

impl Bus for AnyBus {
    type Memory = AnyMemory;

    fn on_core(&self, core: u16) -> Self {
        self.0.on_core(core)
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> BusResult<AnyMemory> {
        self.0.allocate(bytes, pages)
    }

    forward_bus!(self, call, wait, wait(AnyMemory));
}
