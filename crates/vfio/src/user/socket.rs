// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole messages over a Unix socket, with their file descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crosslane_host::{ErrorKind, kinds};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use thiserror::Error;

use super::protocol::{HEADER_BYTES, Header, MAX_DESCRIPTORS, ProtocolError};

/// Room for the descriptors of one message; the kernel closes any others.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// A received message.
#[derive(Debug)]
pub struct Message {
    /// Number, command and length.
    pub header: Header,
    /// Bytes after the header.
    pub payload: Vec<u8>,
    /// File descriptors that came with the message.
    pub descriptors: Vec<OwnedFd>,
    /// Whether more descriptors came than could be kept: this process has no room for them, or they
    /// are more than [`MAX_DESCRIPTORS`].
    pub lacks_descriptors: bool,
}

/// Errors of sending or receiving a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The other side has closed the connection.
    #[error("the other side has closed the connection")]
    Closed,
    /// The other side has closed the connection within a message.
    #[error("the other side has closed the connection {missing} B before the end of a message")]
    Cut {
        /// Bytes that did not arrive.
        missing: usize,
    },
    /// Bytes that are not a message; nothing after them can be understood.
    #[error("{error}")]
    Protocol {
        /// The fault.
        #[source]
        error: ProtocolError,
        /// The header, for a refusal; only its number and command mean something.
        header: Header,
    },
    /// The other side has begun a message and not ended it in time.
    #[error("the other side sent {done} of {bytes} B of a message in {} ms", waited.as_millis())]
    Slow {
        /// Bytes that have arrived.
        done: usize,
        /// Bytes of the message, or of its header.
        bytes: usize,
        /// The time that they took.
        waited: Duration,
    },
    /// The other side took no data until the socket's time-out.
    #[error("the other side took only {sent} of {bytes} B in time")]
    Stalled {
        /// Bytes that it took.
        sent: usize,
        /// Bytes of the message.
        bytes: usize,
    },
    /// A system call failed.
    #[error("the socket failed: {0}")]
    Failed(#[source] Errno),
}

kinds!(SocketError {
    Self::Closed | Self::Cut { .. } => LinkDown,
    Self::Protocol { error, .. } => error.kind(),
    Self::Stalled { .. } | Self::Slow { .. } => Timeout,
    Self::Failed(errno) => ErrorKind::from_errno(errno.raw_os_error()),
});

/// Most bytes of a message that one call sends. The kernel waits for each part of a call anew: a
/// longer one could take many times the socket's time-out.
const MOST_AT_ONCE: usize = 64 << 10;

/// Sends a whole message with its descriptors. Only one thread may send at a time. With a write
/// timeout of the socket, the whole message may take that long.
///
/// # Errors
/// After any error the connection is unusable.
pub fn send(
    stream: &UnixStream,
    header: &Header,
    payload: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), SocketError> {
    let head = header.encode();
    let bytes = head.len() + payload.len();
    let mut sent = 0;
    let mut begun = None;
    while sent < bytes {
        // Rarely: a message mostly goes in one call.
        if sent > 0 {
            let limit = stream.write_timeout().unwrap_or_default();
            let begun = *begun.get_or_insert_with(Instant::now);
            if limit.is_some_and(|limit| begun.elapsed() > limit) {
                return Err(SocketError::Stalled { sent, bytes });
            }
        }
        let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut room);
        // Descriptors go with the first byte.
        if sent == 0 && !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "{} descriptors are more than a message has", descriptors.len());
        }
        let payload = &payload[sent.saturating_sub(head.len())..];
        let left = [
            IoSlice::new(head.get(sent..).unwrap_or_default()),
            IoSlice::new(&payload[..payload.len().min(MOST_AT_ONCE)]),
        ];
        match sendmsg(stream, &left, &mut control, SendFlags::NOSIGNAL) {
            Ok(more) => sent += more,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(SocketError::Stalled { sent, bytes }),
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(SocketError::Closed),
            Err(errno) => return Err(SocketError::Failed(errno)),
        }
    }
    Ok(())
}

