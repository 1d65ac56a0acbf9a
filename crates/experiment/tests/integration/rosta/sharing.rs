// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several flows at once: what each gets, and what they get together.

use crosslane_driver::Device;
use crosslane_experiment::{Flow, Observer, Options, Together, Workload, together};
use crosslane_fabric::DirectionId;
use crosslane_lab::Simulation;
use crosslane_pcie::units::Picoseconds;

use crate::rosta::scene::{LARGE_BYTES, Scene, leaving};

const LAB: &str = "rosta:crosslane";
const OPTIONS: fn() -> Options = || Options::default().with_size_bytes(LARGE_BYTES);

/// Payload that one direction has carried.
struct Counter<'a> {
    simulation: &'a Simulation,
    direction: DirectionId,
}

impl Observer for Counter<'_> {
    fn payload_bytes(&self) -> Option<u64> {
        Some(self.simulation.with_fabric(|fabric| fabric.counters(self.direction).payload_bytes))
    }
}

type Work = (Workload, Vec<Device>);

fn write(card: &Device) -> Work {
    (Workload::Write(OPTIONS()), vec![card.clone()])
}

fn peer(from: &Device, to: &Device) -> Work {
    (Workload::Peer(OPTIONS()), vec![from.clone(), to.clone()])
}

fn measure(shared: &str, flows: impl Fn(&[Device]) -> Vec<Work>) -> Together {
    let scene = Scene::new(LAB);
    let direction = scene.simulation.with_fabric(|fabric| leaving(fabric, shared));
    let counter = Counter { simulation: &scene.simulation, direction };
    scene.run_well(async {
        let cards = scene.devices(&[1, 2, 3, 4, 5, 6, 7, 8]).await;
        let flows: Vec<Flow> = (0..)
            .zip(flows(&cards))
            .map(|(core, (workload, devices))| Flow { workload, devices, core })
            .collect();
        together(&flows, &counter).await
    })
}

fn assert_alike(together: &Together, flows: &[usize]) {
    let rates: Vec<f64> =
        flows.iter().map(|flow| together.flows[*flow].hardware_bytes_per_second()).collect();
    let (least, most) = rates
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    assert!(most / least < 1.02, "{rates:?}");
}

fn assert_common(together: &Together, bytes_per_second: f64) {
    for flow in &together.flows {
        assert_eq!(flow.data_errors.words, 0, "{}", flow.name);
    }
    let common = together.common.unwrap();
    let share = common.bytes_per_second / bytes_per_second;
    assert!((0.995..=1.001).contains(&share), "{share} of {bytes_per_second}");
    // Flows that begin and end at different times add up to more than the channel carries.
    assert!(together.hardware_sum() > common.bytes_per_second);
    assert!(together.application_sum() < together.hardware_sum());
    let span = Picoseconds(common.to_ps - common.from_ps);
    let longest = together.flows.iter().map(|flow| flow.ended.since(flow.started)).max().unwrap();
    assert!(span < longest && span > Picoseconds(longest.0 / 2), "{span} of {longest}");
}

/// All eight write: the x8 link of the host is full, and each gets an eighth.
#[test]
fn writes_of_all_share_the_hosts_link() {
    let writes = |cards: &[Device]| cards.iter().map(write).collect();
    let result = measure("rha25.up", writes);
    assert_common(&result, 4.0e9 * (1.0 - 4.0 / 1538.0) * 128.0 / 148.0);
    assert_alike(&result, &[0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Uneven loads on the two ports of the adapter: three cards of one board and two of the other.
/// Each board gets half of the host's link, whatever the number of its cards.
#[test]
fn ports_of_a_contended_switch_are_served_alike() {
    let writes = |cards: &[Device]| -> Vec<Work> {
        [0, 1, 2, 4, 5].map(|card: usize| write(&cards[card])).to_vec()
    };
    let [all, first, second] =
        ["rha25.up", "rc47a.up", "rc47b.up"].map(|port| measure(port, writes));
    let bytes = |result: &Together| result.common.unwrap().bytes as f64;
    let boards = [bytes(&first) / bytes(&all), bytes(&second) / bytes(&all)];
    for share in boards {
        assert!((share - 0.5).abs() < 0.005, "{boards:?}");
    }
    assert_alike(&all, &[0, 1, 2]);
    assert_alike(&all, &[3, 4]);
}

/// Four flows over one cable.
#[test]
fn peers_share_the_cable() {
    let peers =
        |cards: &[Device]| (0..4).map(|card| peer(&cards[card], &cards[card + 4])).collect();
    let result = measure("rc47a.up", peers);
    let common = result.common.unwrap();
    for flow in &result.flows {
        assert_eq!(flow.data_errors.words, 0);
    }
    // Gen3 x4: 8 GT/s x 128/130, one SKP ordered set with its EDS token in 375 blocks.
    let packets = 4.0e9 * 128.0 / 130.0 * (1.0 - (16.0 + 1.0) / (375.0 * 16.0));
    let share = common.bytes_per_second / (packets * 128.0 / 148.0);
    assert!((0.99..=1.0).contains(&share), "{share}");
    assert_alike(&result, &[0, 1, 2, 3]);
}

/// A card that sends and receives at once, in a ring of three.
#[test]
fn a_card_sends_and_receives_at_once() {
    let ring =
        |cards: &[Device]| (0..3).map(|card| peer(&cards[card], &cards[(card + 1) % 3])).collect();
    let result = measure("fpga1", ring);
    for flow in &result.flows {
        assert_eq!(flow.data_errors.words, 0);
        // 1725.2 MB/s less the Acks, UpdateFCs and credits for what comes the other way.
        let rate = flow.hardware_bytes_per_second() / 1e6;
        assert!((1550.0..1725.0).contains(&rate), "{}: {rate}", flow.name);
    }
    assert_alike(&result, &[0, 1, 2]);
}
