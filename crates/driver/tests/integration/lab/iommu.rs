// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver on a host with an IOMMU: memory and peers by I/O virtual addresses, the plan, and
//! faults.

use crosslane_driver::{
    Addressing, ChannelKind, Check, CompletionLevel, PathEnd, PeerOptions, Plan, Refusal,
    StreamSource, Target,
};
use crosslane_fabric::{ErrorKind, IommuCounters};
use crosslane_host::{Bus, BusError, IoTranslation, Layer, PageSize, Topology, TopologyError};
use crosslane_lab::{Lab, LabBus, Simulation};
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

use crate::lab::plans::redirect;
use crate::lab::setup::*;

const LAB: &str = "rosta:iommu";
const HOST: HostId = HostId(0);

fn counters(simulation: &Simulation) -> IommuCounters {
    simulation.with_fabric(|fabric| fabric.iommu_counters(HOST)).unwrap()
}

fn faults(simulation: &Simulation) -> Vec<ErrorKind> {
    let errors = |fabric: &mut crosslane_fabric::Fabric| fabric.errors().to_vec();
    let all = simulation.with_fabric(errors).into_iter().map(|error| error.kind);
    all.filter(|kind| matches!(kind, ErrorKind::IommuFault { .. })).collect()
}

fn plan(bus: &LabBus, from: PathEnd, to: PathEnd) -> Plan {
    Plan::new(bus, from, to).unwrap()
}

#[test]
fn the_plan_says_where_addresses_are_translated() {
    let simulation = simulation(LAB);
    run(&simulation, async |bus| {
        let place = |name: &str| PathEnd::Function(function(&bus, name));
        let known = bus.translation(function(&bus, "fpga1")).unwrap();
        let translated = Refusal::Iommu { function: "fpga1".to_owned(), known };
        let up = plan(&bus, place("fpga1"), PathEnd::HostMemory);
        assert_eq!(
            (up.addressing, &up.refused[..]),
            (Addressing::Mapped, &[translated.clone()][..])
        );
        assert_eq!(
            translated.to_string(),
            "the IOMMU translates what fpga1 sends to the root complex: each page that its IOTLB \
             of 112 pages does not hold costs a walk of its table, 253 ns each and 5 at once"
        );
        // A core's requests are not translated, nor those that a switch turns round itself.
        let down = plan(&bus, PathEnd::HostMemory, place("fpga1"));
        assert_eq!((down.addressing, down.refused), (Addressing::Bus, vec![]));
        let peers = plan(&bus, place("fpga1"), place("fpga5"));
        assert_eq!(peers.addressing, Addressing::Bus);
        assert!(!peers.refused.contains(&translated));
        for name in ["rc47a.down0", "rha25.down0"] {
            redirect(&bus, name);
        }
        let redirected = plan(&bus, place("fpga1"), place("fpga2"));
        assert_eq!(redirected.addressing, Addressing::Mapped);
        let port = "rc47a.down0".to_owned();
        assert_eq!(redirected.refused, [Refusal::AcsRedirect { port }, translated]);
    });
    // Without an IOMMU nothing needs to be mapped.
    run(&crate::lab::setup::simulation("rosta"), async |bus| {
        let from = PathEnd::Function(function(&bus, "fpga1"));
        let up = plan(&bus, from, PathEnd::HostMemory);
        assert_eq!((up.addressing, up.refused), (Addressing::Bus, vec![]));
    });
}

/// A host whose IOMMU has unknown constants, like a real one.
#[derive(Clone)]
struct Unknown(LabBus);

impl Layer for Unknown {
    type Below = LabBus;

    fn below(&self) -> &LabBus {
        &self.0
    }

    fn over(&self, below: LabBus) -> Self {
        Self(below)
    }

    fn translation(&self, _: RoutingId) -> Result<Option<IoTranslation>, TopologyError> {
        Ok(None)
    }
}

