// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `kc705`: memory-mapped DMA between a desktop and the DDR3 of a KC705 board, by
//! the paper's procedure through the driver, in the lab of that name, and the paper's conclusions.
//!
//! Read first: `published`, the tolerance of each figure; then the experiments, one module each.

mod fitted;
mod next;
mod queued;
mod sweep;

use crosslane_driver::Device;
use crosslane_experiment::{CardDirection, Measured, Options, card_transfer};
use crosslane_lab::Lab;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::HostId;
use crosslane_report::{Plot, Series};

use crate::context::Context;
use crate::error::Result;
use crate::experiment::{paper_size, size_words};
use crate::plots;
use crate::published::PublishedFigure;
use crate::study::{Effort, Reproducible, Study};

/// The board.
const CARD: &str = "kc705";
/// Sizes of the paper, bytes.
const SIZES: [u64; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Timed transfers of a scenario, in number and in bytes; the smaller limit holds.
const TRANSFERS: u64 = 4;
const ENOUGH_BYTES: u64 = 4 << 20;
/// The largest size of a sweep over the lab's constants.
const QUICK_BYTES: u64 = 256 << 10;

/// A link of the sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    generation: Generation,
    lanes: u8,
}

const fn link(generation: Generation, lanes: u8) -> Link {
    Link { generation, lanes }
}

/// The paper's links, by rate.
const LINKS: [Link; 4] = [
    link(Generation::Gen1, 1),
    link(Generation::Gen2, 1),
    link(Generation::Gen1, 4),
    link(Generation::Gen2, 4),
];
/// The fastest of these links.
const FASTEST: Link = LINKS[3];

impl Link {
    fn rate(self) -> LinkRate {
        let width = Width::new(self.lanes).expect("links have widths that there are");
        LinkRate { generation: self.generation, width }
    }

    fn words(self) -> String {
        format!("{} x{}", self.generation, self.lanes)
    }

    /// Returns its rate after encoding as a multiple of Gen1 x1.
    fn k(self) -> f64 {
        self.rate().bytes_per_second() / link(Generation::Gen1, 1).rate().bytes_per_second()
    }
}

/// Returns the quantity of a rate in the file of figures.
const fn quantity(direction: CardDirection) -> &'static str {
    match direction {
        CardDirection::ToCard => "dma_host_to_fpga",
        CardDirection::FromCard => "dma_fpga_to_host",
    }
}

/// Returns the paper's rate over the fastest link, MB/s, if it gives one.
fn figure<'a>(
    context: &'a Context<'_>,
    direction: CardDirection,
    size_bytes: u64,
) -> Option<&'a PublishedFigure> {
    let conditions = format!("{}; {}", FASTEST.words(), paper_size(size_bytes));
    context.figures.find(quantity(direction), &conditions)
}

/// Makes transfers over a link, in a separate lab.
fn transfer(
    context: &Context<'_>,
    lab: &Lab,
    link: Link,
    (direction, options): (CardDirection, Options),
) -> Result<Measured> {
    let (size, way) = (size_words(options.size_bytes), direction.words());
    let name = format!("{}, {size}, {way}", link.words());
    let lab = lab.edited(|file| {
        file.links.iter_mut().for_each(|one| one.parameters.rate = link.rate());
    })?;
    context.run_verified(&name, &lab, async |simulation| {
        let device = Device::open_by_name(simulation.bus(HostId(0)), CARD).await?;
        card_transfer(&device, direction, &options).await
    })
}

/// Makes one transfer at a time by the paper's procedure: parameters by registers, start,
/// interrupt. Returns bytes per second by the clock that runs from start to interrupt.
fn by_registers(
    context: &Context<'_>,
    lab: &Lab,
    link: Link,
    direction: CardDirection,
    size_bytes: u64,
) -> Result<f64> {
    let iterations = (ENOUGH_BYTES / size_bytes).clamp(1, TRANSFERS);
    let options = Options::by_registers(size_bytes, context.seed as u32);
    let options = options.with_iterations(iterations);
    Ok(transfer(context, lab, link, (direction, options))?.bytes_per_second_alone())
}

/// Makes a plot of rates by size.
fn rate_plot(title: &str, series: Vec<Series>) -> Plot {
    plots::by_size(title, "a transfer", plots::rate("MB/s"), series)
}

/// The study.
pub(crate) const STUDY: Study = Study {
    labs: &["kc705"],
    figures: &[],
    reproducible: Some(Reproducible {
        name: "kc705",
        summary: "Memory-mapped DMA to a KC705 board's DDR3: four links, 1 KiB to 4 MiB, one \
                      more grade of link.",
        scenarios: sweep::SCENARIOS + next::SCENARIOS + queued::SCENARIOS,
        has_engines: true,
        beside_gateware: 0,
        experiments: |context, done| {
            let measured = sweep::measure(context)?;
            done.push(sweep::run(context, &measured));
            done.push(fitted::run(context, &measured)?);
            done.extend(next::run(context, &measured)?);
            done.push(queued::run(context, &measured)?);
            Ok(())
        },
    }),
    compared: |context, effort| {
        let most = if effort == Effort::Full { u64::MAX } else { QUICK_BYTES };
        fitted::compared(context, most)
    },
};
