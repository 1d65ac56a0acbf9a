// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page's side of the worker. Questions are answered in their order; ending a run ends the
// worker, and a new one begins with the module that is compiled already.

import type { AnswerTo, DirectionLoad, Question } from "./answers.ts";
import { opened } from "./wasm.ts";
import type { FromWorker } from "./worker.ts";

/** Progress of a run: bytes, simulated picoseconds, runs of the search for limits. */
export interface Progress {
  moved: number;
  picoseconds: number;
  tried: number;
}

/** Thrown by a question whose run was stopped. */
export class Stopped extends Error {
  constructor() {
    super("stopped");
  }
}

/** Answers questions: a worker with the module, or the program that serves the page. */
export interface Asker {
  /** Asks a question; `progress` hears of its run, `loads` of what its links do meanwhile. */
  ask<Q extends Question>(
    question: Q,
    progress?: (progress: Progress) => void,
    loads?: (loads: DirectionLoad[]) => void,
  ): Promise<AnswerTo<Q>>;
  /** Ends what is asked now. */
  stop(): void;
}

interface Waiting {
  answered(answer: string): void;
  failed(error: Error): void;
  progress: ((progress: Progress) => void) | undefined;
  loads: ((loads: DirectionLoad[]) => void) | undefined;
}

/** Loads and compiles the module, also from servers that do not know the type of its file. */
export async function loaded(address: URL): Promise<WebAssembly.Module> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`cannot load ${address.pathname}: ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** A worker with the lab. */
export class Client implements Asker {
  #module: Promise<WebAssembly.Module>;
  #worker: Promise<Worker> | undefined;
  #waiting = new Map<number, Waiting>();
  #number = 0;

  constructor(module: Promise<WebAssembly.Module>) {
    this.#module = module;
  }

  async #start(): Promise<Worker> {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.addEventListener("message", (event: MessageEvent<FromWorker>) => {
      const said = event.data;
      const waiting = this.#waiting.get(said.number);
      if ("moved" in said) {
        waiting?.progress?.(said);
        return;
      }
      if ("loads" in said) {
        waiting?.loads?.(said.loads);
        return;
      }
      this.#waiting.delete(said.number);
      if ("panic" in said) {
        waiting?.failed(new Error(said.panic));
        this.#end(new Error("another question has failed"));
      } else {
        waiting?.answered(said.answer);
      }
    });
    worker.postMessage({ module: await this.#module });
    return worker;
  }

  /** Asks a question; `progress` hears of its run, and `loads` of the links' loads in it. */
  async ask<Q extends Question>(
    question: Q,
    progress?: (progress: Progress) => void,
    loads?: (loads: DirectionLoad[]) => void,
  ): Promise<AnswerTo<Q>> {
    this.#worker ??= this.#start();
    const number = ++this.#number;
    const answer = new Promise<string>((answered, failed) => {
      this.#waiting.set(number, { answered, failed, progress, loads });
    });
    // It may fail before it is waited for.
    answer.catch(() => {});
    (await this.#worker).postMessage({ number, question: JSON.stringify(question) });
    return opened(await answer);
  }

  /** Ends what is asked now. */
  stop(): void {
    this.#end(new Stopped());
  }

  #end(error: Error): void {
    this.#worker?.then((worker) => worker.terminate());
    this.#worker = undefined;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const one of waiting) one.failed(error);
  }
}