/// One walk of 20 us at a time is 4 KiB each 20 us, in both directions; memory that the IOTLB
/// holds, or large pages, leave the link as the limit. An unknown IOMMU is left out, and the plan
/// says so.
#[test]
fn walks_are_part_of_what_is_expected() {
    let walks = [("part.i7.iommu.walk_ns", 20_000.0), ("part.i7.iommu.walks", 1.0)];
    let lab = walks.iter().fold(Lab::load(LAB).unwrap(), |lab, (path, value)| {
        lab.with_constant(&format!("variant.iommu.{path}"), *value).unwrap()
    });
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    run(&simulation, async |bus| {
        let card = PathEnd::Function(function(&bus, "fpga1"));
        let plain = plan(&bus, card, PathEnd::HostMemory);
        let near = |rate: f64, expected: f64| (rate / expected - 1.0).abs() < 1e-9;
        assert!(near(plain.expected_bytes_per_second, 4096.0 / 20e-6), "{plain:?}");
        assert!(near(plain.expected_at(BusAddress(1 << 32)), 4096.0 / 20e-6));
        let link = Plan::new(&Unknown(bus.clone()), card, PathEnd::HostMemory).unwrap();
        assert!(link.expected_bytes_per_second > 1.7e9, "{link:?}");
        let [refusal] = &link.refused[..] else { panic!("{link:?}") };
        assert!(refusal.to_string().ends_with("is left out of the expected rate"), "{refusal}");
        for (from, to) in [(card, PathEnd::HostMemory), (PathEnd::HostMemory, card)] {
            let expected = |bytes, pages| {
                plan(&bus, from, to).streaming(bytes, pages).expected_bytes_per_second
            };
            assert!(near(expected(113 * PAGE, PageSize::Small), 4096.0 / 20e-6));
            for (bytes, pages) in [(112 * PAGE, PageSize::Small), (112 << 21, PageSize::Huge)] {
                assert!(near(expected(bytes, pages), link.expected_bytes_per_second));
            }
        }
        // A switch turns peers round before they meet it.
        let peers = plan(&bus, card, PathEnd::Function(function(&bus, "fpga2")));
        assert!(near(peers.expected_bytes_per_second, link.expected_bytes_per_second));
    });
}

#[test]
fn data_go_out_and_back_at_addresses_of_the_devices_own() {
    for pages in [PageSize::Small, PageSize::Huge] {
        let simulation = simulation(LAB);
        run(&simulation, async |bus| {
            let [device] = open_all(&bus, ["fpga1"]).await;
            device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
            let out = device.buffer(MEGABYTES_4, pages).await.unwrap();
            let back = device.buffer(MEGABYTES_4, pages).await.unwrap();
            out.write(0, &pattern(5, 0, MEGABYTES_4)).unwrap();
            let mut h2c = channel(&device, ChannelKind::H2c).await;
            let mut c2h = channel(&device, ChannelKind::C2h).await;
            let before = counters(&simulation);
            let transfers = [whole(&out, VISIBLE), whole(&back, VISIBLE)];
            out_and_back([&mut h2c, &mut c2h], transfers, MEGABYTES_4).await;
            assert!(contents(&back) == pattern(5, 0, MEGABYTES_4));
            let after = counters(&simulation);
            // One walk for each of 2 x 1024 small pages or of 2 x 2 large ones, and some for the
            // descriptors, which are rewritten.
            let walks = after.misses - before.misses;
            match pages {
                PageSize::Small => assert!((2048..2100).contains(&walks), "{walks}"),
                PageSize::Huge => assert!((4..56).contains(&walks), "{walks}"),
            }
            assert!(after.hits - before.hits > 25_000, "{after:?}");
            h2c.close().await.unwrap();
            c2h.close().await.unwrap();
        });
        assert_eq!(faults(&simulation), []);
    }
}

