// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our engine on modern hosts: gets beside the ceiling of each size of completions, and short
//! messages to a neighbour's memory with the terms of their time.

use crosslane_driver::network_processor::Modes;
use std::sync::Arc;

use crosslane_experiment::SendWay;
use crosslane_experiment::parallel;
use crosslane_lab::{EngineKind, Lab};
use crosslane_report::{Axis, Scale, Table};

use super::neighbours::{one_way_ns, terms};
use super::{ALL_IN_FLIGHT, GPU1, NgetOptions, NgetOutcome, gets_as};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{by_size, ceiling, ours};

/// The variant of the lab.
const VARIANT: &str = "crosslane";
/// Payloads of the host's completions, bytes.
const COMPLETIONS: [u32; 3] = [64, 128, 256];
/// Sizes of a get, bytes.
const SIZES: [u64; 5] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Fewer loops than the model has: a megabyte takes the gateware seconds.
const GATEWARE_BYTES: u64 = 1 << 20;
const GATEWARE_LOOPS: std::ops::RangeInclusive<u64> = 128..=1000;
/// Bytes of the short messages.
const MESSAGES: [u64; 4] = [8, 16, 32, 64];
/// Least share of the ceiling for long gets.
const LEAST_OF_CEILING: f64 = 0.98;
/// Longest time of short messages, ns: puts and gets.
const MOST_PUT_NS: f64 = 1000.0;
const MOST_GET_NS: f64 = 1800.0;

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 =
    (COMPLETIONS.len() * SIZES.len() + MESSAGES.len() * SendWay::ALL.len()) as u64;

const fn wanted_ns(way: SendWay) -> f64 {
    match way {
        SendWay::Put => MOST_PUT_NS,
        SendWay::Get => MOST_GET_NS,
    }
}

/// Makes gets of each size for each size of completions.
fn all_gets(context: &Context<'_>, lab: &Lab, engines: EngineKind) -> Result<Vec<NgetOutcome>> {
    let jobs: Vec<(u32, u64)> = COMPLETIONS
        .iter()
        .flat_map(|payload| SIZES.iter().map(move |size| (*payload, *size)))
        .collect();
    let run = |&(payload, size): &(u32, u64)| {
        let lab = lab.edited(|file| {
            let part = Arc::make_mut(&mut file.hosts[0].part);
            part.parameters.completer.completion_bytes = payload;
        })?;
        let options = NgetOptions::enough(size, ALL_IN_FLIGHT, 1, context.seed);
        let options = match engines {
            EngineKind::Model => options,
            EngineKind::Rtl => {
                let (least, most) = (*GATEWARE_LOOPS.start(), *GATEWARE_LOOPS.end());
                options.with_loops((GATEWARE_BYTES / size).clamp(least, most))
            }
        };
        gets_as(context, &lab, GPU1, Modes::FASTEST, options)
    };
    parallel::try_map(&jobs, run)
}

/// Returns the terms of 64 B, in order of time.
fn terms_table(lab: &Lab, way: SendWay, measured_ns: f64) -> Table {
    let mut table = Table::headed(&format!("{way} of 64 B | ns:"));
    let found = terms(lab, way, *MESSAGES.last().unwrap_or(&64));
    for (name, ns) in &found.terms {
        table.row([name.clone(), format!("{ns:.1}")]);
    }
    let sum = found.sum_ns();
    table.row(["sum".to_owned(), format!("{sum:.1}")]);
    table.row(["simulated".to_owned(), format!("{measured_ns:.1}")]);
    table
}

