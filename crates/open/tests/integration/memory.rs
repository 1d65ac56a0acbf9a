// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that stands for a card: its names, and what can be done with it.

use crosslane_host::{DmaMemory, ErrorKind};
use crosslane_open::{Cards, DeviceName, Opened, Session, SessionOptions};

fn name(text: &str) -> DeviceName {
    text.parse().unwrap()
}

fn open(names: &[&str]) -> Result<Cards, String> {
    let names: Vec<DeviceName> = names.iter().map(|text| name(text)).collect();
    Cards::open(&names, SessionOptions::default()).map_err(|error| error.to_string())
}

#[test]
fn names_of_memory_are_read_and_written() {
    for (text, read, written) in [
        ("mem:4096", DeviceName::Memory(4096), "mem:4K"),
        ("mem:12288", DeviceName::Memory(12_288), "mem:12K"),
        ("mem:1024M", DeviceName::Memory(1 << 30), "mem:1G"),
        ("mem:1GiB", DeviceName::Memory(1 << 30), "mem:1G"),
        ("mem:2T", DeviceName::Memory(2 << 40), "mem:2T"),
        ("file:/dev/dax0.0", DeviceName::File("/dev/dax0.0".into()), "file:/dev/dax0.0"),
        ("file:a:b", DeviceName::File("a:b".into()), "file:a:b"),
        ("null:", DeviceName::Null, "null:"),
    ] {
        assert_eq!(name(text), read);
        assert_eq!(read.to_string(), written);
        assert_eq!(name(written), read);
    }
    for (text, why) in [
        ("mem:", "the size is missing, as in mem:1G"),
        ("mem:G", "G is not a size; write 64M, 64MiB or 67108864"),
        ("mem:0", "a card's memory has at least one page"),
        ("mem:5000", "5000 B are not a multiple of a page, 4096 B"),
        ("mem:1GB", "1000000000 B are not a multiple of a page, 4096 B"),
        ("mem:-1", "-1 is not a size; write 64M, 64MiB or 67108864"),
        ("mem:99999999T", "no machine has 99999999T of memory"),
        ("file:", "the path of the file is missing"),
        ("null:0", "nothing follows the colon of null:"),
    ] {
        let error = text.parse::<DeviceName>().unwrap_err().to_string();
        assert_eq!(error, format!("{text:?} is not a device: {why}"));
    }
}

#[test]
fn memory_has_no_engine_and_says_who_can_use_it() {
    for names in [&["mem:1M"][..], &["null:"], &["lab:kc705:crosslane", "mem:1M"]] {
        let names: Vec<DeviceName> = names.iter().map(|text| name(text)).collect();
        let error = Session::open_all(&names, SessionOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let memory = names.last().unwrap();
        let sentence = format!("{memory} is memory without a DMA engine: only a bridge can use it");
        assert!(error.to_string().starts_with(&sentence), "{error}");
    }
}

#[test]
fn cards_of_several_kinds_are_open_at_once() {
    let names = ["mem:8K", "lab:rosta/fpga5", "null:", "lab:rosta/fpga1"];
    let cards = open(&names).unwrap();
    let (memory, engines) = cards.run_free(async {
        let Opened::Memory(memory) = cards.card(0).await.unwrap() else { panic!("memory") };
        assert!(matches!(cards.card(2).await.unwrap(), Opened::Null));
        let mut engines = Vec::new();
        for number in [1, 3] {
            let Opened::Engine(device) = cards.card(number).await.unwrap() else { panic!() };
            engines.push(device.function().name.clone());
        }
        (memory, engines)
    });
    assert_eq!(engines, ["fpga5", "fpga1"]);
    memory.write(8190, &[1, 2]).unwrap();
    let mut seen = [0; 2];
    memory.read(8190, &mut seen).unwrap();
    assert_eq!(seen, [1, 2]);
    // A lab without an endpoint stands for its first card, beside another of its cards.
    let cards = open(&["lab:rosta/fpga5", "lab:rosta"]).unwrap();
    let first = cards.run_free(cards.card(1)).unwrap();
    let Opened::Engine(device) = first else { panic!("an engine") };
    assert_eq!(device.function().name, "fpga1");
}

#[test]
fn cards_that_cannot_be_open_at_once() {
    for (names, why) in [
        (&["lab:rosta/fpga1", "null:", "lab:kc705:crosslane"][..], "each lab is simulated by"),
        (&["lab:rosta/fpga1", "lab:rosta"], "they are one card"),
        (&["lab:rosta/fpga1", "lab:rosta/fpga1"], "they are one card"),
        (&["null:", "vfio-user:no-such.sock"], "no-such.sock"),
        (&["file:no-such-file"], "file:no-such-file: cannot register 0 B of memory: No such file"),
    ] {
        let error = open(names).err().unwrap_or_default();
        assert!(error.contains(why), "{names:?}: {error}");
    }
}
