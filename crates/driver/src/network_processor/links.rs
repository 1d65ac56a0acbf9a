// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links of a network processor, and its position in a torus.

use crosslane_host::ErrorKind::{Failed, InvalidArgument};
use crosslane_host::{Bus, lock};
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::network_processor as map;
use crosslane_regs::network_processor::torus_dimension::extent;
use crosslane_regs::network_processor::torus_lane;
use crosslane_regs::network_processor::torus_link::{self, control, status};
use crosslane_regs::network_processor::{LinkMode, LinkState};

use super::error::{NetworkError, NetworkFault};
use super::{FIRST_LOOK, LONGEST_LOOK, NetworkProcessor};
use crate::error::Result;

/// Unit of a lane's rate in the status register, bits per second.
const LANE_RATE_UNIT: u64 = 500_000_000;
/// Most lanes of a link.
const MAX_LANES: usize = 8;
/// Most nodes of a torus: node numbers have 16 bits.
const MAX_NODES: u32 = 1 << 16;

/// A dimension of a torus, and the node's coordinate in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TorusDimension {
    /// Number of nodes along the dimension.
    pub size: u16,
    /// The node's coordinate, less than `size`.
    pub position: u16,
    /// Whether the ring is open: no link joins its ends.
    pub is_open: bool,
}

/// Position of a node in its torus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TorusPlace {
    /// Number of the node.
    pub own: u16,
    /// Number of nodes in the torus.
    pub nodes: u32,
}

/// State of a link, and its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// State.
    pub state: LinkState,
    /// Lanes; 0 without a cable.
    pub lanes: u8,
    /// Line bits per second of each lane; 0 without a cable.
    pub lane_bits_per_second: u64,
    /// Datagrams of each channel that the other end has room for; 0 unless the link is up.
    pub far_datagrams: u16,
}

impl LinkStatus {
    /// Returns the rate of line bits in each direction, all lanes.
    pub const fn line_bits_per_second(&self) -> u64 {
        self.lanes as u64 * self.lane_bits_per_second
    }
}

/// Counters of a link since the device's reset; they wrap at 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Datagrams sent for the first time.
    pub sent: u32,
    /// Datagrams delivered, in order.
    pub delivered: u32,
    /// Datagrams sent again.
    pub repeated: u32,
    /// Damaged frames received.
    pub damaged: u32,
    /// NACK commands sent.
    pub nacks: u32,
    /// RESTART commands sent.
    pub restarts: u32,
    /// Time-outs of the oldest unacknowledged datagram.
    pub timeouts: u32,
    /// Completed trainings of the link.
    pub trainings: u32,
    /// Generator datagrams that the checker found right.
    pub checked: u32,
    /// Datagrams that the checker found wrong.
    pub wrong: u32,
}

/// How far a cable is from damage: counters of its lanes since the device's reset; they wrap at
/// 2^32. The model has one clock and sends frames, so its elastic buffer does nothing, and errors
/// between frames are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMargins {
    /// Skip columns (64b/66b: rows) dropped, as the other end's clock is faster.
    pub dropped: u32,
    /// Skip columns doubled, as the other end's clock is slower.
    pub doubled: u32,
    /// Times that the elastic buffer between the clocks was empty or full.
    pub slipped: u32,
    /// Symbols (64b/66b: sync headers) that came wrong on each lane while the link was up.
    pub lane_errors: [u32; MAX_LANES],
}

impl LinkMargins {
    /// Returns what has been counted since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            dropped: self.dropped.wrapping_sub(before.dropped),
            doubled: self.doubled.wrapping_sub(before.doubled),
            slipped: self.slipped.wrapping_sub(before.slipped),
            lane_errors: std::array::from_fn(|lane| {
                self.lane_errors[lane].wrapping_sub(before.lane_errors[lane])
            }),
        }
    }
}

impl NetworkProcessor {
    fn link_register(&self, link: u8, register: u32) -> Result<u32> {
        let have = self.shared.sizes.links;
        if link >= have {
            let problem = format!("there is no link {link}: it has {have}, from 0 on");
            return Err(self.shared.access.refused(InvalidArgument, problem));
        }
        Ok(map::LINKS.at(link.into()) + register)
    }

    /// Changes fields of a link's control register.
    async fn change(&self, link: u8, mask: u32, value: u32) -> Result<()> {
        let register = self.link_register(link, torus_link::CONTROL)?;
        let held = self.read_raw(register).await?;
        self.write_raw(register, held & !mask | value).await
    }

