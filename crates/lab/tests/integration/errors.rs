// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every error of a lab file: one problem each, found at its position.

use crosslane_lab::{Lab, LabError, open};

use crate::scenes::{self, parts, text};

fn error_of(text: &str) -> LabError {
    match Lab::from_text("my.toml", text).and_then(|lab| lab.build(1)) {
        Ok(_) => panic!("the lab has no error"),
        Err(error) => error,
    }
}

/// Returns the kind of the problem, the text that it points at, and its sentence.
fn seen(error: &LabError) -> (&str, &str, String) {
    let place = error.place.as_deref().expect("it has a place");
    (error.problem.code(), &place.text[place.span.clone()], error.problem.to_string())
}

/// Lists changes of a lab, each of which makes one error, with what is seen of the error.
fn errors_of(lab: &str, changes: &[(&str, &str)]) -> String {
    let listed = changes.iter().map(|(from, to)| {
        let error = error_of(&scenes::changed(lab, from, to));
        let (code, at, sentence) = seen(&error);
        let at = at.split(", source").next().unwrap();
        format!("{from:?} -> {to:?}\n    {code}: {sentence} (at {at})\n")
    });
    listed.collect()
}

/// Changes of the lab `minimal`, each of which makes one error.
const CHANGES: &[(&str, &str)] = &[
    // Unknown keys.
    ("\ntags = {", "\ntag = {"),
    ("[part.slot]", "[[partition]]"),
    ("[part.host.cpu]", "[part.host.processor]"),
    ("reading_descriptors = {", "reading_descriptor = {"),
    // A later format: before any key of that format is looked at.
    ("\nformat = 1", "\nformat = 2\nauthor = \"me\""),
    ("\nformat = 1", "\nformat = \"1\""),
    // Missing keys and tables.
    ("read_slots = { value = 64,", "# { value = 64,"),
    ("part = \"slot\"", ""),
    ("[[host]]\nname = \"host0\"", "[[switch]]\nname = \"host0\""),
    ("register_latency_ns", "# "),
    ("[part.card.bar1]", "[part.card.bar2]"),
    // An instance without a link, and links to unknown names.
    ("[[endpoint]]\n", "[[endpoint]]\nname = \"idle\"\npart = \"card\"\n[[endpoint]]\n"),
    ("lower = \"card0\"", "lower = \"card1\""),
    ("upper = \"host0\"", "upper = \"server\""),
    ("upper = \"host0\"", "upper = \"host0.numa1\""),
    ("part = \"card\"", "part = \"cart\""),
    // A rate that the part does not have.
    ("\nwidth = { value = 4", "\nwidth = { value = 8"),
    ("\ngeneration = { value = 3", "\ngeneration = { value = 4"),
    ("\nwidth = { value = 4", "\nwidth = { value = 3"),
    ("\nwidth = { value = 4", "\nwidth = { value = 33"),
    ("\nwidth = { value = 4", "\nwidth = { value = 0"),
    // A payload that no function has.
    ("max_payload_bytes = { value = 512", "max_payload_bytes = { value = 192"),
    ("max_payload_bytes = { value = 512", "max_payload_bytes = { value = 64"),
    ("max_payload_bytes = { value = 512", "max_payload_bytes = { value = 8192"),
    // A completion boundary, or a share of single units, that cannot be.
    (
        "read_completion_boundary_bytes = { value = 64",
        "read_completion_boundary_bytes = { value = 96",
    ),
    (
        "[part.card.memory]",
        "[part.card.memory]\nread_completion_boundary_bytes = { value = 64, source = \"fit: x\" }",
    ),
    ("completion_bytes = { value = 128", "completion_bytes = { value = 64"),
    (
        "completion_bytes = { value = 256",
        "completion_single_share = { value = 1.5, source = \"fit: x\" } #",
    ),
    (
        "[part.host.cpu]\n",
        "[part.host.cpu]\nloads_in_flight = { value = 65, source = \"assumption: x\" }\n",
    ),
    (
        "[part.host.memory]\n",
        "transmit_latency_symbols = { value = 0.5, source = \"fit: x\" }\n[part.host.memory]\n",
    ),
    // Numbers and names out of bounds.
    ("receive_latency_ns = { value = 100,", "receive_latency_ns = { value = -1,"),
    ("receive_latency_ns = { value = 100,", "receive_latency_ns = { value = nan,"),
    ("receive_latency_ns = { value = 100,", "receive_latency_ns = { value = inf,"),
    ("receive_latency_ns = { value = 100,", "receive_latency_ns = { value = -inf,"),
    ("receive_latency_ns = { value = 100,", "receive_latency_ns = { value = 1e13,"),
    (
        "receive_latency_ns = { value = 100,",
        "receive_latency_ns = { value = 9999999999999999999999999999999999999999999,",
    ),
    ("\ntags = { value = 64", "\ntags = { value = 0"),
    ("\ntags = { value = 64", "\ntags = { value = 1025"),
    ("\ntags = { value = 64", "\ntags = { value = -1"),
    ("cores = { value = 4", "cores = { value = 0"),
    ("copy_gb_per_s = { value = 10", "copy_gb_per_s = { value = 0"),
    ("copy_gb_per_s = { value = 10", "copy_gb_per_s = { value = inf"),
    ("size_bytes = { value = 65_536", "size_bytes = { value = 65_535"),
    ("size_bytes = { value = 65_536", "size_bytes = { value = 4_294_967_296"),
    ("size_bytes = { value = 65_536", "size_bytes = { value = 2_147_483_648"),
    ("posted_headers = { value = 64", "posted_headers = { value = 0"),
    ("posted_data = { value = 1024", "posted_data = { value = 15"),
    // More credits than a field holds, and more tags than a port has.
    ("posted_headers = { value = 64", "posted_headers = { value = 128"),
    ("posted_data = { value = 1024", "posted_data = { value = 2048"),
    ("nonposted_headers = { value = 64", "nonposted_headers = { value = 508"),
    ("max_generation = { value = 3", "max_generation = { value = 7"),
    ("\ntags = { value = 64", "\ntags = { value = 257"),
    ("\nextended_tags = { value = true", "\nextended_tags = { value = false"),
    (
        "\nextended_tags = {",
        "\nfourteen_bit_tags = { value = true, source = \"fit: x\" }\nextended_tags = {",
    ),
    ("ack_tlps = { value = 2", "ack_tlps = { value = 0"),
    ("replay_buffer_bytes = { value = 16_384", "replay_buffer_bytes = { value = 100"),
    ("memory_bytes = { value = 8_589_934_592", "memory_bytes = { value = 0"),
    ("max_write_bytes = { value = 512", "max_write_bytes = { value = 500"),
    ("class_code = { value = 0x120000", "class_code = { value = 0x1200000"),
    ("identity = { value = \"1234:0001\"", "identity = { value = \"ffff:0001\""),
    ("identity = { value = \"1234:0001\"", "identity = { value = \"1234:00001\""),
    ("value = \"longest\"", "value = \"longer\""),
    ("value = \"below-4-gib\"", "value = \"below\""),
    ("kind = \"endpoint\"", "kind = \"end point\""),
    ("name = \"host0\"", "name = \"host.0\""),
    ("name = \"host0\"", "name = \"\""),
    ("name = \"host0\"", "name = \"host{3..1}\""),
    ("name = \"host0\"", "name = \"host{1..}\""),
    ("name = \"host0\"", "name = \"host{1..2\""),
    ("lower = \"card0\"", "lower = \"card0\"\nupper_port = \"a{1..2}\""),
    // Constants without a source.
    ("\ntags = {", "\ntags = 64 #"),
    ("\ntags = {", "\ntags = { value = 64 } #"),
    ("\ntags = {", "\ntags = { value = 64, source = \"measured\" } #"),
    ("\ntags = {", "\ntags = { value = 64, source = \"fit:\" } #"),
    ("\ntags = {", "\ntags = { value = 64, source = \"guess: x\" } #"),
    ("\ntags = {", "\ntags = { value = 64, source = 3 } #"),
    ("\ntags = {", "\ntags = { source = \"fit: x\" } #"),
    ("\ntags = {", "\ntags = { value = 3, unit = 3, source = \"fit: x\" } #"),
    // Values of another type.
    ("\ntags = { value = 64", "\ntags = { value = \"64\""),
    ("\ntags = { value = 64", "\ntags = { value = 64.5"),
    ("allowed = { value = false", "allowed = { value = 0"),
    ("name = \"host0\"", "name = 3"),
    ("[part.card.bar0]", "[[part.card.bar0]]"),
    ("[[host]]", "[host]"),
    ("posted_data = { value = 1024", "posted_data = { value = \"endless\""),
    ("receive_latency_ns = { value = 100", "receive_latency_ns = { value = \"infinite\""),
    // Parts and nodes of another kind.
    ("part = \"card\"", "part = \"slot\""),
    ("upper = \"host0\"", "upper = \"card0\""),
    ("lower = \"card0\"", "lower = \"host0\""),
    // ACS that the port does not have, and a BAR whose second register is taken.
    ("name = \"host0\"", "name = \"host0\"\nacs = true"),
    ("value = \"memory32\"", "value = \"memory64\""),
    // Engines that cannot be.
    ("lanes = { value = 8", "lanes = { value = 6"),
    ("lanes = { value = 8", "lanes = { value = 32"),
    ("h2c_channels = { value = 1", "h2c_channels = { value = 0"),
    ("lane_fifo_bytes = { value = 16_384", "lane_fifo_bytes = { value = 256"),
    ("size_bytes = { value = 65_536", "size_bytes = { value = 32_768"),
    ("1_048_576", "4096"),
    ("clock_ns = { value = 4,", "clock_ns = { value = 0,"),
    ("max_read_bytes = { value = 1024", "max_read_bytes = { value = 64"),
    ("tags = { value = 64", "tags = { value = 1024"),
    ("fetch_batch = { value = 16", "fetch_batch = { value = 256"),
    ("table_descriptors = { value = 1024", "table_descriptors = { value = 2048"),
    // Pushed descriptors without an aperture, and one that no processor combines stores to.
    ("packets = { value = true", "push = { value = true"),
    (
        "[part.card.engine]",
        "[part.card.bar4]\ndecodes = { value = \"memory64\", source = \"assumption: a\" }\n\
         size_bytes = { value = 4096, source = \"assumption: a\" }\n[part.card.engine]\n\
         push = { value = true, source = \"assumption: a\" }",
    ),
];

