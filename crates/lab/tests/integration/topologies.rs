// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs as written: ranges of names, many hosts, payloads set along a path, and rates of the
//! shipped labs.

use crosslane_fabric::{Flow, FlowReport};
use crosslane_lab::enumerate::{EnumerationError, set_max_payload};
use crosslane_lab::{Lab, RunningLab, open};
use crosslane_pcie::config::registers;
use crosslane_pcie::link::LinkRate;

use crate::scenes::{changed, parts, write};

fn built(instances: &str) -> RunningLab {
    let lab = Lab::from_text("my.toml", &format!("{}{instances}", parts("rosta")));
    lab.and_then(|lab| lab.build(1)).unwrap_or_else(|error| panic!("{error}"))
}

const BUFFERS: &str = "buffers = { value = \"below-4-gib\", source = \"assumption: any\" }";

#[test]
fn a_thousand_endpoints_in_a_few_lines() {
    let running = built(&format!(
        "[[host]]\nname = \"host{{0..9}}\"\npart = \"i7\"\n{BUFFERS}\n\
         [[switch]]\nname = \"leaf{{0..39}}\"\npart = \"rc47\"\n\
         [[endpoint]]\nname = \"card{{0..999}}\"\npart = \"v7\"\n\
         [[link]]\nupper = \"host{{0..9}}\"\nlower = \"leaf{{0..39}}\"\npart = \"board-x4\"\n\
         [[link]]\nupper = \"leaf{{0..39}}\"\nlower = \"card{{0..999}}\"\npart = \"board-x4\"\n"
    ));
    assert_eq!(running.hosts.len(), 10);
    for host in &running.hosts {
        // 4 root ports, 4 upstream ports, 100 downstream ports, 100 cards.
        assert_eq!(host.tree.functions.len(), 208);
    }
    let card = running.fabric.node(running.find("card999").unwrap());
    assert_eq!(card.host, running.hosts[9].id);
    assert!(running.hosts[9].tree.find("card999").is_some());
    let port = running.find_port("leaf39.down24").unwrap();
    let link = running.fabric.link(running.fabric.port(port).link.unwrap());
    assert_eq!(running.fabric.port(link.lower).name, "card999");
}

#[test]
fn each_host_has_an_address_space_of_its_own() {
    let running = built(&format!(
        "[[host]]\nname = \"a\"\npart = \"i7\"\n{BUFFERS}\n\
         [[host]]\nname = \"b\"\npart = \"i7\"\n{BUFFERS}\n\
         memory_bytes = {{ value = 1_073_741_824, source = \"assumption: less\" }}\n\
         [[endpoint]]\nname = \"card{{1..2}}\"\npart = \"v7\"\n\
         [[link]]\nupper = \"a\"\nlower = \"card1\"\npart = \"board-x4\"\nupper_port = \"slot3\"\n\
         [[link]]\nupper = \"b\"\nlower = \"card2\"\npart = \"board-x4\"\n\
         flight_ns = {{ value = 30, source = \"assumption: longer\" }}\n"
    ));
    let (a, b) = (&running.hosts[0].tree, &running.hosts[1].tree);
    assert_eq!(a.find("card1").unwrap().bars, b.find("card2").unwrap().bars);
    assert_eq!((b.memory.len(), b.memory[0].clone()), (1, 0..1 << 30));
    assert!(running.find_port("a.slot3").is_some());
    let flights: Vec<u64> =
        running.fabric.links().iter().map(|link| link.parameters.flight.0).collect();
    assert_eq!(flights, [1_000, 30_000], "a link overrules its part");
}

#[test]
fn payload_is_the_smallest_of_the_tree() {
    let set = |from: &str, to: &str| {
        let text = changed("rosta", from, to);
        let running = Lab::from_text("my.toml", &text).unwrap().build(1).unwrap();
        running.hosts[0].tree.find("fpga3").unwrap().max_payload_bytes
    };
    assert_eq!(set("rosta", "rosta"), 128);
    let root = "max_payload_bytes = { value = 128";
    assert_eq!(set(root, "max_payload_bytes = { value = 512"), 256);
    let limit =
        "part = \"i7\"\nmax_payload_limit_bytes = { value = 128, source = \"assumption: x\" }";
    assert_eq!(set("part = \"i7\"", limit), 128);
}

