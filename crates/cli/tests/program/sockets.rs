// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts of several sockets from outside: check, topology, matrix, flows, and the choice of memory.

use serde_json::Value;

use crate::run::{
    assert_refused, changed_lab, document, json_of, number, stdout_as_written, stdout_of,
};

/// The lab `minimal` with a card on each of two sockets, whose hop has this rate and passes peers
/// on or not.
fn two_sockets(test: &str, gb_per_s: &str, allowed: &str) -> String {
    let constant = |key: &str, value: &str| {
        format!("{key} = {{ value = {value}, source = \"assumption: any\" }}\n")
    };
    let host = [
        &constant("sockets", "2"),
        "\n[part.host.hop]\n",
        &constant("latency_ns", "60"),
        &constant("gb_per_s", gb_per_s),
        "\n[part.host.hop.peer_to_peer]\n",
        &constant("allowed", allowed),
        &constant("latency_ns", "300"),
        "\n[part.host.port]\n",
    ];
    let allow = |value: &str| {
        format!("allowed = {{ value = {value}, source = \"assumption: as most desktop hosts\" }}")
    };
    let card = "[[endpoint]]\nname = \"card1\"\npart = \"card\"\n\n\
                [[link]]\nupper = \"host0\"\nsocket = 1\nlower = \"card1\"\npart = \"slot\"\n\n\
                [[endpoint]]";
    let latency = format!("{}\n{}", allow("true"), constant("latency_ns", "100"));
    let changes = [
        ("\n[part.host.port]\n", host.concat()),
        (&allow("false"), latency),
        ("[[endpoint]]", card.to_owned()),
    ];
    changed_lab(test, "minimal", &changes.each_ref().map(|(from, to)| (*from, to.as_str())))
}

#[test]
fn pages_and_matrix_know_sockets() {
    let lab = two_sockets("pages_and_matrix_know_sockets", "20", "true");
    let page = stdout_of(&format!("topo {lab}"));
    assert!(page.contains("host0: 2 sockets with 8 GiB each, 16 GiB of memory"), "{page}");
    assert!(page.contains("01.0(socket 1)-[01]----00.0  card1"), "{page}");
    let json = json_of(&format!("topo {lab} --json"));
    let host = &json["hosts"][0];
    assert_eq!((&host["sockets"], &host["functions"][0]["socket"]), (&2.into(), &1.into()));
    let page = stdout_of(&format!("topo {lab} --matrix"));
    assert!(page.contains("card1            x    SYS          SYS          MEM"), "{page}");
    assert!(page.contains("  SYS  between sockets"), "{page}");
    let json = json_of(&format!("topo {lab} --matrix --json"));
    assert_eq!(
        json["nodes"][3],
        serde_json::json!({"name": "host0.numa1", "is_memory": true, "socket": 1})
    );
    let pair = |from: &str, to: &str| -> &Value {
        let mut pairs = json["pairs"].as_array().unwrap().iter();
        pairs.find(|pair| pair["from"] == from && pair["to"] == to).unwrap()
    };
    let latency = |to: &str| number(&pair("card1", to)["read_latency_ns"]);
    // Two hops, and 64 B at 20 GB/s.
    assert!((latency("host0.numa0") - latency("host0.numa1") - 123.2).abs() < 0.01);
    assert_eq!(pair("card0", "card1")["way"], "sockets");
    let lab = two_sockets("forbidden_across", "20", "false");
    let page = stdout_of(&format!("lab check {lab}"));
    let sentence = "note: host0 forbids peer-to-peer between root ports of different sockets \
                    (part.host.hop.peer_to_peer.allowed is false), so that these do not reach each \
                    other: card0 | card1";
    assert!(page.contains(sentence), "{page}");
    let flow = format!("bench traffic --lab {lab} --flow card0:card1:write:4K");
    assert_refused(&flow, 1, "between root ports of different sockets: part.host.hop.peer_to_peer");
}

/// Sockets that pass peers on to each other, but not within each: cards of one socket are named.
#[test]
fn lab_check_names_peers_of_one_socket() {
    let lab = two_sockets("lab_check_names_peers_of_one_socket", "20", "true");
    let text = std::fs::read_to_string(&lab).unwrap();
    let mut text = text.replace(
        "allowed = { value = true, source = \"assumption: as most desktop hosts\" }",
        "allowed = { value = false, source = \"assumption: as most desktop hosts\" }",
    );
    std::fs::write(&lab, &text).unwrap();
    assert!(!stdout_of(&format!("lab check {lab}")).contains("forbids"), "none share a socket");
    text.push_str(
        "\n[[endpoint]]\nname = \"card2\"\npart = \"card\"\n\n\
         [[link]]\nupper = \"host0\"\nsocket = 1\nlower = \"card2\"\npart = \"slot\"\n",
    );
    std::fs::write(&lab, &text).unwrap();
    let page = stdout_of(&format!("lab check {lab}"));
    let sentence = "note: host0 forbids peer-to-peer between root ports of one socket \
                    (part.host.peer_to_peer.allowed is false), so that these do not reach each \
                    other: card1 | card2";
    assert!(page.contains(sentence), "{page}");
}

