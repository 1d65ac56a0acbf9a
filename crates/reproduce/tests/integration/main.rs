// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-reproduce` from outside, in one program.

mod aws_f1;
mod calibration;
mod fuzz_measured;
mod interrupted;
mod kc705;
mod measured_gpu;
mod nget;
mod pciebench;
mod pciebench_iommu;
mod pciebench_systems;
mod rosta;
mod sbdt;
mod support;
mod validation;
