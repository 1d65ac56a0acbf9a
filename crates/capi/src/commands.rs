// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peer writes that the circuit behind an engine starts at its command port, and ping-pong.

use std::ffi::c_int;
use std::rc::Rc;

use crate::error::{Failure, Result, guard};
use crate::handle;
use crate::peer::{PeerObject, crosslane_peer};
use crate::structs::{self, Array, sized};

/// The peer channel that the command port belongs to.
const COMMAND_CHANNEL: u8 = 0;

/// Round trips, as measured by the hardware timer of the card that has begun them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_ping_pong {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Sum of their times, in clocks of the engine: clock_ps of its description.
    pub sum_clocks: u64,
    /// Number of round trips.
    pub rounds: u32,
    /// Shortest time, in clocks.
    pub least_clocks: u32,
    /// Longest time, in clocks.
    pub most_clocks: u32,
    /// Must be ignored.
    pub reserved: u32,
}

sized!(crosslane_ping_pong);

/// Returns a peer that the command port can write to.
fn commanded(peer: *const crosslane_peer) -> Result<Rc<PeerObject>> {
    let object = handle::get::<PeerObject>(peer)?;
    if object.channel != COMMAND_CHANNEL {
        let sentence = format!(
            "the command port is that of peer channel {COMMAND_CHANNEL}, and the peer is connected \
             to channel {}",
            object.channel
        );
        return Err(Failure::argument(sentence));
    }
    Ok(object)
}

/// Has the circuit behind the sender's engine start a write of its peer stream to a peer, at its
/// command port. The sender's peer channel 0 is open with CROSSLANE_CHANNEL_COMMAND_PORT. One
/// command is worked off at a time.
///
/// @param bytes  Length, in bytes: a multiple of 4.
/// @return 0; -EBUSY if a command is still being worked off; or another negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_command(peer: *const crosslane_peer, bytes: u32) -> c_int {
    guard("crosslane_peer_command", || {
        let object = commanded(peer)?;
        let sender = &object.sender;
        sender.session.run(sender.device.user().command(object.peer.address(), bytes))?;
        Ok(0)
    })
}

/// Waits until the command has been worked off: its last TLP has been handed to the link.
///
/// @param timeout_ns  Longest wait, in ns; 0 for one second, CROSSLANE_FOREVER for no end.
/// @return 0; -ETIMEDOUT if the time is over: the command goes on; or another negative number of
/// errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_command_wait(
    peer: *const crosslane_peer,
    timeout_ns: u64,
) -> c_int {
    guard("crosslane_peer_command_wait", || {
        let object = commanded(peer)?;
        let sender = &object.sender;
        let deadline = sender.session.deadline(timeout_ns);
        sender.session.run(sender.device.user().command_done(deadline))?;
        Ok(0)
    })
}

/// Makes round trips at the command port: messages to a peer, each sent when the one before has
/// come back into the receive queue that the sender's card routes. The other card sends them back
/// by itself: its peer stream is routed from the receive queue, and a command of it covers all
/// round trips.
///
/// @param bytes  Length of a message, in bytes: a multiple of 4.
/// @param rounds  Number of round trips, 1 to 65535.
/// @param timeout_ns  Longest time for all, in ns; 0 for one second, CROSSLANE_FOREVER for no end.
/// @param result  Gets the times; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `result` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_peer_ping_pong(
    peer: *const crosslane_peer,
    bytes: u32,
    rounds: u32,
    timeout_ns: u64,
    result: *mut crosslane_ping_pong,
) -> c_int {
    guard("crosslane_peer_ping_pong", || {
        structs::check_place(result, "round trips")?;
        // SAFETY: as the caller promises. A wrong size is found before anything is done.
        let into = unsafe { Array::new(result, 1)? };
        let object = commanded(peer)?;
        let Ok(rounds) = u16::try_from(rounds) else {
            let sentence = format!("{rounds} round trips: 1 to {} are possible", u16::MAX);
            return Err(Failure::argument(sentence));
        };
        let (sender, address) = (&object.sender, object.peer.address());
        let deadline = sender.session.deadline(timeout_ns);
        let user = sender.device.user();
        let made = sender.session.run(user.ping_pong(address, bytes, rounds, deadline))?;
        let made = crosslane_ping_pong {
            size: 0,
            sum_clocks: made.sum_clocks,
            rounds: made.rounds,
            least_clocks: made.least_clocks,
            most_clocks: made.most_clocks,
            reserved: 0,
        };
        into.put(0, made);
        Ok(0)
    })
}
