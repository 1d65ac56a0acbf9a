// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Local transfers in labs: all paths, any sizes, faults, abandoned transfers, and their simulated
//! times.

use std::future::Future;
use std::pin::pin;

use crosslane_bridge::local::{Cores, HostSink, HostSource, Job, LocalDma, LocalOptions, Moved};
use crosslane_bridge::{BridgeError, Stage};
use crosslane_driver::{Buffer, Device, DriverError, Notification, TransferError, TransferFault};
use crosslane_host::ErrorKind::{Cancelled, InvalidArgument, Timeout};
use crosslane_host::{Bus, PageSize, Reason};
use crosslane_lab::{Simulation, open};
use crosslane_pcie::units::{HostId, Picoseconds};
use futures_util::future::{Either, select};

const LABS: [&str; 4] = ["kc705", "kc705:crosslane", "sbdt", "sbdt:crosslane"];
const NEVER: Picoseconds = Picoseconds::NEVER;
const MIB: usize = 1 << 20;

const fn us(us: u64) -> Picoseconds {
    Picoseconds::from_ns(us * 1_000)
}

/// Returns the names of the host with the card, and of the card.
const fn names(lab: &str) -> (&str, &str) {
    if lab.as_bytes()[0] == b'k' { ("host0", "kc705") } else { ("fpga-node", "pac") }
}

fn simulation(lab: &str) -> Simulation {
    let simulation = Simulation::new(open(lab).unwrap().build_engines(1).unwrap());
    simulation.set_time_limit(Some(us(10_000_000)));
    simulation
}

fn host(simulation: &Simulation, lab: &str) -> HostId {
    simulation.hosts().iter().find(|host| host.name == names(lab).0).unwrap().id
}

/// Runs a test with the card of a lab; checks that nothing is left afterwards.
fn on<T, F: Future<Output = T>>(lab: &str, test: impl FnOnce(Device) -> F) -> T {
    let simulation = simulation(lab);
    let host = host(&simulation, lab);
    let bus = simulation.bus(host);
    let result = simulation
        .run("test", async {
            let device = Device::open_by_name(bus, names(lab).1).await.unwrap();
            test(device).await
        })
        .unwrap();
    let left = simulation.memory_in_use(host);
    assert_eq!((left.bytes, left.pinned_for), (0, Vec::new()), "{lab}");
    result
}

/// Runs a test with local transfers of the card of a lab, which are closed in the end.
fn with<T>(
    lab: &str,
    options: LocalOptions,
    test: impl AsyncFnOnce(Device, &mut LocalDma) -> T,
) -> T {
    on(lab, async |device| {
        let mut dma = LocalDma::new(&device, options).unwrap();
        let result = test(device, &mut dma).await;
        dma.close().await.unwrap();
        result
    })
}

fn data(seed: u64, bytes: usize) -> Vec<u8> {
    let word = |n: u64| (n + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..bytes as u64).map(|n| word(n) as u8).collect()
}

fn small() -> LocalOptions {
    LocalOptions::default().with_buffer_bytes(16 << 10)
}

async fn put(dma: &mut LocalDma, from: &[u8], to: u64) -> Moved {
    dma.transfer(Job::HostToCard { from: HostSource::Copied(from), to }, NEVER).await.unwrap()
}

/// From host memory to host memory, through the card, with copies.
fn through<'a>(from: &'a [u8], to: &'a mut [u8]) -> Job<'a> {
    Job::HostToHost { from: HostSource::Copied(from), to: HostSink::Copied(to) }
}

/// Copied to the card at this address, or from the card's first address back, or through the card.
fn job_of<'a>(way: u32, from: &'a [u8], back: &'a mut [u8], card: u64) -> Job<'a> {
    match way {
        0 => Job::HostToCard { from: HostSource::Copied(from), to: card },
        1 => Job::CardToHost { from: 0, to: HostSink::Copied(back) },
        _ => through(from, back),
    }
}

fn stages(moved: &Moved) -> Vec<Stage> {
    moved.stages.iter().map(|stage| stage.stage).collect()
}

async fn get(dma: &mut LocalDma, from: u64, bytes: usize) -> Vec<u8> {
    let mut back = vec![0x5a; bytes];
    let job = Job::CardToHost { from, to: HostSink::Copied(&mut back) };
    let moved = dma.transfer(job, NEVER).await.unwrap();
    assert_eq!(moved.bytes, bytes as u64);
    back
}

