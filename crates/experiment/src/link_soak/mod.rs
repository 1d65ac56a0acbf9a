// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Test of the cables of a torus: the generator of each end sends without pause, the checker of
//! the other end compares every word, and the counters of both ends are read.
//!
//! Read first: [`SoakOptions`], the work of a [`Scenario`](crate::Scenario) with all nodes of a
//! lab's torus; or [`soak_links`], with nodes that are open.

mod run;

use crosslane_driver::network_processor::{LinkCounters, LinkMargins, LinkState, LinkStatus};
use crosslane_host::{Bus, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_torus::{Direction, Node};
use futures_util::future::try_join_all;

use crate::error::{ExperimentError, Result};
pub use run::{SoakOutcome, soak_on};

/// Time from the start of the generators to the first reading: data of the other end come by then.
const RAMP: Picoseconds = Picoseconds::from_us(2);
/// Longest time between readings during a test. They keep simulated gateware awake: it sleeps
/// 65,536 clocks after the last TLP.
const LOOK: Picoseconds = Picoseconds::from_us(50);
/// Time between readings while data drain.
const DRAIN_LOOK: Picoseconds = Picoseconds::from_us(2);
/// Most times that each cable is trained anew.
const MAX_RETRAINS: u32 = 1000;

/// Length of a test, and what disturbs it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SoakOptions {
    /// Time for which the generators run; the longest one if `datagrams` is set.
    pub time: Picoseconds,
    /// Datagrams that each checker sees at least, after which the generators stop.
    pub datagrams: Option<u32>,
    /// Times that each cable is trained anew, spread evenly over `time`.
    pub retrains: u32,
    /// Time within which links come up, and data drain.
    pub timeout: Picoseconds,
}

setters!(SoakOptions {
    with_datagrams(datagrams: Option<u32>),
    with_retrains(retrains: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

impl SoakOptions {
    /// Returns options of an undisturbed test; links come up within 1 s.
    pub const fn new(time: Picoseconds) -> Self {
        let timeout = Picoseconds::from_ms(1000);
        Self { time, datagrams: None, retrains: 0, timeout }
    }

    /// Returns the first problem of the options, if there is one.
    fn problem(&self) -> Option<String> {
        if self.time == Picoseconds::ZERO || self.datagrams == Some(0) {
            return Some("a test of no length".to_owned());
        }
        if self.retrains > MAX_RETRAINS {
            let retrains = self.retrains;
            return Some(format!(
                "{retrains} trainings of each cable; {MAX_RETRAINS} are possible"
            ));
        }
        None
    }
}

/// Test of a cable as one of its ends saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndSoaked {
    /// Name of the network processor.
    pub node: String,
    /// Number of the link.
    pub link: u8,
    /// Name of the network processor at the other end.
    pub far_node: String,
    /// Number of its link.
    pub far_link: u8,
    /// State of the link at the end of the test, and its lanes while it was up.
    pub status: LinkStatus,
    /// Counters of this end over the test.
    pub counters: LinkCounters,
    /// Counters of its lanes over the test.
    pub margins: LinkMargins,
    /// Trainings since the device's reset.
    pub trainings: u32,
    /// Datagrams that the other end has sent and that its checker's counts here do not contain.
    pub lost: u32,
    /// Bytes of a datagram's payload.
    pub payload_bytes: u64,
    /// Duration of the test, from the first generator's start until all data had come.
    pub elapsed: Picoseconds,
    /// Payload that came while all generators ran, bytes per second.
    pub bytes_per_second: f64,
}

impl EndSoaked {
    /// Times that the link has gone down during the test: each training of it followed a loss.
    pub const fn losses(&self) -> u32 {
        self.counters.trainings + !self.is_up() as u32
    }

    /// Whether the link is up at the end.
    pub const fn is_up(&self) -> bool {
        matches!(self.status.state, LinkState::Up)
    }

    /// Line bits that passed in each direction during the test.
    pub fn line_bits(&self) -> f64 {
        self.status.line_bits_per_second() as f64 * self.elapsed.as_seconds()
    }

    /// Payload that came, as a share of the line bits.
    pub fn share_of_line(&self) -> f64 {
        let line = self.status.line_bits_per_second() as f64 / 8.0;
        if line > 0.0 { self.bytes_per_second / line } else { 0.0 }
    }
}

/// One end of a cable that is tested.
struct End<'a> {
    node: &'a Node,
    link: u8,
    /// Number of the node at the other end, and its link.
    far: (u16, u8),
    status: LinkStatus,
    before: LinkCounters,
    margins_before: LinkMargins,
}

/// Returns the counters `after` less those `before`, which wrap.
fn since(after: &LinkCounters, before: &LinkCounters) -> LinkCounters {
    macro_rules! less {
        ($($field:ident)*) => {
            LinkCounters { $($field: after.$field.wrapping_sub(before.$field),)* }
        };
    }
    less!(sent delivered repeated damaged nacks restarts timeouts trainings checked wrong)
}

impl End<'_> {
    async fn set(&self, generate: bool, check: bool) -> Result<()> {
        Ok(self.node.processor().soak_link(self.link, generate, check).await?)
    }

    /// Reads the counters since the start, and when.
    async fn read(&self) -> Result<(LinkCounters, Picoseconds)> {
        let processor = self.node.processor();
        let now = processor.bus().now();
        let counters = processor.link_counters(self.link).await?;
        Ok((since(&counters, &self.before), now))
    }

    async fn margins(&self) -> Result<LinkMargins> {
        Ok(self.node.processor().link_margins(self.link).await?.since(&self.margins_before))
    }
}

