// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Edits of a lab file's text.

use crosslane::edit::{Edit, Scalar, edited, node, outline};
use crosslane::lab::{Lab, library, shipped};
use crosslane::labs::check_lab;

fn text(lab: &str) -> &'static str {
    shipped().iter().find(|it| it.name == lab).unwrap().text
}

/// A lab without nodes, as it is begun by hand.
const EMPTY: &str = "[lab]\nformat = 1\nname = \"mine\"\nsummary = \"Built by hand.\"\n";

fn after(text: &str, edits: &[Edit]) -> String {
    edits.iter().fold(text.to_owned(), |text, edit| edited(&text, edit).unwrap().0)
}

fn add(part: &str, below: Option<&str>) -> Edit {
    Edit::Add { part: part.into(), below: below.map(Into::into) }
}

fn remove(node: &str) -> Edit {
    Edit::Remove { node: node.into() }
}

fn moved(node: &str, below: &str) -> Edit {
    Edit::Move { node: node.into(), below: below.into() }
}

fn set(place: &str, key: &str, value: Scalar) -> Edit {
    let source = Some("assumption: a test".into());
    Edit::Set { place: place.into(), key: key.into(), value, range: None, source }
}

fn refused(text: &str, edit: &Edit) -> String {
    edited(text, edit).unwrap_err().to_string()
}

