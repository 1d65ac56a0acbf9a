// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes, times and counters of a link end.
//!
//! Read first: `docs/torus-link.md`, *Budget*.

use thiserror::Error;

/// Most datagrams of a channel's receive buffer: half of the counts' modulus.
pub const MAX_CHANNEL_DATAGRAMS: u16 = 512;
/// Most datagrams of the retry buffer: less than half of the sequence numbers.
pub const MAX_RETRY_DATAGRAMS: u8 = 127;

/// Sizes and times of a link end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndParameters {
    /// Datagrams of each channel's receive buffer here, 1 to [`MAX_CHANNEL_DATAGRAMS`].
    pub channel_datagrams: u16,
    /// Most datagrams in flight without acknowledgement, 1 to [`MAX_RETRY_DATAGRAMS`].
    pub retry_datagrams: u8,
    /// Datagrams of each channel's transmit queue, at least 1.
    pub queue_datagrams: u8,
    /// Most datagrams that one acknowledgement covers, at least 1.
    pub acknowledge_datagrams: u8,
    /// Longest time that an acknowledgement or a count waits for others, ps.
    pub acknowledge_within_ps: u64,
    /// Time without acknowledgement after which datagrams are repeated, ps.
    pub retry_timeout_ps: u64,
    /// Time after which COUNT is repeated, and at most NACK, which is first repeated after a
    /// quarter of it, ps; at least 4.
    pub refresh_ps: u64,
}

/// Error of [`EndParameters::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// [`EndParameters::channel_datagrams`] is out of range.
    #[error("channel_datagrams is {0}: 1 to 512 can be told to the other end")]
    ChannelDatagrams(u16),
    /// [`EndParameters::retry_datagrams`] is out of range.
    #[error("retry_datagrams is {0}: 1 to 127 can be told from those sent twice")]
    RetryDatagrams(u8),
    /// [`EndParameters::queue_datagrams`] is 0.
    #[error("queue_datagrams is 0: nothing could be sent")]
    QueueDatagrams,
    /// [`EndParameters::acknowledge_datagrams`] is 0.
    #[error("acknowledge_datagrams is 0: at least 1")]
    AcknowledgeDatagrams,
    /// [`EndParameters::retry_timeout_ps`] is too short.
    #[error(
        "retry_timeout_ps is {retry_timeout_ps}: acknowledgements alone may wait for \
         {acknowledge_within_ps}"
    )]
    RetryTimeout {
        /// Retry time-out, ps.
        retry_timeout_ps: u64,
        /// Delay of acknowledgements that it must exceed, ps.
        acknowledge_within_ps: u64,
    },
    /// [`EndParameters::refresh_ps`] is too short.
    #[error("refresh_ps is {0}: NACK is repeated after a quarter of it, so at least 4")]
    Refresh(u64),
}

impl EndParameters {
    /// Returns parameters that let a link run at its full rate, by *Budget* of the page, from a
    /// datagram's time on the wire and the latency from wire to wire, both in picoseconds, with
    /// acknowledgements of 8 datagrams.
    pub fn for_wire(datagram_ps: u64, latency_ps: u64) -> Self {
        const ACKNOWLEDGE: u64 = 8;
        // A command and a skip set are shorter than a datagram.
        let round_trip_ps = (ACKNOWLEDGE + 3) * datagram_ps + 2 * latency_ps;
        let nack_round_trip_ps = 3 * datagram_ps + 2 * latency_ps;
        let acknowledge_within_ps = 12 * datagram_ps;
        let in_flight = round_trip_ps.div_ceil(datagram_ps.max(1)) + ACKNOWLEDGE;
        let retry_datagrams = in_flight.clamp(32, u64::from(MAX_RETRY_DATAGRAMS));
        Self {
            channel_datagrams: retry_datagrams.next_multiple_of(32) as u16 * 2,
            retry_datagrams: retry_datagrams as u8,
            queue_datagrams: 16,
            acknowledge_datagrams: ACKNOWLEDGE as u8,
            acknowledge_within_ps,
            retry_timeout_ps: (2 * (round_trip_ps + acknowledge_within_ps)).max(1),
            // Counts of eight channels take turns, so an earlier question would be superfluous; and
            // before a quarter of this the RESTART for the first NACK cannot be there.
            refresh_ps: (8 * ACKNOWLEDGE * datagram_ps + 2 * round_trip_ps)
                .max(4 * nack_round_trip_ps)
                .max(4),
        }
    }

    /// Checks that a link can work with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub const fn check(&self) -> Result<(), ParameterError> {
        if self.channel_datagrams == 0 || self.channel_datagrams > MAX_CHANNEL_DATAGRAMS {
            return Err(ParameterError::ChannelDatagrams(self.channel_datagrams));
        }
        if self.retry_datagrams == 0 || self.retry_datagrams > MAX_RETRY_DATAGRAMS {
            return Err(ParameterError::RetryDatagrams(self.retry_datagrams));
        }
        if self.queue_datagrams == 0 {
            return Err(ParameterError::QueueDatagrams);
        }
        if self.acknowledge_datagrams == 0 {
            return Err(ParameterError::AcknowledgeDatagrams);
        }
        if self.retry_timeout_ps <= self.acknowledge_within_ps {
            return Err(ParameterError::RetryTimeout {
                retry_timeout_ps: self.retry_timeout_ps,
                acknowledge_within_ps: self.acknowledge_within_ps,
            });
        }
        if self.refresh_ps < 4 {
            return Err(ParameterError::Refresh(self.refresh_ps));
        }
        Ok(())
    }

    /// Freed buffers of a channel whose count is sent without waiting.
    pub(super) const fn urgent_datagrams(&self) -> u16 {
        let quarter = self.channel_datagrams / 4;
        if quarter == 0 { 1 } else { quarter }
    }
}

/// Counters of a link end since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams sent for the first time.
    pub sent: u64,
    /// Datagrams delivered, in order.
    pub delivered: u64,
    /// Datagrams sent again.
    pub repeated: u64,
    /// Frames that arrived damaged.
    pub damaged: u64,
    /// NACK commands sent.
    pub nacks: u64,
    /// RESTART commands sent.
    pub restarts: u64,
    /// Times that the oldest datagram's acknowledgement timed out.
    pub timeouts: u64,
    /// Times that the link has come up.
    pub trainings: u64,
    /// Commands sent of all kinds.
    pub commands: u64,
    /// Datagrams received again.
    pub doubles: u64,
    /// Datagrams discarded while waiting for a RESTART, or behind a lost one.
    pub discarded: u64,
    /// Impossible sequence numbers and counts in commands.
    pub stale: u64,
    /// Datagrams without room in the receive buffer: the other end exceeded its credits.
    pub overruns: u64,
}
