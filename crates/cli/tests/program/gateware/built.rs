// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The gateware in the place of engines.

use crosslane::driver::network_processor::{Modes, TorusDimension};
use crosslane::experiment::{OneWayOptions, SendWay, host_of, one_way};
use crosslane::host::Reason;
use crosslane::lab::{CheckedRun, EngineKind, Lab};
use crosslane::pcie::units::Picoseconds;
use crosslane::torus::{Coordinates, Direction, Node, NodeOptions};
use serde_json::Value;

use crate::run::{assert_refused, json_of, number, numbers, run, run_well};

/// Longest difference of a latency one way, ps: 3 clocks.
const MOST_PS: f64 = 12_000.0;
/// Largest difference of a rate.
const MOST_OF_RATE: f64 = 0.01;
/// The same with a card's memory, whose bursts are those of the gateware.
const MOST_OF_MEMORY: f64 = 0.02;
/// The same of small operations, whose descriptors share the link with them.
const MOST_OF_SMALL: f64 = 0.02;

/// The only scenario of a run, in which nothing went wrong; standard error says how many clocks of
/// the gateware were simulated.
#[track_caller]
fn scenario_on_gateware(arguments: &str) -> Value {
    let run = run(&format!("{arguments} --engine rtl --json"));
    assert_eq!(run.code, 0, "crosslane {arguments}: {}", run.stderr);
    let said: Vec<&str> = run.stderr.split_whitespace().collect();
    let clocks = said.get(1).and_then(|count| count.parse::<u64>().ok());
    assert!(clocks.is_some_and(|clocks| clocks > 1_000), "{}", run.stderr);
    let mut json: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
    assert_eq!(json["scenarios"][0]["error_count"], 0, "crosslane {arguments}");
    json["scenarios"][0].take()
}

#[test]
fn every_benchmark_gives_the_figures_of_the_model() {
    let some = "--size 64K --iterations 12";
    for arguments in [
        &format!("bench write --lab rosta:crosslane {some}"),
        &format!("bench read --lab rosta:crosslane {some} --notify interrupt"),
        &format!("bench write --lab rosta:crosslane {some} --descriptors table"),
        &format!("bench p2p --lab rosta:crosslane {some}"),
        &format!("bench p2p --lab rosta:crosslane {some} --no-credits --mps 256"),
        "bench read --lab rosta:crosslane --flows 4 --size 64K --iterations 4",
        "bench chain --lab rosta:crosslane --from fpga1 --to fpga3 --size 64K --iterations 4",
        &format!("bench write --lab minimal {some}"),
        &format!("bench read --lab minimal {some}"),
        "bench chain --lab minimal --size 256K --iterations 4",
    ] {
        let mut model = json_of(&format!("{arguments} --json"));
        let model = model["scenarios"][0].take();
        let gateware = scenario_on_gateware(arguments);
        // Flows that share a link begin in an order that is a matter of clocks: all of them count.
        let rate = |scenario: &Value| {
            let flows = scenario["flows"].as_array().unwrap();
            flows.iter().map(|flow| number(&flow["hardware"]["bytes_per_second"])).sum::<f64>()
        };
        let (ours, theirs) = (rate(&model), rate(&gateware));
        let off = (theirs / ours - 1.0).abs();
        assert!(off < MOST_OF_RATE, "crosslane {arguments}: {theirs} B/s, not {ours}");
    }
}