pub(super) fn run(context: &Context<'_>) -> Result<Experiment> {
    let model = context.variant(VARIANT)?;
    let lab = model.clone().with_engines(context.own);
    let is_gateware = context.own == EngineKind::Rtl;
    let outcomes = all_gets(context, &lab, context.own)?;
    // The model's figures stand beside the gateware's.
    let of_model = match is_gateware {
        true => all_gets(context, &model, EngineKind::Model)?,
        false => Vec::new(),
    };
    let rate = |one: &NgetOutcome| one.measured.bytes_per_second() / 1e6;
    let head = "our engine, N = 64 | completions B: | MB/s: | ceiling MB/s: | of it %:";
    let mut rates = match is_gateware {
        true => Table::headed(&format!("{head} | model MB/s: | of ceiling %:")),
        false => Table::headed(head),
    };
    let mut rows = Vec::new();
    let (mut series, mut longest) = (Vec::new(), Vec::new());
    let mut beside = of_model.iter();
    for (payload, of_payload) in COMPLETIONS.iter().zip(outcomes.chunks(SIZES.len())) {
        let points = SIZES.iter().zip(of_payload);
        for (size, one) in points.clone() {
            let mut cells = vec![
                size_words(*size),
                payload.to_string(),
                format!("{:.1}", rate(one)),
                format!("{:.1}", one.ceiling.less_dllps_bytes_per_second / 1e6),
                format!("{:.1}", 100.0 * one.of_ceiling()),
            ];
            if let Some(model) = beside.next() {
                cells.push(format!("{:.1}", rate(model)));
                cells.push(format!("{:.1}", 100.0 * model.of_ceiling()));
            }
            rates.row(cells);
            let conditions =
                format!("our engine; completions of {payload} B; {}", size_words(*size));
            let share = one.of_ceiling();
            rows.push(Row::simulated("nget_of_ceiling", conditions, "ratio", share));
        }
        let rates = points.clone().map(|(size, one)| (*size as f64, rate(one)));
        let most =
            points.map(|(size, one)| (*size as f64, one.ceiling.less_dllps_bytes_per_second / 1e6));
        let name = format!("completions of {payload} B");
        series.push(ours(&name, rates));
        series.push(ceiling(format!("{name}, ceiling"), most));
        longest.extend(of_payload.last().map(NgetOutcome::of_ceiling));
    }
    let messages: Vec<(SendWay, u64)> =
        SendWay::ALL.into_iter().flat_map(|way| MESSAGES.map(|bytes| (way, bytes))).collect();
    let times_in = |lab: &Lab| {
        parallel::try_map(&messages, |(way, bytes)| one_way_ns(context, lab, *way, *bytes))
    };
    let times: Vec<f64> = times_in(&lab)?;
    let of_model = if is_gateware { times_in(&model)? } else { Vec::new() };
    let mut beside = of_model.chunks(MESSAGES.len());
    let mut latencies = Table::headed(
        "to a neighbour's memory | 8 B ns: | 16 B ns: | 32 B ns: | 64 B ns: | \
         wanted, less than ns:",
    );
    let mut tables = vec![rates];
    let mut of_terms = Vec::new();
    for (way, of_way) in SendWay::ALL.into_iter().zip(times.chunks(MESSAGES.len())) {
        let mut cells = vec![way.to_string()];
        cells.extend(of_way.iter().map(|ns| format!("{ns:.0}")));
        cells.push(format!("{:.0}", wanted_ns(way)));
        latencies.row(cells);
        if let Some(of_model) = beside.next() {
            let mut cells = vec![format!("{way}, model")];
            cells.extend(of_model.iter().map(|ns| format!("{ns:.0}")));
            cells.push(String::new());
            latencies.row(cells);
        }
        for (bytes, ns) in MESSAGES.iter().zip(of_way) {
            let conditions = format!("our engine; {way} of {bytes} B to a neighbour");
            rows.push(Row::simulated("message_latency", conditions, "ns", *ns));
        }
        // The terms are those of the model.
        let whole = of_way.last().filter(|_| context.own == EngineKind::Model);
        of_terms.extend(whole.map(|ns| terms_table(&lab, way, *ns)));
    }
    tables.push(latencies);
    tables.extend(of_terms);
    let least = longest.iter().copied().fold(f64::INFINITY, f64::min);
    let longest_words = SIZES.last().map(|size| size_words(*size)).unwrap_or_default();
    let rates = format!(
        "Our engine on Gen3 x8 in hosts with Xeon Scalable (`nget:crosslane`), with 64 gets in \
         flight: {:.1} % of what completions leave of the link at the least, with gets of \
         {longest_words}; {:.0} % were wanted. Short gets share the link with their own requests, \
         a line of 64 B each.",
        100.0 * least,
        100.0 * LEAST_OF_CEILING
    );
    let messages = "Short messages are from before the first store until the program at the \
                    neighbour sees the notification in its memory.";
    let behind = match context.own {
        EngineKind::Model => {
            "The terms are the lab's constants, and those of 64 B add up to what is simulated \
             within 3 ns: a core's first store leaves at once, and a DLLP that is just being sent \
             holds a TLP up."
        }
        EngineKind::Rtl => {
            "The links code, align and deskew their lanes in the gateware; the lab's latency of \
             transceivers and cable comes on top."
        }
    };
    let text = paragraphs([&rates, &format!("{messages} {behind} QPACE took about 3 us.")]);
    let title = "Our engine: bandwidth by the size of completions";
    let y = Axis::new("bandwidth", "MB/s", Scale::Linear);
    Ok(Experiment {
        title: "Our engine: gets beside the ceiling, puts and gets to a neighbour",
        text,
        tables,
        plots: vec![by_size(title, "a get", y, series)],
        rows,
        ..Experiment::default()
    })
}
