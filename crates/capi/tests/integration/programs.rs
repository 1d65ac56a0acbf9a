// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C and C++ programs, compiled by every compiler of the machine with warnings as errors, against
//! the installed library.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crosslane::bridge::{ImageFile, Reloader, Renewed, Server, ServerOptions};
use crosslane::driver::Device;
use crosslane::host::RdmaListener;
use crosslane::network::{MachineClock, Network, Provider, Trust};
use crosslane::open::{AnyBus, AnyRdma, Session};
use crosslane::pcie::units::Picoseconds;
use crosslane_serve::{ServedDevice, Server as VfioUserServer};
use futures_channel::oneshot;
use futures_util::future::LocalBoxFuture;

use crate::authority::Authority;
use crate::header::crate_folder;
use crate::library::{has, installed, run};

const C: [&str; 6] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_GNU_SOURCE"];
const CPP: [&str; 5] = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic"];
const C_COMPILERS: [&str; 2] = ["gcc", "clang"];
const CPP_COMPILERS: [&str; 2] = ["g++", "clang++"];

/// The compilers that are there: at least `cc`.
fn compilers<'a>(of_choice: &str, known: &[&'a str]) -> Vec<&'a str> {
    let there: Vec<&str> = known.iter().copied().filter(|compiler| has(compiler)).collect();
    assert!(!there.is_empty(), "no compiler: install {of_choice}");
    there
}

