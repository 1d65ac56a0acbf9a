// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random labs, workloads and faults by seed, through the driver: data right or the right error,
//! nothing lost or doubled, no hang, no leak.

#![forbid(unsafe_code)]
