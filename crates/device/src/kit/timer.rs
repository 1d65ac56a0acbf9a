// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls of `Device::timer` that a model asks for.

use crosslane_fabric::DevicePort;

/// Earliest call that a model has asked for, of those with one token.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    next_ps: u64,
    token: u32,
    /// Whether the simulation does not continue for the call alone.
    is_deadline: bool,
}

impl Timer {
    /// Creates a timer for work.
    pub const fn new(token: u32) -> Self {
        Self { next_ps: u64::MAX, token, is_deadline: false }
    }

    /// Creates a timer for time-outs, which occur only while something else happens.
    pub const fn of_deadlines(token: u32) -> Self {
        Self { is_deadline: true, ..Self::new(token) }
    }

    /// Asks for a call at a time, unless an earlier one will come.
    pub fn at(&mut self, time_ps: u64, port: &mut DevicePort<'_>) {
        if time_ps < self.next_ps {
            self.next_ps = time_ps;
            match self.is_deadline {
                true => port.deadline(time_ps, self.token),
                false => port.timer(time_ps, self.token),
            }
        }
    }

    /// Notes a call.
    pub fn fired(&mut self, now_ps: u64) {
        if self.next_ps <= now_ps {
            self.reset();
        }
    }

    /// Forgets the call asked for.
    pub fn reset(&mut self) {
        self.next_ps = u64::MAX;
    }
}
