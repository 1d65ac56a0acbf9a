// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bridge in a lab: every path with its data, failures of every stage, and several clients.

use crate::support;

use crosslane_bridge::messages::PeerTarget;
use crosslane_bridge::{Guard, Identity, Key, Mode, NaiveStep, Policy, Stage};
use crosslane_host::ErrorKind;
use crosslane_pcie::units::Picoseconds;
use futures_util::join;

use support::network::Fault;
use support::{CARD, SECOND_PS, SERVER, Scene, bytes_of, options, pattern, place, serve_while};

const MIB: u64 = 1 << 20;

#[test]
fn what_is_put_comes_back_whatever_its_size() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let client = scene.client().await;
        for (bytes, address) in
            [(1, 0), (3, 5), (4096, 4095), (16_384, 0), (16_385, 1), (300_001, 77), (MIB, 1 << 29)]
        {
            let source = scene.filled(bytes, bytes as u8).await;
            let to = place(CARD, address);
            let checked = options().with_checksum(true);
            let put = client.put(&source, &to, &checked, |_| {}).await.expect("it is put");
            assert_eq!(
                (put.report.bytes, put.report.path.to_string()),
                (bytes, "remote -> FPGA".into())
            );
            let destination = scene.empty(bytes).await;
            let got = client.get(&to, &destination, &checked, |_| {}).await.expect("it is got");
            assert!(bytes_of(&destination) == pattern(bytes, bytes as u8), "{bytes} B");
            let checksum = Some(crc32fast::hash(&pattern(bytes, bytes as u8)));
            assert_eq!([put.report.checksum, got.report.checksum], [checksum; 2], "{bytes} B");
            assert_eq!((put.check(&source), got.check(&destination)), (Ok(()), Ok(())));
            let other = scene.filled(bytes, bytes as u8 + 1).await;
            let changed = got.check(&other).expect_err("other data");
            assert_eq!((changed.kind(), changed.arrived_bytes), (ErrorKind::Data, bytes));
        }
        assert_eq!(client.cards().await.expect("it answers"), [CARD]);
        client.close().await;
    });
}

#[test]
fn a_round_trip_goes_through_the_stream() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let client = scene.client().await;
        for bytes in [4, 16_384, 300_000, MIB] {
            let (source, back) = (scene.filled(bytes, 3).await, scene.empty(bytes).await);
            let checked = options().with_checksum(true);
            let trip = client.round_trip(CARD, &source, &back, &checked, |_| {}).await;
            let trip = trip.expect("it comes back");
            assert!(bytes_of(&back) == pattern(bytes, 3), "{bytes} B");
            assert_eq!(trip.check(&source), Ok(()));
            assert_eq!(trip.report.stages.len(), 3);
            assert!(trip.report.stages.iter().all(|stage| stage.bytes == bytes));
            // Memory and stream take turns in the same channels.
            scene.put(&client, &source, 0).await;
        }
        client.close().await;
    });
}

#[test]
fn naive_transfers_take_the_documents_steps_one_after_the_other() {
    let scene = Scene::new(600);
    scene.with_server(&[CARD], Scene::small(), async || {
        let client = scene.client().await;
        let naive = options().with_mode(Mode::Naive);
        let bytes = 300_000;
        let (source, back) = (scene.filled(bytes, 4).await, scene.empty(bytes).await);
        let trip = client.round_trip(CARD, &source, &back, &naive, |_| {}).await;
        let report = trip.expect("it comes back").report;
        assert!(bytes_of(&back) == pattern(bytes, 4));
        let steps: Vec<NaiveStep> = report.steps.iter().map(|step| step.what).collect();
        assert_eq!(steps, NaiveStep::ALL);
        let numbers: Vec<String> = steps.iter().map(|step| step.to_string()[..2].into()).collect();
        assert_eq!(numbers, ["3:", "4:", "5:", "6:", "7:"]);
        let sum: u64 = report.steps.iter().map(|step| step.time_ps).sum();
        assert_eq!(sum, report.elapsed_ps, "one after the other, and nothing beside them");
        let pipelined = client.round_trip(CARD, &source, &back, &options(), |_| {}).await;
        let pipelined = pipelined.expect("it comes back").report;
        assert!(pipelined.elapsed_ps * 3 < report.elapsed_ps * 2, "overlap is worth something");
        assert!(report.why_not_faster().starts_with("the steps follow each other"));
        let (put, to) = (scene.filled(bytes, 8).await, place(CARD, 123));
        let done = client.put(&put, &to, &naive, |_| {}).await.expect("it is put").report;
        let steps: Vec<NaiveStep> = done.steps.iter().map(|step| step.what).collect();
        assert_eq!(steps, NaiveStep::ALL[..3]);
        client.get(&to, &back, &naive, |_| {}).await.expect("it is got");
        assert!(bytes_of(&back) == pattern(bytes, 8));
        // More than the server allocates memory for.
        let much = options().with_mode(Mode::Naive);
        let error = client.put(&scene.filled(2 << 20, 0).await, &to, &much, |_| {}).await;
        let error = error.expect_err("it is too much");
        assert_eq!(error.stage, Stage::Registration, "{error}");
    });
}