/// Changes of the card's memory of the lab `kc705`, each of which makes one error.
const MEMORY_CHANGES: &[(&str, &str)] = &[
    ("axi_bytes = { value = 32", "axi_bytes = { value = 24"),
    ("axi_bytes = { value = 32", "axi_bytes = { value = 256"),
    ("1_073_741_824, source", "2048, source"),
    ("burst_beats = { value = 256", "burst_beats = { value = 512"),
    ("axi_clock_ns = { value = 10", "axi_clock_ns = { value = 0"),
    ("\"in-turn\"", "\"in turn\""),
    ("turnaround_clocks = { value = 8", "turnaround_clocks = { value = 2000"),
    ("row_bytes = { value = 8192", "row_bytes = { value = 32"),
    ("refresh_ns = { value = 110", "refresh_ns = { value = 5000"),
    ("dram_bus_bytes = { value = 8", "dram_bus_bytes = { value = -8"),
    ("turnaround_clocks = {", "turnaround = {"),
    ("turnaround_clocks", "# "),
];

#[test]
fn every_change_makes_its_error_at_its_place() {
    insta::assert_snapshot!(errors_of("minimal", CHANGES));
}

#[test]
fn ranges_that_cannot_be() {
    let latency = "read_latency_ns = { value = 200,";
    let changes = [
        (latency, "read_latency_ns = { value = 200, low = 90,"),
        (latency, "read_latency_ns = { value = 200, high = 250,"),
        (latency, "read_latency_ns = { value = 200, low = 210, high = 250,"),
        (latency, "read_latency_ns = { value = 200, low = 90, high = 199,"),
        (latency, "read_latency_ns = { value = 200, low = 250, high = 90,"),
        (latency, "read_latency_ns = { value = 200, low = -1, high = 250,"),
        (latency, "read_latency_ns = { value = 200, low = 90, high = \"infinite\","),
        (latency, "read_latency_ns = { value = 200, lowest = 90, high = 250,"),
        ("\ntags = { value = 64,", "\ntags = { value = 64, low = 32.5, high = 128,"),
        ("\ntags = { value = 64,", "\ntags = { value = 64, low = 32, high = 1025,"),
        (
            "max_payload_bytes = { value = 512,",
            "max_payload_bytes = { value = 512, low = 192, high = 512,",
        ),
        (
            "completion_headers = { value = \"infinite\",",
            "completion_headers = { value = \"infinite\", low = 8, high = 64,",
        ),
        // Only numbers have a range.
        ("allowed = { value = false,", "allowed = { value = false, low = 0, high = 1,"),
        ("identity = { value = \"1234:0001\",", "identity = { value = \"1234:0001\", low = 1,"),
    ];
    insta::assert_snapshot!(errors_of("minimal", &changes));
}

