// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver without `async`: every call waits in the calling thread.
//!
//! ```
//! use crosslane::blocking;
//! use crosslane::prelude::*;
//!
//! let session = blocking::Session::open("lab:kc705:crosslane")?;
//! let device = session.device(0)?;
//! let buffer = device.buffer(4096, PageSize::Small)?;
//! buffer.write(0, b"from host memory to the card")?;
//! let mut channel = device.channel(ChannelKind::H2c, 0, ChannelOptions::default())?;
//! channel.transfer(Transfer::of(&buffer, device.deadline(Duration::from_millis(1))))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For calls that have no blocking form here, run the asynchronous one with
//! [`Session::run`].

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use crosslane_driver::{
    Buffer, ChannelKind, ChannelOptions, Completed, DriverError, Ticket, Transfer, TransferError,
};
use crosslane_host::{PageSize, kinds};
use crosslane_lab::Stuck;
use crosslane_open::OpenError;
use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

/// Error of a blocking call.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Cards that cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A refused request, or a device that does not answer.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A failed transfer.
    #[error(transparent)]
    Transfer(#[from] Box<TransferError>),
    /// A call that can never return, in a lab.
    #[error(transparent)]
    Stuck(#[from] Box<Stuck>),
}

kinds!(Error {
    Self::Open(error) => error.kind(),
    Self::Driver(error) => error.kind(),
    Self::Transfer(error) => error.kind(),
    Self::Stuck(stuck) => stuck.kind(),
});

impl From<TransferError> for Error {
    fn from(error: TransferError) -> Self {
        Self::Transfer(Box::new(error))
    }
}

impl From<Stuck> for Error {
    fn from(stuck: Stuck) -> Self {
        Self::Stuck(Box::new(stuck))
    }
}

/// Cards that are open, for one thread. Clones are the same session.
#[derive(Clone, Debug)]
pub struct Session(Rc<crosslane_open::Session>);

impl Session {
    /// Opens the cards that a name stands for; see
    /// [`open::Session::open`](crosslane_open::Session::open).
    ///
    /// # Errors
    /// Cards that cannot be opened.
    pub fn open(name: &str) -> Result<Self, Error> {
        Ok(Self::new(crosslane_open::Session::open(name)?))
    }

    /// Wraps an open session.
    pub fn new(session: crosslane_open::Session) -> Self {
        Self(Rc::new(session))
    }

    /// Returns the session, for calls that have no blocking form.
    pub fn inner(&self) -> &crosslane_open::Session {
        &self.0
    }

    /// Opens the engine of a card, by its index among the cards of the session.
    ///
    /// # Errors
    /// The card has no engine that this driver supports, or does not answer.
    ///
    /// # Panics
    /// If the index is beyond the last card.
    pub fn device(&self, card: usize) -> Result<Device, Error> {
        let device = self.run(self.0.device(card))?;
        Ok(Device { session: self.clone(), device })
    }

    /// Runs an asynchronous call to its end.
    ///
    /// # Errors
    /// That of the call; in a lab, a call that can never return.
    pub fn run<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, Error>
    where
        Error: From<E>,
    {
        Ok(self.0.block_on(call)??)
    }
}

/// An open engine.
#[derive(Clone, Debug)]
pub struct Device {
    session: Session,
    device: crosslane_driver::Device,
}

impl Device {
    /// Returns the device, for calls that do not wait or have no blocking form.
    pub const fn inner(&self) -> &crosslane_driver::Device {
        &self.device
    }

    /// Returns the time that is `after` from now, by the clock of the bus.
    pub fn deadline(&self, after: Duration) -> Picoseconds {
        self.device.deadline(after)
    }

    /// Allocates and registers memory.
    ///
    /// # Errors
    /// No memory, or it cannot be pinned.
    pub fn buffer(&self, bytes: u64, pages: PageSize) -> Result<Buffer, Error> {
        self.session.run(self.device.buffer(bytes, pages))
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// No such channel, one that is already open, or options that it does not support.
    pub fn channel(
        &self,
        kind: ChannelKind,
        number: u8,
        options: ChannelOptions,
    ) -> Result<Channel, Error> {
        let channel = self.session.run(self.device.channel(kind, number, options))?;
        Ok(Channel { session: self.session.clone(), channel })
    }
}

/// An open channel. Dropping it closes it; [`close`](Self::close) waits for that.
pub struct Channel {
    session: Session,
    channel: crosslane_driver::Channel,
}

impl Channel {
    /// Posts transfers, with one doorbell.
    ///
    /// # Errors
    /// A transfer that the channel does not support, or too many.
    pub fn post(&mut self, transfers: &[Transfer]) -> Result<Vec<Ticket>, Error> {
        self.session.run(self.channel.post(transfers))
    }

    /// Waits until a transfer has ended.
    ///
    /// # Errors
    /// The transfer failed; the error says how much was moved.
    pub fn wait(&mut self, ticket: Ticket) -> Result<Completed, Error> {
        self.session.run(self.channel.wait(ticket))
    }

    /// Posts a transfer and waits until it has ended.
    ///
    /// # Errors
    /// Those of [`post`](Self::post) and [`wait`](Self::wait).
    pub fn transfer(&mut self, transfer: Transfer) -> Result<Completed, Error> {
        self.session.run(self.channel.transfer(transfer))
    }

    /// Cancels all transfers that have not ended.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn cancel(&mut self) -> Result<(), Error> {
        self.session.run(self.channel.cancel())
    }

    /// Stops and closes the channel.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn close(self) -> Result<(), Error> {
        let Self { session, channel } = self;
        session.run(channel.close())
    }
}

#[cfg(test)]
mod tests {
    use crosslane_driver::TransferFault;
    use crosslane_lab::WhyStuck;

    use crosslane_host::ErrorKind;

    use super::*;

    #[test]
    fn every_error_has_its_kind() {
        let name = || "card0".to_owned();
        let (kind, fault) = (ErrorKind::Busy, TransferFault::Poisoned);
        let (moved_bytes, total_bytes, address) = (0, 1, None);
        let transfer = TransferError { channel: name(), fault, moved_bytes, total_bytes, address };
        let (time, why) = (Picoseconds::ZERO, WhyStuck::TimeLimit);
        for (error, kind) in [
            (Error::from(OpenError::NoCard { lab: name(), hint: name() }), ErrorKind::NotFound),
            (DriverError::Refused { place: name(), kind, problem: name() }.into(), ErrorKind::Busy),
            (transfer.into(), ErrorKind::Data),
            (Stuck { time, why, waiting: Vec::new() }.into(), ErrorKind::Timeout),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