async fn registered(device: &Device, bytes: usize, pages: PageSize) -> Buffer {
    device.buffer(bytes as u64, pages).await.unwrap()
}

fn contents(buffer: &Buffer, start: usize, bytes: usize) -> Vec<u8> {
    let mut into = vec![0; bytes];
    buffer.read(start as u64, &mut into).unwrap();
    into
}

/// Any size, at any address, copied or not, to the card and back, through it, and within it.
#[test]
fn every_byte_arrives_on_every_way() {
    for lab in LABS {
        with(lab, small(), async |device, dma| {
            let cases = [(1, 0), (3, 4095), (16 << 10, 64), (100_001, 12_345), (400_003, 1 << 20)];
            for (number, (bytes, card)) in cases.into_iter().enumerate() {
                let sent = data(number as u64, bytes);
                let moved = put(dma, &sent, card).await;
                let pieces = bytes.div_ceil(16 << 10) as u64;
                for stage in &moved.stages {
                    assert_eq!((stage.bytes, stage.operations), (bytes as u64, pieces));
                    assert!(stage.busy_ps > 0, "{}", stage.stage);
                }
                assert_eq!(stages(&moved), [Stage::CopyIn, Stage::Transmit]);
                assert!(get(dma, card, bytes).await == sent, "{lab}: {bytes} B at {card}");

                let to = (1 << 25) + 7 + card;
                let job = Job::CardToCard { from: card, to, bytes: bytes as u64 };
                let moved = dma.transfer(job, NEVER).await.unwrap();
                assert_eq!(stages(&moved), [Stage::Receive]);
                assert!(get(dma, to, bytes).await == sent, "{lab}: {bytes} B to {to}");

                // In the caller's own memory, from and to the middle of it.
                let source = registered(&device, bytes + 100, PageSize::Small).await;
                source.write(33, &sent).unwrap();
                let sink = registered(&device, bytes + 100, PageSize::Small).await;
                let part = 33..33 + bytes as u64;
                let from = HostSource::Registered(&source, part.clone());
                let card = (1 << 26) + card;
                let moved = dma.transfer(Job::HostToCard { from, to: card }, NEVER).await.unwrap();
                assert_eq!(stages(&moved), [Stage::Transmit]);
                let to = HostSink::Registered(&sink, part.clone());
                dma.transfer(Job::CardToHost { from: card, to }, NEVER).await.unwrap();
                let back = contents(&sink, 0, bytes + 100);
                assert!(back[33..33 + bytes] == sent, "{lab}: {bytes} B, zero-copy");
                assert!(back[..33] == [0; 33] && back[33 + bytes..] == [0; 67]);
                source.unregister().await.unwrap();
                sink.unregister().await.unwrap();
            }
        });
    }
}

#[test]
fn data_pass_through_the_card_copied_or_not() {
    for lab in LABS {
        with(lab, small(), async |device, dma| {
            for bytes in [1, 4097, 300_001] {
                let sent = data(5, bytes);
                let source = registered(&device, bytes, PageSize::Small).await;
                source.write(0, &sent).unwrap();
                let sink = registered(&device, bytes, PageSize::Huge).await;
                let all = 0..bytes as u64;
                for is_copied in [(true, true), (true, false), (false, true), (false, false)] {
                    sink.write(0, &vec![0; bytes]).unwrap();
                    let mut back = vec![0; bytes];
                    let from = match is_copied.0 {
                        true => HostSource::Copied(&sent),
                        false => HostSource::Registered(&source, all.clone()),
                    };
                    let to = match is_copied.1 {
                        true => HostSink::Copied(&mut back),
                        false => HostSink::Registered(&sink, all.clone()),
                    };
                    let moved = dma.transfer(Job::HostToHost { from, to }, NEVER).await.unwrap();
                    assert_eq!(moved.stage(Stage::CopyIn).is_some(), is_copied.0);
                    assert_eq!(moved.stage(Stage::CopyOut).is_some(), is_copied.1);
                    for stage in [Stage::Transmit, Stage::Receive] {
                        assert_eq!(moved.stage(stage).unwrap().bytes, bytes as u64);
                    }
                    let back = if is_copied.1 { back } else { contents(&sink, 0, bytes) };
                    assert!(back == sent, "{lab}: {bytes} B, copied {is_copied:?}");
                }
                source.unregister().await.unwrap();
                sink.unregister().await.unwrap();
                // Also into the card's memory in between, which reconfigures the channels.
                put(dma, &sent, 0).await;
                assert!(get(dma, 0, bytes).await == sent);
            }
        });
    }
}