/// A root port with a limit has a payload of its own, with all that is below it.
#[test]
fn root_ports_may_have_a_payload_each() {
    let limit = "max_payload_limit_bytes = { value = 128, source = \"assumption: x\" }";
    let text = changed("minimal", "[[link]]", &format!("[[link]]\n{limit}"))
        + "[[endpoint]]\nname = \"card1\"\npart = \"card\"\n\
           [[link]]\nupper = \"host0\"\nlower = \"card1\"\npart = \"slot\"\n";
    let running = Lab::from_text("my.toml", &text).unwrap().build(1).unwrap();
    let payload = |name: &str| running.hosts[0].tree.find(name).unwrap().max_payload_bytes;
    assert_eq!(["host0.port0", "card0"].map(payload), [128, 128]);
    assert_eq!(["host0.port1", "card1"].map(payload), [256, 256]);
    let text = changed(
        "rosta",
        "[[link]]\nupper = \"rha25\"",
        &format!("[[link]]\n{limit}\nupper = \"rha25\""),
    );
    let error = Lab::from_text("my.toml", &text).unwrap_err().to_string();
    assert!(error.contains("only the root ports of a host have one each"), "{error}");
}

#[test]
fn ports_redirect_where_the_lab_asks() {
    let text = changed("rosta", "part = \"rc47\"", "part = \"rc47\"\nacs = true");
    let running = Lab::from_text("my.toml", &text).unwrap().build(1).unwrap();
    let redirecting: Vec<&str> = running.hosts[0]
        .tree
        .functions
        .iter()
        .filter(|function| function.redirects)
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(redirecting, ["rc47a.down0", "rc47a.down1", "rc47a.down2", "rc47a.down3"]);
    let port = running.find_port("rc47a.down2").unwrap();
    assert!(running.fabric.port(port).config.acs_request_redirect());
}

