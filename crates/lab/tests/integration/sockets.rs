// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs whose hosts have several sockets: keys of the lab file, the buffers of each, and accesses
//! from cores of both.

use crosslane_fabric::parameters::{HopParameters, PeerToPeer, SocketParameters};
use crosslane_host::{Bus, PageSize, RegisterAddress};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::HostId;

use crate::scenes::{changed, function, ns};

const HOST: HostId = HostId(0);
const GIB: u64 = 1 << 30;

/// Returns the lab `minimal` with two sockets and a card on each, with part of the text replaced.
fn two_sockets(change: (&str, &str)) -> Result<Lab, String> {
    let sockets = "sockets = { value = 2, source = \"assumption: any\" }\n\n\
                   [part.host.hop]\n\
                   latency_ns = { value = 60, source = \"assumption: any\" }\n\
                   gb_per_s = { value = 20, source = \"assumption: any\" }\n\n\
                   [part.host.hop.peer_to_peer]\n\
                   allowed = { value = true, source = \"assumption: any\" }\n\
                   latency_ns = { value = 500, source = \"assumption: any\" }\n\n\
                   [part.host.port]\n";
    let second = "[[endpoint]]\nname = \"card1\"\npart = \"card\"\n\n\
                  [[link]]\nupper = \"host0\"\nsocket = 1\nlower = \"card1\"\npart = \"slot\"\n\n";
    let text = changed("minimal", "[part.host.port]\n", sockets).replacen(
        "[[endpoint]]",
        &format!("{second}[[endpoint]]"),
        1,
    );
    assert!(text.contains(change.0), "{}", change.0);
    let text = text.replacen(change.0, change.1, 1);
    let lab = Lab::from_text("my.toml", &text).map_err(|error| error.problem.to_string())?;
    lab.build(1).map_err(|error| error.problem.to_string())?;
    Ok(lab)
}

#[test]
fn the_keys_of_a_lab_file() {
    let lab = two_sockets(("", "")).unwrap();
    let part = &lab.file().hosts[0].part;
    let expected = SocketParameters {
        count: 2,
        hop: HopParameters { latency: ns(60), bytes_per_second: 20e9 },
        peer_to_peer: PeerToPeer::Allowed { latency: ns(500), bytes_per_second: f64::INFINITY },
    };
    assert_eq!(part.parameters.sockets, Some(expected));
    let keys = ["part.host.peer_to_peer.allowed", "part.host.hop.peer_to_peer.allowed"];
    assert_eq!(part.peer_to_peer_keys, keys);
    assert!(lab.constants().any(|it| it.path() == "part.host.hop.latency_ns"));
    let built = lab.build(1).unwrap();
    let host = &built.hosts[0];
    assert_eq!(host.socket_buffers, [1 << 20..GIB, GIB..2 * GIB]);
    assert_eq!((host.buffers.clone(), host.cpu.cores), (1 << 20..GIB, 8));
    let port = |card: &str| {
        built.fabric.link(built.fabric.port(built.find_port(card).unwrap()).link.unwrap()).upper
    };
    let socket = |card: &str| built.fabric.port(port(card)).socket;
    assert_eq!((socket("card0"), socket("card1")), (0, 1));
    // The other node's buffers, by key or by choice, in any order of choices.
    let node = "[[host]]\nnuma_node = 1\n";
    let by_key = two_sockets(("[[host]]\n", node)).unwrap();
    let hop = "part.host.hop.latency_ns";
    let chosen = lab.with_numa_node(1).unwrap();
    let changed = chosen.with_constant(hop, 90.0).unwrap();
    for lab in [by_key, chosen, changed] {
        assert_eq!(lab.build(1).unwrap().hosts[0].buffers, GIB..2 * GIB);
    }
    let above = two_sockets(("value = \"below-4-gib\"", "value = \"above-4-gib\"")).unwrap();
    let buffers = above.build(1).unwrap().hosts[0].socket_buffers.clone();
    assert_eq!(buffers, [4 * GIB..11 * GIB, 11 * GIB..18 * GIB]);
}

/// Returns a pair of root ports with a rule of its own.
fn pair(first: &str, second: &str, keys: &str) -> String {
    format!("[[peers]]\nfirst = \"{first}\"\nsecond = \"{second}\"\n{keys}\n")
}

const ALLOWED: &str = "allowed = { value = true, source = \"assumption: any\" }\n\
                       latency_ns = { value = 700, source = \"assumption: any\" }\n\
                       gb_per_s = { value = 2, source = \"assumption: any\" }\n";

