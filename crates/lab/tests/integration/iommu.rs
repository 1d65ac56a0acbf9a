// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs whose hosts have an IOMMU: the table of the lab file, flows of generic endpoints, pins, and
//! BARs of peers.

use crosslane_fabric::parameters::IommuParameters;
use crosslane_fabric::{Flow, IommuCounters, RunEnd};
use crosslane_host::{Bus, BusError, PageSize, Topology};
use crosslane_lab::{Lab, Simulation, open};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

use crate::scenes::{changed, function, ns, write};

const HOST: HostId = HostId(0);

/// Returns the lab `minimal` with a table iommu, a part of which `change` replaces.
fn minimal(change: (&str, &str)) -> Result<Lab, String> {
    let table = "[part.host.iommu]\n\
                 iotlb_entries = { value = 64, source = \"assumption: any\" }\n\
                 hit_ns = { value = 20, source = \"assumption: any\" }\n\
                 walk_ns = { value = 300, source = \"assumption: any\" }\n\
                 walks = { value = 2, source = \"assumption: any\" }\n\
                 largest_page_bytes = { value = 2_097_152, source = \"assumption: any\" }\n\
                 map_page_ns = { value = 40, source = \"assumption: any\" }\n\n";
    let table = table.replacen(change.0, change.1, 1);
    let text = changed("minimal", "[part.host.cpu]", &(table + "[part.host.cpu]"));
    Lab::from_text("my.toml", &text).map_err(|error| error.problem.to_string())
}

#[test]
fn the_table_of_a_lab_file() {
    let lab = minimal(("", "")).unwrap();
    let expected = IommuParameters {
        iotlb_entries: 64,
        hit: ns(20),
        walk: ns(300),
        walks: 2,
        largest_page_bytes: 2 << 20,
        reads_in_order: false,
        map_page: ns(40),
        invalidate: Picoseconds::ZERO,
    };
    assert_eq!(lab.file().hosts[0].part.parameters.iommu, Some(expected));
    assert_eq!(open("minimal").unwrap().file().hosts[0].part.parameters.iommu, None);
    for (from, to, sentence) in [
        (
            "value = 2_097_152",
            "value = 8192",
            "part.host.iommu.largest_page_bytes: 8192 is not 4096 or 2097152",
        ),
        ("iotlb_entries = { value = 64", "iotlb_entries = { value = 0", "iotlb_entries"),
        ("walks = { value = 2", "walks = { value = 0", "walks"),
        ("walk_ns", "walk", "part.host.iommu has no key walk; did you mean walks?"),
        ("hit_ns = { value = 20, source = \"assumption: any\" }\n", "", "hit_ns"),
    ] {
        let error = minimal((from, to)).unwrap_err();
        assert!(error.contains(sentence), "{error}");
    }
}

fn flow(simulation: &Simulation, target: u64) -> Flow {
    let one = write(simulation.find("card0").unwrap(), BusAddress(target), 256);
    Flow { window_bytes: 1 << 16, operations: 64, outstanding: 8, ..one }
}

