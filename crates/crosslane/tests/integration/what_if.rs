// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs beside themselves with changes, and the search for settings.

use crosslane::experiment::{Choices, FlowArgument};
use crosslane::lab::{Lab, shipped};
use crosslane::results::topology::Way;
use crosslane::results::{TuneStep, Tuning, WhatIf};
use crosslane::tune::{TuneOptions, tune};
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
        flow.requests(flow.sizes.sizes().next().unwrap()).remove(0)
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

/// A flow follows the least payload of two root ports: changing one of them alone has no effect.
#[test]
fn payloads_are_set_for_whole_trees() {
    let (lab, flows) = (two_cards(), flows(&["card0:card1:write:16K"], 16));
    let after = |changes: &[&str]| {
        let changes: Vec<Change> = changes.iter().map(|change| set(change)).collect();
        rates(&compare_flows(&lab, &changes, &flows, false, &()).unwrap())
    };
    // One root port more does not help: the other still takes 128 B.
    assert_eq!(after(&["card0.mps=256"]), [3377.8, 3377.8]);
    assert_eq!(after(&["card0.mps=256", "card1.mps=256"]), [3377.8, 3619.7]);
    assert_eq!(after(&["host.mps=256"]), [3377.8, 3619.7]);
}

/// Settings of the reader, of its host, and a constant of its part.
#[test]
fn reads_follow_settings_and_constants() {
    let (lab, flows) = (two_cards(), flows(&["card0:host0:read:16K"], 16));
    for (change, rate) in [
        ("card0.mrrs=128", 3203.7),
        ("host0.mrrs=128", 3203.7),
        ("card1.mrrs=128", 3337.0),
        ("card0.tags=4", 3326.8),
        ("part.card.requester.tags=4", 3326.8),
        ("host0.iommu=on", 3330.1),
    ] {
        let compared = compare_flows(&lab, &[set(change)], &flows, false, &()).unwrap();
        assert_eq!(rates(&compared), [3337.0, rate], "{change}");
    }
}

/// A lab of two sockets: a card at a root port of the other one, and a drive of that one behind a
/// switch of the first.
#[test]
fn cards_move_from_socket_to_socket() {
    let lab = server();
    assert_eq!(lab.file().hosts[0].part.parameters.socket_count(), 2);
    let flows = flows(&["nvme0:gpu0:write:16K"], 16);
    let moved = |place| [Change::moved(place).unwrap()];
    let after = |place| {
        let compared = compare_flows(&lab, &moved(place), &flows, false, &()).unwrap();
        rates(&compared)
    };
    for place in ["nvme0=host.numa0", "nvme0=switch-17-00-0", "gpu0=swap:nvme0"] {
        assert!(after(place)[1] > 0.0, "{place}");
    }
    let error = apply(&lab, &moved("nvme0=host.numa2")).unwrap_err().to_string();
    assert_eq!(error, "--move nvme0=host.numa2: host has 2 sockets, from 0 on");
    let tuning = tune(&lab, &flows, TuneOptions::default(), &()).unwrap();
    for place in ["nvme0 at a port of host.numa0", "gpu0 at a port of host.numa1"] {
        assert!(tuning.alone.iter().any(|trial| trial.words == place), "{place}");
    }
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
    // The drive's register follows its tree, so that it writes as much.
    let drive = swapped.lab.file().endpoints.iter().find(|it| it.name == "nvme0").unwrap();
    assert_eq!(drive.part.parameters.requester.max_write_bytes, 256);
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
        (it.pair.way, (rate / 1e6).round(), step.limits[0].words.as_str())
    });
    let payload = "Max_Payload_Size of 128 B on the way (256 B are possible)";
    assert_eq!(before, (Way::RootComplex, 3395.0, payload));
    let width = "width x2 of the link host0.port1 -> card1, whose ports have x4";
    assert_eq!(after, (Way::RootComplex, 1698.0, width));
}

/// Two root ports that are each set to less: neither gains alone.
#[test]
fn payloads_of_both_ends_are_found_together() {
    let tuning = tune(
        &two_cards(),
        &flows(&["card0:card1:write:16K"], 16),
        TuneOptions { why: true, ..TuneOptions::default() },
        &(),
    )
    .unwrap();
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
    assert_eq!((step.value / 1e5).round() / 10.0, 3619.7);
    let alone = |words: &str| {
        let found = tuning.alone.iter().find(|trial| trial.words == words);
        found.unwrap_or_else(|| panic!("{words}: {tuning:#?}")).gain
    };
    assert_eq!(alone("Max_Payload_Size 256 B of all below host0.port0"), 0.0);
    // What then limits is the link, which is no setting.
    let why = tuning.why_not_faster.unwrap();
    assert_eq!(
        why.steps[0].limits[0].words,
        "the links card0 -> host0.port0 and host0.port1 -> card1, Gen3 x4"
    );
}

