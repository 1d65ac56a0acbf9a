// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of devices, and what they open.

use crosslane_driver::Device;
use crosslane_host::Bus;
use crosslane_lab::EngineKind;
use crosslane_open::{
    CardProgram, DeviceName, LabDevice, OpenError, OpenLab, OpenOptions, run_free_on_card,
    run_on_cards,
};
use crosslane_vfio::BusOptions;

fn lab(name: &str) -> LabDevice {
    let DeviceName::Lab(device) = name.parse().unwrap() else { panic!("{name} is a lab's card") };
    assert_eq!(DeviceName::Lab(device.clone()).to_string(), name);
    device
}

fn open(name: &str) -> Result<OpenLab, OpenError> {
    lab(name).open(EngineKind::Model, 1)
}

fn refused(name: &str) -> String {
    match open(name) {
        Ok(_) => panic!("{name} opens"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_are_read() {
    let device = |lab: &str, endpoint: Option<&str>| LabDevice {
        lab: lab.to_owned(),
        endpoint: endpoint.map(str::to_owned),
    };
    assert_eq!(lab("lab:kc705"), device("kc705", None));
    assert_eq!(lab("lab:kc705:crosslane"), device("kc705:crosslane", None));
    assert_eq!(lab("lab:rosta/fpga2"), device("rosta", Some("fpga2")));
    assert_eq!(lab("lab:rosta:crosslane/fpga2"), device("rosta:crosslane", Some("fpga2")));
    assert_eq!(lab("lab:./a.toml"), device("./a.toml", None));
    assert_eq!(lab("lab:../b/a.toml:fast"), device("../b/a.toml:fast", None));
    assert_eq!(lab("lab:../b/a.toml/card"), device("../b/a.toml", Some("card")));
    for (name, why) in [
        ("kc705", "cards have names like lab:kc705:crosslane, vfio:01:00.0 and vfio-user:SOCKET"),
        ("pci:01:00.0", "cards have names like"),
        ("vfio:", "the address is missing"),
        ("vfio:1:2:3", "1:2:3 is not the address of a PCI function"),
        ("vfio-user:", "the path of the socket is missing"),
        ("lab:", "the lab is missing"),
        ("lab:/card", "the lab is missing"),
        ("lab:kc705/", "the endpoint behind the slash is missing"),
    ] {
        let error = name.parse::<DeviceName>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name:?} is no device: {why}")), "{error}");
    }
}

#[test]
fn cards_that_are_no_labs() {
    let vfio: DeviceName = "vfio:01:00.0".parse().unwrap();
    assert_eq!(vfio.to_string(), "vfio:0000:01:00.0");
    assert_eq!(vfio, "vfio:0000:01:00.0".parse().unwrap());
    let user: DeviceName = "vfio-user:/run/a:b.sock".parse().unwrap();
    assert_eq!(user, DeviceName::VfioUser("/run/a:b.sock".into()));
    assert_eq!(user.to_string(), "vfio-user:/run/a:b.sock");
}

/// Names of the cards that it is run on.
struct Names;

impl CardProgram for Names {
    type Output = Vec<String>;

    async fn run<B: Bus + Send + Sync + 'static>(self, cards: Vec<Device<B>>) -> Vec<String> {
        cards.iter().map(|card| card.function().name.clone()).collect()
    }
}

fn options() -> OpenOptions {
    OpenOptions { engines: EngineKind::Model, seed: 1, bus: BusOptions::default() }
}

fn run_on(names: &[&str]) -> Result<Vec<String>, String> {
    let names: Vec<DeviceName> = names.iter().map(|name| name.parse().unwrap()).collect();
    run_on_cards(&names, options(), Names).map_err(|error| error.to_string())
}

#[test]
fn a_program_for_one_card_has_the_first_and_no_other() {
    for (name, card) in
        [("lab:rosta", "fpga1"), ("lab:rosta/fpga5", "fpga5"), ("lab:kc705:crosslane", "kc705")]
    {
        let cards = run_free_on_card(&name.parse().unwrap(), options(), Names).unwrap();
        assert_eq!(cards, [card], "{name}");
    }
    let nobody = "vfio-user:no-such.sock".parse().unwrap();
    let error = run_free_on_card(&nobody, options(), Names).unwrap_err().to_string();
    assert!(error.contains("no-such.sock"), "{error}");
}

#[test]
fn programs_run_on_the_cards_that_are_named() {
    assert_eq!(run_on(&["lab:kc705:crosslane"]), Ok(vec!["kc705".to_owned()]));
    let two = run_on(&["lab:rosta/fpga5", "lab:rosta/fpga1"]);
    assert_eq!(two, Ok(vec!["fpga5".to_owned(), "fpga1".to_owned()]));
    for (names, why) in [
        (&["lab:rosta/fpga1", "lab:kc705:crosslane"][..], "they are not on the same bus"),
        (&["lab:rosta/fpga1", "vfio:01:00.0"], "they are not on the same bus"),
        (&["vfio:01:00.0", "vfio-user:a.sock"], "they are not on the same bus"),
        (&["vfio-user:no-such.sock"], "no-such.sock"),
        (&["lab:rosta/fpga1", "lab:rosta/fpga9"], "fpga9"),
    ] {
        let error = run_on(names).unwrap_err();
        assert!(error.contains(why), "{names:?}: {error}");
    }
}

#[test]
fn cards_are_found_and_can_be_driven() {
    for (name, cards) in [
        ("lab:minimal", 1),
        ("lab:kc705:crosslane", 1),
        ("lab:rosta", 8),
        ("lab:rosta:crosslane/fpga2", 1),
    ] {
        let OpenLab { simulation, host, cards: found } = open(name).unwrap();
        assert_eq!(found.len(), cards, "{name}");
        let bus = simulation.bus(host);
        for card in &found {
            let opened = simulation.run("open", Device::open(bus.clone(), card.function)).unwrap();
            opened.unwrap_or_else(|error| panic!("{name}, {}: {error}", card.name));
        }
    }
    assert_eq!(open("lab:rosta/fpga2").unwrap().cards[0].name, "fpga2");
}

#[test]
fn what_is_not_there() {
    let error = refused("lab:rosta/fpga9");
    assert!(error.starts_with("rosta has no engine \"fpga9\": it has fpga1, fpga2"), "{error}");
    let error = refused("lab:aws-f1");
    assert!(error.starts_with("aws-f1 has no endpoint with an engine"), "{error}");
    let card = "card";
    let error = refused(&format!("lab:aws-f1/{card}"));
    assert!(error.contains("it has none at all"), "{error}");
    assert!(refused("lab:no-such-lab").contains("no-such-lab"));
    assert!(refused("lab:kc705:no-such-variant").contains("no-such-variant"));
}