#[test]
fn rings_of_any_shape_do() {
    let cases = [
        (1, 1, Notification::Poll),
        (1, 1, Notification::InterruptOnly),
        (2, 2, Notification::InterruptOnly),
        (5, 3, Notification::Interrupt),
        (8, 4, Notification::InterruptOnly),
        (64, 1, Notification::Poll),
    ];
    for (buffers, reported_together, notification) in cases {
        let options = small()
            .with_buffers(buffers)
            .with_reported_together(reported_together)
            .with_notification(notification)
            .with_cores(Cores::one_copier());
        with("sbdt", options, async |_, dma| {
            for bytes in [100, 16 << 10, 7 * (16 << 10), 500_000] {
                let sent = data(buffers.into(), bytes);
                put(dma, &sent, 1).await;
                assert!(get(dma, 1, bytes).await == sent, "{options:?}");
                let mut back = vec![0; bytes];
                dma.transfer(through(&sent, &mut back), NEVER).await.unwrap();
                assert!(back == sent, "{options:?}");
            }
        });
    }
}

/// Returns megabytes per second.
async fn rate(dma: &mut LocalDma, job: Job<'_>) -> f64 {
    dma.transfer(job, NEVER).await.unwrap().bytes_per_second() / 1e6
}

/// All copies but the first and the last are hidden behind the controllers; if the processor is
/// slower than the controllers, registered memory is faster.
#[test]
fn copies_overlap_and_registered_memory_saves_them() {
    let options = LocalOptions::default().with_cores(Cores::one_copier());
    with("sbdt:crosslane", options, async |device, dma| {
        let bytes = 16 * MIB;
        let huge = async || registered(&device, bytes, PageSize::Huge).await;
        let buffers = [huge().await, huge().await];
        let (sent, all) = (data(3, bytes), 0..bytes as u64);
        buffers[0].write(0, &sent).unwrap();
        // Opening and pinning happen once and are not timed.
        put(dma, &sent[..MIB], 0).await;
        get(dma, 0, MIB).await;
        let from = || HostSource::Registered(&buffers[0], all.clone());
        let to = || HostSink::Registered(&buffers[1], all.clone());
        let copied = rate(dma, Job::HostToCard { from: HostSource::Copied(&sent), to: 0 });
        let copied = copied.await;
        let zero_copy = rate(dma, Job::HostToCard { from: from(), to: 0 }).await;
        // One copy of 1 MiB is not hidden: 116 us of 2.6 ms.
        let hidden = bytes as f64 / (bytes as f64 / zero_copy + MIB as f64 / 9050.0);
        assert!((copied / hidden - 1.0).abs() < 0.001, "{copied} {hidden}");
        // 128 of 148 B of Gen3 x8 less SKP, and few DLLPs.
        assert!((6650.0..6850.0).contains(&zero_copy), "{zero_copy}");
        let back = rate(dma, Job::CardToHost { from: 0, to: to() }).await;
        // 256 of 276 B.
        assert!((7200.0..7320.0).contains(&back), "{back}");
        assert!(contents(&buffers[1], 0, bytes) == sent);

        let mut into = vec![0; bytes];
        let through = rate(dma, through(&sent, &mut into)).await;
        // The one core copies each byte twice.
        assert!((4300.0..9050.0 / 2.0).contains(&through), "{through}");
        let direct = rate(dma, Job::HostToHost { from: from(), to: to() }).await;
        assert!((6000.0..6850.0).contains(&direct), "{direct}");
        let within = Job::CardToCard { from: 0, to: 4 << 30, bytes: bytes as u64 };
        let within = rate(dma, within).await;
        assert!((12_000.0..12_800.0).contains(&within), "{within}");
        for buffer in buffers {
            buffer.unregister().await.unwrap();
        }
    });
}