#[test]
fn data_go_from_one_servers_card_to_another_ones() {
    let scene = Scene::new(100);
    let clock = scene.clock();
    let other = "127.0.0.1:9";
    let ((), events) = scene.with_server(&[CARD], Scene::small(), async || {
        // Slots of another size: announced pieces are cut.
        let options = Scene::small().with_slot_bytes(8192);
        let second = scene.server(&["second"], options, support::Events::default()).await;
        let program = async || {
            let client = scene.client().await;
            let bytes = 300_001;
            let source = scene.filled(bytes, 9).await;
            scene.put(&client, &source, 64).await;
            let server = other.to_owned();
            let peer = PeerTarget { server, card: "second".to_owned(), address: 1000 };
            let from = place(CARD, 64);
            let copied = client.copy(&from, peer, bytes, &self::options(), |_| {}).await;
            assert_eq!(copied.expect("it is copied").report.bytes, bytes);
            let end = Picoseconds(SECOND_PS);
            let identity = Identity::default();
            let network = scene.network.clone();
            let there =
                crosslane_bridge::Client::connect(network, clock, other, &identity, end).await;
            let there = there.expect("it is there");
            let back = scene.empty(bytes).await;
            let place = place("second", 1000);
            there.get(&place, &back, &self::options(), |_| {}).await.expect("it is got");
            assert!(bytes_of(&back) == pattern(bytes, 9));
            // An address beyond the other card's memory: its error message is passed through.
            let server = other.to_owned();
            let peer = PeerTarget { server, card: "third".to_owned(), address: 0 };
            let error = client.copy(&from, peer, bytes, &self::options(), |_| {}).await;
            let error = error.expect_err("there is no third card");
            assert_eq!(
                error.why.to_string(),
                "the other server says: there is no card third: this server has second"
            );
        };
        serve_while(second, other, program).await;
    });
    assert!(
        events.iter().any(|event| event.contains("FPGA -> FPGA of another node")),
        "{events:?}"
    );
}

#[test]
fn each_stage_that_fails_is_named_and_the_next_client_is_served() {
    let scene = Scene::new(100);
    let bytes = MIB;
    scene.with_server(&[CARD], Scene::small(), async || {
        for (fault, stage, why) in [
            (Fault::RefuseAt(9), Stage::RdmaRead, "the client refused a read"),
            (Fault::CutAt(9), Stage::Connection, "is lost"),
            (Fault::StallAt(9), Stage::RdmaRead, "the deadline passed"),
        ] {
            let source = scene.filled(bytes, 1).await;
            let client = scene.client().await;
            scene.network.set_fault(fault);
            let short = options().with_time(Picoseconds(SECOND_PS / 100));
            let error = client.put(&source, &place(CARD, 0), &short, |_| {}).await;
            let error = error.expect_err("it fails");
            assert_eq!(error.stage, stage, "{error}");
            assert!(error.why.to_string().contains(why), "{error}");
            scene.network.set_fault(Fault::None);
            let arrived = error.arrived_bytes;
            assert!(arrived < bytes, "{error}");
            if fault != Fault::CutAt(9) {
                assert!(arrived > 0, "{error}");
            }
            // The transfer continues where it ended; the data that had arrived are still there.
            let client = scene.client().await;
            if arrived > 0 {
                let back = scene.get(&client, 0, arrived).await;
                assert!(back == pattern(bytes, 1)[..arrived as usize]);
            }
            let resumed = options().with_first(arrived);
            let put = client.put(&source, &place(CARD, 0), &resumed, |_| {}).await;
            assert_eq!(put.expect("it goes on").report.bytes, bytes - arrived);
            assert!(scene.get(&client, 0, bytes).await == pattern(bytes, 1));
            client.close().await;
        }
    });
}

