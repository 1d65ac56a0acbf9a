// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labs compiled into the program.

/// A lab compiled into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShippedLab {
    /// Name of the lab, as on the command line.
    pub name: &'static str,
    /// Description of the lab, one sentence.
    pub summary: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

/// Labs of the folder `labs`, each with its name and summary.
macro_rules! labs {
    ($($name:literal: $summary:literal,)*) => {
        &[$(ShippedLab {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../labs/", $name, ".toml")),
        },)*]
    };
}

const SHIPPED: &[ShippedLab] = labs! {
    "aws-f1": "A Xeon that stores into the memory of an F1 card, uncached and write-combined.",
    "kc705": "A desktop and a KC705 board: memory-mapped DMA to DDR3, Gen1 or Gen2, x1 or x4.",
    "minimal": "One host and one endpoint, every key explained: the lab to copy.",
    "nget": "Two Nehalem hosts with Stratix IV network processors on Gen2 x8, and a torus link.",
    "pciebench": "A Xeon server with a benchmark card on Gen3 x8, as the pcie-bench study had it.",
    "rosta": "Eight FPGAs behind three switches: direct FPGA-to-FPGA transfers.",
    "sbdt": "A node with an Arria 10 card, and InfiniBand to a ThunderX2 node: DMA and RDMA.",
    "torus": "A torus of 2 x 2 x 2 x 2 hosts with FPGAs on Gen3 x8 and links of x8 at 5 Gb/s.",
};

/// Files of the library of parts, each with its name and text.
macro_rules! library {
    ($($name:literal,)*) => {
        &[$((
            concat!("labs/parts/", $name, ".toml"),
            include_str!(concat!("../labs/parts/", $name, ".toml")),
        ),)*]
    };
}

pub(crate) const LIBRARY_FILES: &[(&str, &str)] = library! {
    "root-complexes",
    "switches",
    "endpoints",
};

/// Returns every shipped lab, by name.
pub fn shipped() -> &'static [ShippedLab] {
    SHIPPED
}
