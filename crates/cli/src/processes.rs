// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that simulate one lab together: `mpirun` or `srun` has started them, MPI joins them,
//! and the first of them that is alive speaks for all.

use std::env;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::sync::Arc;

use crosslane::lab::parts::{Carrier, Disagreement, agree};
use crosslane::lab::{Lab, LabError};
use crosslane_mpi::World;

use crate::error::{CommandError, Result, usage};
use crate::interrupt;

/// Variables in which launchers tell the number of processes.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// This process, alone or with others.
pub struct Processes(Option<Arc<World>>);

impl Processes {
    /// Joins the processes that a launcher has started, if that is wanted.
    ///
    /// # Errors
    /// A build without MPI, a process that is gone, and several processes that are not to be
    /// joined: each would do all the work.
    pub fn begin(is_wanted: bool) -> Result<Self> {
        if is_wanted {
            interrupt::share();
            // Launchers pass on what a terminal of their own got.
            anstream::ColorChoice::Never.write_global();
            let is_built = cfg!(feature = "mpi");
            let failed = |gone| if is_built { CommandError::failed(gone) } else { usage(gone) };
            let world = World::begin(interrupt::is_asked).map_err(failed)?;
            return Ok(Self(Some(world)));
        }
        let size = |name: &&str| env::var(name).ok().and_then(|size| size.parse::<u32>().ok());
        match SIZES.iter().find(|name| size(name).is_some_and(|size| size > 1)) {
            Some(name) => Err(usage(format!(
                "this is one of {} processes ({name}): --mpi lets them simulate the lab together",
                env::var(name).unwrap_or_default()
            ))),
            None => Ok(Self(None)),
        }
    }

    /// Returns the transport between them, if there are several.
    pub fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        self.0.clone().map(|world| world as Arc<dyn Carrier>)
    }

    /// Whether this one shows the outcome and says what went wrong.
    pub fn speaks(&self) -> bool {
        self.0.as_ref().is_none_or(|world| world.speaks())
    }

    /// Passes a lab on that was read, if all processes have the same program, command line and lab.
    ///
    /// # Errors
    /// Something that differs, the error of reading it, or a process that is gone.
    pub fn same(&self, lab: Result<Lab, LabError>) -> Result<Lab> {
        let Some(carrier) = self.carrier() else { return Ok(lab?) };
        let build = program_hash().unwrap_or_else(|error| format!("unreadable: {error}"));
        let arguments: Vec<String> = env::args_os()
            .skip(1)
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        let of_lab = match &lab {
            Ok(lab) => {
                let mut text = Hashed(DefaultHasher::new());
                write!(text, "{:?}", lab.file()).map_err(CommandError::failed)?;
                format!("{:016x}", text.0.finish())
            }
            Err(error) => error.to_string(),
        };
        let facts = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("build", build),
            ("command line", arguments.join(" ")),
            ("lab", of_lab),
        ];
        match agree(&*carrier, &facts) {
            Ok(()) => Ok(lab?),
            Err(gone @ Disagreement::Gone(_)) => Err(CommandError::failed(gone)),
            Err(different) => Err(usage(different)),
        }
    }

    /// Leaves the others. Of an error only the one speaks that speaks for all.
    ///
    /// # Errors
    /// That of `outcome`.
    pub fn end<T>(self, outcome: Result<T>) -> Result<T> {
        let speaks = self.speaks();
        if let Some(world) = &self.0 {
            let why = outcome.as_ref().err().map(ToString::to_string);
            world.leave(&why.unwrap_or_default());
        }
        match outcome {
            Err(error) if !speaks => Err(CommandError::SaidElsewhere { code: error.code() }),
            outcome => outcome,
        }
    }
}

/// Text that is hashed.
struct Hashed(DefaultHasher);

impl std::fmt::Write for Hashed {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Returns the hash of the running program's file, which differs between two builds.
fn program_hash() -> io::Result<String> {
    let mut file = File::open(env::current_exe()?)?;
    let (mut hasher, mut block) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(format!("{:016x}", hasher.finish())),
            bytes => hasher.write(&block[..bytes]),
        }
    }
}