/// Transfers with a card's memory, both ways, and reads and writes of it by another card.
#[test]
fn card_memory_gives_the_figures_of_the_model() {
    let rows = |engine| {
        let arguments = "bench sweep --lab kc705:crosslane --size 4K,64K --iterations 8 --json";
        let run = run_well(&format!("{arguments} --engine {engine}"));
        let json: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
        json["rows"].as_array().expect("it has rows").clone()
    };
    let (ours, theirs) = (rows("model"), rows("rtl"));
    assert_eq!((ours.len(), theirs.len()), (4, 4));
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!((&our["way"], &their["wrong_words"]), (&their["way"], &0.into()));
        let (a, b) = (number(&our["transfer_ns"]), number(&their["transfer_ns"]));
        assert!((b / a - 1.0).abs() < MOST_OF_MEMORY, "{our}: {b} ns");
    }
    for by in ["read", "write-memory"] {
        let arguments =
            format!("bench p2p --lab rosta:memory --to fpga2 --by {by} --size 64K --iterations 6");
        let mut model = json_of(&format!("{arguments} --json"));
        let (model, gateware) = (model["scenarios"][0].take(), scenario_on_gateware(&arguments));
        let rate = |of: &Value| number(&of["flows"][0]["hardware"]["bytes_per_second"]);
        let (ours, theirs) = (rate(&model), rate(&gateware));
        assert!((theirs / ours - 1.0).abs() < MOST_OF_MEMORY, "{by}: {theirs} B/s, not {ours}");
    }
}

/// A card that has nothing else to do is there until its memory has answered, however late.
#[test]
fn a_single_read_of_card_memory_is_answered() {
    let arguments = "bench p2p --lab rosta:memory --to fpga2 --by read --size 64 --iterations 1";
    assert_eq!(scenario_on_gateware(arguments)["flows"][0]["wrong_words"], 0);
}

/// The account is by the gateware's registers, the search by runs of the model.
#[test]
fn gateware_runs_are_explained() {
    let arguments = "bench p2p --lab rosta:crosslane --size 16K --iterations 24 --outstanding 1";
    let run = run_well(&format!("{arguments} --engine rtl --json"));
    let mut json: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
    let why = json["scenarios"][0]["why_not_faster"].take();
    assert_eq!((&why["on_model"], why["steps"].is_array()), (&Value::Bool(true), true), "{why}");
    assert_eq!(why["account"]["direction"], "fpga1 -> rc47a.down0");
    let uses = why["account"]["uses"].as_array().expect("an account has its uses");
    let share = |word: &str| {
        let found = uses.iter().find(|entry| entry["use"] == word);
        found.map_or(0.0, |entry| number(&entry["share"]))
    };
    let all: f64 = uses.iter().map(|entry| number(&entry["share"])).sum();
    assert!((all - 1.0).abs() < 0.01 && share("payload") > 0.5, "{uses:?}");
    // Idle time has the engine's reasons, of which the link knows nothing.
    assert!(share("descriptor") > 0.05 && share("nothing_to_send") < 0.01, "{uses:?}");
}

#[test]
fn latency_is_that_of_the_model_but_for_three_clocks() {
    for (size, to) in [(4, "fpga2"), (128, "fpga5"), (1024, "fpga2")] {
        let arguments = format!(
            "bench latency --lab rosta:crosslane --from fpga1 --to {to} --size {size} \
             --iterations 10"
        );
        let mut model = json_of(&format!("{arguments} --json"));
        let model = model["scenarios"][0].take();
        let gateware = scenario_on_gateware(&arguments);
        let latency = |scenario: &Value| number(&scenario["latency"]["one_way"]["typical_ps"]);
        let (ours, theirs) = (latency(&model), latency(&gateware));
        assert!((theirs - ours).abs() <= MOST_PS, "{size} B to {to}: {theirs} ps, not {ours}");
    }
}

