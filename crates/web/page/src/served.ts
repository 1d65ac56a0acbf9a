// SPDX-License-Identifier: Apache-2.0 OR MIT
// The other end of questions where the program `crosslane ui` serves the page: it answers them
// itself, line by line as the worker's messages are, and runs are this machine's own.

import type { AnswerTo, DirectionLoad, Question } from "./answers.ts";
import { type Asker, type Progress, Stopped } from "./client.ts";
import { opened } from "./wasm.ts";

/** Whether the program serves this page: it says so in its head. */
export function isServed(): boolean {
  return document.querySelector<HTMLMetaElement>('meta[name="runs"]')?.content === "program";
}

/** Those who hear of a run. */
interface Hears {
  progress?: ((progress: Progress) => void) | undefined;
  loads?: ((loads: DirectionLoad[]) => void) | undefined;
}

/** Asks the program, one question after the other. */
export class ServedClient implements Asker {
  #last: Promise<unknown> = Promise.resolve();
  #stop = new AbortController();

  /** Asks a question; `progress` hears of its run, `loads` of what its links do meanwhile. */
  ask<Q extends Question>(
    question: Q,
    progress?: (progress: Progress) => void,
    loads?: (loads: DirectionLoad[]) => void,
  ): Promise<AnswerTo<Q>> {
    return this.told(question, { progress, loads });
  }

  /** Asks a question that only the program answers. */
  async told<T>(question: object, hears: Hears = {}): Promise<T> {
    const { signal } = this.#stop;
    const answer = this.#last.then(() => sent(JSON.stringify(question), signal, hears));
    this.#last = answer.catch(() => {});
    return opened(await answer);
  }

  /** Ends what is asked now: the program ends the run of a connection that ends. */
  stop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
  }
}

/** Sends a question, and returns its answer, the last line of what comes back. */
async function sent(
  body: string,
  signal: AbortSignal,
  hears: Hears,
): Promise<string> {
  try {
    const address = new URL("./ask", import.meta.url);
    const response = await fetch(address, { method: "POST", body, signal });
    if (!response.ok || !response.body) throw new Error((await response.text()).trim());
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let line = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the program ended before it answered");
      // Only the last line is long; it is searched for its end as it comes.
      const [first, ...others] = value.split("\n");
      line += first;
      for (const next of others) {
        if (line.startsWith('{"moved"')) hears.progress?.(JSON.parse(line) as Progress);
        else if (line.startsWith('{"loads"')) hears.loads?.((JSON.parse(line) as Loads).loads);
        else if (line.startsWith('{"panic"')) throw new Error((JSON.parse(line) as Panic).panic);
        else return line;
        line = next;
      }
    }
  } catch (error) {
    if (signal.aborted) throw new Stopped();
    if (error instanceof TypeError) throw new Error("the program has ended: start it again");
    throw error;
  }
}

interface Panic {
  panic: string;
}

interface Loads {
  loads: DirectionLoad[];
}
