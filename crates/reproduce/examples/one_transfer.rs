// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One transfer through all layers, event by event, for `docs/architecture.md`. `-- --write` writes
//! it into that page; a test compares the two.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, Device, Target, Transfer, User,
};
use crosslane_fabric::trace::{HeaderLine, TraceEvent, TraceRecord};
use crosslane_fabric::{DirectionId, Fabric, LinkId};
use crosslane_host::{Bus, PageSize};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::tlp::TlpKind;
use crosslane_pcie::units::{HostId, Picoseconds};

/// Bytes of the transfer: one page.
const BYTES: u64 = 4096;
/// Seed of the pattern that the card sends.
const SEED: u32 = 7;
/// Longer than any TLP takes in this lab.
const SETTLED: Picoseconds = Picoseconds::from_ns(10_000);
/// Links that are shown, in the order of the lab file: to the host, the cable of the first board,
/// to fpga1.
const LINKS: [LinkId; 3] = [LinkId(0), LinkId(1), LinkId(3)];
/// The page, and the marks around its block.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
const BEGIN: &str = "<!-- one transfer: written by `make architecture` -->\n```text\n";
const END: &str = "```\n";

type Failure = Box<dyn std::error::Error>;

/// A line of the story: time, place, event.
type Line = (Picoseconds, String, String);

fn main() -> Result<(), Failure> {
    let story = story()?;
    if std::env::args().any(|argument| argument == "--write") {
        std::fs::write(PAGE, replaced(&std::fs::read_to_string(PAGE)?, &story)?)?;
    }
    print!("{story}");
    Ok(())
}

/// Returns the page with its block replaced.
fn replaced(page: &str, story: &str) -> Result<String, Failure> {
    let (before, rest) = page.split_once(BEGIN).ok_or("the page lacks the beginning")?;
    let (_, after) = rest.split_once(END).ok_or("the page lacks the end of the block")?;
    Ok(format!("{before}{BEGIN}{story}{END}{after}"))
}

/// Moves one page from fpga1 into host memory and lists the events in order of time.
fn story() -> Result<String, Failure> {
    let lab = Lab::load("rosta:crosslane")?;
    let simulation = Simulation::new(lab.build_engines(1)?);
    let bus = simulation.bus(HostId(0));
    let records: Arc<Mutex<Vec<TraceRecord>>> = Arc::default();
    let sink = records.clone();
    let host = simulation.run("page", async {
        let device = Device::open_by_name(bus.clone(), "fpga1").await?;
        device.user().seed(SEED).await?;
        let buffer = device.buffer(BYTES, PageSize::Small).await?;
        let mut channel = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await?;
        // The writes that set the channel up have arrived by then.
        bus.sleep_until(Picoseconds(bus.now().0 + SETTLED.0)).await;
        simulation.with_fabric(|fabric| {
            fabric.set_trace(Box::new(move |record: &TraceRecord| {
                sink.lock().expect("nobody panics with it").push(*record);
            }));
        });
        let begin = bus.now();
        let transfer = Transfer {
            target: Target::Buffer(buffer.clone(), 0..BYTES),
            level: CompletionLevel::Visible,
            deadline: Picoseconds::NEVER,
        };
        let tickets = channel.post(&[transfer]).await?;
        let done = channel.wait(tickets[0]).await?;
        check(&buffer)?;
        channel.close().await?;
        Ok::<_, Failure>((begin, done))
    })??;
    let (begin, done) = host;
    let mut lines = vec![
        (begin, "driver".to_owned(), "post: one transfer of 4096 B, one descriptor".to_owned()),
        (done.posted, "driver".to_owned(), "the doorbell's store has left the core".to_owned()),
        (done.completed, "driver".to_owned(), "wait returns: 4096 B are visible".to_owned()),
    ];
    let records = records.lock().map_err(|_| "a sink has panicked")?;
    simulation.with_fabric(|fabric| {
        for link in LINKS {
            lines.extend(on_link(fabric, link, &records, done.completed));
        }
    });
    lines.sort();
    Ok(told(begin, &lines))
}

/// Checks that the page contains the card's pattern.
fn check(buffer: &crosslane_driver::Buffer) -> Result<(), Failure> {
    let mut bytes = vec![0; BYTES as usize];
    buffer.read(0, &mut bytes)?;
    for (n, word) in (0_u32..).zip(bytes.chunks_exact(4)) {
        if word != User::pattern(SEED, n).to_le_bytes() {
            return Err(format!("word {n} of the page is wrong").into());
        }
    }
    Ok(())
}

/// Lists the TLPs on a link until `end`; of a series of data writes only the first and the last.
fn on_link(fabric: &Fabric, link: LinkId, records: &[TraceRecord], end: Picoseconds) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut run: Option<(DirectionId, u32, u32)> = None;
    for record in records.iter().filter(|record| record.direction.link == link) {
        let TraceEvent::Tlp { header, .. } = &record.event else { continue };
        if record.time > end {
            continue;
        }
        let (from, to) = fabric.direction_ends(record.direction);
        let place = format!("{} -> {}", fabric.port(from).name, fabric.port(to).name);
        let bytes = header.request_bytes();
        let is_data = header.kind == TlpKind::MemoryWrite && bytes >= 128;
        match &mut run {
            Some((direction, length, count))
                if is_data && (*direction, *length) == (record.direction, bytes) =>
            {
                *count += 1;
                let so_far = format!("... number {count} of them, the last");
                if *count > 2 {
                    lines.pop();
                }
                lines.push((record.time, place, so_far));
                continue;
            }
            _ => run = is_data.then_some((record.direction, bytes, 1)),
        }
        lines.push((record.time, place, HeaderLine(header).to_string()));
    }
    lines
}

fn told(begin: Picoseconds, lines: &[Line]) -> String {
    let mut story = String::new();
    for (time, place, what) in lines {
        let ns = time.since(begin).as_ns();
        writeln!(story, "{ns:>9.1} ns  {place:<24} {what}").expect("a string takes all");
    }
    story
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_tells_what_happens() {
        let page = std::fs::read_to_string(PAGE).expect("the page is there");
        let now = replaced(&page, &story().expect("the transfer works")).expect("a block");
        assert!(page == now, "docs/architecture.md is old: run `make architecture`");
    }
}