#[test]
fn a_dma_error_is_its_own_clients_only() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let bytes = MIB;
        let (good, bad) = (scene.client().await, scene.client().await);
        let (source, other) = (scene.filled(bytes, 5).await, scene.filled(bytes, 6).await);
        // The card has 1 GiB: the second half of this lies beyond it.
        let beyond = place(CARD, (1 << 30) - bytes / 2);
        let (to, options) = (place(CARD, 0), options());
        let (put, failed) = join!(
            good.put(&source, &to, &options, |_| {}),
            bad.put(&other, &beyond, &options, |_| {})
        );
        let error = failed.expect_err("it lies behind the memory");
        assert_eq!(error.stage, Stage::Dma, "{error}");
        assert!(error.why.to_string().contains("the card's memory refused it"), "{error}");
        assert_eq!(error.arrived_bytes, bytes / 2, "{error}");
        assert_eq!(put.expect("the other's fault is not its own").report.bytes, bytes);
        assert!(scene.get(&good, 0, bytes).await == pattern(bytes, 5));
    });
}

#[test]
fn a_slow_card_and_a_slow_network_end_at_the_deadline_and_are_named() {
    // The card takes 2.5 ms, the network 0.04 ms or 8 ms.
    for (ps_per_byte, stage) in [(10, Stage::Dma), (2000, Stage::RdmaRead)] {
        let scene = Scene::new(ps_per_byte);
        scene.with_server(&[CARD], Scene::small(), async || {
            let client = scene.client().await;
            let source = scene.filled(4 * MIB, 1).await;
            let short = options().with_time(Picoseconds(SECOND_PS / 1000));
            let begun = scene.bus_now();
            let error = client.put(&source, &place(CARD, 0), &short, |_| {}).await;
            let error = error.expect_err("it is too slow");
            assert_eq!(error.stage, stage, "{error}");
            assert!((1..4 * MIB).contains(&error.arrived_bytes), "{error}");
            let took = scene.bus_now() - begun;
            assert!(took < SECOND_PS / 500, "{took} ps for a deadline of 1 ms");
            let client = scene.client().await;
            let back = scene.get(&client, 0, error.arrived_bytes).await;
            assert!(back == pattern(4 * MIB, 1)[..error.arrived_bytes as usize]);
        });
    }
}

#[test]
fn clients_share_a_card_fairly() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let bytes = 2 * MIB;
        let clients = [scene.client().await, scene.client().await, scene.client().await];
        let source = scene.filled(bytes, 0).await;
        let options = options();
        let put = async |client: usize, address| {
            let to = place(CARD, address);
            let put = clients[client].put(&source, &to, &options, |_| {}).await;
            put.expect("it is put").elapsed.as_seconds()
        };
        let (one, two, three) = join!(put(0, 0), put(1, bytes), put(2, 2 * bytes));
        let alone = put(0, 0).await;
        for time in [one, two, three] {
            let slower = time / alone;
            assert!((2.7..3.3).contains(&slower), "{one} {two} {three} s, alone {alone} s");
        }
    });
}

