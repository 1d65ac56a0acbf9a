// SPDX-License-Identifier: Apache-2.0 OR MIT
// All that a user has chosen, as one plain object: what is shared, undone and run.

import type { Change, LabText, Traffic, Transfers } from "./answers.ts";

/** A flow as the form has it: FROM moves the data itself. */
export interface Flow {
  from: string;
  to: string;
  kind: "write" | "read";
  size: string;
}

/** Those who move data: generic requesters of the lab, or DMA engines by the driver. */
export type Mover = "generic" | "engine";

/** The choices of a user. */
export interface State {
  /** Name of a shipped lab, or of the file. */
  name: string;
  /** Text of the lab file, if it is not that of the shipped lab. */
  text: string | null;
  variant: string | null;
  mover: Mover;
  flows: Flow[];
  /** Operations of each flow; none: by size. */
  operations: number | null;
  /** What a slider changes, by its name. */
  what_if: Record<string, Change>;
}

/** The lab and the work that the page begins with. */
export const FIRST: State = {
  name: "rosta",
  text: null,
  variant: null,
  mover: "generic",
  flows: [{ from: "fpga1", to: "fpga5", kind: "write", size: "4K" }],
  operations: null,
  what_if: {},
};

/** Most states that can be undone. */
const MOST_UNDONE = 200;

/** The state, its past, and those who hear of changes. */
export class Store {
  #state: State;
  #past: State[] = [];
  #future: State[] = [];
  #heard: ((state: State, before: State) => void)[] = [];

  constructor(state: State) {
    this.#state = state;
  }

  get state(): State {
    return this.#state;
  }

  get canUndo(): boolean {
    return this.#past.length > 0;
  }

  get canRedo(): boolean {
    return this.#future.length > 0;
  }

  /** Changes some of it. */
  change(part: Partial<State>): void {
    const next = { ...this.#state, ...part };
    if (JSON.stringify(next) === JSON.stringify(this.#state)) return;
    this.#past.push(this.#state);
    if (this.#past.length > MOST_UNDONE) this.#past.shift();
    this.#future = [];
    this.#become(next);
  }

  /** Goes back to the state before. */
  undo(): void {
    const before = this.#past.pop();
    if (!before) return;
    this.#future.push(this.#state);
    this.#become(before);
  }

  /** Makes what was undone last again. */
  redo(): void {
    const next = this.#future.pop();
    if (!next) return;
    this.#past.push(this.#state);
    this.#become(next);
  }

  /** Calls a function after each change. */
  hear(heard: (state: State, before: State) => void): void {
    this.#heard.push(heard);
  }

  #become(next: State): void {
    const before = this.#state;
    this.#state = next;
    for (const heard of this.#heard) heard(next, before);
  }
}

/** The lab without what a slider changes. */
export function labOf(state: State): LabText {
  return {
    name: state.name,
    ...(state.text === null ? {} : { text: state.text }),
    ...(state.variant === null ? {} : { variant: state.variant }),
  };
}

/** The lab with what sliders change. */
export function changedLab(state: State): LabText {
  return { ...labOf(state), changes: Object.values(state.what_if) };
}

/** Whether a flow is one between host memory and a card, or between cards. */
function transfersOf(flow: Flow, hosts: string[]): Transfers {
  const { from, to, kind, size } = flow;
  const base = { kind: "transfers", size } as const;
  if (hosts.includes(to)) {
    return { ...base, bench: kind, ...(kind === "write" ? { from } : { to: from }) };
  }
  // A card that reads another's memory is the one that the data go to.
  return kind === "write"
    ? { ...base, bench: "p2p", from, to }
    : { ...base, bench: "p2p", by: "read", from: to, to: from };
}

/** The work that the flows are, or a sentence about why they cannot be. */
export function workOf(state: State, hosts: string[]): Traffic | Transfers | string {
  const { flows, mover, operations } = state;
  const first = flows[0];
  if (!first) return "Add a flow first.";
  if (flows.some(({ from, to }) => !from || !to)) return "Choose the ends of each flow first.";
  if (mover === "generic") {
    const words = flows.map(({ from, to, kind, size }) => `${from}:${to}:${kind}:${size}`);
    return { kind: "traffic", flows: words, ...(operations ? { operations } : {}) };
  }
  if (flows.length > 1) return "The driver moves one flow here: remove the others.";
  if (hosts.includes(first.from)) return "A DMA engine moves the data: begin at a card.";
  return { ...transfersOf(first, hosts), ...(operations ? { iterations: operations } : {}) };
}

function quoted(word: string): string {
  return /^[\w./:=*-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The command line that does the same. */
export function commandOf(state: State, work: Traffic | Transfers): string {
  const file = state.text === null ? state.name : `${state.name.replace(/\.toml$/, "")}.toml`;
  const lab = state.variant === null ? file : `${file}:${state.variant}`;
  const option = (name: string, value: string | number | undefined) =>
    value === undefined ? [] : [`--${name}`, quoted(String(value))];
  const options =
    work.kind === "traffic"
      ? [...work.flows.map((flow) => option("flow", flow)), option("operations", work.operations)]
      : (["from", "to", "by", "size", "iterations"] as const).map((it) => option(it, work[it]));
  const bench = work.kind === "traffic" ? work.kind : work.bench;
  return ["crosslane", "bench", bench, ...option("lab", lab), ...options.flat()].join(" ");
}
