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

/// Returns the error of the lab `minimal` after one change, whose text must exist.
fn changed(from: &str, to: &str) -> LabError {
    error_of(&scenes::changed("minimal", from, to))
}

/// Returns the kind of the problem, the text that it points at, and its sentence.
fn seen(error: &LabError) -> (&str, &str, String) {
    let place = error.place.as_deref().expect("it has a place");
    (error.problem.code(), &place.text[place.span.clone()], error.problem.to_string())
}

#[track_caller]
fn check(error: &LabError, code: &str, at: &str, sentence: &str) {
    let (got_code, got_at, got_sentence) = seen(error);
    assert_eq!(got_code, code, "{error}");
    assert!(got_at.contains(at) && got_at.len() <= at.len() + 2, "points at {got_at}");
    assert_eq!(got_sentence, sentence);
}

#[test]
fn an_unknown_key() {
    let error = changed("\ntags = {", "\ntag = {");
    check(&error, "unknown-key", "tag", "part.card.requester has no key tag; did you mean tags?");
    let place = error.place.as_deref().unwrap();
    assert_eq!(place.key, "part.card.requester.tag");
    assert_eq!(place.column, 1);
    assert_eq!(place.text.lines().nth(place.line - 1).unwrap().split(' ').next(), Some("tag"));
    let one_line = error.to_string();
    assert!(one_line.starts_with(&format!("my.toml:{}:1: part.card", place.line)), "{one_line}");
    let error = changed("[part.slot]", "[[partition]]");
    assert_eq!(seen(&error).0, "unknown-key");
    let error = changed("[part.host.cpu]", "[part.host.processor]");
    assert_eq!(seen(&error).2, "part.host has no key processor");
}

#[test]
fn formats_of_later_versions_are_refused() {
    // Before any key of that format is looked at.
    let error = changed("\nformat = 1", "\nformat = 2\nauthor = \"me\"");
    let sentence = "lab.format: this version reads format 1 of lab files, not 2";
    check(&error, "bad-value", "2", sentence);
    let error = changed("\nformat = 1", "\nformat = \"1\"");
    assert_eq!(seen(&error).0, "wrong-type");
    let before = text("minimal").replacen("\nformat = 1", "\n", 1);
    Lab::from_text("my.toml", &before).expect("a file without a number has format 1");
}

#[test]
fn a_missing_key() {
    let error = changed("read_slots = { value = 64,", "# { value = 64,");
    check(&error, "missing-key", "[part.host.memory]", "part.host.memory needs the key read_slots");
    let error = changed("part = \"slot\"", "");
    check(&error, "missing-key", "[[link]]", "link[1] needs the key generation");
    let error = changed("[[host]]\nname = \"host0\"", "[[switch]]\nname = \"host0\"");
    assert_eq!(seen(&error).2, "the lab needs the key [[host]]");
}

#[test]
fn an_instance_without_a_link() {
    let error =
        changed("[[endpoint]]\n", "[[endpoint]]\nname = \"idle\"\npart = \"card\"\n[[endpoint]]\n");
    check(&error, "not-linked", "idle", "idle is not connected: no link has it as its lower end");
}

#[test]
fn a_link_to_an_unknown_name() {
    let error = changed("lower = \"card0\"", "lower = \"card1\"");
    let sentence = "there is no host, switch or endpoint named card1; did you mean card0?";
    check(&error, "unknown-name", "card1", sentence);
    let error = changed("upper = \"host0\"", "upper = \"server\"");
    assert_eq!(seen(&error).1, "\"server\"");
    let error = changed("part = \"card\"", "part = \"cart\"");
    check(&error, "unknown-name", "cart", "there is no part named cart; did you mean card?");
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
    let error = changed("name = \"card0\"", "name = \"host0\"");
    let line = text("minimal").lines().position(|line| line == "name = \"host0\"").unwrap() + 1;
    let sentence = format!("the name host0 is taken: line {line} has it already");
    check(&error, "duplicate-name", "host0", &sentence);
    let more = "fpga{1..8}\"\npart = \"v7\"\n[[endpoint]]\nname = \"fpga3";
    let error = error_of(&scenes::changed("rosta", "fpga{1..8}", more));
    assert_eq!(seen(&error).1, "\"fpga3\"");
}

#[test]
fn a_port_twice() {
    let more = "[[link]]\nupper = \"host0\"\nlower = \"card0\"\npart = \"slot\"\n\n[[link]]";
    let error = changed("[[link]]", more);
    let first = text("minimal").lines().position(|line| line.starts_with("upper = ")).unwrap() + 1;
    let sentence = format!("port card0 is taken: the link of line {first} has it already");
    check(&error, "port-taken", "card0", &sentence);
    let named = text("rosta").replace("upper = \"rha25\"", "upper = \"rha25\"\nupper_port = \"a\"");
    assert!(seen(&error_of(&named)).2.starts_with("port rha25.a is taken"));
    let named =
        text("rosta").replace("upper = \"rha25\"", "upper = \"rha25\"\nupper_port = \"up\"");
    assert_eq!(seen(&error_of(&named)).1, "\"up\"");
}