#[test]
fn small_chunks_and_other_ways_have_the_same_share() {
    let scene = Scene::new(100);
    let server = Scene::small().with_slots(24);
    scene.with_server(&[CARD], server, async || {
        let bytes = 2 * MIB;
        let clients = [scene.client().await, scene.client().await, scene.client().await];
        let (source, back) = (scene.filled(bytes, 0).await, scene.empty(bytes).await);
        let (small, large) = (options().with_chunk_bytes(Some((4096, 4096))), options());
        let (first, second, third) = (place(CARD, 0), place(CARD, bytes), place(CARD, 2 * bytes));
        let ended = join!(
            clients[0].put(&source, &first, &large, |_| {}),
            clients[1].put(&source, &second, &small, |_| {}),
            clients[2].get(&third, &back, &large, |_| {}),
        );
        for done in [ended.0, ended.1, ended.2] {
            let report = done.expect("it is moved").report;
            let share = report.of_fair_share();
            assert!((0.95..1.05).contains(&share), "{share} of a fair share: {report:?}");
            assert!(report.card_bytes > 2 * bytes, "they were under way at once: {report:?}");
        }
        let alone = clients[0].put(&source, &first, &large, |_| {}).await.expect("it is put");
        let report = alone.report;
        assert_eq!((report.card_bytes, report.fair_share_bytes), (bytes, bytes));
    });
}

#[test]
fn a_client_that_goes_away_or_cancels_leaves_nothing_behind() {
    let scene = Scene::new(100);
    let ((), events) = scene.with_server(&[CARD], Scene::small(), async || {
        let source = scene.filled(MIB, 7).await;
        let to = place(CARD, 0);
        // Dropped in mid-transfer.
        {
            let client = scene.client().await;
            let options = options();
            let put = std::pin::pin!(client.put(&source, &to, &options, |_| {}));
            let clock = scene.clock();
            let soon = Picoseconds(scene.bus_now() + SECOND_PS / 10_000);
            let soon = std::pin::pin!(crosslane_host::Clock::sleep_until(&clock, soon));
            let first = futures_util::future::select(put, soon).await;
            assert!(matches!(first, futures_util::future::Either::Right(_)), "it is not over");
        }
        let client = scene.client().await;
        let options = options();
        let cancel = async {
            let clock = scene.clock();
            let soon = Picoseconds(scene.bus_now() + SECOND_PS / 10_000);
            crosslane_host::Clock::sleep_until(&clock, soon).await;
            client.cancel().await.expect("it is told");
        };
        let (put, ()) = join!(client.put(&source, &to, &options, |_| {}), cancel);
        let error = put.expect_err("it is cancelled");
        assert_eq!(
            (error.stage, &*error.why.to_string()),
            (Stage::Request, "cancelled by the client")
        );
        assert!((1..MIB).contains(&error.arrived_bytes), "{error}");
        let client = scene.client().await;
        scene.put(&client, &source, 0).await;
    });
    assert!(events.iter().any(|event| event.contains("cancelled by the client")), "{events:?}");
}