fn commands(tuning: &Tuning) -> Vec<&str> {
    let commands = tuning.steps.iter().flat_map(|step: &TuneStep| &step.commands);
    commands.map(String::as_str).collect()
}

/// Peers that ACS sends to the root complex: the redirection of all ports of the switch ends. Reads
/// with 32 tags at Gen4 x16: longer ones do what more tags would do.
#[test]
fn redirection_and_reads_are_tuned() {
    let options = TuneOptions { in_place: true, ..TuneOptions::default() };
    let lab = apply(&server(), &[Change::acs("on").unwrap()]).unwrap().lab;
    let tuning = tune(&lab, &flows(&["gpu0:gpu1:write:16K"], 16), options, &()).unwrap();
    assert_eq!(
        commands(&tuning),
        [
            "setpci -s 0000:18:00.0 ECAP_ACS+6.w=0000:001c",
            "setpci -s 0000:18:01.0 ECAP_ACS+6.w=0000:001c",
            "setpci -s 0000:18:02.0 ECAP_ACS+6.w=0000:001c",
        ]
    );
    let rates = |tuning: &Tuning| {
        let steps = tuning.steps.iter().map(|step| step.value);
        let rates = [tuning.figure.value].into_iter().chain(steps);
        rates.map(|rate| (rate / 1e5).round() / 10.0).collect::<Vec<f64>>()
    };
    assert_eq!(rates(&tuning), [18280.3, 27214.8]);
    assert!(tuning.alone.iter().all(|trial| !trial.words.contains("at a port of")));
    let lab = apply(&server(), &[set("gpu0.tags=32")]).unwrap().lab;
    let tuning = tune(&lab, &flows(&["gpu0:host:read:64K"], 16), options, &()).unwrap();
    assert_eq!(commands(&tuning), ["setpci -s 0000:19:00.0 CAP_EXP+8.w=4000:7000"]);
    assert_eq!(rates(&tuning), [21417.0, 27537.5]);
}

#[test]
fn impossible_changes_are_refused_in_a_sentence() {
    let lab = server();
    let nodes = "there are host, switch-17-00-0, gpu0, gpu1, nic0, nvme0";
    let moved = |text| Change::moved(text).unwrap();
    for (change, sentence) in [
        (set("host0.mps=256"), format!("no host, switch or endpoint named host0; {nodes}")),
        (set("gpu9.mrrs=256"), format!("no host, switch or endpoint named gpu9; {nodes}")),
        (set("host.mps=512"), "host supports payloads of 256 B at most".into()),
        (set("host.mps=100"), "100 is none of 128, 256, 512, 1024, 2048 and 4096 bytes".into()),
        (set("gpu0.iommu=off"), "it has mps, mrrs, tags, relaxed-ordering".into()),
        (set("host.iommu=maybe"), "maybe is neither on nor off".into()),
        (set("gpu0.tags=2000"), "tags of 2000 is not between 1 and 1024".into()),
        (set("part.gpu0.requester.tgas=8"), "did you mean part.gpu0.requester.tags?".into()),
        (moved("gpu9=host"), "no switch or endpoint named gpu9".into()),
        (moved("host=switch-17-00-0"), "no link is above a host".into()),
        (moved("gpu0=nic0"), "nic0 is an endpoint; swap:nic0 exchanges the two".into()),
        (moved("gpu0=slot5"), "no host or switch named slot5; ".into()),
        (moved("gpu0=port-30-02-0"), "nvme0 is at port-30-02-0; swap:nvme0 exchanges".into()),
        (moved("gpu0=host.port-30-02-0"), "nvme0 is at host.port-30-02-0; swap:nvme0".into()),
        (moved("switch-17-00-0=switch-17-00-0"), "it cannot be below itself".into()),
        (moved("gpu0=swap:switch-17-00-0"), "switch-17-00-0 is below the other".into()),
        (Change::link("host=3x8").unwrap(), "no link is above a host".into()),
        (Change::acs("gpu0=off").unwrap(), "gpu0 is an endpoint; hosts and switches".into()),
        (Change::acs("nowhere=off").unwrap(), "no host or switch named nowhere".into()),
    ] {
        let option = change.to_string();
        let error = apply(&lab, &[change]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{option}: ")) && error.contains(&sentence), "{error}");
    }
}
