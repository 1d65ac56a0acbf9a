// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of devices, and the cards that they open.

use crosslane_host::{Bus, BusError, DmaMemory, ErrorKind, PageSize, RegisterAddress, Topology};
use crosslane_lab::{LabMemory, RunError, TIME_LIMIT};
use crosslane_open::{DeviceName, LabDevice, OpenError, Session, SessionOptions};
use crosslane_pcie::config::registers;
use crosslane_pcie::units::Picoseconds;

fn lab(name: &str) -> LabDevice {
    let DeviceName::Lab(device) = name.parse().unwrap() else { panic!("{name} is a lab's card") };
    assert_eq!(DeviceName::Lab(device.clone()).to_string(), name);
    device
}

fn refused(name: &str) -> String {
    match Session::open(name) {
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
        assert!(error.starts_with(&format!("{name:?} is not a device: {why}")), "{error}");
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

/// Opens cards with their engines and returns the names of their functions.
fn engines(names: &[&str]) -> Result<Vec<String>, String> {
    let names: Vec<DeviceName> = names.iter().map(|name| name.parse().unwrap()).collect();
    let session = Session::open_all(&names, SessionOptions::default());
    let session = session.map_err(|error: OpenError| error.to_string())?;
    let devices = session.block_on(session.devices()).map_err(|stuck| stuck.to_string())?;
    let devices = devices.map_err(|error| error.to_string())?;
    Ok(devices.iter().map(|device| device.function().name.clone()).collect())
}

#[test]
fn programs_run_on_the_cards_that_are_named() {
    assert_eq!(engines(&["lab:kc705:crosslane"]), Ok(vec!["kc705".to_owned()]));
    let two = engines(&["lab:rosta/fpga5", "lab:rosta/fpga1"]);
    assert_eq!(two, Ok(vec!["fpga5".to_owned(), "fpga1".to_owned()]));
    for (names, why) in [
        (&["lab:rosta/fpga1", "lab:kc705:crosslane"][..], "they are not on the same bus"),
        (&["lab:rosta/fpga1", "vfio:01:00.0"], "they are not on the same bus"),
        (&["vfio:01:00.0", "vfio-user:a.sock"], "they are not on the same bus"),
        (&["vfio-user:no-such.sock"], "no-such.sock"),
        (&["lab:rosta/fpga1", "lab:rosta/fpga9"], "fpga9"),
    ] {
        let error = engines(names).unwrap_err();
        assert!(error.contains(why), "{names:?}: {error}");
    }
}

#[test]
fn a_lab_opens_every_engine_of_its_host_or_one() {
    for (name, cards) in [
        ("lab:minimal", 1),
        ("lab:kc705:crosslane", 1),
        ("lab:rosta", 8),
        ("lab:rosta:crosslane/fpga2", 1),
    ] {
        let session = Session::open(name).unwrap();
        assert_eq!(session.cards().len(), cards, "{name}");
        assert_eq!(engines(&[name]).unwrap().len(), cards, "{name}");
    }
    assert_eq!(Session::open("lab:rosta/fpga2").unwrap().cards()[0].name, "fpga2");
}

#[test]
fn a_free_run_waits_for_other_threads_too() {
    let session = Session::open("lab:kc705:crosslane").unwrap();
    let (sender, receiver) = futures_channel::oneshot::channel();
    let thread = std::thread::spawn(move || sender.send(7));
    let clocks = session.run_free(async {
        let number = receiver.await.unwrap();
        let device = session.device(0).await.unwrap();
        assert_eq!(number, 7);
        device.time_clocks().await
    });
    assert!(clocks.unwrap() > 0);
    assert_eq!(thread.join().unwrap(), Ok(()));
}

#[test]
fn a_lab_s_session_is_checked() {
    let session = Session::open("lab:kc705:crosslane").unwrap();
    let bus = session.bus();
    assert_eq!(session.finish(), Ok(()));
    // A card whose memory space is off refuses the load, and its port notes that.
    let function = session.cards()[0].function;
    bus.config_write(function, registers::COMMAND, 0, 0b0011).unwrap();
    let register = RegisterAddress { function, bar: 0, offset_bytes: 0 };
    let answer = session.block_on(bus.read_register(register));
    assert!(answer.unwrap().is_err());
    let error = session.finish().unwrap_err();
    assert!(matches!(error, RunError::Fabric { count: 1, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Failed);
    // A program that polls for ever ends at the time limit.
    let stuck = session.block_on(async {
        loop {
            bus.sleep_until(bus.now() + Picoseconds::from_secs(60)).await;
        }
    });
    let stuck = stuck.unwrap_err();
    assert_eq!(stuck.kind(), ErrorKind::Timeout);
    assert_eq!(stuck.time, TIME_LIMIT);
}

#[test]
fn what_is_left_at_the_end_is_an_error() {
    let session = Session::open("lab:minimal").unwrap();
    session.simulation().unwrap().spawn("idle", std::future::pending::<()>());
    session.block_on(async {}).unwrap();
    let sentence = session.finish().unwrap_err().to_string();
    assert!(sentence.starts_with("after the end of the program: "), "{sentence}");
    assert!(sentence.ends_with("idle: waits for nothing of the lab"), "{sentence}");
}

#[test]
fn memory_belongs_to_one_simulation() {
    let near = Session::open("lab:kc705:crosslane").unwrap();
    let memory = near.bus().allocate(4096, PageSize::Small).unwrap();
    memory.write(4092, &[1, 2, 3, 4]).unwrap();
    let mut word = [0; 4];
    memory.read(4092, &mut word).unwrap();
    assert_eq!((memory.size_bytes(), word), (4096, [1, 2, 3, 4]));
    assert!(memory.downcast::<LabMemory>().is_some());
    let function = near.cards()[0].function;
    let pinned = near.block_on(near.bus().unpin(function, &memory)).unwrap();
    assert!(matches!(pinned, Err(BusError::Pinning { .. })), "{pinned:?}");
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
