// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines that are refused; the snapshot has the exit code and the sentences of each.

use crate::run::run_as_written;

/// The command lines, by what is asked of them.
const REFUSED: [&str; 114] = [
    // Commands.
    "nonsense",
    "bench traffic --lab rosta",
    "bench traffic --lab rosta --flow fpga1",
    "bench traffic --lab rosta --flow a:b:write:64Q",
    "bench traffic --lab rosta --flow a:b:write:64 --mps 100",
    "bench traffic --lab rosta --flow a:b:write:64 --operations 0",
    "completions ksh",
    // Labs, reproductions and measurements that do not exist.
    "topo nowhere",
    "topo rosta:croslane",
    "topo minimal:x",
    "device list --root /nowhere",
    "lab check nowhere",
    "lab show nowhere",
    "bench write --lab nowhere",
    "torture --lab nowhere",
    "reproduce nowhere",
    "validate nowhere",
    // Seeds.
    "torture --seeds 5..5",
    "torture --seeds many",
    "torture --seeds 0..99999999999999999999",
    "torture --seeds 0..3 --write-lab x.toml",
    // Flows.
    "bench traffic --lab rosta --flow fpga9:host:write:64",
    "bench traffic --lab rosta --flow rha25:host:write:64",
    "bench traffic --lab rosta --flow fpga1:fpga1:write:64",
    "bench traffic --lab rosta --flow host:host:write:64",
    "bench traffic --lab rosta --flow fpga1:fpga2.bar3:write:64",
    "bench traffic --lab rosta --flow fpga1:host.bar0:write:64",
    "bench traffic --lab rosta --flow fpga1:fpga2:write:8M",
    "bench traffic --lab rosta --flow fpga1:host:write:64 --mps 256",
    "bench traffic --lab rosta --flow host:fpga1:write:64:128",
    "bench traffic --lab rosta --flow fpga1:host:write:64..128 --trace t",
    "bench traffic --lab rosta --flow fpga1:host:write:64..512 --flow fpga2:host:write:64..128",
    // Workloads: what the command line, the lab, the driver or the workload refuses.
    "bench write --lab rosta --size 0",
    "bench write --lab rosta --size 3",
    "bench p2p --lab rosta --to fpga9",
    "bench p2p --lab rosta --from host0",
    "bench chain --lab rosta --from rha25",
    "bench read --lab rosta --to host",
    "bench p2p --lab rosta --to fpga1",
    "bench write --lab rosta --to fpga3",
    "bench read --lab rosta --from h",
    "bench write --lab rosta --flows 9",
    "bench p2p --lab minimal",
    "bench chain --lab rosta --from fpga4 --to fpga2",
    "bench write --lab rosta --mps 256",
    "bench p2p --lab rosta --descriptors table",
    "bench read --lab rosta --descriptors command",
    "bench p2p --lab rosta --descriptors command --outstanding 2",
    "bench write --lab rosta --payload 96",
    "bench write --lab rosta --size 4K..16K --trace t",
    "bench write --lab rosta --payload 512",
    "bench latency --lab rosta --size 96",
    // Sweeps.
    "bench sweep --lab aws-f1",
    "bench sweep --lab rosta --card fpga9",
    "bench sweep --lab minimal --way to-card",
    "bench sweep --lab kc705 --mps 256",
    "bench sweep --lab kc705 --link 2y4",
    "bench sweep --lab kc705 --link 4x4",
    "bench sweep --lab kc705 --set part.kc705.nothing=1",
    "bench sweep --lab kc705 --set part.kc705.card_memory.axi_bytes=24",
    "bench sweep --lab kc705 --set nothing",
    "bench sweep --lab kc705 --way to-card --size 1022",
    "bench sweep --lab kc705 --way to-card --descriptors table --outstanding 2",
    "bench sweep --lab kc705 --descriptors command",
    "bench sweep --lab minimal --tags 1024",
    "bench sweep --lab kc705 --size 64..1M --outstanding 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16 \
     --set part.kc705.card_memory.axi_clock_ns=1,2,3,4,5,6,7,8,9,10 \
     --set part.kc705.card_memory.read_latency_ns=1,2,3,4,5,6,7,8,9,10",
    // Stores, gets and exchanges.
    "bench mmio --lab aws-f1 --size 6",
    "bench nget --lab rosta",
    "bench nget --node fpga9",
    "bench nget -n 2 -m 3",
    "bench nget --size 2M",
    "bench halo --lab rosta",
    "bench halo --nodes 8192",
    "bench halo --threads 2 --why",
    "bench halo --lattice 4x4",
    "bench halo --nodes 4 --site-bytes 6",
    // The bridge.
    "bridge put nowhere 127.0.0.1:1/fpga0",
    "bridge put nowhere 127.0.0.1:1",
    "bridge serve --device kc705",
    "bridge serve --device lab:aws-f1",
    "bridge bench --lab kc705",
    "bridge bench --size 6 --clients 2",
    "bridge bench --why",
    // Cards.
    "bench write --device vfio-user:nowhere",
    "bench write --device vfio:1f.7",
    "bench write --device vfio-user:a --mps 256",
    "bench write --device vfio-user:a --engine rtl",
    "bench p2p --device vfio-user:a",
    "bench p2p --device vfio-user:a --device vfio-user:b --to vfio-user:c",
    "bench write --device vfio-user:a --flows 2",
    "bench write --device vfio-user:a --device lab:rosta",
    "device test lab:rosta/fpga1 vfio-user:a",
    "device test lab:nowhere",
    "bench overhead --device kc705",
    "bench write",
    "bench sweep --device vfio-user:a --tags 8",
    "bench sweep --device vfio-user:a --link 2x4",
    "bench sweep --device vfio-user:a --device vfio-user:b",
    "bench sweep --device vfio-user:a --card b",
    "bench sweep --device vfio-user:nowhere",
    "bench sweep --device lab:rosta/fpga1 --card fpga2",
    "bench traffic --device vfio:01:00.0 --flow a:b:write:64",
    "bench traffic --device lab:rosta/fpga1 --flow a:b:write:64",
    "bench halo --device vfio-user:a",
    "bench halo --device vfio-user:a --device vfio-user:b --nodes 3",
    "bench halo --device lab:torus/fpga1",
    "bench halo --device lab:torus --open",
    "bench write --device vfio-user:a --trace t",
    "bench mmio --device vfio-user:a --card b",
    "bench mmio --device vfio-user:a --device vfio-user:b",
    "bench mmio --device lab:rosta/fpga1",
    "bench nget --device vfio-user:a --node b",
    "bench nget --device vfio-user:nowhere",
    "bench sweep --device vfio-user:a --why",
];

#[test]
fn refused_command_lines_say_why() {
    let said = REFUSED.map(|arguments| {
        let run = run_as_written(arguments);
        assert_eq!(run.stdout, "", "crosslane {arguments}");
        format!("crosslane {arguments}\nexit code {}\n{}\n", run.code, run.stderr)
    });
    insta::assert_snapshot!(said.concat());
}