/// Two cores that copy are faster than one, if the copies limit.
#[test]
fn cores_copy_at_the_same_time() {
    let through = |cores| {
        with("sbdt:crosslane", LocalOptions::default().with_cores(cores), async |_, dma| {
            let (sent, mut back) = (data(1, 16 * MIB), vec![0; 16 * MIB]);
            rate(dma, through(&sent, &mut back)).await
        })
    };
    let (one, two) = (through(Cores::one_copier()), through(Cores::apart()));
    assert!(two > 1.3 * one, "{one} {two}");
}

fn failed(error: BridgeError) -> (Stage, Reason, usize, usize) {
    let BridgeError { stage, why, arrived_bytes, total_bytes } = error;
    (stage, why, arrived_bytes as usize, total_bytes as usize)
}

/// Returns the fault of the transfer that failed, if one did.
fn transfer_fault(why: &Reason) -> Option<&TransferFault> {
    why.downcast_ref().map(|error: &TransferError| &error.fault)
}

fn card_memory_fault(why: &Reason) -> bool {
    transfer_fault(why) == Some(&TransferFault::CardMemory)
}

#[test]
fn what_the_card_refuses_ends_a_transfer_with_what_has_arrived() {
    for notification in [Notification::Poll, Notification::InterruptOnly] {
        let options = small().with_notification(notification).with_reported_together(4);
        with("kc705:crosslane", options, async |_, dma| {
            let (bytes, room) = (300_000, 200_192);
            let sent = data(2, bytes);
            let behind = (1 << 30) - room as u64;
            let job = Job::HostToCard { from: HostSource::Copied(&sent), to: behind };
            let error = dma.transfer(job, NEVER).await.unwrap_err();
            let words = error.to_string();
            assert!(words.starts_with("DMA from the host: kc705 H2C 0: the card's"), "{words}");
            assert!(words.ends_with("200192 of 300000 B have arrived"), "{words}");
            let (stage, fault, arrived, total) = failed(error);
            assert_eq!((stage, arrived, total), (Stage::Transmit, room, bytes));
            assert!(card_memory_fault(&fault), "{fault}");

            let mut back = vec![0; bytes];
            let job = Job::CardToHost { from: behind, to: HostSink::Copied(&mut back) };
            let (stage, fault, arrived, _) = failed(dma.transfer(job, NEVER).await.unwrap_err());
            assert_eq!((stage, card_memory_fault(&fault)), (Stage::Receive, true));
            // All but what would have been one payload.
            assert!((room - 128..=room).contains(&arrived), "{arrived}");
            assert!(back[..arrived] == sent[..arrived]);

            let job = Job::CardToCard { from: 0, to: behind, bytes: bytes as u64 };
            let (stage, fault, arrived, _) = failed(dma.transfer(job, NEVER).await.unwrap_err());
            assert_eq!((stage, card_memory_fault(&fault)), (Stage::Receive, true));
            assert_eq!(arrived, room);

            put(dma, &sent, 0).await;
            assert!(get(dma, 0, bytes).await == sent);
        });
    }
}

#[test]
fn deadlines_and_cancels_tell_what_has_arrived() {
    with("sbdt", LocalOptions::of_paper(64 << 10), async |device, dma| {
        let bus = device.bus();
        let sent = data(4, 2 * MIB);
        put(dma, &sent, 0).await;
        for (number, after_us) in [0, 3, 50, 120, 250, 400].into_iter().enumerate() {
            for way in 0..3 {
                for is_cancelled in [false, true] {
                    // Interrupts of the abandoned transfer arrive first.
                    bus.sleep_until(bus.now() + us(5_000)).await;
                    let mut back = vec![0; 2 * MIB];
                    let card = 1 << 30;
                    let job = job_of(way, &sent, &mut back, card);
                    let end = Picoseconds(bus.now().0 + us(after_us).0);
                    let ended = match is_cancelled {
                        true => dma.transfer_until(job, NEVER, bus.sleep_until(end)).await,
                        false => dma.transfer(job, end).await,
                    };
                    let (stage, fault, arrived, total) = failed(ended.unwrap_err());
                    let place = format!("way {way}, {after_us} us, {is_cancelled}: {fault}");
                    assert_eq!(total, 2 * MIB);
                    match (is_cancelled, transfer_fault(&fault)) {
                        (true, None) => {
                            assert_eq!((stage, fault.kind()), (Stage::Request, Cancelled));
                        }
                        (false, None) => {
                            let words = format!("not complete at the deadline, {end}");
                            assert_eq!((fault.to_string(), fault.kind()), (words, Timeout));
                        }
                        (false, Some(TransferFault::Deadline { .. })) => {}
                        _ => panic!("{place}"),
                    }
                    assert!(arrived < 2 * MIB, "{place}");
                    assert!(number < 4 || arrived > 0, "{place}");
                    if way == 0 {
                        assert!(get(dma, card, arrived.max(1)).await[..arrived] == sent[..arrived]);
                    } else {
                        assert!(back[..arrived] == sent[..arrived], "{place}");
                    }
                }
            }
        }
    });
}

