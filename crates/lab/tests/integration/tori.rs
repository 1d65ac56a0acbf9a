// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tori of other sizes than in the file.

use crosslane_lab::open;

#[test]
fn a_torus_in_other_sizes_has_a_host_a_card_and_a_link_for_each_node() {
    let lab = open("torus").unwrap();
    for (sizes, nodes) in [(&[2][..], 2), (&[3, 2], 6), (&[4, 2, 2, 2], 32)] {
        let other = lab.with_torus(sizes).unwrap();
        let file = other.file();
        let counts = [file.hosts.len(), file.endpoints.len(), file.links.len()];
        assert_eq!(counts, [nodes; 3], "{sizes:?}");
        assert_eq!(file.tori[0].nodes.len(), nodes);
        assert_eq!(file.tori[0].nodes[1], "fpga2");
        assert_eq!(file.tori[0].parameters, lab.file().tori[0].parameters);
        let running = other.build_engines(1).unwrap();
        assert!(running.hosts.iter().all(|host| host.tree.functions.len() >= 2), "{sizes:?}");
        assert_eq!(running.hosts.len(), nodes);
    }
}

#[test]
fn what_is_no_torus_is_refused() {
    let error = open("rosta").unwrap().with_torus(&[2, 2]).unwrap_err().to_string();
    assert!(error.contains("lab rosta has no single torus"), "{error}");
    let torus = open("torus").unwrap();
    // Five dimensions, and more links than the card has.
    for sizes in [&[2, 2, 2, 2, 2][..], &[0, 2], &[]] {
        assert!(torus.with_torus(sizes).is_err(), "{sizes:?}");
    }
}