#[test]
fn only_who_has_the_key_is_let_in_and_only_to_what_is_its_own() {
    let key = |byte| Key::new([byte; 32]);
    let text = format!(
        "[[client]]\nname = 'rnode'\nkey = '{}'\n[[client.allow]]\ncard = 'kc705'\nfrom = 4096\n\
         bytes = 8192\naccess = 'write'\n",
        key(1).to_hex()
    );
    let policy = Policy::parse("policy", &text, key(9), |_| Ok(key(3))).expect("it is right");
    let scene = Scene::new(100);
    let server = Scene::small().with_guard(Guard::Keys(policy));
    let ((), events) = scene.with_server(&[CARD], server, async || {
        let identity = |name: &str, key| Identity { name: name.to_owned(), key };
        let why = async |identity: Identity| match scene.client_as(&identity).await {
            Ok(_) => "let in".to_owned(),
            Err(error) => error.why.to_string(),
        };
        let refused = "the server says: this client and this key do not fit";
        assert_eq!(why(identity("rnode", Some(key(2)))).await, refused);
        assert_eq!(why(identity("other", Some(key(1)))).await, refused);
        assert_eq!(why(identity("rnode", None)).await, refused);
        let client = scene.client_as(&identity("rnode", Some(key(1)))).await.expect("its key");
        let source = scene.filled(8192, 1).await;
        scene.put(&client, &source, 4096).await;
        let error = client.put(&source, &place(CARD, 4097), &options(), |_| {}).await;
        assert_eq!(
            error.expect_err("one byte too far").to_string(),
            "request: rnode may not write 8192 B from 0x1001 on of kc705: 0 of 8192 B have arrived"
        );
        // A refusal does not end the connection.
        let error = client.get(&place(CARD, 4096), &source, &options(), |_| {}).await;
        assert!(
            error.expect_err("it may only write").why.to_string().contains("rnode may not read")
        );
        scene.put(&client, &source, 4096).await;
        // Rights of data within the messages, too.
        let few = scene.filled(64, 2).await;
        scene.put(&client, &few, 4096 + 8192 - 64).await;
        let error = client.put(&few, &place(CARD, 4096 + 8192 - 63), &options(), |_| {}).await;
        let error = error.expect_err("one byte too far").why.to_string();
        assert!(error.contains("rnode may not write 64 B from 0x2fc1 on"), "{error}");
        let error = client.get(&place(CARD, 4096), &few, &options(), |_| {}).await;
        let error = error.expect_err("it may only write").why.to_string();
        assert!(error.contains("rnode may not read 64 B"), "{error}");
    });
    assert!(events.iter().any(|event| event.starts_with("rnode at the client")), "{events:?}");
}

#[test]
fn an_open_server_is_refused_where_others_reach_it() {
    let scene = Scene::new(100);
    scene.with_server(&[CARD], Scene::small(), async || {
        let server = scene.server(&["second"], Scene::small(), support::Events::default()).await;
        let error = server.listen("0.0.0.0:7471").await.map(drop).expect_err("all can come");
        assert!(error.why.to_string().contains("a policy file is needed"), "{error}");
        // A server set up and never used frees its memory.
        let listener = server.listen("127.0.0.1:1").await.expect("it is free");
        server.serve(listener, async {}).await.expect("it ends");
        assert_ne!(SERVER, "127.0.0.1:1");
    });
}

#[test]
fn why_a_transfer_was_not_faster_names_the_stage() {
    // The network is the slowest: 2 ns a byte.
    for (ps_per_byte, stage) in [(2000, Stage::RdmaRead), (10, Stage::Dma)] {
        let scene = Scene::new(ps_per_byte);
        scene.with_server(&[CARD], Scene::small(), async || {
            let client = scene.client().await;
            let source = scene.filled(4 * MIB, 0).await;
            let put = client.put(&source, &place(CARD, 0), &options(), |_| {}).await;
            let report = put.expect("it is put").report;
            assert_eq!(report.slowest().map(|slowest| slowest.stage), Some(stage));
            let why = report.why_not_faster();
            assert!(why.starts_with(&format!("the {stage} limits: busy ")), "{why}");
            assert_eq!(report.mode, Mode::Pipelined);
        });
    }
}

#[test]
fn a_transfer_that_goes_on_says_so_once_a_second() {
    let scene = Scene::new(100);
    // 64 KiB in four chunks: each stage has one for 0.64 s.
    let slow =
        Scene::small().with_least_chunk_bytes(16_384).with_pace(Picoseconds::from_ns(40_000_000));
    let ((), events) = scene.with_server(&[CARD], slow, async || {
        let client = scene.client().await;
        let source = scene.filled(1 << 16, 3).await;
        let options = options().with_time(Picoseconds(10 * SECOND_PS));
        client.put(&source, &place(CARD, 0), &options, |_| {}).await.expect("it is put");
    });
    let so_far = events.iter().filter(|event| event.contains(" so far"));
    let so_far: Vec<&str> = so_far.map(|event| event.split_once(';').expect("why").0).collect();
    // The first chunk has passed both stages after 1.28 s, each other one 0.64 s later.
    let told =
        |bytes, seconds| format!(": {bytes} of 65536 B remote -> FPGA so far, in {seconds} s");
    assert_eq!(so_far, [told(0, 1), told(32_768, 2), told(49_152, 3)]);
}
