// SPDX-License-Identifier: Apache-2.0 OR MIT
// The worker that holds the lab: it is told the compiled module first, then questions. It cannot
// hear anything during a run; the page ends one by ending the worker.

import type { DirectionLoad } from "./answers.ts";
import { Lab } from "./wasm.ts";

/** Milliseconds between two messages about a run. */
const INTERVAL_MS = 100;

/** From the page. */
export type ToWorker = { module: WebAssembly.Module } | { number: number; question: string };

/** To the page. */
export type FromWorker =
  | { number: number; answer: string }
  | { number: number; panic: string }
  | { number: number; loads: DirectionLoad[] }
  | { number: number; moved: number; picoseconds: number; tried: number };

let lab: Promise<Lab> | undefined;
let number = 0;
let moved = 0;
let picoseconds = 0;
let tried = 0;
let told = 0;

function isDue(): boolean {
  return performance.now() - told >= INTERVAL_MS;
}

function tell(): void {
  if (!isDue()) return;
  told = performance.now();
  postMessage({ number, moved, picoseconds, tried } satisfies FromWorker);
}

const watch = {
  isDue,
  moved(bytes: number, ps: number) {
    moved += bytes;
    picoseconds += ps;
    tell();
  },
  loaded(loads: DirectionLoad[]) {
    if (loads.length) postMessage({ number, loads } satisfies FromWorker);
  },
  tried() {
    tried += 1;
    tell();
  },
};

addEventListener("message", async (event: MessageEvent<ToWorker>) => {
  const said = event.data;
  if ("module" in said) {
    lab = Lab.of(said.module, watch);
    return;
  }
  number = said.number;
  moved = picoseconds = tried = 0;
  try {
    const answer = (await lab)!.answer(said.question);
    postMessage({ number: said.number, answer } satisfies FromWorker);
  } catch (error) {
    postMessage({ number: said.number, panic: String(error) } satisfies FromWorker);
  }
});