#[test]
fn who_watches_sees_how_far_a_transfer_is() {
    with("sbdt", small(), async |device, dma| {
        let bus = device.bus();
        let sent = data(6, MIB);
        let arrived = dma.arrived();
        let mut seen = Vec::new();
        {
            let job = Job::HostToCard { from: HostSource::Copied(&sent), to: 0 };
            let mut moving = pin!(dma.transfer(job, NEVER));
            loop {
                let later = Picoseconds(bus.now().0 + us(20).0);
                match select(moving, pin!(bus.sleep_until(later))).await {
                    Either::Left((ended, _)) => {
                        assert_eq!(ended.unwrap().bytes, MIB as u64);
                        break;
                    }
                    Either::Right((_, still)) => moving = still,
                }
                seen.push(arrived.bytes());
            }
        }
        assert!(seen.is_sorted() && seen.len() > 6, "{seen:?}");
        let is_moving = |bytes: &&u64| **bytes > 0 && **bytes < MIB as u64;
        assert!(seen.iter().filter(is_moving).count() > 5, "{seen:?}");
        assert_eq!(arrived.bytes(), MIB as u64);
    });
}

/// A link that goes down ends a transfer; once it is up again the next one works.
#[test]
fn a_link_that_goes_down_ends_a_transfer_and_not_the_next() {
    for notification in [Notification::Poll, Notification::InterruptOnly] {
        for way in 0..3 {
            let lab = "sbdt:crosslane";
            let simulation = simulation(lab);
            let host = host(&simulation, lab);
            let bus = simulation.bus(host);
            let card = simulation.find("pac").unwrap();
            let link = simulation
                .with_fabric(|fabric| fabric.port(fabric.node(card).ports[0]).link.unwrap());
            let test = async {
                let device = Device::open_by_name(bus.clone(), "pac").await.unwrap();
                let options = small().with_notification(notification);
                let mut dma = LocalDma::new(&device, options).unwrap();
                let sent = data(9, 2 * MIB);
                put(&mut dma, &sent, 0).await;
                let mut back = vec![0; 2 * MIB];
                let job = job_of(way, &sent, &mut back, 0);
                let (down, up) = (bus.now() + us(260), bus.now() + us(100_000));
                let ended = {
                    let failing = pin!(dma.transfer(job, NEVER));
                    match select(failing, pin!(bus.sleep_until(down))).await {
                        Either::Left((ended, _)) => panic!("too early: {ended:?}"),
                        Either::Right((_, failing)) => {
                            simulation.with_fabric(|it| it.take_link_down(link, Some(up)));
                            failing.await
                        }
                    }
                };
                let (stage, fault, arrived, total) = failed(ended.unwrap_err());
                assert!(arrived > 0 && arrived < total, "way {way}: {arrived}");
                assert!([Stage::Transmit, Stage::Receive].contains(&stage));
                // A piece that was in flight, or one that could not be posted.
                let words = fault.to_string();
                assert!(
                    words.contains("link") || words.contains("there is no function"),
                    "{words}"
                );
                if way > 0 {
                    assert!(back[..arrived] == sent[..arrived], "way {way}");
                }
                assert!(bus.now() < up, "it was found while it was down");
                let job = Job::HostToCard { from: HostSource::Copied(&sent), to: 0 };
                let error = dma.transfer(job, NEVER).await.unwrap_err();
                assert!(error.why.is::<DriverError>(), "{error}");
                assert_eq!(error.total_bytes, 0, "{error}");
                bus.sleep_until(up + us(50_000)).await;
                put(&mut dma, &sent, 1 << 20).await;
                assert!(get(&mut dma, 1 << 20, 2 * MIB).await == sent, "way {way}");
                dma.close().await.unwrap();
            };
            simulation.run("test", test).unwrap();
            assert_eq!(simulation.memory_in_use(host).bytes, 0);
        }
    }
}

