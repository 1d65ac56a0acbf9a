// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages between processes that simulate a lab together: any bytes give a message or an error,
//! and what was written is read again.

use std::sync::Arc;

use crosslane_device::network_processor::{CableEnd, CableMessage, Signal, Wish};
use crosslane_lab::parts::wire::{Expected, Malformed, Message, read, turn};
use crosslane_lab::parts::{PartState, Said};
use crosslane_pcie::units::Picoseconds;
use crosslane_torus_link::{Command, Damaged, Datagram, Frame, Header};

/// Random inputs in a plain run of the tests.
const ITERATIONS: usize = 3_000;

fn expected() -> Expected {
    let ends = (0..4).flat_map(|node| (0..8).map(move |link| CableEnd { node, link }));
    Expected { ends: ends.collect(), from: Picoseconds(136_000) }
}

fn said(state: PartState) -> Said {
    Said { next: Picoseconds(7), arrives: Picoseconds::NEVER, state }
}

fn written_and_read(said: Said, messages: &[CableMessage]) -> Result<Message, Malformed> {
    let mut taken = messages.to_vec();
    let bytes = turn(said, &mut taken);
    assert!(taken.is_empty());
    read(&bytes, &expected())
}

#[test]
fn fuzz_messages_of_any_bytes() {
    bolero::check!().with_iterations(ITERATIONS).with_type::<Vec<u8>>().for_each(|bytes| {
        if let Ok(Message::Turn(said, messages)) = read(bytes, &expected()) {
            let again = written_and_read(said, &messages);
            assert_eq!(again, Ok(Message::Turn(said, messages)));
        }
    });
}

/// A signal of random numbers.
fn signal(kind: u8, bits: u32, arrives_ps: u64) -> Signal {
    match kind % 6 {
        0 => Signal::Frame(Err(Damaged::Crc)),
        1 => Signal::Training(None),
        2 => {
            let far_session = bits.is_multiple_of(2).then_some(bits / 2);
            let since_ps = arrives_ps - u64::from(bits) % arrives_ps;
            Signal::Training(Some(Wish { since_ps, session: bits, far_session }))
        }
        3 => Signal::LaneErrors(std::array::from_fn(|lane| (bits >> lane) as u16)),
        4 => match Command::from_word(bits << 8 | 0x5c) {
            Ok(command) => Signal::Frame(Ok(Frame::Command(command))),
            Err(damaged) => Signal::Frame(Err(damaged)),
        },
        _ => {
            let header = Header::from_word(bits);
            let payload = Arc::new([kind; 128]);
            Signal::Frame(Ok(Frame::Datagram(Datagram { header, payload })))
        }
    }
}

/// Messages come back as they were, and with a byte changed or cut off they do not break anything.
#[test]
fn fuzz_messages_with_changes() {
    type Input = (Vec<(u8, u32, u16)>, u16, u8);
    bolero::check!().with_iterations(ITERATIONS).with_type::<Input>().for_each(
        |(signals, at, byte)| {
            let message = |&(kind, bits, after): &(u8, u32, u16)| {
                let arrives_ps = 136_000 + u64::from(after);
                let to = CableEnd { node: u16::from(kind % 4), link: kind / 4 % 8 };
                CableMessage { to, arrives_ps, signal: signal(kind, bits, arrives_ps) }
            };
            let messages: Vec<CableMessage> = signals.iter().map(message).collect();
            let said = said(PartState::Quiet);
            let read_again = written_and_read(said, &messages);
            assert_eq!(read_again, Ok(Message::Turn(said, messages.clone())));
            let mut bytes = turn(said, &mut messages.clone());
            let at = usize::from(*at) % bytes.len();
            drop(read(&bytes[..at], &expected()));
            bytes[at] ^= byte;
            drop(read(&bytes, &expected()));
        },
    );
}

#[test]
fn signals_that_cannot_come_are_refused() {
    let message = |node, link, arrives_ps, signal| {
        let to = CableEnd { node, link };
        written_and_read(said(PartState::Running), &[CableMessage { to, arrives_ps, signal }])
    };
    let idle = || Signal::Training(None);
    assert!(message(3, 7, 136_000, idle()).is_ok());
    assert_eq!(message(4, 7, 136_000, idle()), Err(Malformed::NoSuchEnd { node: 4, link: 7 }));
    let error = message(3, 7, 135_999, idle()).unwrap_err().to_string();
    assert!(error.starts_with("a signal of 135999 ps, outside of 136000 to "), "{error}");
    assert!(message(3, 7, u64::MAX, idle()).is_err());
    let wish = Wish { since_ps: 136_001, session: 1, far_session: None };
    let error = message(3, 7, 136_000, Signal::Training(Some(wish))).unwrap_err();
    let (from_ps, to_ps) = (0, 136_000);
    assert_eq!(error, Malformed::Time { arrives_ps: 136_001, from_ps, to_ps });
    // A frame with a wrong CRC.
    let command = Command::from_word(0x15c).unwrap();
    let (to, arrives_ps) = (CableEnd { node: 0, link: 0 }, 136_000);
    let signal = Signal::Frame(Ok(Frame::Command(command)));
    let said = said(PartState::Stopped);
    let mut bytes = turn(said, &mut vec![CableMessage { to, arrives_ps, signal }]);
    *bytes.last_mut().unwrap() ^= 1;
    let wrong = Malformed::Frame { node: 0, link: 0, source: Damaged::Crc };
    assert_eq!(read(&bytes, &expected()), Err(wrong));
}