/// Small pages are scattered in memory, but contiguous for the device.
#[test]
fn what_is_pinned_is_one_run_and_gone_when_it_is_not() {
    let simulation = simulation(LAB);
    run(&simulation, async |bus| {
        let id = function(&bus, "fpga1");
        assert_eq!(bus.is_translated(id), Ok(true));
        let memory = bus.allocate(64 * PAGE, PageSize::Small).unwrap();
        let segments = bus.pin(id, &memory).await.unwrap();
        assert_eq!(segments.iter().map(|segment| segment.bytes).collect::<Vec<_>>(), [64 * PAGE]);
        // Each function has separate addresses.
        let other = function(&bus, "fpga2");
        assert_eq!(bus.pin(other, &memory).await.unwrap(), segments);
        let leads = |function| {
            let at = segments[0].address.offset(9 * PAGE);
            simulation.with_fabric(|fabric| fabric.translate_io(HOST, function, at))
        };
        assert_eq!(leads(id), leads(other));
        assert_ne!(leads(id), None);
        let before = bus.now();
        bus.unpin(id, &memory).await.unwrap();
        // A system call, 64 entries of the table, and an invalidation.
        assert_eq!((bus.now() - before).0, (300 + 64 * 50 + 1000) * 1000);
        assert_eq!(leads(id), None);
        assert_ne!(leads(other), None);
        assert!(matches!(bus.unpin(id, &memory).await, Err(BusError::Pinning { .. })));
        bus.unpin(other, &memory).await.unwrap();
        // The addresses are free again.
        let again = bus.allocate(64 * PAGE, PageSize::Small).unwrap();
        assert_eq!(bus.pin(id, &again).await.unwrap(), segments);
        bus.unpin(id, &again).await.unwrap();
    });
}

#[test]
fn peers_write_with_and_without_redirection() {
    for redirected in [false, true] {
        let simulation = simulation(LAB);
        run(&simulation, async |bus| {
            if redirected {
                // In both directions: data and credits.
                for name in ["rc47a.down0", "rc47a.down1", "rha25.down0"] {
                    redirect(&bus, name);
                }
            }
            let [from, to_] = open_all(&bus, ["fpga1", "fpga2"]).await;
            let peer = from.connect(&to_, PeerOptions::default()).await.unwrap();
            let expected = if redirected { Addressing::Mapped } else { Addressing::Bus };
            assert_eq!(peer.plan().addressing, expected);
            from.user().seed(3).await.unwrap();
            peer.check(3).await.unwrap();
            let mut channel = channel(&from, ChannelKind::Peer).await;
            let before = counters(&simulation);
            channel.transfer(to(peer.target(MEGABYTE), ACKNOWLEDGED)).await.unwrap();
            assert_eq!(peer.check_result().await.unwrap(), Check::default());
            // Each of 8192 writes needs a lookup, and so do descriptors, credits and status.
            let looked_up = counters(&simulation);
            let looked_up = looked_up.hits + looked_up.joined - before.hits - before.joined;
            assert_eq!(looked_up >= 8192, redirected, "{looked_up}");
            let (address, id) = (peer.address(), function(&bus, "fpga1"));
            channel.close().await.unwrap();
            peer.close().await.unwrap();
            let left = simulation.with_fabric(|fabric| fabric.translate_io(HOST, id, address));
            assert_eq!(left, None);
        });
        assert_eq!(faults(&simulation), []);
    }
}

/// An unmapped peer BAR and unpinned memory: the fault names function, address and direction, and
/// the transfer ends with an error or at its deadline.
#[test]
fn what_is_not_mapped_is_a_fault() {
    run_in(LAB, ["fpga1"], async |simulation, [from]| {
        let bus = from.bus();
        let mut channel = channel(&from, ChannelKind::Peer).await;
        let nowhere = BusAddress(0x4000_0000);
        let transfer = to(Target::Bus(nowhere, 256), CompletionLevel::Sent);
        channel.transfer(transfer).await.unwrap();
        sleep(&from, us(10)).await;
        let all = faults(simulation);
        let sentences: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert_eq!(
            sentences[0],
            format!(
                "IOMMU fault: fpga1 ({}) may not write 128 B at {nowhere}, where nothing is mapped \
                 for it",
                function(bus, "fpga1")
            )
        );
    });
}
