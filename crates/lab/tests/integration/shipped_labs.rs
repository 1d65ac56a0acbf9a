// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped labs: their constants, and their trees after enumeration.

use crosslane_lab::{Constant, Lab, Provenance, open, shipped};
use crosslane_pcie::units::Picoseconds;

fn loaded(name: &str) -> Lab {
    open(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_shipped_lab_and_variant_can_be_built() {
    for shipped in shipped() {
        let lab = loaded(shipped.name);
        assert_eq!((lab.name(), lab.summary()), (shipped.name, lab.summary()));
        lab.build(1).unwrap_or_else(|error| panic!("{error}"));
        lab.build_engines(1).unwrap_or_else(|error| panic!("{error}"));
        for variant in &lab.file().variants {
            let lab = lab.with_variant(&variant.name).unwrap();
            lab.build(1).unwrap_or_else(|error| panic!("{error}"));
            lab.build_engines(1).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn the_summary_in_the_list_is_that_of_the_file() {
    for shipped in shipped().iter().filter(|lab| lab.name != "minimal") {
        assert_eq!(loaded(shipped.name).summary(), shipped.summary);
    }
}

#[test]
fn the_tree_of_rosta() {
    let running = loaded("rosta").build(1).unwrap();
    insta::assert_snapshot!(running.hosts[0].tree);
}

#[test]
fn the_tree_of_pciebench() {
    let running = loaded("pciebench").build(1).unwrap();
    insta::assert_snapshot!(running.hosts[0].tree);
}

#[test]
fn constants_are_listed_with_their_sources() {
    let lab = loaded("rosta");
    let all: Vec<_> = lab.constants().collect();
    assert!(all.is_sorted_by_key(|constant| constant.line));
    let latency = all.iter().find(|constant| constant.path() == "part.rha25.latency_ns").unwrap();
    assert_eq!((latency.value.as_str(), latency.unit), ("150", "ns"));
    assert_eq!(latency.provenance, Provenance::Document);
    assert_eq!(latency.source, "150 ns declared by PLX Technology");
    let infinite = all.iter().find(|constant| constant.value == "infinite").unwrap();
    assert!(!infinite.is_number);
}

#[test]
fn a_variant_overrules_constants() {
    let start = |lab: &Lab| {
        let path = "requester.read_start_ns";
        lab.constants().find(|constant| constant.path().ends_with(path)).unwrap().value.clone()
    };
    assert_eq!(start(&loaded("pciebench")), "60");
    assert_eq!(start(&loaded("pciebench:command")), "0");
    let error = open("pciebench:comand").unwrap_err();
    assert_eq!(
        error.to_string(),
        "lab pciebench has no variant comand (its variants are command, push, crosslane, \
         t430, t630, t620-v2, t620, iommu); did you mean command?"
    );
}

#[test]
fn an_engine_has_the_constants_of_its_requester() {
    let engine = |name| loaded(name).file().endpoints[0].part.engine;
    let document = engine("rosta").unwrap();
    assert_eq!((document.clock.0, document.datapath_bytes), (4_000, 8));
    assert_eq!((document.idle_clocks_per_tlp, document.descriptor_gap.0), (1, 260_000));
    assert_eq!((document.tags, document.reading_descriptors), (32, 1));
    assert_eq!((document.lane_fifo_bytes, document.staging_bytes), (4096, 8192));
    assert!(document.header_on_datapath);
    let own = engine("rosta:crosslane").unwrap();
    assert_eq!((own.idle_clocks_per_tlp, own.descriptor_gap.0), (0, 0));
    assert_eq!((own.tags, own.max_read_bytes, own.lanes), (64, 1024, document.lanes));
    assert_eq!((own.lane_fifo_bytes, own.staging_bytes), (16_384, 65_536));
    assert!(!own.header_on_datapath);
    let set = loaded("rosta").with_constant("part.v7.engine.reading_descriptors", 3.0).unwrap();
    assert_eq!(set.file().endpoints[0].part.engine.unwrap().reading_descriptors, 3);
}

/// Constants that depend on these are brought within their bounds.
#[test]
fn devices_follow_their_edited_requester() {
    let edited = |name: &str| {
        let mut part = loaded(name).file().endpoints[0].part.as_ref().clone();
        part.engine.iter_mut().for_each(|it| (it.staging_bytes, it.lane_fifo_bytes) = (512, 256));
        part.network_processor.iter_mut().for_each(|it| it.staging_bytes = 768);
        part.edit_requester(|it| {
            (it.tags, it.max_write_bytes, it.max_read_bytes) = (16, 512, 4096);
            it.operation_gap = Picoseconds(70);
        });
        part
    };
    let engine = edited("rosta").engine.unwrap();
    assert_eq!((engine.tags, engine.max_write_bytes, engine.max_read_bytes), (16, 512, 4096));
    assert_eq!(engine.descriptor_gap, Picoseconds(70));
    assert_eq!((engine.staging_bytes, engine.lane_fifo_bytes), (8192, 512));
    assert_eq!(engine.check(), Ok(()));
    let processor = edited("nget").network_processor.unwrap();
    assert_eq!((processor.tags, processor.staging_bytes), (16, 4096 + 256));
}

#[test]
fn a_constant_can_be_set_anew() {
    let lab = loaded("pciebench");
    let path = "part.nfp.requester.write_interval_ns";
    let set = lab.with_constant(path, 18.7).unwrap();
    let requester = set.file().endpoints[0].part.parameters.requester;
    assert_eq!(requester.write_interval.0, 18_700);
    assert!(set.constants().any(|constant| constant.path() == path && constant.value == "18.7"));
    let error = lab.with_constant("part.nfp.requester.write_intervall_ns", 1.0).unwrap_err();
    assert!(error.to_string().ends_with(&format!("did you mean {path}?")), "{error}");
    assert!(lab.with_constant(path, f64::NAN).is_err());
}

#[test]
fn constant_replaced_by_the_variant_is_refused() {
    let refused =
        |lab: &str, path: &str| loaded(lab).with_constant(path, 1.0).unwrap_err().to_string();
    assert_eq!(
        refused("kc705:crosslane", "part.kc705.requester.tags"),
        "cannot set part.kc705.requester.tags: variant crosslane replaces it; set \
         variant.crosslane.part.kc705.requester.tags"
    );
    // Neither is a constant of another variant in force, nor one that is no number.
    for path in ["variant.crosslane.part.kc705.requester.tags", "part.i5.peer_to_peer.allowed"] {
        let error = refused("kc705", path);
        let sentence = format!("there is no number among the constants named {path}");
        assert!(error.starts_with(&sentence), "{error}");
    }
}

/// Every number of every lab and variant, with itself and another source in its place.
#[test]
fn numbers_are_rewritten_where_they_stand() {
    let source = "rows 1-2 of \"a\\b.csv\"";
    for shipped in shipped() {
        let plain = loaded(shipped.name);
        let variants = plain.file().variants.iter();
        let variants: Vec<_> = variants.map(|one| plain.with_variant(&one.name).unwrap()).collect();
        for lab in std::iter::once(&plain).chain(&variants) {
            let numbers = || lab.constants().filter(|constant| constant.is_number);
            let change = |constant: &Constant| {
                let value = constant.value.parse().unwrap();
                (constant.path(), value, format!("fit: {source}"))
            };
            let text = lab.file().rewritten(&numbers().map(change).collect::<Vec<_>>()).unwrap();
            let again = Lab::from_text("again.toml", &text).unwrap();
            let again =
                lab.variant().map_or(again.clone(), |name| again.with_variant(name).unwrap());
            for (old, new) in lab.constants().zip(again.constants()) {
                assert_eq!((old.path(), &old.value, old.line), (new.path(), &new.value, new.line));
                let expected = if old.is_number { source } else { &old.source };
                assert_eq!(new.source, expected, "{}", old.path());
            }
            assert_eq!(lab.constants().count(), again.constants().count());
        }
    }
    let error = loaded("minimal").file().rewritten(&[("part.x".into(), 1.0, "fit: y".into())]);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("there is no constant named part.x"), "{error}");
}
