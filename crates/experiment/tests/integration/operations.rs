// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single small operations in a lab: exact, as its time is simulated.

use crosslane_driver::Device;
use crosslane_experiment::{
    CardLink, OperationOptions, operation_rates, operations, published_read,
};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::HostId;
use crosslane_results::{OperationRate, OperationRow};

fn measured(lab: &str, card: &str, options: &OperationOptions) -> Vec<OperationRow> {
    let lab = Lab::load(lab).unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let link = CardLink::of(&simulation, card);
    let run = simulation.run("operations", async {
        let device = Device::open_by_name(bus.clone(), card).await.unwrap();
        operations(&device, link.as_ref(), options).await.unwrap()
    });
    run.unwrap()
}

fn row<'a>(rows: &'a [OperationRow], what: &str) -> &'a OperationRow {
    rows.iter().find(|row| row.what == what).unwrap()
}

#[test]
fn published_time_is_the_least_of_its_table() {
    let table = include_str!("../../../../labs/published/pciebench-systems.csv");
    let rows = table.lines().filter(|line| line.contains(",LAT_DMA_RD,median,warm,8192,64,"));
    let times: Vec<u64> = rows
        .map(|line| line.split("B,").nth(1).unwrap().split(',').next().unwrap().parse().unwrap())
        .collect();
    let published = published_read();
    assert_eq!(times.iter().min(), Some(&(published.ps / 1000)), "{times:?}");
    assert_eq!(published.bytes, 64);
}

#[test]
fn impossible_sizes_are_refused() {
    let lab = Lab::load("minimal").unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let run = simulation.run("operations", async {
        let device = Device::open_by_name(bus.clone(), "card0").await.unwrap();
        let refused = |size| {
            let device = device.clone();
            async move {
                let options = OperationOptions::default().with_sizes(vec![size]);
                operations(&device, None, &options).await.unwrap_err().to_string()
            }
        };
        [refused(4).await, refused(12).await, refused(8192).await]
    });
    for error in run.unwrap() {
        assert!(error.contains("a multiple of 8 B from 8 to 4096"), "{error}");
    }
}

#[test]
fn parts_add_up_to_the_time_at_every_size() {
    let options = OperationOptions::default().with_sizes(vec![8, 512, 4096]).with_rounds(3);
    let labs =
        [("rosta", "fpga1"), ("pciebench", "nfp"), ("pciebench:push", "nfp"), ("minimal", "card0")];
    for (lab, card) in labs {
        let rows = measured(lab, card, &options);
        let names: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
        assert!(
            names.contains(&"DMA write, table") && names.contains(&"register read"),
            "{names:?}"
        );
        for row in &rows {
            let sum: u64 = row.terms.iter().map(|term| term.ps).sum();
            assert_eq!(sum, row.done.typical_ps, "{lab}: {row:?}");
            assert!(row.data_ps.unwrap() <= row.done.typical_ps, "{lab}: {row:?}");
        }
        // Without a fetch the card has the descriptor sooner, and works on it as long.
        for way in ["read", "write"] {
            let [ring, table] = ["ring", "table"].map(|it| row(&rows, &format!("DMA {way}, {it}")));
            assert_eq!(
                (ring.terms.len(), table.terms.len()),
                (if way == "read" { 8 } else { 7 }, if way == "read" { 6 } else { 5 })
            );
        }
    }
}

