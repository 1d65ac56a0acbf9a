// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that are removed, reconfigured and put back, with a thread that plays the kernel and the
//! card.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crosslane_vfio::sysfs::{
    BindOptions, CardReady, ReloadOptions, Reloaded, SysfsError, bind, reload,
};

use crate::sysfs::machine::{
    AER, CARD, DPC, EXPRESS, Fake, PORT, address, bind_and_unbind, remove_and_rescan,
};

fn double_word(folder: &Path, at: usize) -> u32 {
    let bytes = fs::read(folder.join("config")).unwrap();
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn set(folder: &Path, at: usize, value: u32) {
    let file = fs::OpenOptions::new().write(true).open(folder.join("config")).unwrap();
    file.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
}

/// Returns every register of the port that a reload touches.
fn port_state(fake: &Fake) -> Vec<u32> {
    let offsets = [4, 0x3c, EXPRESS + 8, AER + 8, AER + 0x14, DPC + 4];
    offsets.map(|at| double_word(&fake.folder(PORT), at)).to_vec()
}

/// A machine whose card is bound to vfio-pci, with payloads of 256 B and reads of 4096 B, and whose
/// port reports every error.
fn machine(test: &str) -> Fake {
    let mut fake = Fake::switch_with_two_cards(test);
    fake.start(|root| {
        bind_and_unbind(root, None, &[]);
        remove_and_rescan(root, || {
            let device = fs::read_to_string(root.join("ready")).ok()?;
            Some(device.parse().unwrap())
        });
    });
    bind(&fake.machine(), address(CARD), &BindOptions::default()).unwrap();
    set(&fake.folder(CARD), EXPRESS + 8, 0x5930);
    let port = fake.folder(PORT);
    set(&port, 4, 0x0010_0106);
    set(&port, 0x3c, 0x0002_0000);
    set(&port, EXPRESS + 8, 0x281f);
    set(&port, AER + 8, 0x0000_4000);
    set(&port, AER + 0x14, 0x0000_2000);
    set(&port, DPC + 4, 0x0001_0000);
    fake
}

fn attempt(
    fake: &Fake,
    deadline: Duration,
    ready: CardReady,
    interrupted: &AtomicBool,
    reconfigure: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Reloaded, SysfsError> {
    let options = ReloadOptions::new(reconfigure, interrupted);
    let mut options = options.with_deadline(deadline).with_ready(ready);
    reload(&fake.machine(), address(CARD), &mut options)
}

const LONG: Duration = Duration::from_secs(30);
static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn a_card_comes_back_as_it_was() {
    let fake = machine("a_card_comes_back_as_it_was");
    let before = port_state(&fake);
    let port = fake.folder(PORT);
    let reloaded = attempt(&fake, LONG, CardReady::LinkUp, &NEVER, &mut || {
        assert!(!fake.sys("bus/pci/devices").join(CARD).exists(), "it is removed by now");
        let masked = port_state(&fake);
        assert_eq!(masked[0] & 0x100, 0, "SERR");
        assert_eq!(masked[1] & 0x2_0000, 0, "SERR below");
        assert_eq!(masked[2] & 0xf, 0, "reporting");
        assert_eq!(masked[3..5], [u32::MAX, u32::MAX], "AER");
        assert_eq!(masked[5] & 0x3_0000, 0, "containment");
        set(&port, AER + 4, 1 << 5);
        fs::write(fake.root.join("ready"), "2").unwrap();
        Ok(())
    })
    .unwrap();
    assert_eq!(port_state(&fake), before, "bit for bit");
    assert_eq!(reloaded.recorded, ["surprise down"]);
    assert_eq!(reloaded.now.driver.as_deref(), Some("vfio-pci"));
    assert_eq!(reloaded.now.driver_override.as_deref(), Some("vfio-pci"));
    let express = reloaded.now.express().unwrap();
    assert_eq!((express.max_payload_bytes, express.max_read_request_bytes), (256, 4096));
    assert!(express.extended_tags && express.relaxed_ordering);
    assert_eq!(reloaded.notes, ["its IDs were 1234:0001 and are 1234:0002"]);
    let autoprobe = fs::read_to_string(fake.sys("bus/pci/drivers_autoprobe")).unwrap();
    assert!(autoprobe.starts_with('1'));
}

#[test]
fn a_link_that_goes_down_and_up_is_waited_for() {
    let fake = machine("a_link_that_goes_down_and_up_is_waited_for");
    let port = fake.folder(PORT);
    let (up, down) = (0x2083_0000, 0x0083_0000);
    fs::write(fake.root.join("ready"), "1").unwrap();
    let root = fake.root.clone();
    let mut card = None;
    let began = Instant::now();
    let reloaded = attempt(&fake, LONG, CardReady::LinkDownAndUp, &NEVER, &mut || {
        let (port, root) = (port.clone(), root.clone());
        card = Some(std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            set(&port, EXPRESS + 0x10, down);
            std::thread::sleep(Duration::from_millis(200));
            assert!(root.join("away").exists(), "not looked for while its link is down");
            set(&port, EXPRESS + 0x10, up);
        }));
        Ok(())
    })
    .unwrap();
    card.unwrap().join().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(400), "and 100 ms behind the link");
    assert_eq!(reloaded.notes, Vec::<String>::new());
}

