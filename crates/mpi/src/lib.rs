// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that simulate one lab together, on one machine or several: [`World`] joins those that
//! `mpirun` or `srun` has started, by MPI.
//!
//! A build without the feature `mpi` has no MPI, and [`World::begin`] says so.

#![forbid(unsafe_code)]

#[cfg(not(feature = "mpi"))]
#[path = "none.rs"]
mod world;
#[cfg(feature = "mpi")]
mod world;

pub use world::World;