#[test]
fn a_rate_that_the_part_does_not_have() {
    let error = changed(
        "width = { value = 4, source = \"assumption: what",
        "width = { value = 8, source = \"assumption: what",
    );
    let sentence = "link host0.port0-card0 is Gen3 x8, but port card0 does at most Gen3 x4";
    assert_eq!((seen(&error).0, seen(&error).2.as_str()), ("build", sentence));
    assert!(seen(&error).1.contains("value = 8"), "{}", seen(&error).1);
    let error = changed(
        "generation = { value = 3, source = \"assumption: what",
        "generation = { value = 4, source = \"assumption: what",
    );
    assert!(seen(&error).2.contains("is Gen4 x4, but port"), "{error}");
    for lanes in ["3", "33", "0"] {
        let from = "width = { value = 4, source = \"assumption: what";
        let error = changed(from, &from.replace('4', lanes));
        assert_eq!(seen(&error).0, "bad-value", "{error}");
    }
}

#[test]
fn a_payload_that_no_function_has() {
    for (value, sentence) in [
        ("192", "192 is not a power of two between 128 and 4096"),
        ("64", "64 is not between 128 and 4096"),
        ("8192", "8192 is not between 128 and 4096"),
    ] {
        let from = "max_payload_bytes = { value = 512";
        let error = changed(from, &from.replace("512", value));
        let (code, _, got) = seen(&error);
        assert_eq!(
            (code, got),
            ("bad-value", format!("part.card.port.max_payload_bytes: {sentence}"))
        );
    }
}

#[test]
fn a_completion_boundary_that_cannot_be() {
    let from = "read_completion_boundary_bytes = { value = 64";
    let error = changed(from, &from.replace("64", "96"));
    let key = "part.host.memory.read_completion_boundary_bytes";
    let sentence = format!("{key}: 96 is not 64 or 128");
    assert_eq!(seen(&error).2, sentence);
    let of_card =
        "[part.card.memory]\nread_completion_boundary_bytes = { value = 64, source = \"fit: x\" }";
    let error = changed("[part.card.memory]", of_card);
    assert!(seen(&error).2.ends_with("64 is not 128"), "{error}");
    let error = changed("completion_bytes = { value = 128", "completion_bytes = { value = 64");
    assert!(seen(&error).2.ends_with("64 B are below the boundary, 128 B"), "{error}");
}

#[test]
fn a_share_of_single_units_that_cannot_be() {
    let from = "completion_bytes = { value = 256";
    let share = "completion_single_share = { value = 1.5, source = \"fit: x\" }";
    let error = changed(from, &format!("{share}\n{from}"));
    let sentence = "part.host.memory.completion_single_share: 1.5 is not between 0 and 1 ";
    assert_eq!(seen(&error).2, sentence);
}

#[test]
fn numbers_out_of_bounds() {
    let from = "receive_latency_ns = { value = 100,";
    for value in ["-1", "nan", "inf", "-inf", "1e13", "9999999999999999999999999999999999999999999"]
    {
        let error = changed(from, &from.replace("100", value));
        assert!(
            ["bad-value", "wrong-type", "syntax"].contains(&seen(&error).0),
            "{value}: {error}"
        );
    }
    let error = changed(from, &from.replace("100", "-1"));
    let sentence = "part.host.port.receive_latency_ns: -1 ns is not between 0 and 1000000000000 ns";
    assert_eq!(seen(&error).2, sentence);
    for (from, to) in [
        ("\ntags = { value = 64", "\ntags = { value = 0"),
        ("\ntags = { value = 64", "\ntags = { value = 1025"),
        ("\ntags = { value = 64", "\ntags = { value = -1"),
        ("cores = { value = 4", "cores = { value = 0"),
        ("copy_gb_per_s = { value = 10", "copy_gb_per_s = { value = 0"),
        ("copy_gb_per_s = { value = 10", "copy_gb_per_s = { value = inf"),
        ("size_bytes = { value = 65_536", "size_bytes = { value = 65_535"),
        ("size_bytes = { value = 65_536", "size_bytes = { value = 4_294_967_296"),
        ("posted_headers = { value = 64", "posted_headers = { value = 0"),
        ("posted_data = { value = 1024", "posted_data = { value = 15"),
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
    ] {
        assert_eq!(seen(&changed(from, to)).0, "bad-value", "{to}: {}", changed(from, to));
    }
}

