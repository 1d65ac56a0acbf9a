// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Endpoints with their operations in flight.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

use super::abi;
use super::library::{FiError, Info, Object, Result};
use super::raw::{Handle, MAX_NAME_BYTES, Registration, name_of, socket_address};

/// An operation that has ended.
#[derive(Clone, Debug)]
pub struct Completion {
    pub slot: u32,
    /// Error of the provider, with its text.
    pub error: Option<(FiError, String)>,
    /// Length of a received message.
    pub bytes: u64,
}

/// One end of a connection to another node, with numbered slots for operations.
pub struct RawEndpoint {
    // Closed in this order.
    endpoint: Object<abi::Ep>,
    completions: Object<abi::Cq>,
    /// Address of the peer, only without connections.
    peers: Option<Object<abi::Av>>,
    peer: u64,
    wait_fd: Option<RawFd>,
    /// The library's notes on the operation of each slot.
    contexts: Box<[UnsafeCell<abi::Context2>]>,
    /// Registration used by the operation of each slot.
    held: Vec<Option<Arc<Registration>>>,
    network: Arc<Handle>,
}

// SAFETY: as of `Handle`.
unsafe impl Send for RawEndpoint {}

/// A part of registered memory.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub registration: &'a Arc<Registration>,
    pub offset: u64,
    pub bytes: u64,
}

/// A part of another node's memory.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    pub address: u64,
    pub key: u64,
}

/// Kind of operation.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Send,
    Receive,
    Read(Far),
    Write(Far),
}

impl RawEndpoint {
    /// Makes an endpoint with a queue for this number of operations at once.
    pub fn new(network: &Arc<Handle>, info: &Info, slots: u32) -> Result<Self> {
        let domain = network.domain.get();
        // SAFETY: the domain is open.
        let functions = unsafe { (*domain).ops };
        // SAFETY: zeros are a valid value of the attributes.
        let mut attributes: abi::CqAttr = unsafe { std::mem::zeroed() };
        attributes.size = slots as usize;
        attributes.format = abi::CQ_FORMAT_MSG;
        let mut queue = |wait_obj| {
            attributes.wait_obj = wait_obj;
            // SAFETY: the domain is open, and the attributes outlive the call.
            Object::made(|out| unsafe {
                ((*functions).cq_open)(domain, &raw mut attributes, out, ptr::null_mut())
            })
        };
        let mut descriptor = -1;
        let completions = match queue(abi::WAIT_FD) {
            Ok(completions) => {
                completions.control(abi::GETWAIT, Some(&mut descriptor))?;
                completions
            }
            // The provider has no descriptor to wait on: its peer rings.
            Err(_) => queue(abi::WAIT_NONE)?,
        };
        let peers = match network.events {
            Some(_) => None,
            // SAFETY: the domain is open; zeros are a valid value of the attributes, which outlive
            // the call.
            None => Some(Object::made(|out| unsafe {
                let mut attributes: abi::AvAttr = std::mem::zeroed();
                (attributes.r#type, attributes.count) = (abi::AV_TABLE, 1);
                ((*functions).av_open)(domain, &raw mut attributes, out, ptr::null_mut())
            })?),
        };
        // SAFETY: the domain is open, and the information is that of its network.
        let endpoint = Object::made(|out| unsafe {
            ((*functions).endpoint)(domain, info.get(), out, ptr::null_mut())
        })?;
        let events = network.events.as_ref().map(|(events, _)| events.fid());
        endpoint.bind(events.or(peers.as_ref().map(Object::fid)).expect("either"), 0)?;
        endpoint.bind(completions.fid(), abi::TRANSMIT | abi::RECV)?;
        endpoint.control(abi::ENABLE, None)?;
        let contexts = (0..slots).map(|_| abi::Context2 { internal: [ptr::null_mut(); 8] });
        Ok(Self {
            endpoint,
            completions,
            peers,
            peer: abi::ADDR_UNSPEC,
            wait_fd: (descriptor >= 0).then_some(descriptor),
            contexts: contexts.map(UnsafeCell::new).collect(),
            held: (0..slots).map(|_| None).collect(),
            network: network.clone(),
        })
    }

    /// Returns the identity used in its events.
    pub fn fid(&self) -> usize {
        self.endpoint.fid().addr()
    }

    pub const fn object(&self) -> *mut abi::Ep {
        self.endpoint.get()
    }

    /// Returns its name, for the peer.
    pub fn name(&self) -> Result<Vec<u8>> {
        // SAFETY: it is open, and the name has room for any address.
        name_of(|name, bytes| unsafe {
            ((*self.calls()).getname)(self.endpoint.fid(), name, bytes)
        })
    }

    /// Returns its functions for connections.
    pub fn calls(&self) -> *const abi::OpsCm {
        // SAFETY: it is open.
        unsafe { (*self.endpoint.get()).cm }
    }

    /// Returns the descriptor that signals completions, if the provider has one.
    pub const fn wait_fd(&self) -> Option<RawFd> {
        self.wait_fd
    }

    /// Returns whether that descriptor will signal all completions from now on.
    pub fn may_wait(&self) -> bool {
        self.wait_fd.is_none() || self.network.may_wait(self.completions.fid())
    }

    /// Sets the peer of a connectionless endpoint.
    pub fn set_peer(&mut self, name: &[u8]) -> Result<()> {
        // Providers read the full length of an address, not the length received.
        let mut room = [0; MAX_NAME_BYTES];
        let length = name.len().min(MAX_NAME_BYTES - 1);
        room[..length].copy_from_slice(&name[..length]);
        let peers = self.peers.as_ref().expect("it has no connections").get();
        let (name, peer) = (room.as_ptr(), &raw mut self.peer);
        // SAFETY: it is open; the name has room for any address, and ends in a zero.
        let inserted =
            unsafe { ((*(*peers).ops).insert)(peers, name, 1, peer, 0, ptr::null_mut()) };
        if inserted != 1 {
            self.peer = abi::ADDR_UNSPEC;
            FiError::check(inserted)?;
            return Err(FiError(libc::EADDRNOTAVAIL));
        }
        Ok(())
    }

    /// Returns the socket address of the other end.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: it is open, and the name has room for any address.
        let address = name_of(|name, bytes| unsafe {
            ((*self.calls()).getpeer)(self.endpoint.get(), name, bytes)
        });
        socket_address(&address.ok()?)
    }

