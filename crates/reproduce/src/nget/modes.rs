// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver's modes: location of the data, way of writing requests, way of seeing notifications.

use crosslane_driver::network_processor::{Buffers, Modes, Requests};
use crosslane_experiment::parallel;
use crosslane_host::{Mapping, Waiting};
use crosslane_report::Table;

use super::{GPU1, NgetOutcome, gets};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};

const BUFFERS: [(Buffers, &str); 3] = [
    (Buffers::User, "user space"),
    (Buffers::Copied, "kernel space, copied"),
    (Buffers::Mapped, "kernel space, mapped"),
];
const REQUESTS: [(Requests, &str); 2] =
    [(Requests::SystemCall, "IOCTL"), (Requests::Stores(Mapping::Uncached), "mapped stores")];
const WAITING: [(Waiting, &str); 3] = [
    (Waiting::Polling, "polling in user space"),
    (Waiting::KernelPolling, "polling in the kernel"),
    (Waiting::Monitor, "monitor/mwait"),
];
/// A get of one page, and one of several.
const SIZES: [u64; 2] = [1 << 10, 16 << 10];
/// One in flight, and many.
const IN_FLIGHT: [u32; 2] = [1, 16];

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 =
    (BUFFERS.len() * REQUESTS.len() * WAITING.len() * SIZES.len() * IN_FLIGHT.len()) as u64;

pub(super) fn run(context: &Context<'_>) -> Result<Experiment> {
    let mut modes = Vec::new();
    for (buffers, first) in BUFFERS {
        for (requests, second) in REQUESTS {
            for (waiting, third) in WAITING {
                modes.push((
                    Modes::default()
                        .with_buffers(buffers)
                        .with_requests(requests)
                        .with_waiting(waiting),
                    [first, second, third],
                ));
            }
        }
    }
    let kinds: Vec<(u64, u32)> =
        SIZES.iter().flat_map(|size| IN_FLIGHT.map(|count| (*size, count))).collect();
    let jobs: Vec<(Modes, (u64, u32))> =
        modes.iter().flat_map(|(modes, _)| kinds.iter().map(|kind| (*modes, *kind))).collect();
    let outcomes: Vec<NgetOutcome> = parallel::try_map(&jobs, |(modes, kind)| {
        gets(context, context.lab(), GPU1, *modes, *kind)
    })?;
    let mut table = Table::headed(
        "buffers | requests | notification | 1 KiB, N = 1: us: | 1 KiB, N = 16: MB/s: | \
         16 KiB, N = 1: us: | 16 KiB, N = 16: MB/s:",
    );
    let mut rows = Vec::new();
    for ((_, words), found) in modes.iter().zip(outcomes.chunks(kinds.len())) {
        let mut cells: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        for ((size, count), outcome) in kinds.iter().zip(found) {
            let conditions = format!("{}; {}; N = {count}", words.join(", "), size_words(*size));
            let (quantity, unit, value, digits) = match count {
                1 => {
                    let us = outcome.measured.durations.typical_ps as f64 / 1e6;
                    ("nget_duration", "us", us, 2)
                }
                _ => ("nget_bandwidth", "MB/s", outcome.measured.bytes_per_second() / 1e6, 0),
            };
            cells.push(format!("{value:.digits$}"));
            rows.push(Row::simulated(quantity, conditions, unit, value));
        }
        table.row(cells);
    }
    let text = paragraphs([
        "The paper's choices, on gpu1. In user space the pages of a buffer lie anywhere, so \
         that a get of 16 KiB is four requests; the driver's own memory is in one piece. A copy \
         costs its bytes at the processor's copying rate. The kernel looks at the notification \
         when it is called and then at each tick; the processor that rests in mwait has to wake \
         up. The paper found the latency of detecting notifications high; it gives no figure, \
         so all of these are context.",
    ]);
    Ok(Experiment {
        title: "Driver modes",
        text,
        tables: vec![table],
        rows,
        ..Experiment::default()
    })
}