#[test]
fn flows_name_the_memory_and_the_cores() {
    let lab = two_sockets("flows_name_the_memory_and_the_cores", "20", "true");
    let latency = |flow: &str| {
        let json = json_of(&format!(
            "bench traffic --lab {lab} --flow {flow} --operations 8 --outstanding 1 --json"
        ));
        number(&json["scenarios"][0]["flows"][0]["latency"]["min_ps"])
    };
    assert_eq!(latency("card0:host0.numa1:read:64") - latency("card0:host0:read:64"), 123_200.0);
    assert_eq!(latency("card1:host0:read:64"), latency("card0:host0.numa1:read:64"));
    assert_eq!(latency("host0.numa1:card0:read:8") - latency("host0:card0:read:8"), 120_000.0);
    for (flow, words) in [
        ("card0:host0.numa2:read:64", "host0 has no NUMA node 2; it has 2, numa0 to numa1"),
        ("card0:card1.numa0:read:64", "card1 is an endpoint; only hosts have NUMA nodes"),
        ("card0:host0.bar0:read:64", "host0 is a host and has no BARs"),
        ("card0.bar0:host0:read:64", "card0.bar0 is not a requester; its endpoint is"),
        ("host0.numa7:card0:write:8", "host0 has no NUMA node 7"),
    ] {
        assert_refused(&format!("bench traffic --lab {lab} --flow {flow}"), 2, words);
    }
}

/// Buffers of the driver lie where `--numa` says, and a slow hop is what limits the card then.
#[test]
fn workloads_choose_their_memory() {
    let lab = two_sockets("workloads_choose_their_memory", "1", "true");
    let bench = |numa: &str| {
        let command = format!("bench write --lab {lab} --from card0 --size 256K {numa} --json");
        let json = document(&stdout_as_written(&command));
        let scenario = json["scenarios"][0].clone();
        let rate = number(&scenario["flows"][0]["hardware"]["bytes_per_second"]);
        (rate, scenario["why_not_faster"]["steps"][0]["limits"][0]["kind"].clone())
    };
    let (near, limit) = bench("");
    assert!(near > 3e9 && limit != "socket_hop", "{near} by {limit}");
    assert_eq!(bench("--numa 0"), (near, limit));
    let (far, limit) = bench("--numa 1");
    assert!((far / 1e9 - 1.0).abs() < 0.02 && limit == "socket_hop", "{far} by {limit}");
    let read = format!("bench read --lab {lab} --numa 2");
    assert_refused(&read, 1, "host0.numa_node: there is no socket 2: its host has 2, from 0 on");
}

/// A pair of root ports with a rate of its own has it in the matrix, and it is named as the limit;
/// where it is forbidden, the lab's check and a flow say so.
#[test]
fn pairs_of_root_ports_have_their_own_rates() {
    let test = "pairs_of_root_ports_have_their_own_rates";
    let lab = two_sockets(test, "20", "true");
    let text = std::fs::read_to_string(&lab).unwrap();
    let pair = |keys: &[(&str, &str)]| {
        let keys = keys.iter().map(|(key, value)| {
            format!("{key} = {{ value = {value}, source = \"assumption: any\" }}\n")
        });
        let head = "\n[[peers]]\nfirst = \"card0\"\nsecond = \"card1\"\n".to_owned();
        std::fs::write(&lab, text.clone() + &head + &keys.collect::<String>()).unwrap();
    };
    let figures = || {
        let json = json_of(&format!("topo {lab} --matrix --json"));
        let mut pairs = json["pairs"].as_array().unwrap().clone();
        pairs.retain(|pair| pair["from"] == "card1" && pair["to"] == "card0");
        let figure = |key: &str| number(&pairs[0][key]);
        (figure("one_way_bytes_per_second"), figure("read_latency_ns"))
    };
    let before = figures();
    pair(&[("allowed", "true"), ("latency_ns", "300"), ("gb_per_s", "0.5")]);
    let (rate, latency) = figures();
    assert!(before.0 > 3e9 && (rate / 5e8 - 1.0).abs() < 0.01, "{rate} after {before:?}");
    // 64 B of a completion at 0.5 GB/s, in place of 20 GB/s of the hop.
    assert!((latency - before.1 - 128.0 + 3.2).abs() < 0.01, "{latency} after {before:?}");
    let flow = format!("bench traffic --lab {lab} --flow card0:card1:write:64K");
    let json = document(&stdout_as_written(&format!("{flow} --json")));
    let limit = &json["scenarios"][0]["why_not_faster"]["steps"][0]["limits"][0];
    let words = "the 0.5 GB/s that host0 passes on between the root ports of card0 and card1";
    assert_eq!((&limit["kind"], &limit["words"]), (&"peer_to_peer".into(), &words.into()));
    pair(&[("allowed", "false")]);
    let page = stdout_of(&format!("lab check {lab}"));
    let note = "note: host0 forbids peer-to-peer between the root ports of card0 and card1 \
                (peers[1].allowed is false)";
    assert!(page.contains(note), "{page}");
    assert_refused(&flow, 1, "between the root ports of this pair: peers[1].allowed is false");
}
