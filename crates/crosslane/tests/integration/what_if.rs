// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs beside themselves with changes, and the search for settings.

use crosslane::experiment::{Choices, FlowArgument};
use crosslane::lab::{Lab, shipped};
use crosslane::results::topology::Way;
use crosslane::results::{TuneStep, Tuning, WhatIf};
use crosslane::tune::tune;
use crosslane::what_if::{Change, Flows, apply, compare_flows, compare_pairs};

/// The shipped lab `minimal` with two cards, each at a root port that is set to payloads of 128 B
/// though all could take 256 B; root ports pass on to each other.
fn two_cards() -> Lab {
    let text = shipped().iter().find(|lab| lab.name == "minimal").unwrap().text;
    let limit = "max_payload_limit_bytes = { value = 128, source = \"sysfs: Device Control\" }";
    let text = text
        .replace(
            "allowed = { value = false, source = \"assumption: as most desktop hosts\" }",
            "allowed = { value = true, source = \"assumption: any\" }\n\
             latency_ns = { value = 100, source = \"assumption: any\" }",
        )
        .replace("name = \"card0\"", "name = \"card{0..1}\"")
        .replace("lower = \"card0\" ", &format!("lower = \"card{{0..1}}\"\n{limit}\n#"));
    Lab::from_text("two.toml", &text).unwrap()
}

/// A server of which a listing was read.
fn server() -> Lab {
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/server.txt");
    let imported = crosslane::machine::import(&[dump.into()], "server").unwrap();
    Lab::from_text("server.toml", &imported.text).unwrap()
}

fn flows(arguments: &[&str], operations: u64) -> Flows {
    let request = |argument: &&str| {
        let flow: FlowArgument = argument.parse().unwrap();
        flow.request(flow.sizes.sizes().next().unwrap())
    };
    let choices = Choices::default().with_operations(operations);
    Flows { requests: arguments.iter().map(request).collect(), choices, seed: 1 }
}

fn set(text: &str) -> Change {
    Change::set(text).unwrap()
}

/// Returns the rates of the first flow before and after, MB/s.
fn rates(compared: &WhatIf) -> [f64; 2] {
    let both = compared.flows.as_ref().unwrap();
    [&both.before, &both.after].map(|run| {
        assert_eq!(run.errors, [] as [String; 0]);
        (run.flows[0].rate().unwrap() / 1e5).round() / 10.0
    })
}

/// What changes, and what does not, of a flow whose payload follows the least of two root ports.
#[test]
fn payloads_are_set_for_whole_trees() {
    let (lab, flows) = (two_cards(), flows(&["card0:card1:write:16K"], 16));
    let after = |changes: &[&str]| {
        let changes: Vec<Change> = changes.iter().map(|change| set(change)).collect();
        rates(&compare_flows(&lab, &changes, &flows, false, &()).unwrap())
    };
    // One root port more does not help: the other still takes 128 B.
    assert_eq!(after(&["card0.mps=256"]), [0.0, 0.0]);
    assert_eq!(after(&["card0.mps=256", "card1.mps=256"]), [0.0, 0.0]);
    assert_eq!(after(&["host.mps=256"]), [0.0, 0.0]);
}

/// A card behind the same port as before, on a faster link, and at the other's port.
#[test]
fn places_and_links_change_and_pairs_with_them() {
    let lab = server();
    let moved = [Change::moved("gpu1=host").unwrap(), Change::link("nic0=5x16").unwrap()];
    let changed = apply(&lab, &moved).unwrap();
    assert_eq!(
        changed.notes,
        ["Gen5 x16 of nic0 is more than the ports of switch-17-00-0 (Gen4 x16) and nic0 (Gen3 \
          x16) can do: raised"]
    );
    let running = changed.lab.build(1).unwrap();
    let port = |name: &str| {
        let port = running.find_port(name).unwrap();
        let link = running.fabric.link(running.fabric.port(port).link.unwrap());
        (running.fabric.port(link.upper).name.clone(), link.parameters.rate.to_string())
    };
    assert_eq!(port("gpu1"), ("host.port0".to_owned(), "Gen4 x16".to_owned()));
    assert_eq!(port("nic0"), ("switch-17-00-0.port-18-02-0".to_owned(), "Gen5 x16".to_owned()));
    // The payload of its old root port stays with it.
    let function = running.hosts[0].tree.find("gpu1").unwrap();
    assert_eq!(function.max_payload_bytes, 256);
    let swapped = apply(&lab, &[Change::moved("gpu0=swap:nvme0").unwrap()]).unwrap();
    assert_eq!(swapped.notes, [] as [String; 0]);
    let running = swapped.lab.build(1).unwrap();
    let payload = |name: &str| running.hosts[0].tree.find(name).unwrap().max_payload_bytes;
    assert_eq!((payload("gpu0"), payload("nvme0")), (128, 256));
}