    /// Enables a link, which then trains. Requests for it wait until it is up.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn enable_link(&self, link: u8) -> Result<()> {
        self.change(link, control::ENABLE.mask(), control::ENABLE.mask()).await
    }

    /// Takes a link down: both ends forget all of its data, and its messages end with
    /// [`NetworkFault::LinkDown`]. Disable the other end too before enabling it again.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn disable_link(&self, link: u8) -> Result<()> {
        self.change(link, control::ENABLE.mask(), 0).await?;
        lock(&self.shared.puts).forget_link(link);
        Ok(())
    }

    /// Sets the destination of a link's datagrams.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn set_link_mode(&self, link: u8, mode: LinkMode) -> Result<()> {
        self.change(link, control::MODE.mask(), control::MODE.put(mode.bits())).await
    }

    /// Retrains a link without loss.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn retrain_link(&self, link: u8) -> Result<()> {
        self.change(link, 0, control::RETRAIN.put(1)).await
    }

    /// Switches a link's generator on channel 7, and the checker of what arrives there.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn soak_link(&self, link: u8, generate: bool, check: bool) -> Result<()> {
        let mask = control::GENERATE.mask() | control::CHECK.mask();
        let value =
            control::GENERATE.put(u32::from(generate)) | control::CHECK.put(u32::from(check));
        self.change(link, mask, value).await
    }

    /// Reads the state of a link.
    ///
    /// # Errors
    /// No such link, no answer, or a state that the register map does not define.
    pub async fn link_state(&self, link: u8) -> Result<LinkState> {
        Ok(self.link_status(link).await?.state)
    }

    /// Reads the state of a link, its lanes and the room at the other end.
    ///
    /// # Errors
    /// No such link, no answer, or a state that the register map does not define.
    pub async fn link_status(&self, link: u8) -> Result<LinkStatus> {
        let word = self.read_raw(self.link_register(link, torus_link::STATUS)?).await?;
        let bits = status::STATE.get(word);
        let state = LinkState::from_bits(bits).ok_or_else(|| {
            let problem = format!("link {link} is in state {bits}, which means nothing");
            self.shared.access.refused(Failed, problem)
        })?;
        Ok(LinkStatus {
            state,
            lanes: status::LANES.get(word) as u8,
            lane_bits_per_second: u64::from(status::LANE_RATE.get(word)) * LANE_RATE_UNIT,
            far_datagrams: status::FAR_ROOM.get(word) as u16,
        })
    }

    /// Waits until a link is up.
    ///
    /// # Errors
    /// No such link, a link that is not up at the deadline, or one that has failed.
    pub async fn wait_link_up(&self, link: u8, deadline: Picoseconds) -> Result<(), NetworkError> {
        let mut pause = FIRST_LOOK;
        loop {
            let state = self.link_state(link).await.map_err(NetworkError::refused)?;
            if state == LinkState::Up {
                return Ok(());
            }
            let now = self.bus().now();
            if now >= deadline || state == LinkState::Failed {
                return Err(NetworkError {
                    place: format!("{} link {link}", self.name()),
                    fault: NetworkFault::NotUp { state },
                    moved_bytes: 0,
                    total_bytes: 0,
                });
            }
            self.bus().sleep_until((now + pause).min(deadline)).await;
            pause = Picoseconds(2 * pause.0).min(LONGEST_LOOK);
        }
    }

    /// Reads a link's counters.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn link_counters(&self, link: u8) -> Result<LinkCounters> {
        let read = async |register| self.read_raw(self.link_register(link, register)?).await;
        Ok(LinkCounters {
            sent: read(torus_link::SENT).await?,
            delivered: read(torus_link::DELIVERED).await?,
            repeated: read(torus_link::REPEATED).await?,
            damaged: read(torus_link::DAMAGED).await?,
            nacks: read(torus_link::NACKS).await?,
            restarts: read(torus_link::RESTARTS).await?,
            timeouts: read(torus_link::TIMEOUTS).await?,
            trainings: read(torus_link::TRAININGS).await?,
            checked: read(torus_link::CHECKED).await?,
            wrong: read(torus_link::WRONG).await?,
        })
    }

    /// Reads the counters of a link's lanes.
    ///
    /// # Errors
    /// No such link, or no answer.
    pub async fn link_margins(&self, link: u8) -> Result<LinkMargins> {
        let read = async |register| self.read_raw(self.link_register(link, register)?).await;
        let mut margins = LinkMargins {
            dropped: read(torus_link::DROPPED).await?,
            doubled: read(torus_link::DOUBLED).await?,
            slipped: read(torus_link::SLIPPED).await?,
            ..LinkMargins::default()
        };
        let first = u32::from(link) * MAX_LANES as u32;
        for (errors, lane) in margins.lane_errors.iter_mut().zip(first..) {
            *errors = self.read_raw(map::LANES.at(lane) + torus_lane::ERRORS).await?;
        }
        Ok(margins)
    }

    /// Sets the node's position in a torus; channels 6 and 7 then carry routed messages. The first
    /// dimension counts fastest in a node's number; link 2d leads up in dimension d, link 2d + 1
    /// down. No dimensions, or one node, means no torus.
    ///
    /// # Errors
    /// An impossible position, or no answer.
    pub async fn place_in_torus(&self, dimensions: &[TorusDimension]) -> Result<()> {
        let place = place(dimensions)
            .map_err(|problem| self.shared.access.refused(InvalidArgument, problem))?;
        for number in 0..map::DIMENSIONS.count {
            let none = TorusDimension { size: 0, position: 0, is_open: false };
            let dimension = dimensions.get(number as usize).copied().unwrap_or(none);
            let value = extent::SIZE.put(dimension.size.into())
                | extent::OPEN.put(u32::from(dimension.is_open))
                | extent::POSITION.put(dimension.position.into());
            self.write_raw(map::DIMENSIONS.at(number), value).await?;
        }
        *lock(&self.shared.place) = place;
        // The read waits for the writes before it.
        self.read_raw(map::DIMENSIONS.at(0)).await.map(|_| ())
    }

    /// Sets whether routed messages that come before their credits wait, however many there are.
    /// They then may fill the receive buffers, so that nothing else gets through this node until
    /// credits come. Otherwise, and after a reset, they have half of each buffer; a message beyond
    /// that is dropped, and its credit ends with [`NetworkFault::Dropped`].
    ///
    /// # Errors
    /// No answer.
    pub async fn hold_routed(&self, hold: bool) -> Result<()> {
        self.write_raw(map::ROUTING, map::routing::HOLD.put(hold.into())).await?;
        self.read_raw(map::ROUTING).await.map(|_| ())
    }
}