/// Flows pin no memory: for generic endpoints the host has its buffers mapped, and only those.
#[test]
fn flows_of_generic_endpoints_find_the_buffers_mapped() {
    let simulation = Simulation::new(minimal(("", "")).unwrap().build(1).unwrap());
    let buffers = simulation.hosts()[0].buffers.clone();
    let good = flow(&simulation, buffers.start);
    let (good, end) = simulation.with_fabric(|fabric| {
        let good = fabric.start_flow(good).unwrap();
        let end = fabric.run(None);
        (fabric.flow_report(good), end)
    });
    assert_eq!((good.operations, good.failed, end), (64, 0, RunEnd::Quiet));
    // 16 KiB in one large page; buffers begin at 1 MiB, so in a small page each.
    let counted = simulation.with_fabric(|fabric| fabric.iommu_counters(HOST)).unwrap();
    let IommuCounters { hits, misses, joined, faults, .. } = counted;
    assert_eq!((hits + misses + joined, faults), (64, 0));
    assert_eq!(misses, 4);
    // The first MiB is memory, but not part of the buffers.
    let bad = flow(&simulation, 0x1_0000);
    simulation.with_fabric(|fabric| {
        fabric.start_flow(bad).unwrap();
        fabric.run(Some(fabric.now() + ns(100_000)));
        assert_eq!(fabric.iommu_counters(HOST).unwrap().faults, 8);
    });
    // Pinned for such a function, memory has the same address as without an IOMMU.
    let bus = simulation.bus(HOST);
    let run = async {
        let card = function(&bus, "card0");
        let memory = bus.allocate(8192, PageSize::Small).unwrap();
        let segments = bus.pin(card.id, &memory).await.unwrap();
        bus.unpin(card.id, &memory).await.unwrap();
        segments.len()
    };
    assert_eq!(simulation.run("pins", run).unwrap(), 2);
}

/// Mapping takes a core's time for each page, small or huge.
#[test]
fn pins_of_a_device_take_the_time_of_their_pages() {
    let simulation = Simulation::new(minimal(("", "")).unwrap().build_engines(1).unwrap());
    let bus = simulation.bus(HOST);
    let run = async {
        let card = function(&bus, "card0");
        for (bytes, pages, time_ns, runs) in [
            // A system call, and 100 ns to pin and 40 ns to map each page.
            (1 << 16, PageSize::Small, 200 + 16 * 140, 1),
            (4 << 20, PageSize::Huge, 200 + 2 * 140, 1),
        ] {
            let memory = bus.allocate(bytes, pages).unwrap();
            let before = Bus::now(&bus);
            let segments = bus.pin(card.id, &memory).await.unwrap();
            assert_eq!((segments.len(), segments[0].bytes), (runs, bytes));
            assert_eq!(Bus::now(&bus) - before, ns(time_ns));
            assert!(matches!(bus.pin(card.id, &memory).await, Err(BusError::Pinning { .. })));
            bus.unpin(card.id, &memory).await.unwrap();
        }
        let refused = bus.unpin_bar(card.id, card.id, 0).await.unwrap_err();
        let base = card.bars[0].base;
        let sentence =
            format!("memory at {:#x} is a BAR that is not pinned for the function", base.0);
        assert_eq!(refused.to_string(), sentence);
        assert!(bus.pin_bar(card.id, card.id, 5).await.is_err());
        let leads = || simulation.with_fabric(|it| it.translate_io(HOST, card.id, base));
        // A BAR pinned twice stays mapped until both pins have ended.
        for _ in 0..2 {
            assert_eq!(bus.pin_bar(card.id, card.id, 0).await.unwrap(), base);
        }
        bus.unpin_bar(card.id, card.id, 0).await.unwrap();
        assert_eq!(leads(), Some(base));
        bus.unpin_bar(card.id, card.id, 0).await.unwrap();
        assert_eq!(leads(), None);
        assert!(bus.unpin_bar(card.id, card.id, 0).await.is_err());
    };
    simulation.run("pins", run).unwrap();
}

/// Without an IOMMU a BAR keeps its bus address, and pinning it takes no time.
#[test]
fn without_an_iommu_there_is_nothing_to_map() {
    let simulation = Simulation::new(open("minimal").unwrap().build_engines(1).unwrap());
    let bus = simulation.bus(HOST);
    let run = async {
        let card = function(&bus, "card0");
        assert_eq!(bus.is_translated(card.id), Ok(false));
        assert_eq!(bus.pin_bar(card.id, card.id, 0).await.unwrap(), card.bars[0].base);
        bus.unpin_bar(card.id, card.id, 0).await.unwrap();
        Bus::now(&bus)
    };
    assert_eq!(simulation.run("pins", run).unwrap(), Picoseconds::ZERO);
}
