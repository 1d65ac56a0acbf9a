// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridged transfers: benchmarks, and files to and from cards.

use crosslane_results::quantity::short_size;
use crosslane_results::{Bridge, BridgeCopy, BridgeReport, BridgeStage};

use super::why::{last_block, push_bottlenecks};
use super::{Columns, fitted};
use crate::runs::values::typical;
use crate::table::Table;

/// Formats a benchmark: a row for each transfer, the stages of the last, and the gain of overlap.
pub fn bridge(run: &Bridge, columns: Columns) -> String {
    let mut table =
        Table::headed("path | mode | bytes: | clients: | typical ms: | MB/s: | limited by | busy:")
            .least_first(&["busy", "clients"]);
    for transfer in &run.transfers {
        let report = transfer.report.as_ref();
        let slowest =
            report.and_then(|it| Some((it, it.stages.iter().max_by_key(|it| it.busy_ps)?)));
        table.row([
            transfer.path.clone(),
            transfer.mode.clone(),
            short_size(transfer.bytes),
            transfer.clients.to_string(),
            format!("{:.3}", typical(&transfer.seconds).unwrap_or_default() * 1e3),
            format!("{:.1}", transfer.bytes_per_second / 1e6),
            slowest.map_or_else(String::new, |(_, stage)| stage.words.clone()),
            slowest.map_or_else(String::new, |(report, stage)| {
                format!("{:.1} %", percent(stage.busy_ps, report))
            }),
        ]);
    }
    push_bottlenecks(&mut table, &run.transfers, &run.transfers);
    let mut page = format!("{}\n\n{}", run.place, table.to_text(columns.tables));
    if let Some(last) = run.transfers.last() {
        page += &format!("\n{}, {}, {}:\n", last.path, last.mode, short_size(last.bytes));
        page += &last.report.as_ref().map(|report| stages(report, columns)).unwrap_or_default();
        page += &format!("  why not faster: {}\n", last.why_not_faster);
        page += &last_block(&run.transfers);
    }
    for overlap in &run.overlap {
        page += &format!(
            "\n{}, {}: naive takes {:.2} times as long as pipelined; the stages, each alone, allow \
             {:.2}: {:.1} % of it\n",
            overlap.path,
            short_size(overlap.bytes),
            overlap.naive_over_pipelined,
            overlap.bound,
            100.0 * overlap.share
        );
    }
    page + &match run.transfers.iter().map(|transfer| transfer.wrong_words).sum() {
        0_u64 => "\nall data were compared, none is wrong\n".to_owned(),
        wrong => format!("\n{wrong} words are WRONG\n"),
    }
}

/// Formats the copy of a file, and the slowest of its transfers.
pub fn bridge_copy(copy: &BridgeCopy, why_network: &str, columns: Columns) -> String {
    let resumed = match copy.retries {
        0 => "whole".to_owned(),
        1 => "resumed once".to_owned(),
        retries => format!("resumed {retries} times"),
    };
    let (bytes, megabytes) = (copy.bytes, copy.bytes_per_second / 1e6);
    let mut page = format!(
        "{}: {bytes} B in {:.3} s, {megabytes:.1} MB/s ({resumed})\n",
        copy.what, copy.seconds
    );
    if let Some(checksum) = &copy.crc32 {
        page += &format!("CRC-32 {checksum}, the same at both ends\n");
    }
    if let Some(route) = copy.transfers.iter().find_map(|report| report.route.as_ref()) {
        page += &format!("within the server: {route}\n");
    }
    page += &format!("network: {}, because {why_network}\n", copy.network);
    let rate = |report: &BridgeReport| rate(report.bytes, report.elapsed_ps);
    let reports = copy.transfers.iter().zip(&copy.why_not_faster);
    let slowest = reports.min_by(|(a, _), (b, _)| rate(a).total_cmp(&rate(b)));
    let Some((report, why)) = slowest else { return page };
    if copy.transfers.len() > 1 {
        page += &format!("{} transfers, the slowest of them:\n", copy.transfers.len());
    }
    page + &stages(report, columns) + &format!("why not faster: {why}\n")
}

/// Formats a line for each stage of a transfer, and one for the processor.
fn stages(report: &BridgeReport, columns: Columns) -> String {
    let line = |stage: &BridgeStage| {
        format!(
            "  {:10}  busy {:5.1} %, {:8.1} MB/s while busy, waited for slots {:5.1} %, {} \
             operations",
            stage.words,
            percent(stage.busy_ps, report),
            rate(stage.bytes, stage.busy_ps) / 1e6,
            percent(stage.waiting_for_slot_ps, report),
            stage.operations
        )
    };
    let gib = report.bytes as f64 / f64::from(1 << 30);
    let seconds = report.processor_ps.filter(|_| report.bytes > 0).map(|ps| ps as f64 / 1e12 / gib);
    let processor = seconds.map(|it| format!("  processor of the server: {it:.3} s for each GiB"));
    let lines = report.stages.iter().map(line).chain(shared(report)).chain(processor);
    lines.map(|line| fitted(&line, columns) + "\n").collect()
}

/// Formats what the card did for others meanwhile, if it did.
fn shared(report: &BridgeReport) -> Option<String> {
    let &BridgeReport { bytes, card_bytes, fair_share_bytes, .. } = report;
    let ratio = |of: u64| of as f64 / bytes.max(1) as f64;
    (card_bytes > bytes && fair_share_bytes > 0).then(|| {
        format!(
            "  the card moved {:.2} times as much for all clients; an equal share was {:.2} times \
             as much",
            ratio(card_bytes),
            ratio(fair_share_bytes)
        )
    })
}

fn percent(part_ps: u64, report: &BridgeReport) -> f64 {
    100.0 * part_ps as f64 / report.elapsed_ps.max(1) as f64
}

/// Returns bytes per second; 0 of no time.
fn rate(bytes: u64, ps: u64) -> f64 {
    if ps == 0 { 0.0 } else { bytes as f64 / (ps as f64 / 1e12) }
}