/// Single operations, among them pushed descriptors and data in their lines; and rates of many.
#[test]
fn small_operations_are_those_of_the_model_but_for_three_clocks() {
    let arguments = "bench operations --device lab:pciebench:crosslane --rounds 8 --json";
    let (model, gateware) = (json_of(arguments), json_of(&format!("{arguments} --engine rtl")));
    let rows = |json: &Value| json["rows"].as_array().expect("it has rows").clone();
    let (ours, theirs) = (rows(&model), rows(&gateware));
    assert_eq!(ours.len(), theirs.len());
    let mut pushed = 0;
    for (our, their) in ours.iter().zip(&theirs) {
        assert_eq!(our["what"], their["what"]);
        pushed += u32::from(our["what"].as_str().unwrap().ends_with(", pushed"));
        let pairs = [&our["data_ps"], &our["done"]["typical_ps"]]
            .into_iter()
            .zip([&their["data_ps"], &their["done"]["typical_ps"]]);
        for (a, b) in pairs {
            let (a, b) = (number(a), number(b));
            assert!((b - a).abs() <= MOST_PS, "{}: {b} ps, not {a}", our["what"]);
        }
    }
    assert_eq!(pushed, 3);
    let rates = |json: &Value| json["rates"].as_array().expect("it has rates").clone();
    for (our, their) in rates(&model).iter().zip(&rates(&gateware)) {
        let (a, b) = (number(&our["ps"]), number(&their["ps"]));
        assert!((b / a - 1.0).abs() < MOST_OF_SMALL, "{}: {b} ps, not {a}", our["what"]);
    }
}

/// Share of the host's link less DLLPs that gets of the network processor reach at least.
const LEAST_OF_CEILING: f64 = 0.98;
/// Longest times of a message of 64 B to a neighbour's memory: puts and gets.
const MOST_PUT: Picoseconds = Picoseconds::from_ns(960);
const MOST_GET: Picoseconds = Picoseconds::from_ns(1670);

#[test]
fn gets_of_network_processors_reach_the_ceiling() {
    let arguments = "bench nget --lab nget:crosslane --node fpga1 -n 64 --buffers mapped";
    let scenario = scenario_on_gateware(&format!("{arguments} --size 16K -k 64"));
    let flow = &scenario["flows"][0];
    let share = number(&flow["share_of_ceiling"]);
    assert!(share > LEAST_OF_CEILING, "{flow}");
    // Data came back through the links' loopback.
    assert_eq!((flow["gets_compared"].as_u64(), flow["gets_wrong"].as_u64()), (Some(8), Some(0)));
}

/// Faces of all directions go between verilated nodes over verilated links, and are compared.
#[test]
fn halos_of_gateware_have_no_wrong_buffer() {
    for (lab, nodes, buffers) in [("nget:dense", "2", 2 * 2), ("nget:crosslane", "2x2", 4 * 4)] {
        let arguments = format!("bench halo --lab {lab} --nodes {nodes} --lattice 2x2x2x2");
        let scenario = scenario_on_gateware(&format!("{arguments} --iterations 2"));
        let flow = &scenario["flows"][0];
        let compared = (flow["buffers_compared"].as_u64(), flow["buffers_wrong"].as_u64());
        assert_eq!(compared, (Some(2 * buffers), Some(0)), "{lab}: {flow}");
    }
}

/// Cables of gateware are as full as the model's; wrong bits and a loss are made good.
#[test]
fn cables_of_gateware_are_tested() {
    let ends = |arguments: &str| {
        let scenario = scenario_on_gateware(&format!("bench link {arguments}"));
        let ends = scenario["flows"].as_array().unwrap().clone();
        assert_eq!(ends.len(), 2);
        for (end, far) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            assert_eq!((&end["wrong"], &end["lost"]), (&0.into(), &0.into()), "{end}");
            assert_eq!((&end["sent"], &end["state"]), (&far["right"], &"up".into()), "{end}");
        }
        ends
    };
    for (lab, least) in [("nget:crosslane", 0.74), ("nget:dense", 0.93)] {
        for end in ends(&format!("--lab {lab} --time 20us")) {
            assert!(number(&end["share_of_line"]) > least, "{lab}: {end}");
            assert_eq!((&end["damaged"], &end["repeated"]), (&0.into(), &0.into()), "{lab}: {end}");
        }
    }
    for end in ends("--lab nget:dense --time 40us --retrains 1 --bit-error-rate 2e-5") {
        let count = |name: &str| number(&end[name]);
        assert!(count("damaged") > 5.0 && count("repeated") > 5.0, "{end}");
        assert_eq!((&end["losses"], &end["trainings"]), (&1.into(), &2.into()), "{end}");
    }
    // Both clocks are one here: nothing is dropped or doubled.
    for end in ends("--lab nget:crosslane --time 20us --bit-error-rate 5e-5") {
        let of_lanes = numbers(&end["lane_errors"]);
        assert!(of_lanes.iter().filter(|errors| **errors > 0.0).count() > 2, "{end}");
        assert_eq!((&end["dropped"], &end["doubled"]), (&0.into(), &0.into()), "{end}");
    }
}