/// The lab of a text, which can be built.
fn built(text: &str) -> Lab {
    let lab = Lab::from_text("mine.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    check_lab(&lab).unwrap_or_else(|error| panic!("{error}\n{text}"));
    lab
}

/// `lower: upper GxN` of every link.
fn links(lab: &Lab) -> Vec<String> {
    let link = |link: &crosslane::lab::file::LinkInstance| {
        format!("{}: {} {}", link.lower, link.upper, link.parameters.rate)
    };
    lab.file().links.iter().map(link).collect()
}

#[test]
fn a_lab_is_built_of_parts_of_the_library() {
    let text = after(
        EMPTY,
        &[
            add("intel-haswell-ep", None),
            add("plx-pex8700", Some("host0")),
            add("nvidia-connectx-6", Some("switch0")),
            add("nvidia-connectx-6", Some("switch0")),
            add("nvidia-connectx-3", Some("host0")),
        ],
    );
    let links = links(&built(&text));
    let expected = [
        "switch0: host0 Gen3 x16", "card0: switch0 Gen3 x16", "card1: switch0 Gen3 x16",
        "card2: host0 Gen3 x8",
    ];
    assert_eq!(links, expected);
    assert_eq!(text.matches("[part.nvidia-connectx-6]").count(), 1);
    assert!(text.contains("[nvidia-connectx-6]\" }"), "a constant names its part: {text}");
}

#[test]
fn every_part_of_the_library_can_be_added() {
    for part in library().unwrap() {
        let edits = match part.kind.word() {
            "root-complex" => vec![add(&part.name, None), add("endpoint", Some("host0"))],
            "switch" => vec![
                add("root-complex", None),
                add(&part.name, Some("host0")),
                add("endpoint", Some("switch0")),
            ],
            _ => vec![add("root-complex", None), add(&part.name, Some("host0"))],
        };
        built(&after(EMPTY, &edits));
    }
}

#[test]
fn a_node_of_a_range_is_removed_and_the_rest_stays() {
    let text = after(text("rosta"), &[remove("fpga3")]);
    let lab = built(&text);
    let lower: Vec<&str> = lab.file().links.iter().map(|link| link.lower.as_str()).collect();
    assert!(lower.contains(&"fpga4") && !lower.contains(&"fpga3"), "{lower:?}");
    assert!(text.contains("name = \"fpga{1..2}\"") && text.contains("lower = \"fpga4\""), "{text}");
    // All of a subtree goes, and a comment of the file stays.
    let text = after(&text, &[remove("rc47a")]);
    let lab = built(&text);
    assert_eq!(lab.endpoints_with(|_| true), ["fpga5", "fpga6", "fpga7", "fpga8"]);
    assert!(text.contains("# --- "), "{text}");
}

#[test]
fn a_subtree_is_moved_and_keeps_its_link() {
    let lab = built(&after(text("rosta"), &[moved("fpga2", "rc47b"), moved("rc47a", "rc47b")]));
    let links = links(&lab);
    assert!(links.iter().any(|it| it.starts_with("fpga2: rc47b Gen2 x4")), "{links:?}");
    assert!(links.iter().any(|it| it.starts_with("rc47a: rc47b ")), "{links:?}");
    assert!(links.iter().any(|it| it.starts_with("fpga1: rc47a Gen2 x4")), "{links:?}");
}

#[test]
fn a_node_gets_a_name_wherever_it_is_named() {
    let rename = |node: &str, name: &str| Edit::Rename { node: node.into(), name: name.into() };
    let text = after(text("rosta"), &[rename("rc47a", "left"), rename("fpga1", "nic")]);
    let links = links(&built(&text));
    assert!(links.iter().any(|it| it.starts_with("nic: left ")), "{links:?}");
    assert!(links.iter().any(|it| it.starts_with("fpga4: left ")), "{links:?}");
    assert!(refused(&text, &rename("nic", "fpga2")).contains("another node is named fpga2"));
}

#[test]
fn keys_are_set_for_one_node_or_for_its_part() {
    let rosta = text("rosta");
    let own = after(rosta, &[set("endpoint.fpga2.requester", "tags", Scalar::Whole(7))]);
    let tags = |text: &str, name: &str| {
        let lab = built(text);
        let found = lab.file().endpoints.iter().find(|it| it.name == name).unwrap();
        found.part.parameters.requester.tags
    };
    let before = tags(rosta, "fpga1");
    assert_eq!(
        [tags(&own, "fpga1"), tags(&own, "fpga2"), tags(&own, "fpga3")],
        [before, 7, before]
    );
    let all = after(rosta, &[set("part.v7.requester", "tags", Scalar::Whole(5))]);
    assert_eq!([tags(&all, "fpga1"), tags(&all, "fpga8")], [5, 5]);
    let unset = Edit::Unset { place: "endpoint.fpga2.requester".into(), key: "tags".into() };
    assert_eq!(tags(&after(&own, &[unset]), "fpga2"), before);
    let slow = after(rosta, &[set("link.fpga3", "width", Scalar::Whole(1))]);
    let links = links(&built(&slow));
    assert!(links.contains(&"fpga3: rc47a Gen2 x1".to_owned()), "{links:?}");
    assert!(links.contains(&"fpga4: rc47a Gen2 x4".to_owned()), "{links:?}");
}

#[test]
fn impossible_edits_are_named() {
    let rosta = text("rosta");
    for (edit, problem) in [
        (add("endpoint", Some("fpga1")), "cannot put anything below fpga1: it is an endpoint"),
        (add("endpoint", None), "choose the host or switch that it is below"),
        (add("flux", Some("host0")), "it has no part named flux"),
        (add("v7", Some("nobody")), "it has no node named nobody"),
        (remove("nobody"), "it has no node named nobody"),
        (moved("rha25", "rc47a"), "rc47a, which is below rha25 itself"),
        (moved("host0", "rc47a"), "nothing is above hosts"),
    ] {
        let said = refused(rosta, &edit);
        assert!(said.contains(problem), "{said}");
    }
    assert!(refused("[lab\n", &remove("x")).contains("line 1 is not TOML"));
    assert!(refused("\nhost = [{ name = \"a\" }]", &remove("a")).contains("no node named a"));
    assert!(refused(text("torus"), &remove("fpga3")).contains("the nodes of a torus"));
}

#[test]
fn a_range_of_billions_is_no_range() {
    let text = format!("{EMPTY}[[endpoint]]\nname = \"a{{0..4294967295}}\"\npart = \"b\"\n");
    assert_eq!(outline(&text).unwrap().nodes.len(), 1);
    assert!(refused(&text, &remove("a7")).contains("no node named a7"));
}

#[test]
fn a_node_shows_its_keys_and_where_they_stand() {
    let text = after(text("rosta"), &[set("endpoint.fpga2.requester", "tags", Scalar::Whole(7))]);
    let view = node(&text, None, "fpga2").unwrap();
    assert_eq!((view.kind, view.part.as_str(), view.alike), ("endpoint", "v7", 8));
    let key = |table: &str, key: &str| {
        let table = view.tables.iter().find(|it| it.name == table).unwrap();
        table.keys.iter().find(|it| it.key == key).unwrap().clone()
    };
    let tags = key("requester", "tags");
    assert_eq!(tags.value, Some(Scalar::Whole(7)));
    assert_eq!(tags.place.as_deref(), Some("endpoint.fpga2.requester"));
    assert_eq!(tags.source.as_deref(), Some("assumption: a test"));
    assert!(tags.schema["maximum"].as_f64().unwrap() > 1.0 && !tags.words.is_empty());
    let payload = key("port", "max_payload_bytes");
    assert_eq!((payload.unit, payload.place.as_deref()), ("B", Some("part.v7.port")));
    assert_eq!(key("link", "width").place.as_deref(), Some("part.board-x4"));
    // Names that may be left out are keys as well; those of the tree are not.
    let port = key("link", "upper_port");
    assert_eq!((port.value, port.is_constant, port.absent.as_str()), (None, false, "-"));
    let tables = view.tables.iter();
    let names: Vec<&str> = tables.flat_map(|it| it.keys.iter().map(|key| key.key)).collect();
    assert!(!names.contains(&"lower") && !names.contains(&"name"), "{names:?}");
    assert!(view.tables.iter().any(|it| it.name == "nic" && it.is_absent));
    assert!(node(&text, None, "nobody").is_err());
}

#[test]
fn an_outline_has_the_tree_of_a_file_with_errors() {
    let broken = text("rosta").replace("kind = \"switch\"", "kind = \"swatch\"");
    assert!(Lab::from_text("mine.toml", &broken).is_err());
    let outline = outline(&broken).unwrap();
    let fpga = outline.nodes.iter().find(|it| it.name == "fpga6").unwrap();
    assert_eq!((fpga.kind, fpga.part.as_str()), ("endpoint", "v7"));
    assert_eq!(fpga.above.as_deref(), Some("rc47b"));
    assert_eq!(fpga.paths, ["endpoint.fpga{1..8}", "part.v7", "link[5]", "part.board-x4"]);
    assert!(outline.parts.iter().any(|it| it.name == "v7" && it.kind == "endpoint"));
}

#[test]
fn every_node_of_a_shipped_lab_goes_alone() {
    for lab in shipped() {
        let before = outline(lab.text).unwrap();
        let names = |outline: &crosslane::edit::Outline| {
            outline.nodes.iter().map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        for name in names(&before) {
            let text = match edited(lab.text, &remove(&name)) {
                Ok((text, None)) => text,
                Ok((_, added)) => panic!("{}: {added:?} is added", lab.name),
                Err(error) => {
                    assert!(error.to_string().contains("of a torus"), "{}: {error}", lab.name);
                    continue;
                }
            };
            // All others that are not below it stay, in their order.
            let above = |node: &str| {
                let found = before.nodes.iter().find(|it| it.name == node);
                found.and_then(|it| it.above.clone())
            };
            let is_below = |node: &String| {
                let mut way = std::iter::successors(Some(node.clone()), |node| above(node));
                way.any(|it| it == name)
            };
            let mut expected = names(&before);
            expected.retain(|node| !is_below(node));
            assert_eq!(names(&outline(&text).unwrap()), expected, "{} without {name}", lab.name);
        }
    }
}
