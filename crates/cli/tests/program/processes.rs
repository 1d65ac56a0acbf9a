// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One lab in several processes: `bench halo --mpi`. `make check-mpi` builds the program with MPI
//! and runs all of these; without it the program says so.

use crate::run::{Run, command};

/// Starts of a launcher that forgot the option would all do the same work.
#[test]
fn processes_of_a_launcher_are_refused_without_mpi() {
    let with_size = |name, size| {
        let arguments = "bench halo --nodes 2 --lattice 1x1x1x1 --iterations 1";
        Run::of(command(arguments).env(name, size))
    };
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
        let run = with_size(name, "3");
        assert_eq!((run.code, &*run.stdout), (2, ""), "{run:?}");
        let words = format!("this is one of 3 processes ({name}): --mpi lets them simulate");
        assert!(run.stderr.contains(&words), "{}", run.stderr);
        assert_eq!(with_size(name, "1").code, 0);
    }
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_says_so() {
    let words = "MPI is not in this build; `cargo build --release -p crosslane-cli --features mpi`";
    crate::run::assert_refused("bench halo --mpi", 2, words);
}

#[cfg(feature = "mpi")]
mod mpi {
    use std::fs;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use crate::run::{Run, folder, stdout_as_written};

    /// Longest time until all have ended, once one of them is gone.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// The program in processes: each with some arguments more. `root` runs them, and they may be
    /// more than the cores.
    fn mpirun(arguments: &str, each: &[&str]) -> Command {
        let mut command = Command::new("mpirun");
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command.arg("--oversubscribe").env_remove("COLUMNS").stdin(Stdio::null());
        for (number, more) in each.iter().enumerate() {
            command.args(if number == 0 { &["-n", "1"][..] } else { &[":", "-n", "1"] });
            command.arg(env!("CARGO_BIN_EXE_crosslane"));
            command.args(arguments.split_whitespace()).args(more.split_whitespace());
        }
        command
    }

    #[test]
    fn processes_change_nothing_of_an_exchange() {
        let arguments = "bench halo --nodes 3x2 --lattice 2x2x2x2";
        let one = stdout_as_written(&format!("{arguments} --trace-hash"));
        assert!(one.contains("trace of 3 x 2: ") && one.contains(" events, hash "), "{one}");
        for each in [&["--mpi"][..], &["--mpi", "--mpi"], &["--mpi", "--mpi", "--mpi"]] {
            let run = Run::of(&mut mpirun(&format!("{arguments} --trace-hash"), each));
            assert_eq!((run.code, &*run.stdout), (0, &*one), "{run:?}");
            let (count, plural) = (each.len(), if each.len() == 1 { "" } else { "es" });
            let said: Vec<&str> = run.stderr.lines().collect();
            let first = format!("{count} process{plural} for 6 nodes: efficiency ");
            assert!(said[0].starts_with(&first), "{said:?}");
            let last = format!("part {} (rank {} on ", count - 1, count - 1);
            assert!(said.len() == 1 + count && said[count].starts_with(&last), "{said:?}");
        }
        let one = stdout_as_written(&format!("{arguments} --json"));
        let two = Run::of(&mut mpirun(&format!("{arguments} --json --mpi"), &["", ""]));
        assert_eq!(two.stdout, one, "{two:?}");
    }

    #[test]
    fn processes_have_to_be_alike() {
        let folder = folder("processes_have_to_be_alike");
        let lab = folder.join("own.toml");
        fs::write(&lab, stdout_as_written("lab show torus --file")).unwrap();
        let own = format!("--lab {}", lab.display());
        let other =
            " has another command line: bench halo --mpi --nodes 2 --seed 2, not bench halo";
        let many = "3 processes, but it can be divided into 2 parts";
        for (each, words) in [(&["--seed 1", "--seed 2"][..], other), (&["--seed 1"; 3], many)] {
            let run = Run::of(&mut mpirun("bench halo --mpi --nodes 2", each));
            assert!(run.code > 0 && run.stdout.is_empty(), "{run:?}");
            assert_eq!(run.stderr.matches(words).count(), 1, "once: {run:?}");
        }
        // All have the same error, and say it once.
        let run = Run::of(&mut mpirun(&format!("bench halo --mpi {own}x"), &["", ""]));
        assert!(run.code > 0, "{run:?}");
        assert_eq!(run.stderr.matches("there is no file").count(), 1, "{run:?}");
    }

    /// The process of that rank that a launcher has started, once it is there.
    fn rank_of(launcher: &Child, rank: usize) -> Pid {
        let begin = Instant::now();
        let children = format!("/proc/{0}/task/{0}/children", launcher.id());
        let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
        while begin.elapsed() < PATIENCE {
            let all = fs::read_to_string(&children).unwrap_or_default();
            let found = all.split_whitespace().find(|pid| {
                let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                variables.split(|byte| *byte == 0).any(|it| it == wanted.as_bytes())
            });
            if let Some(pid) = found.and_then(|pid| Pid::from_raw(pid.parse().ok()?)) {
                return pid;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("rank {rank} does not begin");
    }

    /// Waits until a process simulates its part, in a thread of that name. Before that it waits for
    /// its launcher too.
    fn wait_for_the_run(process: Pid) {
        let begin = Instant::now();
        let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
        let is_part = |task| name(task).is_ok_and(|name| name.starts_with("part "));
        while !fs::read_dir(&tasks).is_ok_and(|all| all.flatten().any(is_part)) {
            assert!(begin.elapsed() < PATIENCE, "{process:?} does not begin its part");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether a process has not ended, even if nobody has asked how.
    fn is_running(process: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_killed_process_ends_the_others_with_its_name() {
        let long = "bench halo --mpi --nodes 16 --lattice 8x8x8x8 --iterations 10000";
        for (killed, other) in [(1, 0), (0, 1)] {
            let mut launcher = mpirun(long, &["", ""]);
            let launcher = launcher.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let (victim, survivor) = (rank_of(&launcher, killed), rank_of(&launcher, other));
            wait_for_the_run(victim);
            wait_for_the_run(survivor);
            // They end by themselves, also where the launcher cannot end them.
            kill_process(Pid::from_child(&launcher), Signal::STOP).unwrap();
            kill_process(victim, Signal::KILL).unwrap();
            let begin = Instant::now();
            while is_running(survivor) && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(!is_running(survivor), "rank {other} goes on without rank {killed}");
            kill_process(Pid::from_child(&launcher), Signal::CONT).unwrap();
            let output = launcher.wait_with_output().unwrap();
            let (code, text) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
            assert!(code.is_none_or(|code| code > 0) && output.stdout.is_empty(), "{output:?}");
            let begin = format!("error: rank {killed} on ");
            let said = text.lines().find(|line| line.contains(&begin)).unwrap_or_default();
            assert!(said.ends_with(" does not answer any more"), "{text}");
        }
    }
}
