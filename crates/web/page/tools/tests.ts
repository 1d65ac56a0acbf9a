// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs a program of Rust's tests, compiled for WASI: `node tests.ts ROOT PROGRAM ARGUMENT...`. It sees the tree at
// ROOT, where snapshots lie, and has neither threads nor processes.

import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const [root, program, ...options] = process.argv.slice(2);
const wasi = new WASI({
  version: "preview1",
  args: [program!, ...options],
  env: process.env,
  preopens: { [root!]: root!, ".": process.cwd() },
});
const module = await WebAssembly.compile(readFileSync(program!));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance as never);