#[test]
fn whatever_fails_errors_are_reported_as_before() {
    let fake = machine("whatever_fails_errors_are_reported_as_before");
    let before = port_state(&fake);
    let failed =
        attempt(&fake, LONG, CardReady::LinkUp, &NEVER, &mut || Err("no cable".to_owned()));
    let words = failed.unwrap_err().to_string();
    assert!(words.starts_with("0000:03:00.0: it was removed, and no cable. When the"), "{words}");
    assert!(words.ends_with("0000:02:00.0/rescan"), "{words}");
    assert_eq!(port_state(&fake), before);
    // The command in the error brings it back.
    fs::write(fake.root.join("ready"), "1").unwrap();
    fs::write(fake.folder(PORT).join("rescan"), "1").unwrap();
    fs::write(fake.sys("bus/pci/drivers_autoprobe"), "0\n").unwrap();
    while !fake.sys("bus/pci/devices").join(CARD).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(fake.root.join("ready")).unwrap();
    let began = Instant::now();
    let short = Duration::from_millis(300);
    let late = attempt(&fake, short, CardReady::LinkUp, &NEVER, &mut || Ok(())).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(5));
    let words = late.to_string();
    assert!(words.contains("waiting for the card to answer: not within 300 ms"), "{words}");
    assert_eq!(port_state(&fake), before);
}

#[test]
fn a_card_whose_program_fails_comes_back() {
    let fake = machine("a_card_whose_program_fails_comes_back");
    let before = port_state(&fake);
    let failed = attempt(&fake, LONG, CardReady::LinkUp, &NEVER, &mut || {
        fs::write(fake.root.join("ready"), "1").unwrap();
        Err("no cable".to_owned())
    });
    let words = failed.unwrap_err().to_string();
    assert_eq!(words, "0000:03:00.0: no cable; it is back as it was");
    assert_eq!(port_state(&fake), before);
    let tree = fake.machine().tree().unwrap();
    assert_eq!(tree.function(address(CARD)).unwrap().driver.as_deref(), Some("vfio-pci"));
}

#[test]
fn who_started_it_may_end_it() {
    let fake = machine("who_started_it_may_end_it");
    let before = port_state(&fake);
    let interrupted = AtomicBool::new(false);
    let ended = attempt(&fake, LONG, CardReady::LinkDownAndUp, &interrupted, &mut || {
        interrupted.store(true, Ordering::Relaxed);
        Ok(())
    });
    let words = ended.unwrap_err().to_string();
    assert!(words.contains("link to go down was interrupted"), "{words}");
    assert!(words.contains("echo 1 | sudo tee"), "{words}");
    assert_eq!(port_state(&fake), before);
}

#[test]
fn what_cannot_be_reloaded_is_left_alone() {
    let fake = machine("what_cannot_be_reloaded_is_left_alone");
    let mut never = || -> Result<(), String> { panic!("nothing is removed") };
    let mut refused = |at: &str, ready: CardReady| {
        let mut options = ReloadOptions::new(&mut never, &NEVER).with_ready(ready);
        reload(&fake.machine(), address(at), &mut options).unwrap_err().to_string()
    };
    assert!(refused("02:00.0", CardReady::LinkUp).contains("it is a port"));
    assert!(refused("09:00.0", CardReady::LinkUp).contains("there is no PCI function"));
    // A port that does not report its link.
    set(&fake.folder(PORT), EXPRESS + 0x0c, 0x83);
    let words = refused("03:00.0", CardReady::LinkDownAndUp);
    assert!(words.contains("does not say whether its link is up"), "{words}");
    assert!(words.contains("--now"), "{words}");
}