#[test]
fn a_card_memory_that_cannot_be() {
    insta::assert_snapshot!(errors_of("kc705", MEMORY_CHANGES));
    let engine = text("kc705");
    let (from, to) = ("[part.kc705.engine]", "[part.kc705.card_memory]");
    let cut = engine.find(from).unwrap()..engine.find(to).unwrap();
    let error = error_of(&engine.replace(&engine[cut], ""));
    assert!(seen(&error).2.contains("the part has no table `engine`"), "{error}");
}

#[test]
fn a_file_without_a_number_has_format_1() {
    let before = text("minimal").replacen("\nformat = 1", "\n", 1);
    Lab::from_text("my.toml", &before).unwrap();
}

#[test]
fn a_card_without_the_clock_of_its_engine() {
    let line = |key| text("minimal").lines().find(|line| line.starts_with(key)).unwrap();
    let both = format!("{}\n{}", line("datapath_bytes"), line("clock_ns"));
    let error = error_of(&scenes::changed("minimal", &both, ""));
    assert_eq!(seen(&error).2, "part.card.requester needs the key datapath_bytes");
}

#[test]
fn links_in_a_ring() {
    let ring = scenes::changed(
        "rosta", "upper = \"host0\"\nlower = \"rha25\"", "upper = \"rc47b\"\nlower = \"rha25\"",
    );
    let error = error_of(&ring);
    let sentence =
        "links form a loop: rha25 below rc47b below rha25; a PCI Express hierarchy is a tree";
    assert_eq!(seen(&error), ("loop", "\"rha25\"", sentence.into()));
    let own = scenes::changed(
        "rosta", "upper = \"rha25\"\nlower = \"rc47b\"", "upper = \"rc47b\"\nlower = \"rc47b\"",
    );
    assert_eq!(error_of(&own).problem.code(), "loop");
}