    pub fn shutdown(&mut self) {
        // SAFETY: it is open.
        unsafe { ((*self.calls()).shutdown)(self.endpoint.get(), 0) };
    }

    /// Begins an operation in a free slot. Its memory is kept until it has ended.
    pub fn begin(&mut self, slot: u32, what: What, near: Part<'_>) -> Result<()> {
        let held = &mut self.held[slot as usize];
        assert!(held.is_none(), "slot {slot} has an operation");
        let start = near.registration.part(near.offset, near.bytes);
        let (ep, peer, bytes) = (self.endpoint.get(), self.peer, near.bytes as usize);
        let context = self.contexts[slot as usize].get();
        // SAFETY: the endpoint is open and has this slot, which is free. The memory is within a
        // registration of the same network, which is held from here on until the slot's completion
        // was read or the endpoint has been closed.
        let result = unsafe {
            let mut descriptor = (*near.registration.region.get()).mem_desc;
            let (messages, memory) = ((*ep).msg, (*ep).rma);
            match what {
                What::Send => ((*messages).send)(ep, start, bytes, descriptor, peer, context),
                What::Receive => {
                    ((*messages).recv)(ep, start, bytes, descriptor, abi::ADDR_UNSPEC, context)
                }
                What::Read(Far { address, key }) => {
                    ((*memory).read)(ep, start, bytes, descriptor, peer, address, key, context)
                }
                What::Write(Far { address, key }) => {
                    let near = libc::iovec { iov_base: start, iov_len: bytes };
                    let far = abi::RmaIov { addr: address, len: bytes, key };
                    let message = abi::MsgRma {
                        msg_iov: &raw const near,
                        desc: &raw mut descriptor,
                        iov_count: 1,
                        addr: peer,
                        rma_iov: &raw const far,
                        rma_iov_count: 1,
                        context,
                        data: 0,
                    };
                    let flags = abi::COMPLETION | abi::DELIVERY_COMPLETE;
                    ((*memory).writemsg)(ep, &raw const message, flags)
                }
            }
        };
        FiError::count(result)?.ok_or(FiError::AGAIN)?;
        *held = Some(near.registration.clone());
        Ok(())
    }

    /// Returns the slot of an operation, and frees its memory; `None` if it is none of ours.
    fn ended(&mut self, context: *mut abi::Context2) -> Option<u32> {
        let offset = context.addr().wrapping_sub(self.contexts.as_ptr().addr());
        let slot = offset / size_of::<abi::Context2>();
        *self.held.get_mut(slot)? = None;
        Some(slot as u32)
    }

    /// Reads the available completions.
    pub fn completions(&mut self, into: &mut Vec<Completion>) -> Result<()> {
        /// Most completions read at once.
        const BATCH: usize = 32;
        let queue = self.completions.get();
        // SAFETY: the queue is open, and zeros are a valid value of a completion.
        let (functions, mut batch) =
            unsafe { ((*queue).ops, std::mem::zeroed::<[abi::CqMsgEntry; BATCH]>()) };
        loop {
            // SAFETY: the queue is open, and the batch has room for `BATCH` completions.
            let got = unsafe { ((*functions).read)(queue, batch.as_mut_ptr(), BATCH) };
            if got == -(abi::EAVAIL as isize) {
                // SAFETY: zeros are a valid value of an error.
                let mut error: abi::CqErrEntry = unsafe { std::mem::zeroed() };
                // SAFETY: the queue is open, and the error outlives the call.
                let got = unsafe { ((*functions).readerr)(queue, &raw mut error, 0) };
                let Some(_) = FiError::count(got)? else { return Ok(()) };
                let number = if error.err == 0 { abi::EOTHER } else { error.err };
                // SAFETY: the queue is open, and the error's data are those that it has just given.
                let text = || unsafe {
                    let (number, data) = (error.prov_errno, error.err_data);
                    ((*functions).strerror)(queue, number, data, ptr::null_mut(), 0)
                };
                let why = self.network.why(error.prov_errno, text, number);
                if let Some(slot) = self.ended(error.op_context) {
                    into.push(Completion { slot, error: Some((FiError(number), why)), bytes: 0 });
                }
                continue;
            }
            let Some(count @ 1..) = FiError::count(got)? else { return Ok(()) };
            for entry in &batch[..count] {
                if let Some(slot) = self.ended(entry.op_context) {
                    into.push(Completion { slot, error: None, bytes: entry.len as u64 });
                }
            }
        }
    }

    /// Closes the endpoint; returns the memory of its unfinished operations.
    pub fn close(mut self) -> Vec<Arc<Registration>> {
        std::mem::take(&mut self.held).into_iter().flatten().collect()
    }
}
