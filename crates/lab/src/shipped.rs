// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labs compiled into the program.

/// A lab compiled into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShippedLab {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// Its description, one sentence.
    pub summary: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

const SHIPPED: [ShippedLab; 8] = [
    ShippedLab {
        name: "aws-f1",
        summary: "A Xeon that stores into the memory of an F1 card, uncached and write-combined.",
        text: include_str!("../../../labs/aws-f1.toml"),
    },
    ShippedLab {
        name: "kc705",
        summary: "A desktop and a KC705 board: memory-mapped DMA to DDR3, Gen1 or Gen2, x1 or x4.",
        text: include_str!("../../../labs/kc705.toml"),
    },
    ShippedLab {
        name: "minimal",
        summary: "One host and one endpoint, every key explained: the lab to copy.",
        text: include_str!("../../../labs/minimal.toml"),
    },
    ShippedLab {
        name: "nget",
        summary: "Two Nehalem hosts with Stratix IV network processors on Gen2 x8, and a torus \
                  link.",
        text: include_str!("../../../labs/nget.toml"),
    },
    ShippedLab {
        name: "pciebench",
        summary: "A Xeon server with a benchmark card on Gen3 x8, as the pcie-bench study had it.",
        text: include_str!("../../../labs/pciebench.toml"),
    },
    ShippedLab {
        name: "rosta",
        summary: "Eight FPGAs behind three switches: direct FPGA-to-FPGA transfers.",
        text: include_str!("../../../labs/rosta.toml"),
    },
    ShippedLab {
        name: "sbdt",
        summary: "A node with an Arria 10 card, and InfiniBand to a ThunderX2 node: DMA and RDMA.",
        text: include_str!("../../../labs/sbdt.toml"),
    },
    ShippedLab {
        name: "torus",
        summary: "A torus of 2 x 2 x 2 x 2 hosts with FPGAs on Gen3 x8 and links of x8 at 5 Gb/s.",
        text: include_str!("../../../labs/torus.toml"),
    },
];

/// Returns every shipped lab, by name.
#[must_use]
pub fn shipped() -> &'static [ShippedLab] {
    &SHIPPED
}
