// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies from one endpoint to another by way of host memory, against the times of their halves.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

const CHUNK_BYTES: u64 = 64 << 10;

/// Gen3 cards; memory takes 300 ns for a read.
fn settings(width: u8) -> Settings {
    let mut settings = Settings::ideal(rate(3, width), 256);
    settings.completer.read_latency = ns(300);
    settings
}

/// A write of the first card and a read of the second at the same place, of so many buffers.
fn halves(stand: &Stand, buffers: u32, chunks: u64) -> [Flow; 2] {
    [(0, FlowKind::Write), (1, FlowKind::Read)].map(|(card, kind)| Flow {
        window_bytes: u64::from(buffers) * CHUNK_BYTES,
        ..stand.flow(card, kind, BusAddress(1 << 20), CHUNK_BYTES).times(chunks).at_once(buffers)
    })
}

/// Returns the reports of a copy that ends well: every byte that is read is the one written.
fn copy(settings: &Settings, buffers: u32, chunks: u64) -> [FlowReport; 2] {
    let mut stand = root_ports(settings, 2);
    let [writer, reader] = halves(&stand, buffers, chunks);
    let ids = stand.fabric.start_copy(writer, reader).unwrap();
    assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
    let reports = stand.reports(&ids);
    for report in &reports {
        assert_eq!((report.failed, &report.errors), (0, &Vec::new()));
        assert_eq!(report.operations, chunks);
    }
    assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
    reports.try_into().unwrap()
}

/// Times of one chunk's halves alone.
fn alone(settings: &Settings) -> [u64; 2] {
    [0, 1].map(|half| {
        let mut stand = root_ports(settings, 2);
        let flow = halves(&stand, 1, 1)[half].clone();
        stand.run_one(flow).latencies_ps[0]
    })
}

#[test]
fn one_buffer_takes_both_halves_one_after_the_other() {
    let settings = settings(8);
    let [write_ps, read_ps] = alone(&settings);
    let [writer, reader] = copy(&settings, 1, 1);
    assert_eq!(reader.first_post, Picoseconds(write_ps));
    assert_eq!(reader.last_done, Picoseconds(write_ps + read_ps));
    assert_eq!(writer.last_done, Picoseconds(write_ps));
    let [_, reader] = copy(&settings, 1, 20);
    // Links keep fractions of a byte's time from chunk to chunk.
    let expected = 20 * (write_ps + read_ps);
    assert!(reader.last_done.0.abs_diff(expected) < 20_000, "{} {expected}", reader.last_done);
}

/// With two buffers both cards work at once, and a copy takes the first write and what the slower
/// half, the reads, takes alone. No chunk is read before it is there, nor written over before it
/// has been read.
#[test]
fn two_buffers_take_the_slower_half() {
    let settings = settings(8);
    let [write_ps, read_ps] = alone(&settings);
    assert!(write_ps < read_ps);
    let reads_alone = |buffers: u32, chunks: u64| {
        let mut stand = root_ports(&settings, 2);
        let flow = halves(&stand, buffers, chunks)[1].clone();
        stand.run_one(flow).last_done.0
    };
    for (buffers, chunks) in [(2, 40), (16, 400)] {
        let [writer, reader] = copy(&settings, buffers, chunks);
        let (took, expected) = (reader.last_done.0, write_ps + reads_alone(buffers, chunks));
        assert!(off(took as f64, expected as f64) < 0.02, "{took} {expected}");
        assert!(writer.last_done < reader.last_done);
    }
}

#[test]
fn a_copy_of_unlike_halves_is_refused() {
    let mut stand = root_ports(&settings(8), 2);
    let [writer, reader] = halves(&stand, 2, 4);
    let other = Flow { operations: 5, ..reader.clone() };
    for (first, second) in [(writer.clone(), other), (reader.clone(), writer.clone())] {
        let error = stand.fabric.start_copy(first, second).unwrap_err().to_string();
        assert!(error.ends_with("does not read what it writes"), "{error}");
    }
}