/// Waits for a whole message. Only one thread may receive at a time.
///
/// # Errors
/// After any error the connection is unusable.
pub fn receive(stream: &UnixStream) -> Result<Message, SocketError> {
    receive_within(stream, None)
}

/// Waits for a whole message, of which all must come within a time of its first byte. The socket
/// needs a read timeout, after which that is looked at.
///
/// # Errors
/// After any error the connection is unusable.
pub fn receive_within(
    stream: &UnixStream,
    limit: Option<Duration>,
) -> Result<Message, SocketError> {
    let mut coming = Coming { stream, limit, begun: None, descriptors: Vec::new(), lacks: false };
    let mut head = [0; HEADER_BYTES];
    coming.fill(&mut head)?;
    let header = Header::decode(&head).map_err(|error| {
        let header = Header::decode_unchecked(&head);
        SocketError::Protocol { error, header }
    })?;
    let mut payload = vec![0; header.payload_bytes()];
    coming.fill(&mut payload)?;
    let (descriptors, lacks_descriptors) = (coming.descriptors, coming.lacks);
    Ok(Message { header, payload, descriptors, lacks_descriptors })
}

/// A message that arrives.
struct Coming<'a> {
    stream: &'a UnixStream,
    limit: Option<Duration>,
    /// Time of its first byte; before that, the connection may end.
    begun: Option<Instant>,
    descriptors: Vec<OwnedFd>,
    /// Whether descriptors were dropped.
    lacks: bool,
}