/// A transfer whose future is dropped at any time is stopped before the next one, and leaves
/// nothing behind.
#[test]
fn a_dropped_transfer_leaves_nothing_behind() {
    for is_closed in [true, false] {
        on("sbdt:crosslane", async |device| {
            let bus = device.bus().clone();
            let sent = data(8, MIB);
            let buffer = registered(&device, MIB, PageSize::Huge).await;
            for after_ns in [0, 100, 2_000, 5_000, 9_000, 30_000, 60_000, 99_000, 130_000] {
                for way in 0..4 {
                    let mut dma = LocalDma::new(&device, small()).unwrap();
                    if way > 1 {
                        put(&mut dma, &sent, 0).await;
                    }
                    let mut back = vec![0; MIB];
                    let all = 0..MIB as u64;
                    let (from, to) = (HostSource::Copied(&sent), HostSink::Copied(&mut back));
                    let job = match way {
                        0 => Job::HostToCard { from, to: 0 },
                        1 => Job::HostToHost { from, to },
                        2 => Job::CardToHost { from: 0, to: HostSink::Registered(&buffer, all) },
                        _ => Job::CardToCard { from: 0, to: 1 << 21, bytes: MIB as u64 },
                    };
                    let end = Picoseconds(bus.now().0 + 1_000 * after_ns);
                    {
                        let transfer = pin!(dma.transfer(job, NEVER));
                        let sleeping = pin!(bus.sleep_until(end));
                        let first = select(transfer, sleeping).await;
                        assert!(matches!(first, Either::Right(_)), "way {way}, {after_ns} ns");
                    }
                    if way == 3 {
                        put(&mut dma, &sent, 0).await;
                        assert!(get(&mut dma, 0, MIB).await == sent);
                    }
                    if is_closed {
                        dma.close().await.unwrap();
                    }
                }
            }
            // Opening the channels again releases what others left behind.
            let mut dma = LocalDma::new(&device, small()).unwrap();
            put(&mut dma, &sent, 0).await;
            assert!(get(&mut dma, 0, MIB).await == sent);
            dma.close().await.unwrap();
            buffer.unregister().await.unwrap();
        });
    }
}

#[test]
fn what_cannot_be_asked_for_is_refused_in_words() {
    on("kc705", async |device| {
        let options = |change: fn(&mut LocalOptions)| {
            let mut options = LocalOptions::default();
            change(&mut options);
            let error = LocalDma::new(&device, options).unwrap_err();
            assert_eq!(error.kind(), InvalidArgument);
            error.to_string()
        };
        let sentence = "request: buffers of 1024 B: 16384 to 16777216 B are possible";
        assert_eq!(options(|it| it.buffer_bytes = 1024), sentence);
        assert!(options(|it| it.buffers = 0).contains("rings of 0 buffers: 1 to 64"));
        assert!(options(|it| it.reported_together = 9).contains("9 pieces reported together"));
        let mut dma = LocalDma::new(&device, small()).unwrap();
        let mut four = [0; 4];
        let refused =
            async |dma: &mut LocalDma, job| dma.transfer(job, NEVER).await.unwrap_err().to_string();
        let job = Job::HostToCard { from: HostSource::Copied(&[]), to: 0 };
        assert!(refused(&mut dma, job).await.ends_with("a transfer of 0 B is not possible"));
        let job = through(&[1], &mut four);
        assert!(refused(&mut dma, job).await.contains("1 B were to be moved into memory of 4 B"));
        let job = Job::HostToCard { from: HostSource::Copied(&[1, 2]), to: u64::MAX };
        assert!(refused(&mut dma, job).await.contains("no card has memory behind address"));
        let job = Job::CardToCard { from: 0, to: 100, bytes: 1 << 20 };
        assert!(refused(&mut dma, job).await.contains("overlap those from 0x64"));
        // The driver refuses a part beyond the buffer, before anything moves.
        let buffer = registered(&device, 100, PageSize::Small).await;
        let from = HostSource::Registered(&buffer, 50..150);
        let error = dma.transfer(Job::HostToCard { from, to: 0 }, NEVER).await.unwrap_err();
        assert_eq!(failed(error).2, 0);
        buffer.unregister().await.unwrap();
        dma.close().await.unwrap();
    });
}
