// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers with a card's memory in the lab `kc705`: every byte is compared, and in simulated time
//! rates are exact.

use crosslane_driver::Device;
use crosslane_experiment::{CardDirection, Measured, Options, Result, card_transfer};
use crosslane_lab::{Simulation, open};
use crosslane_pcie::units::HostId;

fn run(lab: &str, direction: CardDirection, options: &Options) -> Result<Measured> {
    let simulation = Simulation::new(open(lab).unwrap().build_engines(1).unwrap());
    let bus = simulation.bus(HostId(0));
    let measured = simulation.run("card", async {
        let device = Device::open_by_name(bus, "kc705").await?;
        card_transfer(&device, direction, options).await
    });
    let measured = measured.unwrap();
    simulation.finish().unwrap();
    assert_eq!(simulation.with_fabric(|fabric| fabric.errors().len()), 0);
    measured
}

fn measure(lab: &str, direction: CardDirection, options: Options) -> Measured {
    let measured = run(lab, direction, &options).unwrap();
    assert_eq!(measured.data_errors.words, 0);
    assert_eq!(measured.latencies.len() as u64, options.iterations);
    measured
}

fn by_registers(lab: &str, direction: CardDirection, size_bytes: u64) -> f64 {
    let options = Options::by_registers(size_bytes, 3);
    measure(lab, direction, options).bytes_per_second_alone() / 1e6
}

/// The engine that reads and writes in turn is slower than the link by what the memory takes; with
/// 64 bits it is slower still; this project's own is as fast as the link.
#[test]
fn widths_and_turns_make_the_rate() {
    for direction in CardDirection::ALL {
        let rate = |lab| by_registers(lab, direction, 4 << 20);
        let (wide, narrow, own) = (rate("kc705"), rate("kc705:narrow"), rate("kc705:crosslane"));
        eprintln!("{direction:?} {wide} {narrow} {own}");
        assert!((800.0..1100.0).contains(&wide), "{direction:?}: {wide}");
        // 8 B each 10 ns are 1.25 ns/B beside the link's 0.58.
        assert!((350.0..550.0).contains(&narrow), "{direction:?}: {narrow}");
        assert!((1650.0..1730.0).contains(&own), "{direction:?}: {own}");
    }
}

#[test]
fn queued_transfers_of_1_kib_are_as_fast_as_the_link() {
    for direction in CardDirection::ALL {
        let alone = by_registers("kc705", direction, 1024);
        let options = Options::queued(1024, 64, 2048, 5);
        let queued =
            measure("kc705:crosslane", direction, options).application_bytes_per_second() / 1e6;
        eprintln!("{direction:?} {alone} {queued}");
        assert!(queued > 25.0 * alone, "{direction:?}: {queued} against {alone}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let options = Options::by_registers(1024, 1);
    let error =
        |options: Options| run("kc705", CardDirection::ToCard, &options).unwrap_err().to_string();
    let odd = error(options.with_size_bytes(1022));
    assert_eq!(
        odd,
        "kc705, host to card: a transfer of 1022 B: it has to be a multiple of 4 B, and not 0"
    );
    assert!(error(options.with_iterations(0)).contains("at least one transfer"));
    assert!(error(options.with_outstanding(2)).contains("all mean card address 0"));
    let large = Options::queued(8 << 20, 64, 64, 1);
    assert!(error(large).contains("of the card's memory"));
}
