// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes and times of a link end, and what it counts.
//!
//! Read first: `docs/torus-link.md`, *Budget*.

use thiserror::Error;

/// Most datagrams of a channel's receive buffer: half of the counts' modulus.
pub const MAX_CHANNEL_DATAGRAMS: u16 = 512;
/// Most datagrams of the retry buffer: fewer than half of the sequence numbers.
pub const MAX_RETRY_DATAGRAMS: u8 = 127;

/// Sizes and times of a link end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndParameters {
    /// Datagrams of each channel's receive buffer here, 1 to [`MAX_CHANNEL_DATAGRAMS`].
    pub channel_datagrams: u16,
    /// Datagrams that may be unacknowledged, 1 to [`MAX_RETRY_DATAGRAMS`].
    pub retry_datagrams: u8,
    /// Datagrams of each channel's transmit queue, at least 1.
    pub queue_datagrams: u8,
    /// Datagrams that one acknowledgement stands for at most, at least 1.
    pub acknowledge_datagrams: u8,
    /// An acknowledgement, or a count, waits no longer than this for others.
    pub acknowledge_within_ps: u64,
    /// What is not acknowledged for this long is sent again.
    pub retry_timeout_ps: u64,
    /// NACK, and the question for counts, are sent again after this.
    pub refresh_ps: u64,
}

/// Why parameters cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// See [`EndParameters::channel_datagrams`].
    #[error("channel_datagrams is {0}: 1 to 512 can be told to the other end")]
    ChannelDatagrams(u16),
    /// See [`EndParameters::retry_datagrams`].
    #[error("retry_datagrams is {0}: 1 to 127 can be told from those sent twice")]
    RetryDatagrams(u8),
    /// See [`EndParameters::queue_datagrams`].
    #[error("queue_datagrams is 0: nothing could be sent")]
    QueueDatagrams,
    /// See [`EndParameters::acknowledge_datagrams`].
    #[error("acknowledge_datagrams is 0: at least 1")]
    AcknowledgeDatagrams,
    /// See [`EndParameters::retry_timeout_ps`].
    #[error(
        "retry_timeout_ps is {retry_timeout_ps}: acknowledgements alone may wait for \
         {acknowledge_within_ps}"
    )]
    RetryTimeout {
        /// The time-out.
        retry_timeout_ps: u64,
        /// What it must be longer than.
        acknowledge_within_ps: u64,
    },
    /// See [`EndParameters::refresh_ps`].
    #[error("refresh_ps is 0: NACKs would follow each other for ever")]
    Refresh,
}

impl EndParameters {
    /// Parameters that let a link run at its full rate, after *Budget* of the page: with a
    /// datagram's time on the wire and the latency from wire to wire, both in picoseconds, and
    /// acknowledgements for 8.
    #[must_use]
    pub fn for_wire(datagram_ps: u64, latency_ps: u64) -> Self {
        const ACKNOWLEDGE: u64 = 8;
        // A command and a skip set are shorter than a datagram.
        let round_trip_ps = (ACKNOWLEDGE + 3) * datagram_ps + 2 * latency_ps;
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
            // Counts of eight channels take turns: a question sooner than that is one too many.
            refresh_ps: (8 * ACKNOWLEDGE * datagram_ps + 2 * round_trip_ps).max(1),
        }
    }

    /// Whether a link can work with these.
    ///
    /// # Errors
    /// The first that cannot be.
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
        if self.refresh_ps == 0 {
            return Err(ParameterError::Refresh);
        }
        Ok(())
    }

    /// Untold frees of a channel that are told without waiting.
    pub(super) const fn urgent_datagrams(&self) -> u16 {
        let quarter = self.channel_datagrams / 4;
        if quarter == 0 { 1 } else { quarter }
    }
}

/// What a link end has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams sent for the first time.
    pub sent: u64,
    /// Datagrams delivered, in order.
    pub delivered: u64,
    /// Datagrams sent again.
    pub repeated: u64,
    /// Frames that came damaged.
    pub damaged: u64,
    /// NACK commands sent.
    pub nacks: u64,
    /// RESTART commands sent.
    pub restarts: u64,
    /// Times that the oldest datagram was not acknowledged in time.
    pub timeouts: u64,
    /// Times that the link has come up.
    pub trainings: u64,
    /// All commands sent.
    pub commands: u64,
    /// Datagrams that had come before.
    pub doubles: u64,
    /// Datagrams that came while a RESTART was waited for, or behind one that was lost.
    pub discarded: u64,
    /// Sequence numbers and counts of commands that cannot be.
    pub stale: u64,
    /// Datagrams for which there was no room: the other end has not kept to its credits.
    pub overruns: u64,
}