/// Compiles a program, and returns its path.
fn compiled(compiler: &str, language: &[&str], source: &Path, is_static: bool) -> PathBuf {
    let installed = installed();
    let name = source.file_stem().expect("a name").to_string_lossy();
    let kind = if is_static { "static" } else { "shared" };
    // Tests run at once, and two may compile the same source.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let program = installed.prefix.join(format!("{name}-{compiler}-{kind}-{number}"));
    let mut command = Command::new(compiler);
    command.args(language).arg("-g").arg(source).arg("-o").arg(&program);
    command.args(installed.flags(&["--cflags"])).arg("-pthread");
    if is_static {
        command.arg(installed.libraries().join("libcrosslane.a"));
        command.args(["-lstdc++", "-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
    } else {
        command.args(installed.flags(&["--libs"]));
    }
    run(&mut command);
    program
}

/// Starts a program with the installed library.
fn started(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed().libraries());
    command
}

fn test_source(name: &str) -> PathBuf {
    crate_folder().join("tests/c").join(name)
}

/// Compiles a test program by each compiler of C.
fn by_each(name: &str) -> Vec<PathBuf> {
    let each = compilers("gcc", &C_COMPILERS).into_iter();
    each.map(|compiler| compiled(compiler, &C, &test_source(name), false)).collect()
}

/// Compiles a test program by each compiler, and runs what each has made.
fn passes(name: &str) -> PathBuf {
    let programs = by_each(name);
    for program in &programs {
        assert_eq!(run(&mut started(program)), "passed\n", "{}", program.display());
    }
    programs[0].clone()
}

#[test]
fn transfers_move_data_in_simulated_time() {
    passes("transfers.c");
}

#[test]
fn card_memory_holds_what_went_in() {
    passes("card_memory.c");
}

#[test]
fn packets_keep_their_ends() {
    passes("packets.c");
}

/// The program of the page on packets.
#[test]
fn the_page_on_packets_is_right() {
    let page = crate_folder().join("../../docs/how-to/packets.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, block) = page.split_once("\n```c\n").expect("a block of C");
    let (block, _) = block.split_once("\n```\n").expect("its end");
    let source = installed().prefix.join("page.c");
    std::fs::write(&source, format!("{block}\n")).expect("it can be written");
    let printed = run(&mut started(&compiled("cc", &C, &source, false)));
    assert_eq!(printed, "'to ' 1\n'whom it may concern' 2\n");
}

#[test]
fn bad_input_gets_a_sentence() {
    let program = passes("bad_input.c");
    if has("valgrind") {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=9", "--undef-value-errors=yes"]).arg(program);
        command.env("LD_LIBRARY_PATH", installed().libraries());
        assert_eq!(run(&mut command), "passed\n");
    }
}

#[test]
fn two_cards_command_read_and_are_reset() {
    passes("peers.c");
}

/// Programs that close all that they open leave nothing behind; so does one that does not, but for
/// its child, which leaves alone what it has inherited.
#[test]
fn sanitizers_find_nothing() {
    let c: Vec<&str> = C.iter().copied().chain(["-fsanitize=address,undefined"]).collect();
    for name in ["transfers.c", "packets.c", "peers.c", "ports.c", "bad_input.c"] {
        let program = compiled("gcc", &c, &test_source(name), false);
        let mut command = started(&program);
        if name == "bad_input.c" {
            command.env("ASAN_OPTIONS", "detect_leaks=0");
        }
        assert_eq!(run(&mut command), "passed\n");
    }
}

/// Runs a test program with the name of a card that is served meanwhile.
fn passes_with_served(lab: &str, card: &str, name: &str) {
    let folder = tempfile::tempdir().expect("a folder for the socket");
    let socket = folder.path().join("card");
    let device = ServedDevice { name: card.to_owned(), socket: socket.clone() };
    let lab = crosslane::lab::open(lab).expect("a shipped lab");
    let server = VfioUserServer::start(lab, 1, &[device], |_| ()).expect("a server");
    for program in by_each(name) {
        let printed = run(started(&program).arg(format!("vfio-user:{}", socket.display())));
        assert_eq!(printed, "passed\n", "{}", program.display());
    }
    drop(server);
}

#[test]
fn descriptor_of_a_served_card_wakes_a_program() {
    passes_with_served("rosta:crosslane", "fpga1", "served.c");
}

#[test]
fn packets_of_a_served_card_keep_their_ends() {
    passes_with_served("minimal", "card0", "packets.c");
}

#[test]
fn threads_share_a_card_of_a_lab() {
    passes("threads.c");
}

#[test]
fn threads_share_a_served_card() {
    passes_with_served("kc705:crosslane", "kc705", "threads.c");
}

#[test]
fn static_library_is_enough() {
    let program = compiled("cc", &C, &test_source("card_memory.c"), true);
    assert_eq!(run(&mut Command::new(program)), "passed\n");
}

#[test]
fn cpp_objects_close_themselves() {
    for compiler in compilers("g++", &CPP_COMPILERS) {
        let program = compiled(compiler, &CPP, &test_source("objects.cpp"), false);
        assert_eq!(run(&mut started(&program)), "passed\n");
    }
}

#[test]
fn header_alone_compiles_as_old_and_new_languages() {
    let include = installed().prefix.join("include");
    let check = |compilers: &[&str], language: &[&str], header: &str| {
        for compiler in compilers {
            let mut command = Command::new(compiler);
            command.args(language).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
            // Functions of a header are not used by every program; those of a source would be.
            command.args(["-fsyntax-only", "-include"]).arg(include.join(header));
            run(command.arg("/dev/null"));
        }
    };
    let (c, cpp) = (compilers("gcc", &C_COMPILERS), compilers("g++", &CPP_COMPILERS));
    check(&c, &["-x", "c", "-std=c11"], "crosslane.h");
    check(&c, &["-x", "c", "-std=c99"], "crosslane.h");
    check(&cpp, &["-x", "c++", "-std=c++11"], "crosslane.h");
    check(&cpp, &["-x", "c++", "-std=c++20"], "crosslane.hpp");
    for paper in ["fpga_pci.h", "nget.h", "afu_shell_dma.h"] {
        let header = format!("crosslane/{paper}");
        check(&c, &["-x", "c", "-std=c11"], &header);
        check(&cpp, &["-x", "c++", "-std=c++17"], &header);
    }
}

fn example(name: &str) -> PathBuf {
    let c: Vec<&str> = C.iter().copied().filter(|flag| *flag != "-std=c11").collect();
    compiled("cc", &c, &example_source(name), false)
}

fn example_source(name: &str) -> PathBuf {
    crate_folder().join("../../examples/c").join(name)
}

#[test]
fn example_prints_its_rate() {
    let printed = run(&mut started(&example("first_transfer.c")));
    assert_eq!(printed, "1048576 B in 610.9 us: 1716.4 MB/s, in simulated time\n");
}

#[test]
fn programs_of_the_papers_run() {
    passes("ports.c");
}

/// Time of the servers' stages for a KiB, so that transfers of some MiB can be watched and stopped.
const PACE: Picoseconds = Picoseconds::from_us(40);

/// Opens the lab's card again in place of a program that reconfigures it.
struct Again {
    bus: AnyBus,
    name: String,
}

impl Reloader for Again {
    fn check(&self, card: &str) -> Result<(), String> {
        if card == self.name { Ok(()) } else { Err(format!("{card} has no program for it")) }
    }

    fn file(&self, ending: &str) -> io::Result<Box<dyn ImageFile>> {
        let file = tempfile::Builder::new().suffix(&format!(".{ending}")).tempfile()?;
        Ok(Box::new(TemporaryFile(file)))
    }

    fn reload<'a>(
        &'a self,
        _card: &'a str,
        image: Box<dyn ImageFile>,
    ) -> LocalBoxFuture<'a, Result<Renewed, String>> {
        Box::pin(async move {
            let written = std::fs::read(image.path()).map_err(|error| error.to_string())?;
            let ending = image.path().extension().unwrap_or_default().to_string_lossy();
            let said = format!("{} bytes\n.{ending}", written.len());
            let device = Device::open_by_name(self.bus.clone(), "kc705").await;
            let card = device.map_err(|error| error.to_string())?.into();
            Ok(Renewed { card, said })
        })
    }
}