#[test]
fn a_name_twice() {
    let error = error_of(&scenes::changed("minimal", "name = \"card0\"", "name = \"host0\""));
    let line = text("minimal").lines().position(|line| line == "name = \"host0\"").unwrap() + 1;
    let sentence = format!("the name host0 is taken: line {line} has it already");
    assert_eq!(seen(&error), ("duplicate-name", "\"host0\"", sentence));
    let more = "fpga{1..8}\"\npart = \"v7\"\n[[endpoint]]\nname = \"fpga3";
    let error = error_of(&scenes::changed("rosta", "fpga{1..8}", more));
    assert_eq!(seen(&error).1, "\"fpga3\"");
}

#[test]
fn a_port_twice() {
    let more = "[[link]]\nupper = \"host0\"\nlower = \"card0\"\npart = \"slot\"\n\n[[link]]";
    let error = error_of(&scenes::changed("minimal", "[[link]]", more));
    let first = text("minimal").lines().position(|line| line.starts_with("upper = ")).unwrap() + 1;
    let sentence = format!("port card0 is taken: the link of line {first} has it already");
    assert_eq!(seen(&error), ("port-taken", "\"card0\"", sentence));
    let named = text("rosta").replace("upper = \"rha25\"", "upper = \"rha25\"\nupper_port = \"a\"");
    assert!(seen(&error_of(&named)).2.starts_with("port rha25.a is taken"));
    let named =
        text("rosta").replace("upper = \"rha25\"", "upper = \"rha25\"\nupper_port = \"up\"");
    assert_eq!(seen(&error_of(&named)).1, "\"up\"");
}