/// Returns the typical time of messages from fpga1 to fpga2.
fn message_time(lab: &str, engine: EngineKind, bytes: u64, way: SendWay) -> Picoseconds {
    let lab = Lab::load(lab).unwrap().with_engines(engine);
    let run = CheckedRun::new(&lab, 1).unwrap();
    let simulation = run.simulation();
    let program = async {
        let open = async |at: u16| {
            let dimension = TorusDimension { size: 2, position: at, is_open: true };
            let name = ["fpga1", "fpga2"][usize::from(at)];
            let bus = simulation.bus(host_of(simulation, name)?);
            let options = NodeOptions::default().with_modes(Modes::FASTEST);
            Ok::<_, Reason>(Node::open(bus, name, Coordinates::new(&[dimension]), options).await?)
        };
        let (from, to) = (open(0).await?, open(1).await?);
        from.links_up(Picoseconds::from_ms(10)).await?;
        to.links_up(Picoseconds::from_ms(10)).await?;
        let options = OneWayOptions::new(bytes, way).with_rounds(4);
        Ok::<_, Reason>(one_way(&from, &to, Direction::Up(0), &options).await?)
    };
    let measured = run.run("messages", program).unwrap().value;
    assert_eq!(measured.wrong, 0);
    measured.typical()
}

#[test]
fn messages_reach_a_neighbours_memory_in_time() {
    let time = |way| message_time("nget:crosslane", EngineKind::Rtl, 64, way);
    let [put, get] = [SendWay::Put, SendWay::Get].map(time);
    assert!(put < MOST_PUT && get < MOST_GET, "put {put:?}, get {get:?}");
}

/// Time of a message that lanes and gateware add to the model's, for puts and gets
/// (`docs/network-processor.md`, *Time of a message*), and three clocks of 4 ns.
const PUT_BESIDE_MODEL: Picoseconds = Picoseconds::from_ns(134);
const GET_BESIDE_MODEL: Picoseconds = Picoseconds::from_ns(122);
const THREE_CLOCKS: Picoseconds = Picoseconds::from_ns(12);

/// The lanes' and the gateware's clocks are the same for every size.
#[test]
fn messages_take_the_models_time_and_that_of_the_lanes() {
    for (way, beside) in [(SendWay::Put, PUT_BESIDE_MODEL), (SendWay::Get, GET_BESIDE_MODEL)] {
        for bytes in [8, 64, 128, 1000] {
            let time = |engine| message_time("nget:crosslane", engine, bytes, way).0;
            let (model, gateware) = (time(EngineKind::Model), time(EngineKind::Rtl));
            let beyond = gateware.abs_diff(model + beside.0);
            let most = THREE_CLOCKS.0 + model / 100;
            assert!(beyond <= most, "{way:?} of {bytes} B: {gateware} ps, the model {model} ps");
        }
    }
}

/// Most that the lanes and the gateware add to a message's time in the model
/// (`docs/network-processor.md`, *Time of a message*): 52 clocks of 3.3 ns, 39 of them and up to a
/// row of 8 in lanes of 64b/66b.
const MOST_BESIDE_MODEL: Picoseconds = Picoseconds(52 * 3300);

