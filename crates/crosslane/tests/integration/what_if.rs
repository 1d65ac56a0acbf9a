// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs beside themselves with changes, and the search for settings.

use crosslane::experiment::{Choices, FlowArgument};
use crosslane::lab::{Lab, shipped};
use crosslane::results::topology::Way;
use crosslane::results::{TuneStep, Tuning, WhatIf};
use crosslane::tune::{TuneOptions, tune};
use crosslane::what_if::{Change, Flows, apply, compare_flows, compare_pairs, written};

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

/// A rule for two root ports names cards below them: these do not move away from their ports.
#[test]
fn cards_that_stand_for_their_root_ports_stay() {
    let text = crosslane::machine::import(
        &[concat!(env!("CARGO_MANIFEST_DIR"), "/../twin/tests/dumps/server.txt").into()],
        "server",
    );
    let text = text.unwrap().text
        + "\n[[peers]]\nfirst = \"gpu0\"\nsecond = \"nvme0\"\n\
           allowed = { value = false, source = \"assumption: any\" }\n";
    let lab = Lab::from_text("server.toml", &text).unwrap();
    let why = "stands for its root port in [[peers]]: name another node below that port there";
    for (place, name) in [
        ("gpu0=host.numa1", "gpu0"),
        ("gpu1=swap:nvme0", "nvme0"),
        ("switch-17-00-0=host.numa1", "gpu0"),
    ] {
        let error = apply(&lab, &[Change::moved(place).unwrap()]).unwrap_err().to_string();
        assert_eq!(error, format!("--move {place}: {name} {why}"));
    }
    apply(&lab, &[Change::moved("gpu1=host.numa1").unwrap()]).unwrap();
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

/// Returns the lab that is written with some changes, and its text. Comments of the file stay, but
/// those on the socket of a link.
fn rewritten(lab: &Lab, changes: &[Change]) -> (Lab, String) {
    let text = written(lab, changes, "crosslane what-if ...").unwrap_or_else(|it| panic!("{it}"));
    assert!(text.starts_with("# Changed by `crosslane what-if ...`.\n"), "{text}");
    let comments = lab.file().text().lines().filter(|line| line.starts_with('#'));
    for comment in comments.filter(|it| !it.contains("# NUMA node") && !it.contains("# Changed")) {
        assert!(text.contains(comment), "{comment}");
    }
    let read = Lab::from_text(lab.origin(), &text).unwrap_or_else(|it| panic!("{it}\n{text}"));
    (read, text)
}

/// Compares flows in a written lab, in which nothing is left to change, with those of a changed
/// one.
fn assert_same(lab: &Lab, changes: &[Change], read: &Lab, flows: &Flows) {
    let after = |lab, changes| {
        let compared = compare_flows(lab, changes, flows, false, &()).unwrap();
        compared.flows.unwrap().after
    };
    let (changed, same, before) = (after(lab, changes), after(read, &[]), after(lab, &[]));
    assert_eq!(same.flows, changed.flows);
    assert!(changed.flows != before.flows && changed.errors.is_empty(), "{:?}", changed.errors);
}

#[test]
fn written_labs_have_the_figures_of_changed_ones() {
    let moved = |text| Change::moved(text).unwrap();
    let changes = [
        set("gpu0.mps=128"),
        set("nvme0.mrrs=4096"),
        set("nic0.tags=64"),
        set("part.host.memory.read_latency_ns=300"),
        Change::link("nvme0=4x4").unwrap(),
        Change::acs("host=off").unwrap(),
        moved("gpu1=host.numa1"),
        moved("nvme0=switch-17-00-0"),
    ];
    let (lab, (read, text)) = (server(), rewritten(&server(), &changes));
    let all = [
        "gpu0:gpu1:write:16K", "nic0:host:read:16K", "nvme0:host:read:4K", "gpu1:nvme0:write:4K",
        "gpu0:host:write:16K",
    ];
    assert_same(&lab, &changes, &read, &flows(&all, 8));
    // The value of a register stays one, for the next change.
    let source = "source = \"sysfs: what-if --set gpu0.mps=128 --set nvme0.mrrs=4096 ";
    assert!(text.contains(&format!("max_read_bytes = {{ value = 4096, {source}")), "{text}");
    assert!(text.contains("\n[endpoint.requester]\n"), "{text}");
    // Once more: the first line names the last command alone.
    let (again, text) = rewritten(&read, &[set("gpu0.mps=256")]);
    assert_eq!(text.matches("# Changed by").count(), 1, "{text}");
    assert_same(&read, &[set("gpu0.mps=256")], &again, &flows(&all, 4));
}

/// Of eight cards that share their tables, those that change get tables of their own.
#[test]
fn written_ranges_are_split_where_they_change() {
    let lab = Lab::load("rosta:crosslane").unwrap();
    let changes = [
        Change::moved("fpga5=rc47a").unwrap(),
        set("fpga2.mrrs=256"),
        Change::link("fpga3=1x4").unwrap(),
        Change::acs("rha25=on").unwrap(),
    ];
    let flow = ["fpga1:fpga5:write:16K", "fpga3:fpga7:write:16K"];
    let flows = flows(&flow, 8);
    let (read, text) = rewritten(&lab, &changes);
    let read = read.with_variant("crosslane").unwrap();
    for words in [
        "name = \"fpga2\"", "name = \"fpga{3..8}\"", "lower = \"fpga{6..8}\"",
        "upper_port = \"down{1..3}\"", "acs = true",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert_same(&lab, &changes, &read, &flows);
}

/// An IOMMU comes with its constants, and goes out of the part, or out of a copy where another host
/// has the part too.
#[test]
fn written_hosts_gain_and_lose_an_iommu() {
    let iommu = |lab: &Lab, host: usize| lab.file().hosts[host].part.parameters.iommu;
    let (read, _) = rewritten(&two_cards(), &[set("host0.iommu=on")]);
    let on = apply(&two_cards(), &[set("host0.iommu=on")]).unwrap().lab;
    assert_eq!(iommu(&read, 0), iommu(&on, 0));
    let (read, text) = rewritten(&read, &[set("host0.iommu=off")]);
    assert_eq!(iommu(&read, 0), None, "{text}");
    let lab = Lab::load("rosta:iommu").unwrap();
    let (read, text) = rewritten(&lab, &[set("host.iommu=off")]);
    assert_eq!(iommu(&read.with_variant("iommu").unwrap(), 0), None, "{text}");
    // Two hosts with one part.
    let second = "\n[[host]]\nname = \"host9\"\npart = \"i7\"\nbuffers = { value = \
                  \"below-4-gib\", source = \"assumption: any\" }\n";
    let text = format!("{}{second}", lab.file().text());
    let two = Lab::from_text("two.toml", &text).unwrap().with_variant("iommu").unwrap();
    let (read, text) = rewritten(&two, &[set("host9.iommu=off")]);
    let read = read.with_variant("iommu").unwrap();
    assert!(iommu(&read, 0).is_some() && iommu(&read, 1).is_none(), "{text}");
    assert!(text.contains("\n# As i7, without an IOMMU.\n[part.i7-of-host9]\n"), "{text}");
}

#[test]
fn changes_that_no_file_has_are_not_written() {
    let words = |lab: &Lab, change: &str| {
        written(lab, &[set(change)], "crosslane what-if ...").unwrap_err().to_string()
    };
    assert_eq!(
        words(&server(), "nic0.relaxed-ordering=on"),
        "--set nic0.relaxed-ordering=on: relaxed ordering is a choice of flows, which no lab file \
         has"
    );
    let text = two_cards().file().text().replace(
        "[[endpoint]]\nname = \"card{0..1}\"\n\
        part = \"card\"\n",
        "",
    );
    let text = format!("endpoint = [{{ name = \"card{{0..1}}\", part = \"card\" }}]\n{text}");
    let lab = Lab::from_text("lab.toml", &text).unwrap();
    assert_eq!(
        words(&lab, "card0.tags=8"),
        "cannot write the changed lab: the file has endpoint as a list in one line, not \
         [[endpoint]]"
    );
}

/// Of a move that gains 8.8 % and an option of the kernel that gains 8.5 %, the option comes first.
#[test]
fn the_cheaper_of_equal_levers_is_proposed() {
    // One read at a time, through an IOMMU and a switch that take almost the same time.
    let text = two_cards().file().text().replace("{0..1}", "0");
    let port = text.split_once("[part.host.port]\n").unwrap().1.split_once("\n\n").unwrap().0;
    let port = port.lines().filter(|line| !line.contains("_latency_ns"));
    let port: String = port.map(|line| format!("{line}\n")).collect();
    let mut more = String::new();
    let mut table = |name: &str, constants: &[(&str, &str)]| {
        more += &format!("\n[part.{name}]\n");
        for (key, value) in constants {
            more += &format!("{key} = {{ value = {value}, source = \"assumption: any\" }}\n");
        }
    };
    table(
        "host.iommu",
        &[
            ("iotlb_entries", "64"),
            ("hit_ns", "57"),
            ("walk_ns", "100"),
            ("walks", "1"),
            ("largest_page_bytes", "2_097_152"),
        ],
    );
    let (identity, latency) = (("identity", "\"1234:0003\""), ("latency_ns", "25.25"));
    table("switch", &[identity, latency, ("forwarding", "\"cut-through\"")]);
    let text = text.replace("\nmax_payload_limit_bytes", "\n# ").replace("\"host0\"  ", "\"sw\" ")
        + &more.replace("[part.switch]\n", "[part.switch]\nkind = \"switch\"\n")
        + &format!("\n[part.switch.port]\n{port}")
        + "\n[[switch]]\nname = \"sw\"\npart = \"switch\"\n\
           \n[[link]]\nupper = \"host0\"\nlower = \"sw\"\npart = \"slot\"\n";
    let lab = Lab::from_text("switch.toml", &text).unwrap_or_else(|it| panic!("{it}\n{text}"));
    let mut flows = flows(&["card0:host0:read:64"], 64);
    flows.choices = flows.choices.with_outstanding(1);
    let tuning = tune(&lab, &flows, TuneOptions::default(), &()).unwrap();
    let alone = tuning.alone.iter().map(|it| (it.words.as_str(), (it.gain * 1e3).round() / 10.0));
    let [(moved, 8.8), (iommu, 8.5), (_, 0.0), ..] = alone.collect::<Vec<_>>()[..] else {
        panic!("{tuning:#?}");
    };
    assert_eq!(
        (moved, iommu),
        ("card0 at a port of host0", "no translation by the IOMMU of host0")
    );
    assert_eq!(tuning.steps[0].words, [iommu]);
}
