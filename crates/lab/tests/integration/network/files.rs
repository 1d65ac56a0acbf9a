// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files with NICs and network links: errors with their positions.

use crosslane_lab::*;

use crate::scenes::changed;

#[test]
fn what_is_wrong_has_its_place() {
    for (from, to, expected) in [
        ("first = \"fnic\"", "first = \"fnik\"", "no host, switch or endpoint named fnik"),
        ("first = \"fnic\"", "first = \"pac\"", "pac is an endpoint without a table nic"),
        ("first = \"fnic\"", "first = \"rnode\"", "rnode is a host, but a NIC is needed here"),
        ("first = \"fnic\"", "first = \"rnic\"", "port rnic is taken"),
        ("first = \"fnic\"", "first = \"f{1..2}\"", "1 ends for 2 other ends"),
        ("second = \"rnic\"\n", "", "needs the key second"),
        ("part = \"edr\"", "part = \"slot\"", "part slot is a link, but a network link is needed"),
        ("part = \"edr\"", "part = \"edr\"\nspeed = 1", "has no key speed"),
        ("mtu_bytes = { value = 4096", "mtu_bytes = { value = 5000", "5000 is not between 256"),
        ("rate_gb_per_s = { value = 12.5", "rate_gb_per_s = { value = \"infinite\"", "be a number"),
        (
            "outstanding_reads = { value = 16", "outstanding_reads = { value = 0",
            "0 is not between 1 and 128",
        ),
        ("tags = { value = 24", "tags = { value = 512", "tags of 512 is not between 1 and 256"),
        ("connect_ns", "connects_ns", "did you mean connect_ns"),
        ("size_bytes = { value = 33_554_432", "size_bytes = { value = 2048", "take 4096 B"),
        ("[part.connectx5.nic]", "[part.connectx5.engine]\n[part.connectx5.nic]", "needs the key"),
    ] {
        let text = changed("sbdt", from, to);
        let error = Lab::from_text("changed.toml", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn constants_have_their_sources() {
    let lab = open("sbdt").unwrap();
    let named = |path: &str| lab.constants().find(|constant| constant.path() == path).unwrap();
    assert_eq!(named("part.edr.rate_gb_per_s").unit, "GB/s");
    assert_eq!(named("part.connectx5.nic.connect_ns").provenance, Provenance::Assumption);
    let faster = lab.with_constant("part.edr.rate_gb_per_s", 25.0).unwrap();
    assert_eq!(faster.file().networks[0].parameters.bits_per_second, 200_000_000_000);
}
