// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of root complexes that cut reads of peers.

use crosslane_fabric::parameters::PeerReadParameters;
use crosslane_lab::Lab;

use crate::scenes::changed;

fn lab(constants: &[(&str, &str)]) -> Result<Option<PeerReadParameters>, String> {
    let line = |(key, value): &(&str, &str)| {
        format!("{key} = {{ value = {value}, source = \"assumption: any\" }}\n")
    };
    let lines: String = constants.iter().map(line).collect();
    let table = "[part.host.peer_to_peer]\n";
    let text = changed("minimal", table, &format!("{table}{lines}"));
    let lab = Lab::from_text("my.toml", &text).map_err(|error| error.problem.to_string())?;
    Ok(lab.file().hosts[0].part.parameters.peer_reads)
}

#[test]
fn lines_of_peer_reads_are_constants_of_a_lab() {
    const SPLIT: &str = "peer_read_split_bytes";
    assert_eq!(lab(&[]), Ok(None));
    let of = |split_bytes, at_once| Ok(Some(PeerReadParameters { split_bytes, at_once }));
    assert_eq!(lab(&[(SPLIT, "64")]), of(64, 256));
    assert_eq!(lab(&[(SPLIT, "256"), ("peer_reads", "2")]), of(256, 2));
    for (constants, sentence) in [
        (&[(SPLIT, "96")][..], "96 is not a power of two"),
        (&[(SPLIT, "32")], "32"),
        (&[(SPLIT, "64"), ("peer_reads", "1")], "1 is not between 2 and 256"),
        (&[("peer_reads", "8")], SPLIT),
    ] {
        let error = lab(constants).unwrap_err();
        assert!(error.contains(sentence), "{constants:?}: {error}");
    }
}
