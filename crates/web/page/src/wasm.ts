// SPDX-License-Identifier: Apache-2.0 OR MIT
// The module of `crates/web` for one thread: a question in, an answer out. It knows nothing of
// pages, so that a worker, a page and Node have the same.

import type { AnswerTo, DirectionLoad, Failure, Question } from "./answers.ts";

/** Hears of runs. */
export interface Watch {
  /** Bytes that have moved, and the simulated picoseconds of that. */
  moved?(bytes: number, picoseconds: number): void;
  /** Loads of links since the last call. */
  loaded?(loads: DirectionLoad[]): void;
  /** One more run of the search for limits. */
  tried?(): void;
  /** Whether it is time to hear of bytes. */
  isDue?(): boolean;
  /** Whether the run has to end. */
  isOver?(): boolean;
}

interface Exports {
  memory: WebAssembly.Memory;
  crosslane_room(bytes: number): number;
  crosslane_answer(): number;
  crosslane_answer_bytes(): number;
}

/** An address as a number: beyond 2 GiB the module's are negative. */
function placeOf(address: number): number {
  return address >>> 0;
}

/** A question that has no answer, with its place in the lab file. */
export class Unanswered extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** The lab: an instance of the module. */
export class Lab {
  #exports: Exports;

  private constructor(exports: Exports) {
    this.#exports = exports;
  }

  /** Makes an instance. After a panic of the simulator it answers no more. */
  static async of(module: WebAssembly.Module, watch: Watch = {}): Promise<Lab> {
    let exports: Exports;
    const bytesAt = (at: number, bytes: number) =>
      new Uint8Array(exports.memory.buffer, placeOf(at), bytes);
    const env = {
      crosslane_moved: (bytes: number, ps: number) => watch.moved?.(bytes, ps),
      crosslane_loaded: (at: number, bytes: number) =>
        watch.loaded?.(JSON.parse(new TextDecoder().decode(bytesAt(at, bytes)))),
      crosslane_tried: () => watch.tried?.(),
      crosslane_is_due: () => Number(watch.isDue?.() ?? false),
      crosslane_is_over: () => Number(watch.isOver?.() ?? false),
      crosslane_random: (at: number, bytes: number) => {
        crypto.getRandomValues(bytesAt(at, bytes));
      },
      crosslane_panicked: (at: number, bytes: number) => {
        throw new Error(`the simulator failed: ${new TextDecoder().decode(bytesAt(at, bytes))}`);
      },
    };
    const instance = await WebAssembly.instantiate(module, { env });
    exports = instance.exports as unknown as Exports;
    return new Lab(exports);
  }

  /** Answers a question, JSON for JSON. */
  answer(question: string): string {
    const bytes = new TextEncoder().encode(question);
    const room = placeOf(this.#exports.crosslane_room(bytes.length));
    new Uint8Array(this.#exports.memory.buffer, room, bytes.length).set(bytes);
    const at = placeOf(this.#exports.crosslane_answer());
    const length = this.#exports.crosslane_answer_bytes();
    return new TextDecoder().decode(new Uint8Array(this.#exports.memory.buffer, at, length));
  }

  /** Answers a question; throws `Unanswered` if it has no answer. */
  ask<Q extends Question>(question: Q): AnswerTo<Q> {
    return opened(this.answer(JSON.stringify(question)));
  }
}

/** Opens an answer; throws `Unanswered` if it is a failure. */
export function opened<T>(answer: string): T {
  const found = JSON.parse(answer) as { answer: T } | { failure: Failure };
  if ("failure" in found) throw new Unanswered(found.failure);
  return found.answer;
}