#[test]
fn pairs_of_root_ports_have_their_own_rules() {
    let before = |text: String| two_sockets(("[[endpoint]]", &(text + "[[endpoint]]")));
    let lab = before(pair("card1", "card0", ALLOWED)).unwrap();
    let rule = PeerToPeer::Allowed { latency: ns(700), bytes_per_second: 2e9 };
    let found = lab.file().peers_between("card0", "card1").unwrap();
    assert_eq!((found.peer_to_peer, found.allowed_key.as_str()), (rule, "peers[1].allowed"));
    assert!(lab.file().peers_between("card0", "card0").is_none());
    let rule_in = |lab: &Lab| {
        let mut built = lab.build(1).unwrap();
        let ports = ["card0", "card1"].map(|card| {
            let port = built.find_port(card).unwrap();
            built.fabric.link(built.fabric.port(port).link.unwrap()).upper
        });
        built.fabric.peers(ports[0], ports[1])
    };
    assert_eq!(rule_in(&lab), Some(rule));
    let slower = lab.with_constant("peers[1].gb_per_s", 1.0).unwrap();
    let rule = PeerToPeer::Allowed { latency: ns(700), bytes_per_second: 1e9 };
    assert_eq!(rule_in(&slower), Some(rule));
    let forbidden = "allowed = { value = false, source = \"assumption: any\" }\n";
    let lab = before(pair("card0", "card1", forbidden)).unwrap();
    assert_eq!(rule_in(&lab), Some(PeerToPeer::Forbidden));
    for (text, sentence) in [
        (pair("card0", "card0", ALLOWED), "card0 and card0 are below one root port, host0.port"),
        (pair("card0", "card7", ALLOWED), "card7"),
        (pair("card0", "host0", ALLOWED), "host0 is a host"),
        (pair("card0", "card1", ""), "peers[1] needs the key allowed"),
        (
            pair("card0", "card1", ALLOWED) + &pair("card1", "card0", ALLOWED),
            "are a pair already, in line",
        ),
        (pair("card0", "card1", "rate = 1\n"), "rate"),
    ] {
        let error = before(text).unwrap_err();
        assert!(error.contains(sentence), "{sentence}: {error}");
    }
}

#[test]
fn sockets_that_a_host_lacks_are_refused() {
    let hop = "sockets = { value = 2, source = \"assumption: any\" }\n";
    for (from, to, sentence) in [
        ("socket = 1", "socket = 2", "there is no socket 2: its host has 2, from 0 on"),
        ("socket = 1", "socket = -1", "-1 is not between 0 and 7"),
        ("socket = 1", "socket = 1.5", "a whole number"),
        ("[[host]]\n", "[[host]]\nnuma_node = 3\n", "there is no socket 3: its host has 2"),
        ("value = 2, source", "value = 9, source", "part.host.sockets: 9 is not between 1 and 8"),
        (hop, "", "part.host.hop: a host of one socket has no way between two"),
        ("[part.host.hop]\nlatency_ns", "[part.host.hip]\nlatency_ns", "hip"),
        ("gb_per_s = { value = 20", "gb_per_s = { value = 0", "part.host.hop.gb_per_s"),
        ("value = 8_589_934_592", "value = 8_589_934_593", "are not whole pages of 4 KiB"),
        ("latency_ns = { value = 500, source = \"assumption: any\" }\n", "", "latency_ns"),
    ] {
        let error = two_sockets((from, to)).unwrap_err();
        assert!(error.contains(sentence), "{from}: {error}");
    }
    let one = crosslane_lab::open("minimal").unwrap();
    let error = one.with_numa_node(1).unwrap_err().to_string();
    assert!(
        error.contains("host0.numa_node: there is no socket 1: its host has one, 0"),
        "{error}"
    );
}

/// Memory of programs lies at the chosen node; loads of a far core and of a near one differ by two
/// hops.
#[test]
fn programs_have_memory_and_cores_of_both_sockets() {
    for node in [0_u64, 1] {
        let lab = two_sockets(("", "")).unwrap().with_numa_node(node as u16).unwrap();
        let simulation = Simulation::new(lab.build_engines(1).unwrap());
        let bus = simulation.bus(HOST);
        let run = async {
            let cards = ["card0", "card1"].map(|name| function(&bus, name).id);
            let memory = bus.allocate(3 << 20, PageSize::Small).unwrap();
            let segments = bus.pin(cards[1], &memory).await.unwrap();
            let addresses = node * GIB..(node + 1) * GIB;
            assert!(segments.iter().all(|segment| addresses.contains(&segment.address.0)));
            let mut times = Vec::new();
            for core in [0, bus.cores() / 2] {
                for function in cards {
                    let (bus, before) = (bus.on_core(core), Bus::now(&bus));
                    bus.read_register(RegisterAddress { function, bar: 0, offset_bytes: 0 })
                        .await
                        .unwrap();
                    times.push(Bus::now(&bus) - before);
                }
            }
            times
        };
        let times = simulation.run("program", run).unwrap();
        assert_eq!((times[0], times[1]), (times[3], times[2]));
        assert_eq!(times[1] - times[0], ns(2 * 60));
    }
}