#[test]
fn too_many_of_something() {
    let many = |count: usize| {
        text("minimal")
            .replace("name = \"card0\"", &format!("name = \"card{{1..{count}}}\""))
            .replace("lower = \"card0\"", &format!("lower = \"card{{1..{count}}}\""))
    };
    let error = error_of(&many(32));
    let sentence = "root ports of host0: 32 is more than the 31 that are possible";
    assert_eq!(seen(&error), ("too-many", "\"host0\"", sentence.into()));
    let error = error_of(&many(4_000_000_000));
    assert_eq!(seen(&error).0, "too-many");
    let error = error_of(&many(65_536));
    let sentence =
        "hosts, switches and endpoints of a lab: 65537 is more than the 65536 that are possible";
    assert_eq!(seen(&error).2, sentence);
}

#[test]
fn more_buses_than_a_host_has() {
    // 16 switches with 16 endpoints each: 16 x (1 + 1 + 16) buses below the root ports.
    let switches = parts("rosta").to_owned()
        + "
[[host]]
name = \"h\"
part = \"i7\"
buffers = { value = \"below-4-gib\", source = \"fit: x\" }
[[switch]]
name = \"s{1..16}\"
part = \"rc47\"
[[endpoint]]
name = \"e{1..256}\"
part = \"v7\"
[[link]]
upper = \"h\"
lower = \"s{1..16}\"
part = \"board-x4\"
[[link]]
upper = \"s{1..16}\"
lower = \"e{1..256}\"
part = \"board-x4\"
";
    let error = error_of(&switches);
    let sentence = "s15.down1 cannot get a bus number: its host has used all 256";
    assert_eq!((seen(&error).0, seen(&error).2.as_str()), ("enumeration", sentence));
}

#[test]
fn bars_that_do_not_fit_below_4_gib() {
    let text = text("minimal")
        .replace("size_bytes = { value = 65_536", "size_bytes = { value = 2_147_483_648")
        .replace("size_bytes = { value = 1_048_576", "size_bytes = { value = 2_147_483_648");
    let error = error_of(&text);
    let sentence = "the BARs below 4 GiB need 4294967296 bytes, but only 2126512128 are available";
    assert_eq!(seen(&error), ("enumeration", "\"host0\"", sentence.into()));
}

#[test]
fn buffers_above_4_gib_need_memory_there() {
    let text = text("minimal")
        .replace("below-4-gib\", source", "above-4-gib\", source")
        .replace("8_589_934_592", "1_073_741_824");
    assert_eq!(seen(&error_of(&text)).0, "bad-value");
}

#[test]
fn what_is_not_toml() {
    for text in [&scenes::changed("minimal", "[lab]", "[lab"), "a = 1\na = 2\n"] {
        assert_eq!(seen(&error_of(text)).0, "syntax", "{}", error_of(text));
    }
    for text in ["", "# only a comment\n", "\n\n"] {
        assert_eq!(seen(&error_of(text)).0, "empty");
    }
}

#[test]
fn variants_are_checked_even_when_not_chosen() {
    let with = |table: &str| {
        let head = "[variant.fast]\nsummary = \"Faster.\"\n";
        error_of(&format!("{}\n{head}{table}", text("minimal")))
    };
    let error =
        with("[variant.fast.part.card.requester]\ntag = { value = 1, source = \"fit: x\" }\n");
    assert_eq!(seen(&error).0, "unknown-key");
    assert_eq!(error.place.unwrap().key, "variant.fast.part.card.requester.tag");
    let error = with("[variant.fast.part.cart]\n");
    assert_eq!(seen(&error).2, "there is no part named cart; did you mean card?");
    let error =
        with("[variant.fast.part.card.requester]\ntags = { value = 0, source = \"fit: x\" }\n");
    let sentence = "variant.fast.part.card.requester.tags: 0 is not between 1 and 1024";
    assert_eq!(seen(&error).2, sentence);
}

#[test]
fn no_such_lab() {
    let error = open("nowhere/rosta.toml").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no file nowhere/rosta.toml, nor a shipped lab of that name; shipped are \
         aws-f1, kc705, minimal, nget, pciebench, rosta, sbdt, torus"
    );
    assert_eq!(open(env!("CARGO_MANIFEST_DIR")).unwrap_err().problem.code(), "unreadable");
}