#[test]
fn a_constant_without_a_source() {
    for (to, at) in [
        ("\ntags = 64 #", "64"),
        ("\ntags = { value = 64 } #", "{ value = 64 }"),
        ("\ntags = { value = 64, source = \"measured\" } #", "\"measured\""),
        ("\ntags = { value = 64, source = \"fit:\" } #", "\"fit:\""),
        ("\ntags = { value = 64, source = \"guess: x\" } #", "\"guess: x\""),
        ("\ntags = { value = 64, source = 3 } #", "3"),
    ] {
        let error = changed("\ntags = {", to);
        assert_eq!((seen(&error).0, seen(&error).1), ("provenance", at), "{error}");
    }
    let error = changed("\ntags = {", "\ntags = 64 #");
    assert_eq!(
        seen(&error).2,
        "part.card.requester.tags: the number 64 has no source; a constant is written { value = \
         ..., source = \"...\" }, and the source begins with clause:, data sheet:, document:, \
         sysfs:, fit: or assumption:"
    );
    let error = changed("\ntags = {", "\ntags = { source = \"fit: x\" } #");
    assert_eq!(seen(&error).0, "missing-key");
    let error = changed("\ntags = {", "\ntags = { value = 3, unit = 3, source = \"fit: x\" } #");
    assert_eq!(seen(&error).0, "unknown-key");
}

#[test]
fn a_value_of_another_type() {
    for (from, to, sentence) in [
        (
            "\ntags = { value = 64",
            "\ntags = { value = \"64\"",
            "part.card.requester.tags is the text \"64\", but it has to be a whole number",
        ),
        (
            "\ntags = { value = 64",
            "\ntags = { value = 64.5",
            "part.card.requester.tags is the number 64.5, but it has to be a whole number",
        ),
        (
            "allowed = { value = false",
            "allowed = { value = 0",
            "part.host.peer_to_peer.allowed is the number 0, but it has to be true or false",
        ),
        (
            "name = \"host0\"",
            "name = 3",
            "host[1].name is the number 3, but it has to be a text in quotes",
        ),
        (
            "[part.card.bar0]",
            "[[part.card.bar0]]",
            "part.card.bar0 is a list, but it has to be a table",
        ),
        ("[[host]]", "[host]", "host is a table, but it has to be a list of tables [[host]]"),
        (
            "posted_data = { value = 1024",
            "posted_data = { value = \"endless\"",
            "part.host.port.posted_data is the text \"endless\", but it has to be a whole number \
             or \"infinite\"",
        ),
        (
            "receive_latency_ns = { value = 100",
            "receive_latency_ns = { value = \"infinite\"",
            "part.host.port.receive_latency_ns is the text \"infinite\", but it has to be a number",
        ),
    ] {
        let error = changed(from, to);
        assert_eq!((seen(&error).0, seen(&error).2.as_str()), ("wrong-type", sentence));
    }
}

