// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole messages over a Unix socket, with their file descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crosslane_host::{ErrorKind, kinds};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
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
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
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
    Self::Protocol(error) => error.kind(),
    Self::Stalled { .. } => Timeout,
    Self::Failed(errno) => ErrorKind::from_errno(errno.raw_os_error()),
});

/// Sends a whole message with its descriptors. Only one thread may send at a time.
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
    while sent < bytes {
        let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut room);
        // Descriptors go with the first byte.
        if sent == 0 && !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "{} descriptors are more than a message has", descriptors.len());
        }
        let left = [
            IoSlice::new(head.get(sent..).unwrap_or_default()),
            IoSlice::new(&payload[sent.saturating_sub(head.len())..]),
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
    let mut descriptors = Vec::new();
    let mut head = [0; HEADER_BYTES];
    fill(stream, &mut head, &mut descriptors, true)?;
    let header = Header::decode(&head)?;
    let mut payload = vec![0; header.payload_bytes()];
    fill(stream, &mut payload, &mut descriptors, false)?;
    Ok(Message { header, payload, descriptors })
}

/// Fills `into`, and keeps the descriptors that arrive. `may_end` permits the connection to close
/// before the first byte.
fn fill(
    stream: &UnixStream,
    into: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    may_end: bool,
) -> Result<(), SocketError> {
    let mut done = 0;
    while done < into.len() {
        let mut room = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut left = [IoSliceMut::new(&mut into[done..])];
        match recvmsg(stream.as_fd(), &mut left, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        // Descriptors beyond the limit are closed immediately.
                        descriptors.extend(rights);
                        descriptors.truncate(MAX_DESCRIPTORS);
                    }
                }
                match received.bytes {
                    0 if done == 0 && may_end => return Err(SocketError::Closed),
                    0 => return Err(SocketError::Cut { missing: into.len() - done }),
                    more => done += more,
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Err(SocketError::Closed),
            Err(errno) => return Err(SocketError::Failed(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
}
