// SPDX-License-Identifier: Apache-2.0 OR MIT
// Writes the style sheet of reports, which the module has: `node style.ts MODULE FILE`.

import { readFileSync, writeFileSync } from "node:fs";
import { Lab } from "../src/wasm.ts";

const [module, file] = process.argv.slice(2);
const lab = await Lab.of(await WebAssembly.compile(readFileSync(module!)));
writeFileSync(file!, lab.ask({ ask: "labs" }).style);