#[test]
fn a_part_or_node_of_another_kind() {
    let error = changed("part = \"card\"", "part = \"slot\"");
    check(&error, "wrong-kind", "slot", "part slot is a link, but an endpoint is needed here");
    let error = changed("upper = \"host0\"", "upper = \"card0\"");
    check(
        &error,
        "wrong-kind",
        "card0",
        "card0 is an endpoint, but a host or a switch is needed here",
    );
    let error = changed("lower = \"card0\"", "lower = \"host0\"");
    let sentence = "host0 is a host, but a switch or an endpoint is needed here";
    check(&error, "wrong-kind", "host0", sentence);
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
    check(&error, "too-many", "host0", sentence);
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
    let error = changed("size_bytes = { value = 65_536", "size_bytes = { value = 2_147_483_648");
    assert!(error.problem.code() != "enumeration" || seen(&error).1.contains("host0"));
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
fn acs_that_the_port_does_not_have() {
    let error = changed("name = \"host0\"", "name = \"host0\"\nacs = true");
    check(
        &error,
        "bad-value",
        "true",
        "host.host0.acs: its part's ports do not have ACS (port.acs)",
    );
}

#[test]
fn a_bar_whose_second_register_is_taken() {
    let error = changed("value = \"memory32\"", "value = \"memory64\"");
    assert!(seen(&error).2.starts_with("part.card.bar0: a 64-bit BAR takes"));
}

#[test]
fn an_engine_that_cannot_be() {
    let lane_fifo = "lane_fifo_bytes = { value = 16_384";
    let table = "table_descriptors = { value = 1024";
    for (from, to, at, sentence) in [
        ("lanes = { value = 8", "lanes = { value = 6", "value = 6", "not a power of two"),
        ("lanes = { value = 8", "lanes = { value = 32", "value = 32", "32 is not between 1 and 16"),
        ("h2c_channels = { value = 1", "h2c_channels = { value = 0", "0", "between 1 and 4"),
        (lane_fifo, "lane_fifo_bytes = { value = 256", "256", "256 B do not hold a payload of"),
        ("size_bytes = { value = 65_536", "size_bytes = { value = 32_768", "32_768", "registers"),
        ("1_048_576", "4096", "4096", "the windows of 8 lanes take 32768 B, not 4096 B"),
        ("clock_ns = { value = 4,", "clock_ns = { value = 0,", "value = 0", "not between 1 and"),
        (
            "max_read_bytes = { value = 1024", "max_read_bytes = { value = 64", "64",
            "an engine's max_read_bytes of 64 is",
        ),
        ("tags = { value = 64", "tags = { value = 1024", "1024", "is not between 1 and 1012"),
        ("fetch_batch = { value = 16", "fetch_batch = { value = 256", "256", "between 1 and 128"),
        (table, "table_descriptors = { value = 2048", "2048", "between 1 and 1024"),
    ] {
        let error = changed(from, to);
        let (code, place, text) = seen(&error);
        assert_eq!(code, "bad-value", "{error}");
        assert!(place.contains(at) && text.contains(sentence), "{place}: {text}");
    }
    let error = changed("reading_descriptors = {", "reading_descriptor = {");
    assert_eq!(seen(&error).0, "unknown-key");
    let error = changed("register_latency_ns", "# ");
    let sentence = "part.card.engine needs the key register_latency_ns";
    check(&error, "missing-key", "[part.card.engine]", sentence);
    let error = changed("[part.card.bar1]", "[part.card.bar2]");
    assert_eq!(seen(&error).2, "part.card needs the key bar1");
    let datapath = text("minimal").lines().find(|line| line.starts_with("datapath_bytes")).unwrap();
    let clock = text("minimal").lines().find(|line| line.starts_with("clock_ns")).unwrap();
    let error = changed(&format!("{datapath}\n{clock}"), "");
    assert_eq!(seen(&error).2, "part.card.requester needs the key datapath_bytes");
}

#[test]
fn a_card_memory_that_cannot_be() {
    let changed = |from, to| error_of(&scenes::changed("kc705", from, to));
    for (from, to, at, sentence) in [
        ("axi_bytes = { value = 32", "axi_bytes = { value = 24", "24", "not a power of two"),
        ("axi_bytes = { value = 32", "axi_bytes = { value = 256", "256", "between 1 and 128"),
        ("1_073_741_824, source", "2048, source", "2048", "2048 is not between 4096"),
        ("burst_beats = { value = 256", "burst_beats = { value = 512", "512", "between 1 and 256"),
        ("axi_clock_ns = { value = 10", "axi_clock_ns = { value = 0", "0", "axi_clock (ps) of 0"),
        ("\"in-turn\"", "\"in turn\"", "in turn", "did you mean \"in-turn\"?"),
        ("turnaround_clocks = { value = 8", "turnaround_clocks = { value = 2000", "2000", "1024"),
        ("row_bytes = { value = 8192", "row_bytes = { value = 32", "32", "between 64 and"),
        ("refresh_ns = { value = 110", "refresh_ns = { value = 5000", "5000", "dram_refresh (ps)"),
        (
            "dram_bus_bytes = { value = 8", "dram_bus_bytes = { value = -8", "-8",
            "-8 is not between",
        ),
    ] {
        let error = changed(from, to);
        let (code, place, text) = seen(&error);
        assert_eq!(code, "bad-value", "{error}");
        assert!(place.contains(at) && text.contains(sentence), "{place}: {text}");
        assert!(error.to_string().contains("kc705.card_memory"), "{error}");
    }
    let error = changed("turnaround_clocks = {", "turnaround = {");
    assert_eq!(seen(&error).0, "unknown-key");
    let error = changed("turnaround_clocks", "# ");
    let sentence = "part.kc705.card_memory needs the key turnaround_clocks";
    check(&error, "missing-key", "[part.kc705.card_memory]", sentence);
    let engine = text("kc705");
    let (from, to) = ("[part.kc705.engine]", "[part.kc705.card_memory]");
    let cut = engine.find(from).unwrap()..engine.find(to).unwrap();
    let error = error_of(&engine.replace(&engine[cut], ""));
    assert!(seen(&error).2.contains("the part has no table `engine`"), "{error}");
}

#[test]
fn what_is_not_toml() {
    let error = changed("[lab]", "[lab");
    assert_eq!(seen(&error).0, "syntax", "{error}");
    for text in ["", "# only a comment\n", "\n\n"] {
        assert_eq!(seen(&error_of(text)).0, "empty");
    }
    assert_eq!(seen(&error_of("a = 1\na = 2\n")).0, "syntax");
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
    let error = changed("\ntags = {", "\ntag = {");
    let snippet = error.place.as_ref().unwrap().snippet(80);
    insta::assert_snapshot!(format!("{error}\n{snippet}{}", error.help().unwrap()));
}