#[test]
fn an_error_shown_with_its_line() {
    let error = error_of(&scenes::changed("minimal", "\ntags = {", "\ntag = {"));
    let place = error.place.as_deref().unwrap();
    assert_eq!((place.key.as_str(), place.column), ("part.card.requester.tag", 1));
    let snippet = place.snippet(80);
    insta::assert_snapshot!(format!("{error}\n{snippet}{}", error.help().unwrap()));
}

/// The MSI-X of a core that takes an endpoint's place has to fit its BARs.
#[test]
fn msix_beyond_its_bar_is_refused() {
    let minimal = crosslane_lab::open("minimal").unwrap();
    let of = |table: u32, pending: u32| {
        let whole = |key, value: u32| {
            format!("{key} = {{ value = {value}, source = \"assumption: any\" }}\n")
        };
        let msix = [
            "[part.card.msix]\n".to_owned(),
            whole("vectors", 4),
            whole("table_bar", 0),
            whole("table_offset_bytes", table),
            whole("pending_bar", 0),
            whole("pending_offset_bytes", pending),
            "[part.slot]".to_owned(),
        ];
        let text = minimal.file().text().replacen("[part.slot]", &msix.concat(), 1);
        crosslane_lab::Lab::from_text("msix.toml", &text)
    };
    let lab = of(0x1000, 0x2000).unwrap();
    let running = lab.build_outside(1, &["card0"]).unwrap();
    let card = running.find("card0").unwrap();
    let config = &running.fabric.port(running.fabric.node(card).ports[0]).config;
    assert_eq!(config.msix().map(|msix| msix.request.vectors), Some(4));
    for (table, pending, error) in [
        (65_536, 0, "64 bytes of the MSI-X table cannot be at 0x10000 of BAR 0"),
        (4, 0x2000, "64 bytes of the MSI-X table cannot be at 0x4 of BAR 0"),
        (0x1000, 0x1020, "8 bytes of the MSI-X pending bits cannot be at 0x1020 of BAR 0"),
    ] {
        let found = of(table, pending).unwrap_err().to_string();
        assert!(found.contains(error), "{found}, not {error}");
    }
    let unknown = lab.build_outside(1, &["card1"]).err().unwrap().to_string();
    assert!(unknown.contains("card1") && unknown.contains("card0"), "{unknown}");
}