impl Coming<'_> {
    /// Fills `into`, and keeps the descriptors that arrive.
    fn fill(&mut self, into: &mut [u8]) -> Result<(), SocketError> {
        let bytes = into.len();
        let mut done = 0;
        while done < bytes {
            let waited = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            if self.limit.is_some_and(|limit| waited > limit) {
                return Err(SocketError::Slow { done, bytes, waited });
            }
            let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let mut left = [IoSliceMut::new(&mut into[done..])];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match recvmsg(self.stream.as_fd(), &mut left, &mut control, flags) {
                Ok(received) => {
                    self.lacks |= received.flags.contains(ReturnFlags::CTRUNC);
                    self.keep(&mut control);
                    match received.bytes {
                        0 if self.begun.is_none() => return Err(SocketError::Closed),
                        0 => return Err(SocketError::Cut { missing: bytes - done }),
                        more => done += more,
                    }
                    self.begun.get_or_insert_with(Instant::now);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.limit.is_some() => {}
                Err(Errno::CONNRESET) => return Err(SocketError::Closed),
                Err(errno) => return Err(SocketError::Failed(errno)),
            }
        }
        Ok(())
    }

    /// Keeps descriptors up to the limit of a message, and closes others at once.
    fn keep(&mut self, control: &mut RecvAncillaryBuffer<'_>) {
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                self.descriptors.extend(rights);
                self.lacks |= self.descriptors.len() > MAX_DESCRIPTORS;
                self.descriptors.truncate(MAX_DESCRIPTORS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::protocol::Command;
    use super::*;

    #[test]
    fn messages_come_as_they_went_with_their_descriptors() {
        let (near, far) = UnixStream::pair().unwrap();
        let sender = std::thread::spawn(move || {
            let one = near.as_fd();
            for (id, bytes) in [(1, 0), (2, 5), (3, 1 << 20), (4, 1)] {
                let payload: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                let header = Header::command(id, Command::RegionWrite, payload.len());
                let descriptors = vec![one; usize::from(id % 3)];
                send(&near, &header, &payload, &descriptors).unwrap();
            }
        });
        for (id, bytes) in [(1_u16, 0), (2, 5), (3, 1 << 20), (4, 1)] {
            let message = receive(&far).unwrap();
            assert_eq!((message.header.id, message.payload.len()), (id, bytes));
            assert!(message.payload.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
            assert_eq!(message.descriptors.len(), usize::from(id % 3));
        }
        sender.join().unwrap();
        assert_eq!(receive(&far).unwrap_err(), SocketError::Closed);
        let header = Header::command(1, Command::Reset, 0);
        assert_eq!(send(&far, &header, &[], &[]).unwrap_err(), SocketError::Closed);
    }

    #[test]
    fn a_message_that_is_cut_off_is_an_error() {
        let (near, far) = UnixStream::pair().unwrap();
        let header = Header::command(1, Command::RegionWrite, 100);
        send(&near, &header, &[0; 60], &[]).unwrap();
        drop(near);
        assert_eq!(receive(&far).unwrap_err(), SocketError::Cut { missing: 40 });
    }

    #[test]
    fn who_takes_nothing_is_not_waited_for() {
        let (near, _far) = UnixStream::pair().unwrap();
        near.set_write_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        let payload = vec![0; 1 << 20];
        let header = Header::command(1, Command::RegionWrite, payload.len());
        let result = (0..10).map(|_| send(&near, &header, &payload, &[])).find(Result::is_err);
        assert!(matches!(result, Some(Err(SocketError::Stalled { .. }))), "{result:?}");
    }

    /// Time without progress is what the kernel limits; little progress is limited here.
    #[test]
    fn a_message_byte_by_byte_is_too_slow() {
        let (limit, pause) = (Duration::from_millis(40), Duration::from_millis(5));
        let (near, far) = UnixStream::pair().unwrap();
        near.set_write_timeout(Some(limit)).unwrap();
        far.set_read_timeout(Some(pause)).unwrap();
        let taker = far.try_clone().unwrap();
        let takes = std::thread::spawn(move || {
            let mut some = vec![0; 4096];
            while (&taker).read(&mut some).is_ok_and(|bytes| bytes > 0) {
                std::thread::sleep(pause);
            }
        });
        let payload = vec![0; 1 << 20];
        let header = Header::command(1, Command::RegionWrite, payload.len());
        let sent = (0..4).find_map(|_| send(&near, &header, &payload, &[]).err());
        assert!(matches!(sent, Some(SocketError::Stalled { sent: 1.., .. })), "{sent:?}");
        drop(near);
        takes.join().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        far.set_read_timeout(Some(pause)).unwrap();
        let sender = std::thread::spawn(move || {
            // Silence before the first byte is no fault.
            std::thread::sleep(2 * limit);
            for byte in header.encode() {
                let _ = (&near).write_all(&[byte]);
                std::thread::sleep(pause);
            }
            near
        });
        let received = receive_within(&far, Some(limit)).unwrap_err();
        let is_slow = |done| (1..HEADER_BYTES).contains(&done);
        let slow = matches!(
            received,
            SocketError::Slow { done, bytes: HEADER_BYTES, .. } if is_slow(done)
        );
        assert!(slow, "{received:?}");
        sender.join().unwrap();
    }

    #[test]
    fn descriptors_beyond_the_limit_are_missed() {
        let (near, far) = UnixStream::pair().unwrap();
        for parts in [1, 2] {
            let head = Header::command(1, Command::Reset, 0).encode();
            let one = near.as_fd();
            // With each part as many as a control message of ours has, or in one part more.
            let each = vec![one; if parts == 1 { 2 * MAX_DESCRIPTORS } else { MAX_DESCRIPTORS }];
            for part in head.chunks(HEADER_BYTES / parts) {
                let mut room = [MaybeUninit::uninit(); 2 * CONTROL_BYTES];
                let mut control = SendAncillaryBuffer::new(&mut room);
                assert!(control.push(SendAncillaryMessage::ScmRights(&each)));
                sendmsg(&near, &[IoSlice::new(part)], &mut control, SendFlags::empty()).unwrap();
            }
            let message = receive(&far).unwrap();
            assert!(message.lacks_descriptors, "{parts}");
            assert_eq!(message.descriptors.len(), MAX_DESCRIPTORS, "{parts}");
        }
        send(&near, &Header::command(1, Command::Reset, 0), &[], &[near.as_fd(); 8]).unwrap();
        assert!(!receive(&far).unwrap().lacks_descriptors);
    }
}