/// An image that the server has written.
struct TemporaryFile(tempfile::NamedTempFile);

impl io::Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl ImageFile for TemporaryFile {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Runs a program, with the addresses of bridges' servers, each with a card of a lab.
fn beside_servers(names: &[&str], program: impl FnOnce(Vec<String>) -> Command) -> Output {
    beside_servers_of(Provider::Tcp, &Trust::default(), names, program)
}

/// As [`beside_servers`], over a network and with whom the servers trust.
fn beside_servers_of(
    provider: Provider,
    trust: &Trust,
    names: &[&str],
    program: impl FnOnce(Vec<String>) -> Command,
) -> Output {
    type Served = (String, oneshot::Sender<()>, JoinHandle<()>);
    let served = names.iter().map(|name| -> Served {
        let (name, (tell, told)) = ((*name).to_owned(), mpsc::channel());
        let (stop, stopped) = oneshot::channel();
        let (trust, served_as) = (trust.clone(), name.clone());
        let thread = std::thread::spawn(move || {
            let session = Session::open("lab:kc705:crosslane").expect("a shipped lab");
            session.run_free(async {
                let clock = MachineClock::new();
                let network = Network::open_with(provider, &clock, &trust);
                let network = network.expect("TCP works everywhere");
                let cards = vec![(name, session.device(0).await.expect("an engine"))];
                let rdma = AnyRdma::new(network, session.bus());
                // Everybody on it may reload the card.
                let options = ServerOptions::default().with_closed_network(true).with_pace(PACE);
                let server = Server::new(cards, rdma, clock, options, |_| {}).await;
                let again = Again { bus: session.bus().clone(), name: served_as };
                let server = server.expect("a server").with_reloader(again);
                let listener = server.listen("127.0.0.1:0").await.expect("a free port");
                tell.send(listener.address()).expect("it is waited for");
                let end = async {
                    let _ = stopped.await;
                };
                server.serve(listener, end).await.expect("its clients end well");
            });
        });
        (told.recv().expect("a server"), stop, thread)
    });
    let served: Vec<Served> = served.collect();
    let addresses = served.iter().map(|(address, ..)| address.clone()).collect();
    let output = program(addresses).output().expect("the program runs");
    for (_, stop, thread) in served {
        let _ = stop.send(());
        thread.join().expect("no panic");
    }
    output
}

/// Text that a program has printed, and its errors.
fn printed(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned())
}

#[test]
fn client_of_a_bridge_moves_memory() {
    let program = compiled("cc", &C, &test_source("bridge.c"), false);
    let output = beside_servers(&["card"; 2], |addresses| {
        let mut command = started(&program);
        command.args(addresses);
        command
    });
    assert_eq!(printed(&output), ["passed\n", ""]);
}

#[test]
fn client_of_a_bridge_watches_and_resumes() {
    let program = compiled("cc", &C, &test_source("bridge_server.c"), false);
    let output = beside_servers(&["card"], |addresses| {
        let mut command = started(&program);
        command.args(addresses);
        command
    });
    assert_eq!(printed(&output), ["passed\n", ""]);
}