#[test]
fn the_way_from_one_function_to_another() {
    let running = open("rosta").unwrap().build(1).unwrap();
    let tree = &running.hosts[0].tree;
    let path = |from: &str, to: &str| {
        let functions = tree.path(tree.find(from).unwrap(), tree.find(to).unwrap());
        functions.into_iter().map(|function| function.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(path("fpga1", "fpga2"), ["fpga1", "rc47a.down0", "rc47a.down1", "fpga2"]);
    let over = [
        "fpga1", "rc47a.down0", "rc47a.up", "rha25.down0", "rha25.down1", "rc47b.up",
        "rc47b.down3", "fpga8",
    ];
    assert_eq!(path("fpga1", "fpga8"), over);
    assert_eq!(path("fpga1", "fpga1"), ["fpga1"]);
    assert_eq!(path("fpga1", "rc47a.up"), ["fpga1", "rc47a.down0", "rc47a.up"]);
}

#[test]
fn a_payload_beyond_what_a_function_supports_is_refused() {
    let mut running = open("rosta").unwrap().build(1).unwrap();
    let ports: Vec<_> =
        ["fpga1", "host0.port0"].map(|name| running.find_port(name).unwrap()).into();
    let error = set_max_payload(&mut running.fabric, &ports, 256).unwrap_err();
    let function = "host0.port0".to_owned();
    let expected = EnumerationError::PayloadNotSupported { function, bytes: 256, supported: 128 };
    assert_eq!(error, expected);
    assert_eq!(running.fabric.port(ports[0]).config.max_payload_bytes(), 128, "none was set");
}

/// Runs direct writes of one FPGA into another, with the payload set along the path.
fn direct_write(to: &str, payload_bytes: u32, operation_bytes: u64) -> FlowReport {
    direct_write_in(&open("rosta").unwrap(), to, payload_bytes, operation_bytes)
}

/// The same in the lab `rosta` with other constants.
fn direct_write_in(lab: &Lab, to: &str, payload_bytes: u32, operation_bytes: u64) -> FlowReport {
    let mut running = lab.build(1).unwrap();
    let tree = &running.hosts[0].tree;
    let (from, target) = (tree.find("fpga1").unwrap(), tree.find(to).unwrap());
    let ports: Vec<_> = tree.path(from, target).iter().map(|function| function.port).collect();
    let flow = Flow {
        window_bytes: target.bars[1].size_bytes,
        ..write(from.node, target.bars[1].base, operation_bytes)
    };
    set_max_payload(&mut running.fabric, &ports, payload_bytes).unwrap();
    let id = running.fabric.start_flow(flow).unwrap();
    running.fabric.run(None);
    let report = running.fabric.flow_report(id);
    assert_eq!((report.failed, running.fabric.error_count()), (0, 0));
    report
}

#[test]
fn rates_and_latencies_of_rosta_are_those_of_its_constants() {
    let rate =
        |bytes| direct_write("fpga2", bytes, 4 << 20).bytes_per_second() / f64::from(1 << 20);
    // 19 and 35 clocks of 4 ns for each TLP; the rosta paper has 1603 and 1740.
    assert!((rate(128) - 1605.8).abs() < 0.5, "{}", rate(128));
    assert!((rate(256) - 1743.4).abs() < 0.5, "{}", rate(256));
    let latency_ns = |to| direct_write(to, 128, 128).latencies_ps[0] as f64 / 1e3;
    // The first is fitted; the rosta paper has 1038 for the other.
    assert!((latency_ns("fpga2") - 706.0).abs() < 0.5, "{}", latency_ns("fpga2"));
    assert!((latency_ns("fpga5") - 1052.5).abs() < 1.0, "{}", latency_ns("fpga5"));
}

/// A crossbar limits what a switch passes on, here 140 B for each payload of 128 B; symbol times of
/// the cards' ports are 2 ns on links of generation 2.
#[test]
fn crossbars_and_symbol_times_of_a_lab_file() {
    let crossbar = "[part.rc47.crossbar]\n\
                    gb_per_s = { value = 0.7, source = \"assumption: any\" }\n\n[part.rc47.port]\n";
    let text = changed("rosta", "[part.rc47.port]\n", crossbar);
    let lab = Lab::from_text("my.toml", &text).unwrap();
    let report = direct_write_in(&lab, "fpga2", 128, 4 << 20);
    let expected = 0.7e9 * 128.0 / 140.0;
    let off = report.bytes_per_second() / expected - 1.0;
    assert!(off.abs() < 1e-3, "{off}");
    let symbols = "[part.v7.port]\n\
                   receive_latency_symbols = { value = 10, source = \"assumption: any\" }\n\
                   transmit_latency_symbols = { value = 5, source = \"assumption: any\" }\n";
    let text = changed("rosta", "[part.v7.port]\n", symbols);
    let lab = Lab::from_text("my.toml", &text).unwrap();
    let latency_ps = |report: FlowReport| report.latencies_ps[0];
    let added_ps = latency_ps(direct_write_in(&lab, "fpga2", 128, 128))
        - latency_ps(direct_write("fpga2", 128, 128));
    assert_eq!(added_ps, 15 * 2000);
}

/// Ten-bit tags that a port has are enabled, and then 768 reads are possible; no port has more
/// without FLIT mode.
#[test]
fn tags_are_those_that_the_port_has() {
    let wide = |tags: &str, generation: &str| {
        let extended = "\nextended_tags = {";
        let text =
            changed("minimal", "\ntags = { value = 64", &format!("\ntags = {{ value = {tags}"));
        let text = text.replace(extended, &format!("\n{generation}{extended}"));
        Lab::from_text("my.toml", &text)
    };
    let ten = "ten_bit_tags = { value = true, source = \"assumption: any\" }";
    let lab = wide("768", ten).unwrap();
    let running = lab.build(1).unwrap();
    let config = &running.fabric.port(running.find_port("card0").unwrap()).config;
    let control = config.find_capability(registers::CAPABILITY_PCI_EXPRESS).unwrap()
        + registers::DEVICE_CONTROL_2;
    assert_ne!(config.read(control) & registers::DEVICE_CONTROL_2_TEN_BIT_TAG, 0);
    let error = wide("769", ten).unwrap_err().to_string();
    let sentence = "its port has tags for 768 reads, not 769: part.card.port.fourteen_bit_tags is \
                    left out";
    assert!(error.ends_with(sentence), "{error}");
}

/// A link beyond its ports raises their maxima, and says which; a slower one raises nothing.
#[test]
fn a_link_raises_the_ports_at_its_ends() {
    let lab = open("rosta").unwrap();
    let rate = |text: &str| text.parse::<LinkRate>().unwrap();
    let (faster, raised) = lab.with_link("fpga1", rate("6x16")).unwrap();
    assert_eq!(raised, ["downstream ports of rc47a", "fpga1"]);
    let running = faster.build(1).unwrap();
    let port = running.fabric.port(running.find_port("fpga1").unwrap());
    assert_eq!(
        (port.config.link_status(), port.config.link_capability()),
        (rate("6x16"), rate("6x16"))
    );
    let (_, raised) = lab.with_link("fpga1", rate("1x1")).unwrap();
    assert_eq!(raised, [""; 0]);
    let error = lab.with_link("fpga", rate("1x1")).unwrap_err().to_string();
    assert_eq!(error, "there is no switch or endpoint named fpga; did you mean fpga1?");
}
