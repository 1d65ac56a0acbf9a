// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Binding and unbinding of drivers, with a thread that plays the kernel.

use std::fs;
use std::os::unix::fs::symlink;

use crosslane_vfio::sysfs::{BindOptions, SysfsError, bind, rights, unbind};

use crate::sysfs::machine::{Card, Fake, Space, address, bind_and_unbind};

fn options() -> BindOptions {
    BindOptions::default()
}

#[test]
fn a_card_goes_to_vfio_and_back() {
    let mut fake = Fake::switch_with_two_cards("a_card_goes_to_vfio_and_back");
    fake.start(|root| bind_and_unbind(root, Some("native"), &[]));
    let (machine, card) = (fake.machine(), address("03:00.0"));
    let bound = bind(&machine, card, &options()).unwrap();
    assert_eq!((bound.before, bound.now.as_deref()), (None, Some("vfio-pci")));
    assert_eq!((bound.group, bound.in_the_way.len()), (Some(1), 0));
    let again = bind(&machine, card, &options()).unwrap();
    assert_eq!(again.before.as_deref(), Some("vfio-pci"), "nothing to do");
    let text = fs::read_to_string(fake.folder("0000:03:00.0").join("driver_override")).unwrap();
    assert!(text.starts_with("vfio-pci\n"), "{text}");
    let freed = unbind(&machine, card, false).unwrap();
    assert_eq!(freed.before.as_deref(), Some("vfio-pci"));
    assert_eq!(freed.now.as_deref(), Some("native"), "the kernel looked for its own driver");
    let error = unbind(&machine, card, false).unwrap_err().to_string();
    assert_eq!(error, "0000:03:00.0: VFIO does not have it; it has native");
}

#[test]
fn a_driver_that_refuses_leaves_all_as_it_was() {
    let mut fake = Fake::switch_with_two_cards("a_driver_that_refuses_leaves_all_as_it_was");
    fake.start(|root| bind_and_unbind(root, Some("native"), &["odd-driver"]));
    fs::create_dir_all(fake.sys("bus/pci/drivers/odd-driver")).unwrap();
    let (machine, card) = (fake.machine(), address("03:00.0"));
    let native = BindOptions::default().with_driver("vfio-pci");
    bind(&machine, card, &native).unwrap();
    let odd = BindOptions::default().with_driver("odd-driver");
    let error = bind(&machine, card, &odd).unwrap_err().to_string();
    assert!(error.contains("odd-driver did not take it; it has no driver"), "{error}");
    let function = machine.tree().unwrap().function(card).unwrap().clone();
    assert_eq!(function.driver.as_deref(), Some("vfio-pci"), "it has its driver again");
    assert_eq!(function.driver_override.as_deref(), Some("vfio-pci"));
}

#[test]
fn what_must_not_be_taken_is_refused() {
    let fake = Fake::switch_with_two_cards("what_must_not_be_taken_is_refused");
    let disk = |address, class, group| Card {
        address,
        above: &["0000:00:01.0"],
        class,
        driver: Some("disk-driver"),
        group,
        space: Space::express(0x1234, 2, 0, 3, 4),
    };
    fake.add(&disk("0000:07:00.0", 0x01_0802, Some(7)));
    fake.add(&disk("0000:07:00.1", 0x12_0000, None));
    let machine = fake.machine();
    let refused = |at: &str, options: &BindOptions| {
        let error = bind(&machine, address(at), options).unwrap_err();
        assert!(matches!(&error, SysfsError::Cannot { .. }), "{error:?}");
        error.to_string()
    };
    let words = refused("07:00.0", &options());
    assert!(words.contains("storage controller that disk-driver drives"), "{words}");
    let words = refused("07:00.1", &options());
    assert!(words.contains("no IOMMU group") && words.contains("intel_iommu=on"), "{words}");
    let words = refused("01:00.0", &options());
    assert!(words.contains("upstream port of a switch"), "{words}");
    let words = refused("03:00.0", &BindOptions::default().with_driver("no-such"));
    assert!(words.ends_with("Load it: sudo modprobe no-such"), "{words}");
    let words = refused("03:00.0", &BindOptions::default().with_driver("../x"));
    assert!(words.contains("not a driver's name"), "{words}");
    for at in ["07:00.0", "03:00.0"] {
        let folder = fake.folder(&format!("0000:{at}"));
        let text = fs::read_to_string(folder.join("driver_override")).unwrap();
        assert_eq!(text, "(null)\n", "nothing was written");
    }
}

#[test]
fn who_has_a_card_open_is_named() {
    let mut fake = Fake::switch_with_two_cards("who_has_a_card_open_is_named");
    let (machine, card) = (fake.machine(), address("03:00.0"));
    let node = machine.dev.join("vfio/1");
    fs::write(&node, "").unwrap();
    fs::write(machine.dev.join("vfio/vfio"), "").unwrap();
    fs::create_dir_all(fake.root.join("proc/77/fd")).unwrap();
    fs::write(fake.root.join("proc/77/comm"), "bench\n").unwrap();
    symlink(&node, fake.root.join("proc/77/fd/5")).unwrap();
    fake.start(|root| bind_and_unbind(root, None, &[]));
    bind(&machine, card, &options()).unwrap();
    let error = unbind(&machine, card, false).unwrap_err().to_string();
    assert!(error.contains("in use by process 77 (bench)"), "{error}");
    let tree = machine.tree().unwrap();
    let open = &rights(&machine, tree.function(card).unwrap())[3];
    assert_eq!((open.granted, open.what), (true, "open it through VFIO"));
    assert!(open.found.ends_with("dev/vfio/1"), "{open:?}");
    // A kernel with iommufd only.
    fs::remove_file(machine.dev.join("vfio/vfio")).unwrap();
    fs::create_dir_all(fake.folder("0000:03:00.0").join("vfio-dev/vfio4")).unwrap();
    fs::create_dir_all(machine.dev.join("vfio/devices")).unwrap();
    fs::write(machine.dev.join("vfio/devices/vfio4"), "").unwrap();
    let open = &rights(&machine, tree.function(card).unwrap())[3];
    assert!(!open.granted && open.found.contains("dev/iommu"), "{open:?}");
    assert!(open.command.ends_with("dev/iommu"), "{open:?}");
    fs::write(machine.dev.join("iommu"), "").unwrap();
    let open = &rights(&machine, tree.function(card).unwrap())[3];
    assert!(open.granted && open.found.ends_with("dev/vfio/devices/vfio4"), "{open:?}");
    let freed = unbind(&machine, card, true).unwrap();
    assert_eq!(freed.now, None, "no driver of the kernel wants it");
}

#[test]
fn others_of_the_group_stand_in_the_way() {
    let mut fake = Fake::switch_with_two_cards("others_of_the_group_stand_in_the_way");
    fake.add(&Card {
        address: "0000:03:00.1",
        above: &["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"],
        class: 0x12_0000,
        driver: Some("native"),
        group: Some(1),
        space: Space::express(0x1234, 1, 0, 3, 4),
    });
    fake.start(|root| bind_and_unbind(root, None, &[]));
    let bound = bind(&fake.machine(), address("03:00.0"), &options()).unwrap();
    assert_eq!(bound.in_the_way, [(address("03:00.1"), "native".to_owned())]);
}