#[test]
fn client_of_a_bridge_shows_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder for the certificates");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign(&["rnode.example"], |_| {});
    Authority::new(folder.path(), "theirs").sign(&["stranger.example"], |_| {});
    let program = compiled("cc", &C, &test_source("certificates.c"), false);
    let trust = ours.node(&["127.0.0.1"]);
    let output = beside_servers_of(Provider::Tls, &trust, &["card"], |addresses| {
        let mut command = started(&program);
        command.args(addresses).arg(folder.path());
        command
    });
    assert_eq!(printed(&output), ["passed\n", ""]);
}

#[test]
fn two_ranks_move_arrays_between_their_cards() {
    if !(has("mpicc") && has("mpirun")) {
        let is_ci = std::env::var_os("CROSSLANE_CI").is_some();
        assert!(!is_ci, "no mpicc or mpirun: install libopenmpi-dev and openmpi-bin");
        eprintln!("skipped: there is no mpicc or mpirun (libopenmpi-dev, openmpi-bin)");
        return;
    }
    let program = compiled("mpicc", &C, &example_source("two_nodes.c"), false);
    let mpirun = |addresses: Vec<String>, more: &[&str]| {
        // `root` runs them, and they may be more than the cores.
        let mut command = started(Path::new("mpirun"));
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", "2"]).arg(&program);
        command.args(addresses).args(more);
        command
    };
    let output = beside_servers(&["fpga0"; 2], |addresses| mpirun(addresses, &["tcp"]));
    let [out, error] = printed(&output);
    assert!(output.status.success(), "{out}{error}");
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let beginnings = [
        "rank 0: array from the own card: 2097152 B, ",
        "rank 0: array to the card of node 1: 2097152 B, ",
        "rank 0: every number is as it should be",
        "rank 1: array from card to card: 2097152 B, ",
        "rank 1: array from the own card: 2097152 B, ",
        "rank 1: array to the own card: 2097152 B, ",
        "rank 1: every number is as it should be",
    ];
    assert_eq!(lines.len(), beginnings.len(), "{out}");
    assert!(lines.iter().zip(beginnings).all(|(line, words)| line.starts_with(words)), "{out}");
    // One rank's error ends both.
    let output = mpirun(vec!["127.0.0.1:1".to_owned(); 2], &["carrier pigeons"]).output();
    let output = output.expect("mpirun runs");
    assert!(!output.status.success());
    assert!(printed(&output)[1].contains("two_nodes: rank "), "{output:?}");
}

/// The paper has 0.0265 GB/s for 64 B, and 0.0277 and 1.62 GB/s for 2048 B; its counters show 16
/// beats, and one with write combining.
#[test]
fn wc_perf_shows_what_combining_brings() {
    let program = example("wc_perf.c");
    let printed = |arguments: &[&str]| run(started(&program).args(arguments));
    let rate = |printed: &str, bytes: &str| -> f64 {
        let line = printed.lines().find_map(|line| line.strip_prefix(bytes)?.strip_prefix(' '));
        line.and_then(|rate| rate.parse().ok()).unwrap_or_else(|| panic!("{bytes}: {printed}"))
    };
    let burst = printed(&["-v", "-i", "16"]);
    assert!(burst.contains("DDR0\n   write-count=16\n"), "{burst}");
    let combined = printed(&["-v", "-w", "-i", "16"]);
    assert!(combined.contains("DDR0\n   write-count=1\n"), "{combined}");
    let (burst, combined) = (printed(&["-i", "512"]), printed(&["-w", "-i", "512", "-p", "4"]));
    assert!((0.02..0.04).contains(&rate(&burst, "2048")), "{burst}");
    assert!((1.0..2.5).contains(&rate(&combined, "2048")), "{combined}");
    let moved = printed(&["-c", "-w", "-i", "512", "-p", "4"]);
    assert!(rate(&moved, "2048") > rate(&burst, "2048"), "{moved}");
    let mut wrong = started(&program);
    let output =
        wrong.env("CROSSLANE_SLOTS", "lab:rosta:crosslane/fpga1").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.starts_with("wc_perf: cannot attach BAR 4 of slot 0: fpga1"), "{words}");
}