#[test]
fn long_datagrams_are_those_of_the_model() {
    for way in [SendWay::Put, SendWay::Get] {
        // A full datagram, and a short one behind it.
        for bytes in [256, 260] {
            let time = |engine| message_time("nget:dense", engine, bytes, way);
            let (model, gateware) = (time(EngineKind::Model), time(EngineKind::Rtl));
            let added = gateware - model;
            assert!(added < MOST_BESIDE_MODEL, "{way:?} of {bytes} B: {gateware}, {model}");
        }
    }
    let arguments = "bench nget --lab nget:dense --node fpga1 -n 16 --size 16K -k 64";
    let mut model = json_of(&format!("{arguments} --json"));
    let (model, gateware) = (model["scenarios"][0].take(), scenario_on_gateware(arguments));
    let [model, gateware] = [&model, &gateware].map(|scenario| &scenario["flows"][0]);
    for what in ["datagrams", "gets_compared", "gets_wrong"] {
        assert_eq!(model[what], gateware[what], "{what}");
    }
    assert_eq!((gateware["gets_compared"].as_u64(), &gateware["gets_wrong"]), (Some(8), &0.into()));
    let rates = [model, gateware].map(|flow| number(&flow["bytes_per_second"]));
    assert!((rates[1] / rates[0] - 1.0).abs() < MOST_OF_RATE, "{rates:?}");
}

#[test]
fn labs_beyond_the_gatewares_links_are_refused() {
    for (lab, why) in [
        ("nget", "a symbol of a lane takes 2000 ps and a clock 4000 ps"),
        ("torus", "a symbol of a lane takes 2000 ps and a clock 4000 ps"),
    ] {
        assert_refused(&format!("bench nget --lab {lab} --engine rtl"), 1, why);
    }
}

/// Runs seeds of the torture, none of which may fail; its report.
#[track_caller]
fn torture(seeds: &str) -> Value {
    let run = run(&format!("torture --engine rtl --seeds {seeds} --json"));
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).expect("--json prints JSON")
}

#[test]
fn a_storm_finds_nothing_in_the_gateware() {
    let report = torture("0..24");
    assert_eq!((report["seeds"].as_u64(), report["failed"].as_u64()), (Some(24), Some(0)));
    assert!(report["words"].as_u64() > Some(10_000), "{report}");
}

/// Network processors, most with little of everything, exchange messages over verilated links.
#[test]
fn tori_find_nothing_in_the_gateware() {
    let report = torture("0..6 --tori");
    assert_eq!((report["seeds"].as_u64(), report["failed"].as_u64()), (Some(6), Some(0)));
    for (what, least) in [
        ("messages", 60),
        ("puts", 10),
        ("datagrams", 1_000),
        ("long", 100),
        ("in_blocks", 100),
        ("cuts", 3),
    ] {
        assert!(report["tori"][what].as_u64() > Some(least), "{what}: {report}");
    }
}

/// In both a link of 64b/66b is trained for longer than cards are awake without a TLP or work; in
/// 20787000926 a message waits for it.
#[test]
fn cards_are_awake_until_their_links_are_settled() {
    for seed in [20_787_000_786_u64, 20_787_000_926] {
        let report = torture(&format!("{seed}..{} --tori", seed + 1));
        assert_eq!((report["seeds"].as_u64(), report["failed"].as_u64()), (Some(1), Some(0)));
    }
}

/// Small transfers are pushed, some of them with their data.
#[test]
fn a_storm_of_pushed_descriptors_finds_nothing_in_the_gateware() {
    let report = torture("0..12 --lab pciebench:crosslane");
    assert_eq!((report["seeds"].as_u64(), report["failed"].as_u64()), (Some(12), Some(0)));
}

/// The source of a write channel is restarted in the middle of one of its TLPs: in 378 a lane under
/// C2H, in 729 H2C under a peer channel, in 845 H2C under C2H.
#[test]
fn a_restart_of_a_source_tears_no_write() {
    for seed in ["378", "729", "845"] {
        torture(seed);
    }
}

/// The link of the host goes for good when a channel has just given its buffer back.
#[test]
fn a_channel_whose_engine_is_gone_comes_to_an_end() {
    torture("6000286");
}

/// The checker begins a new stream while words of the old one wait in the staging memory.
#[test]
fn words_of_an_old_stream_are_not_held_against_a_new_one() {
    for seed in ["20782003391", "20782004644"] {
        torture(seed);
    }
}