/// Returns the position that these dimensions give, if there is more than one node.
fn place(dimensions: &[TorusDimension]) -> Result<Option<TorusPlace>, String> {
    let (have, most) = (dimensions.len(), map::DIMENSIONS.count);
    if have > most as usize {
        return Err(format!("a torus of {have} dimensions; it has {most} at most"));
    }
    let (mut nodes, mut own) = (1_u32, 0_u32);
    for (number, dimension) in dimensions.iter().enumerate() {
        let TorusDimension { size, position, .. } = *dimension;
        let most = extent::SIZE.mask();
        if size == 0 || u32::from(size) > most || position >= size {
            return Err(format!(
                "position {position} of {size} in dimension {number}: sizes are 1 to {most}"
            ));
        }
        own += u32::from(position) * nodes;
        nodes = nodes.saturating_mul(size.into());
        if nodes > MAX_NODES {
            return Err(format!("a torus of more than {MAX_NODES} nodes"));
        }
    }
    Ok((nodes > 1).then_some(TorusPlace { own: own as u16, nodes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn dimension(size: u16, position: u16) -> TorusDimension {
        TorusDimension { size, position, is_open: false }
    }

    #[test]
    fn the_first_dimension_counts_fastest() {
        let torus = [dimension(4, 3), dimension(2, 1), dimension(8, 5)];
        assert_eq!(place(&torus), Ok(Some(TorusPlace { own: 3 + 4 + 5 * 8, nodes: 64 })));
        assert_eq!(place(&[]), Ok(None));
        assert_eq!(place(&[dimension(1, 0), dimension(1, 0)]), Ok(None));
        let all = [dimension(256, 255), dimension(256, 255)];
        assert_eq!(place(&all), Ok(Some(TorusPlace { own: u16::MAX, nodes: 1 << 16 })));
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        for (torus, words) in [
            (vec![dimension(4, 4)], "position 4 of 4 in dimension 0: sizes are 1 to 32767"),
            (vec![dimension(0, 0)], "position 0 of 0 in dimension 0: sizes are 1 to 32767"),
            (vec![dimension(1, 0); 5], "a torus of 5 dimensions; it has 4 at most"),
            (vec![dimension(256, 0), dimension(257, 0)], "a torus of more than 65536 nodes"),
        ] {
            assert_eq!(place(&torus).unwrap_err(), words);
        }
    }
}
