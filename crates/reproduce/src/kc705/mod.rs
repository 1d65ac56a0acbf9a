// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `kc705`: memory-mapped DMA between a desktop and the DDR3 of a KC705 board, by
//! the document's procedure through the driver, in the lab of that name; and what it concludes.
//!
//! Read first: `published`, what each figure is held to; then the experiments, one module each.

mod fitted;
mod next;
mod published;
mod queued;
mod sweep;

use crosslane_bench::{CardDirection, CardMeasured, CardOptions, card_transfer};
use crosslane_driver::Device;
use crosslane_explain::size_words;
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_report::{Axis, Plot, Scale, Series};

use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::watch::{Watch, may_begin};
use published::Figures;

/// The board.
const CARD: &str = "kc705";
/// Sizes of the document, bytes.
const SIZES: [u64; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Longest simulated time of one scenario; the longest takes 0.1 s.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// Timed transfers of a scenario: so many, but no more than so many bytes.
const TRANSFERS: u64 = 4;
const ENOUGH_BYTES: u64 = 4 << 20;
/// The largest size of a sweep over the lab's constants.
const QUICK_BYTES: u64 = 256 << 10;

/// Scenarios that [`experiments`] runs.
pub const SCENARIOS: u64 = sweep::SCENARIOS + next::SCENARIOS + queued::SCENARIOS;

/// What all experiments have in common.
pub struct Context<'a> {
    lab: Lab,
    seed: u64,
    watch: &'a dyn Watch,
    figures: Figures,
}

/// A link of the sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    generation: Generation,
    lanes: u8,
}

const fn link(generation: Generation, lanes: u8) -> Link {
    Link { generation, lanes }
}

/// The document's links, by rate.
const LINKS: [Link; 4] = [
    link(Generation::Gen1, 1),
    link(Generation::Gen2, 1),
    link(Generation::Gen1, 4),
    link(Generation::Gen2, 4),
];
/// The fastest of them.
const FASTEST: Link = LINKS[3];

impl Link {
    fn rate(self) -> LinkRate {
        let width = Width::new(self.lanes).expect("links have widths that there are");
        LinkRate { generation: self.generation, width }
    }

    fn words(self) -> String {
        format!("{} x{}", self.generation, self.lanes)
    }

    /// Its rate as a multiple of Gen1 x1, encoding taken off.
    fn k(self) -> f64 {
        self.rate().bytes_per_second() / link(Generation::Gen1, 1).rate().bytes_per_second()
    }
}

impl<'a> Context<'a> {
    /// The shipped lab.
    ///
    /// # Errors
    /// A lab or a file of figures that cannot be read.
    pub fn new(seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        Self::of(crosslane_lab::open("kc705")?, seed, watch)
    }

    /// Another lab with the same measurements.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(lab: Lab, seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        let figures = Figures::read(&lab)?;
        Ok(Self { lab, seed, watch, figures })
    }

    /// Rows of the file of published figures.
    #[must_use]
    pub fn published_rows(&self) -> usize {
        self.figures.count()
    }

    /// The lab, or a variant of it.
    fn lab(&self, variant: Option<&str>) -> Result<Lab, ReproduceError> {
        Ok(match variant {
            Some(variant) => self.lab.with_variant(variant)?,
            None => self.lab.clone(),
        })
    }

    /// Makes transfers over a link, in a lab of their own.
    fn run(
        &self,
        lab: &Lab,
        link: Link,
        options: &CardOptions,
    ) -> Result<CardMeasured, ReproduceError> {
        let (size, way) = (size_words(options.size_bytes), options.direction.words());
        let name = format!("{}, {size}, {way}", link.words());
        let failed = |problem: String| ReproduceError::experiment(name.as_str(), problem);
        may_begin(self.watch)?;
        let lab = lab.edited(|file| {
            file.links.iter_mut().for_each(|one| one.parameters.rate = link.rate());
        })?;
        let simulation = Simulation::new(lab.build_engines(self.seed)?);
        simulation.set_time_limit(Some(TIME_LIMIT));
        let bus = simulation.bus(HostId(0));
        let result = simulation.run(&name, async {
            let device = Device::open_by_name(bus, CARD).await?;
            card_transfer(&device, options).await
        });
        let measured = result.map_err(|stuck| failed(stuck.to_string()))?;
        let measured = measured.map_err(|error| failed(error.to_string()))?;
        simulation.finish().map_err(|stuck| failed(stuck.to_string()))?;
        let (errors, now) = simulation.with_fabric(|fabric| (fabric.errors().len(), fabric.now()));
        if errors > 0 {
            return Err(failed(format!("{errors} errors on the links")));
        }
        if measured.data_errors.words > 0 {
            let words = measured.data_errors.words;
            return Err(failed(format!("{words} words are wrong")));
        }
        self.watch.done(&name, now);
        Ok(measured)
    }

    /// One transfer at a time by the document's procedure: parameters by registers, start,
    /// interrupt. Bytes per second by the clock that runs from start to interrupt.
    fn by_registers(
        &self,
        lab: &Lab,
        link: Link,
        direction: CardDirection,
        size_bytes: u64,
    ) -> Result<f64, ReproduceError> {
        let iterations = (ENOUGH_BYTES / size_bytes).clamp(1, TRANSFERS);
        let options = CardOptions::by_registers(direction, size_bytes, self.seed as u32);
        let options = CardOptions { iterations, ..options };
        Ok(self.run(lab, link, &options)?.bytes_per_second_alone())
    }
}

/// A plot of rates by size.
fn rate_plot(title: String, series: Vec<Series>) -> Plot {
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    Plot {
        title,
        x: axis("bytes of a transfer", "B", Scale::Logarithmic),
        y: axis("rate", "MB/s", Scale::Linear),
        series,
    }
}

/// Every experiment, in order, each scenario in a lab of its own; `done` gets them as they end.
///
/// # Errors
/// An experiment that does not run as it should, or was interrupted.
pub fn experiments(
    context: &Context<'_>,
    done: &mut Vec<Experiment>,
) -> Result<(), ReproduceError> {
    let measured = sweep::measure(context)?;
    done.push(sweep::run(context, &measured)?);
    done.push(fitted::run(context, &measured)?);
    done.extend(next::run(context, &measured)?);
    done.push(queued::run(context, &measured)?);
    Ok(())
}

/// The rows that are compared, and no others.
///
/// # Errors
/// As [`experiments`].
pub fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    fitted::compared(context, u64::MAX)
}

/// The same with transfers that take little time: for sweeps over the lab's constants.
///
/// # Errors
/// As [`experiments`].
pub fn quick(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    fitted::compared(context, QUICK_BYTES)
}