/// The lab's constants: 100 ns out of the root port, 80 ns into the card and 140 ns out of it, 1 ns
/// of flight, and 128/130 of 8 B/ns.
#[test]
fn pushed_operations_follow_from_constants_of_the_lab() {
    let rows = measured("pciebench:push", "nfp", &OperationOptions::default().with_rounds(5));
    let wire = |bytes: u64| -> u64 { (bytes * 1_000 * 130).div_ceil(8 * 128) };
    // The descriptor into the ring at 8 GB/s, the second store into the line behind the first, the
    // line.
    let line = 4_000 + 1_000 + 100_000 + wire(64 + 24);
    let terms = |what: &str| -> Vec<(String, u64)> {
        row(&rows, what).terms.iter().map(|term| (term.what.clone(), term.ps)).collect()
    };
    let part = |what: &str, ps: u64| (what.to_owned(), ps);
    let read = terms("DMA read, pushed");
    assert_eq!(read[0], part("call to the line", line));
    assert_eq!(read[1], part("card, to the read", 1_000 + 80_000 + 140_000));
    // The data begin in the line, for which they are copied.
    let inline = terms("inline data, pushed");
    assert_eq!(inline[0], part("call to the line", line + 48 * 1_000 / 8));
    // Its data take a clock for 8 B, of 1 ns.
    assert_eq!(inline[1], part("card, to the stream", 1_000 + 80_000 + 6_000));
    assert_eq!(row(&rows, "inline data, pushed").bytes, 48);
    let write = terms("DMA write, pushed");
    assert_eq!(write[0], part("call to the line", line));
    // Wanted of it are a read within 1.5 us, inline data within 1 us. The ring fetches, and its
    // doorbell is 9 ns shorter than a line.
    let data = |what: &str| row(&rows, what).data_ps.unwrap();
    let found = ["DMA read, pushed", "inline data, pushed", "DMA write, pushed"].map(data);
    assert_eq!(found.map(|ps| ps / 1_000), [727, 209, 499]);
    let fetch = terms("DMA read, ring")[1].1 + terms("DMA read, ring")[2].1;
    assert!(data("DMA read, ring") - found[0] > fetch - 10_000);
}

/// Writes fill the link towards the host. Reads share theirs with their descriptors and with Acks.
#[test]
fn small_operations_in_flight_fill_the_link() {
    let lab = Lab::load("pciebench:crosslane").unwrap();
    let simulation = Simulation::new(lab.build_engines(1).unwrap());
    let (bus, link) = (simulation.bus(HostId(0)), CardLink::of(&simulation, "nfp"));
    let run = simulation.run("rates", async {
        let device = Device::open_by_name(bus.clone(), "nfp").await.unwrap();
        operation_rates(&device, link.as_ref(), &OperationOptions::default()).await.unwrap()
    });
    let rates = run.unwrap();
    let figure = |rate: &OperationRate| {
        let share = rate.link_share.unwrap();
        ((rate.per_second() / 1e6) as u32, (share * 100.0) as u32)
    };
    // 84 million writes are wanted: 90 % of the link with headers of 3 DW, and these have 4 DW.
    assert_eq!(rates.iter().map(figure).collect::<Vec<_>>(), [(85, 98), (58, 89)]);
}

/// The lab's constants, in picoseconds: 100 ns in and out of each port, 1 ns of flight, clocks of
/// 4 ns, 130/128 of 0.25 ns for each byte of Gen3 x4.
#[test]
fn parts_of_a_read_follow_from_constants_of_the_lab() {
    let rows = measured("minimal", "card0", &OperationOptions::default());
    let read = row(&rows, "DMA read, ring");
    let wire = |bytes: u64| -> u64 { (bytes * 1_000 * 130).div_ceil(4 * 128) };
    let (port, flight, clock): (u64, u64, u64) = (100_000, 1_000, 4_000);
    // Of host memory: the request is 20 B on the wire, its completion 20 B more than the data.
    let fetched = |bytes: u64| wire(20) + flight + port + 200_000 + port + wire(20 + bytes);
    let expected = [
        // The descriptor of 32 B is stored into the ring at 10 GB/s.
        ("call to the doorbell", 3_200 + port + wire(24)),
        ("card, to the fetch", flight + port + 7 * clock + port),
        ("fetch", fetched(32)),
        // One of the clocks is that of the fetched descriptor.
        ("card, to the read", flight + port + 12 * clock + port),
        ("read", fetched(64)),
        ("card, to the stream", flight + port + 11 * clock),
        ("status leaves", port + wire(52)),
        ("status to the program", flight + port + 100_000),
    ];
    let found: Vec<(&str, u64)> =
        read.terms.iter().map(|term| (term.what.as_str(), term.ps)).collect();
    assert_eq!(found, expected);
}