/// Returns all ends of the cables between these nodes, with their links up.
async fn ends<'a>(nodes: &'a [Node], timeout: Picoseconds) -> Result<Vec<End<'a>>> {
    let mut ends = Vec::new();
    for node in nodes {
        let processor = node.processor();
        node.links_up(processor.bus().now() + timeout).await?;
        for direction in node.coordinates().directions() {
            let Some(far) = node.coordinates().neighbour(direction) else { continue };
            let link = direction.link();
            ends.push(End {
                node,
                link,
                far: (far, direction.opposite().link()),
                status: processor.link_status(link).await?,
                before: processor.link_counters(link).await?,
                margins_before: processor.link_margins(link).await?,
            });
        }
    }
    match ends.is_empty() {
        true => Err(ExperimentError::refused("the torus", "no cable joins two of its nodes")),
        false => Ok(ends),
    }
}

/// Sets generators and checkers of all ends.
async fn set_all(ends: &[End<'_>], generate: bool, check: bool) -> Result<()> {
    try_join_all(ends.iter().map(|end| end.set(generate, check))).await?;
    Ok(())
}

async fn read_all(ends: &[End<'_>]) -> Result<Vec<(LinkCounters, Picoseconds)>> {
    try_join_all(ends.iter().map(End::read)).await
}

/// Tests all cables between the nodes of a torus at once, both ways: `nodes` are all of them, in
/// order. Other messages must not be under way. Generators and checkers are off afterwards.
///
/// # Errors
/// Impossible options, a link that does not come up, or a device that does not answer. Wrong and
/// lost data are not an error: they are counted.
pub async fn soak_links(nodes: &[Node], options: &SoakOptions) -> Result<Vec<EndSoaked>> {
    ExperimentError::check("a test of links", options.problem())?;
    let ends = ends(nodes, options.timeout).await?;
    let bus = ends[0].node.processor().bus();
    let begun = bus.now();
    // No datagram of a generator is for the host of a node.
    set_all(&ends, false, true).await?;
    set_all(&ends, true, true).await?;
    bus.sleep_until(bus.now() + RAMP).await;
    let first = read_all(&ends).await?;
    soak(&ends, options).await?;
    let last = read_all(&ends).await?;
    set_all(&ends, false, true).await?;
    let (counted, states) = drained(&ends, options.timeout).await?;
    let elapsed = bus.now().since(begun);
    set_all(&ends, false, false).await?;
    let margins = try_join_all(ends.iter().map(End::margins)).await?;
    let rates = first.iter().zip(&last).map(|((first, begun), (last, ended))| {
        let checked = |counters: &LinkCounters| counters.checked.wrapping_add(counters.wrong);
        let datagrams = checked(last).wrapping_sub(checked(first));
        f64::from(datagrams) / ended.since(*begun).as_seconds().max(f64::MIN_POSITIVE)
    });
    let seen = counted.iter().zip(margins).zip(states).zip(rates);
    let soaked = ends.iter().zip(seen).enumerate().map(|(at, (end, seen))| {
        let (((counters, margins), state), rate) = seen;
        let processor = end.node.processor();
        let payload_bytes = processor.sizes().payload_bytes();
        EndSoaked {
            node: processor.name().to_owned(),
            link: end.link,
            far_node: nodes[usize::from(end.far.0)].processor().name().to_owned(),
            far_link: end.far.1,
            status: LinkStatus { state, ..end.status },
            counters: *counters,
            margins,
            trainings: end.before.trainings.wrapping_add(counters.trainings),
            lost: missing(&ends, &counted, at),
            payload_bytes,
            elapsed,
            bytes_per_second: rate * payload_bytes as f64,
        }
    });
    Ok(soaked.collect())
}

/// Lets the generators run, and trains cables anew.
async fn soak(ends: &[End<'_>], options: &SoakOptions) -> Result<()> {
    let bus = ends[0].node.processor().bus();
    let parts = u64::from(options.retrains) + 1;
    let begun = bus.now();
    for part in 1..=parts {
        let until = begun
            + Picoseconds(
                (u128::from(options.time.0) * u128::from(part) / u128::from(parts)) as u64,
            );
        while bus.now() < until {
            bus.sleep_until((bus.now() + LOOK).min(until)).await;
            let Some(wanted) = options.datagrams else {
                let states = ends.iter().map(|end| end.node.processor().link_state(end.link));
                try_join_all(states).await?;
                continue;
            };
            let counted = read_all(ends).await?;
            if counted.iter().all(|(it, _)| it.checked.wrapping_add(it.wrong) >= wanted) {
                return Ok(());
            }
        }
        if part < parts {
            // Each cable has one end that leads up.
            let ups = ends.iter().filter(|end| end.link == Direction::Up(end.link / 2).link());
            for end in ups {
                end.node.processor().retrain_link(end.link).await?;
            }
        }
    }
    Ok(())
}

/// Datagrams that the other end has sent and that have not come to end number `here`.
fn missing(ends: &[End<'_>], counted: &[LinkCounters], here: usize) -> u32 {
    let far = ends[here].far;
    let there = ends.iter().position(|it| (it.node.number(), it.link) == far);
    let Some(there) = there else { return 0 };
    let come = counted[here].checked.wrapping_add(counted[here].wrong);
    counted[there].sent.wrapping_sub(come)
}

/// Waits until all that was sent has come, but no longer than `timeout`. Returns the counters since
/// the start, and the states of the links.
async fn drained(
    ends: &[End<'_>],
    timeout: Picoseconds,
) -> Result<(Vec<LinkCounters>, Vec<LinkState>)> {
    let bus = ends[0].node.processor().bus();
    let late = bus.now() + timeout;
    loop {
        let counted: Vec<_> = read_all(ends).await?.into_iter().map(|(it, _)| it).collect();
        let states = ends.iter().map(|end| end.node.processor().link_state(end.link));
        let states = try_join_all(states).await?;
        let all_up = states.iter().all(|state| *state == LinkState::Up);
        let all_came = (0..ends.len()).all(|here| missing(ends, &counted, here) == 0);
        // Datagrams may still be queued: twice the same, and nothing is under way.
        if all_up && all_came || bus.now() >= late {
            bus.sleep_until(bus.now() + DRAIN_LOOK).await;
            let again: Vec<_> = read_all(ends).await?.into_iter().map(|(it, _)| it).collect();
            let is_still = counted.iter().zip(&again).all(|(a, b)| a.sent == b.sent);
            if is_still || bus.now() >= late {
                return Ok((again, states));
            }
            continue;
        }
        bus.sleep_until((bus.now() + DRAIN_LOOK).min(late)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_wrap_are_subtracted() {
        let before = LinkCounters { sent: u32::MAX, checked: 5, ..LinkCounters::default() };
        let after = LinkCounters { sent: 9, checked: 7, wrong: 1, ..LinkCounters::default() };
        let less = since(&after, &before);
        assert_eq!((less.sent, less.checked, less.wrong, less.damaged), (10, 2, 1, 0));
    }

    #[test]
    fn tests_that_cannot_be() {
        let options = SoakOptions::new(Picoseconds::from_us(1));
        assert_eq!(options.problem(), None);
        assert_eq!(options.with_datagrams(Some(9)).with_retrains(1000).problem(), None);
        let no_length = Some("a test of no length".to_owned());
        assert_eq!(SoakOptions::new(Picoseconds::ZERO).problem(), no_length);
        assert_eq!(options.with_datagrams(Some(0)).problem(), no_length);
        let problem = options.with_retrains(1001).problem().unwrap();
        assert_eq!(problem, "1001 trainings of each cable; 1000 are possible");
    }
}