#[test]
fn a_pair_that_changes_is_listed_with_its_limits() {
    let lab = two_cards();
    let change = [Change::link("card1=3x2").unwrap()];
    let compared = compare_pairs(&lab, &change, true, &()).unwrap();
    let pairs = compared.pairs.unwrap();
    assert_eq!((pairs.changed.len(), pairs.unchanged), (4, 2));
    let pair = &pairs.changed[0];
    let [before, after] = [&pair.before, &pair.after].map(|it| {
        let step = it.bottleneck.as_ref().unwrap();
        let rate = it.pair.one_way_bytes_per_second.unwrap();
        (it.pair.way, (rate / 1e6).round(), step.limits[0].words.clone())
    });
    assert_eq!(before, (Way::RootComplex, 0.0, String::new()));
    assert_eq!(after, (Way::RootComplex, 0.0, String::new()));
}

/// Two root ports that are each set to less: neither gains alone.
#[test]
fn payloads_of_both_ends_are_found_together() {
    let tuning = tune(&two_cards(), &flows(&["card0:card1:write:16K"], 16), true, &()).unwrap();
    let [step] = &tuning.steps[..] else { panic!("{tuning:#?}") };
    assert_eq!(step.words, ["Max_Payload_Size 256 B of all below host0.port0 and host0.port1"]);
    assert_eq!(step.options, ["--set card0.mps=256", "--set card1.mps=256"]);
    assert_eq!(
        step.commands,
        [
            "setpci -s '<host0.port0>' CAP_EXP+8.w=0020:00e0",
            "setpci -s '<card0>' CAP_EXP+8.w=0020:00e0",
            "setpci -s '<host0.port1>' CAP_EXP+8.w=0020:00e0",
            "setpci -s '<card1>' CAP_EXP+8.w=0020:00e0",
        ]
    );
    assert_eq!((step.value / 1e5).round() / 10.0, 0.0);
    let alone = |words: &str| {
        let found = tuning.alone.iter().find(|trial| trial.words == words);
        found.unwrap_or_else(|| panic!("{words}: {tuning:#?}")).gain
    };
    assert_eq!(alone("Max_Payload_Size 256 B of all below host0.port0"), 0.0);
    // What then limits is the link, which is no setting.
    let why = tuning.why_not_faster.unwrap();
    assert_eq!(why.steps[0].limits[0].words, "");
}

fn commands(tuning: &Tuning) -> Vec<&str> {
    let commands = tuning.steps.iter().flat_map(|step: &TuneStep| &step.commands);
    commands.map(String::as_str).collect()
}

/// The addresses of an imported lab are in the commands, each with the mask of its register.
#[test]
fn commands_name_the_functions_of_an_imported_lab() {
    let text = server().file().text().to_owned();
    let redirects = "name = \"switch-17-00-0\"\npart = \"switch-17-00-0\"\n";
    let text = text.replace(redirects, &format!("{redirects}acs = true\n"));
    let lab = Lab::from_text("server.toml", &text).unwrap();
    let lab = apply(&lab, &[set("host.iommu=on")]).unwrap().lab;
    let tuning = tune(&lab, &flows(&["gpu0:gpu1:write:16K"], 16), false, &()).unwrap();
    assert_eq!(commands(&tuning), [] as [&str; 0]);
    let lab = apply(&server(), &[set("nvme0.tags=8"), set("host.iommu=on")]).unwrap().lab;
    let tuning = tune(&lab, &flows(&["nvme0:host:read:16K"], 16), false, &()).unwrap();
    assert_eq!(commands(&tuning), [] as [&str; 0]);
}

#[test]
fn impossible_changes_are_refused_in_a_sentence() {
    let lab = server();
    for (change, sentence) in [
        (set("host0.mps=256"), "--set host0.mps=256: "),
        (set("gpu9.mrrs=256"), ""),
        (set("host.mps=512"), ""),
        (set("host.mps=100"), ""),
        (set("gpu0.iommu=off"), ""),
        (set("host.iommu=maybe"), ""),
        (set("gpu0.tags=2000"), ""),
        (set("part.gpu0.requester.tgas=8"), ""),
        (Change::moved("gpu9=host").unwrap(), ""),
        (Change::moved("host=switch-17-00-0").unwrap(), ""),
        (Change::moved("gpu0=nic0").unwrap(), ""),
        (Change::moved("gpu0=slot5").unwrap(), ""),
        (Change::moved("gpu0=port-30-02-0").unwrap(), ""),
        (Change::moved("gpu0=host.port-30-02-0").unwrap(), ""),
        (Change::moved("switch-17-00-0=switch-17-00-0").unwrap(), ""),
        (Change::moved("gpu0=swap:switch-17-00-0").unwrap(), ""),
        (Change::link("host=3x8").unwrap(), ""),
        (Change::acs("gpu0=off").unwrap(), ""),
        (Change::acs("nowhere=off").unwrap(), ""),
    ] {
        let error = apply(&lab, &[change]).unwrap_err().to_string();
        assert_eq!(error, sentence);
    }
}
