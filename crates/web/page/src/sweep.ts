// SPDX-License-Identifier: Apache-2.0 OR MIT
// Sweeps: the run once for each value of a parameter, as a plot and as CSV.

import type { Constants, LabText, Run, Topology } from "./answers.ts";
import { Stopped } from "./client.ts";
import { byId, choices, make, save } from "./dom.ts";
import { lastOf, rateOf } from "./result.ts";
import { changedLab, type State } from "./state.ts";
import { slidersOf } from "./what_if.ts";

/** Most values of a sweep. */
const MOST_VALUES = 64;
/** Values are drawn by their logarithm if the largest is so many times the smallest. */
const WIDE = 8;

/** A parameter that is swept. */
interface Parameter {
  name: string;
  label: string;
  unit: string;
  /** Values that are offered. */
  offered: number[];
  /** Whether only those are possible. */
  isList: boolean;
  /** The lab and the choices with a value. */
  at(value: number, state: State): { lab: LabText; state: State };
}

/** The parts of the page that sweeping needs. */
export interface SweepPage {
  state(): State;
  topology(): Topology | null;
  constants(lab: LabText): Promise<Constants>;
  /** Makes a run; the page shows that it goes on. */
  run(state: State, lab: LabText): Promise<Run>;
  /** Makes work while the page shows that it runs; a stop ends it. */
  running(work: () => Promise<void>): Promise<void>;
  plot(title: string, swept: Swept): Promise<string>;
  status(text: string): void;
}

/** The outcome of a sweep: of each line a rate for each value, bytes a second. */
export interface Swept {
  label: string;
  unit: string;
  values: number[];
  lines: [string, [number, number][]][];
}

/** Reads values: `64, 128, 1K` or `1..8`. */
export function valuesOf(text: string): number[] {
  const units: Record<string, number> = { "": 1, k: 1 << 10, m: 1 << 20, g: 1 << 30 };
  const read = (word: string): number => {
    const found = /^(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([kmg]?)(?:i?b)?$/i.exec(word.trim());
    const problem = `cannot sweep: "${word.trim()}" is no value, as 64, 1K or 1..8 are`;
    if (!found) throw new Error(problem);
    return Number(found[1]) * units[found[2]!.toLowerCase()]!;
  };
  const values = text
    .split(/[,;\s]+/)
    .filter(Boolean)
    .flatMap((word) => {
      const [first, last] = word.split("..");
      if (last === undefined) return [read(word)];
      const [from, to] = [read(first!), read(last)];
      const count = Math.floor(to - from) + 1;
      if (!(count >= 1)) throw new Error(`cannot sweep: ${word} has no values`);
      // More are refused below; no list is made of them.
      return Array.from({ length: Math.min(count, MOST_VALUES + 1) }, (_, by) => from + by);
    });
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  if (!sorted.length) throw new Error("cannot sweep: give values, as 64, 128, 256");
  if (sorted.length > MOST_VALUES) {
    throw new Error(`cannot sweep: more than the ${MOST_VALUES} values that are possible`);
  }
  return sorted;
}

/** A sweep as CSV: rates in bytes a second. */
export function csvOf({ label, unit, values, lines }: Swept): string {
  const quoted = (text: string) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = [unit ? `${label} (${unit})` : label, ...lines.map(([name]) => `${name} (B/s)`)];
  const row = (value: number, index: number) =>
    [value, ...lines.map(([, points]) => points[index]?.[1] ?? "")].join(",");
  return [head.map(quoted).join(","), ...values.map(row), ""].join("\n");
}

/** Whether values lie better on a logarithmic axis. */
export function isLogarithmic(values: number[]): boolean {
  return values[0]! > 0 && values.at(-1)! >= WIDE * values[0]!;
}

export class Sweep {
  #page: SweepPage;
  #parameters: Parameter[] = [];
  #constants: Constants["constants"] = [];
  #swept: Swept | null = null;
  #over = byId<HTMLSelectElement>("sweep-over");
  #path = byId<HTMLInputElement>("sweep-path");
  #values = byId<HTMLInputElement>("sweep-values");

  constructor(page: SweepPage) {
    this.#page = page;
    this.#over.addEventListener("change", () => this.#offer());
    this.#path.addEventListener("change", () => this.#offer());
    byId("sweep-run").addEventListener("click", () => void this.#run());
    byId("sweep-csv").addEventListener("click", () => {
      if (this.#swept) save("sweep.csv", csvOf(this.#swept), "text/csv");
    });
    byId("sweep").addEventListener("toggle", () => void this.show());
  }

  /** Forgets the last sweep: it is of another lab. */
  forget(): void {
    this.#swept = null;
    byId("sweep-plot").replaceChildren();
    byId("sweep-csv").hidden = true;
  }

  /** Takes the parameters of the lab, if the section is open. */
  async show(): Promise<void> {
    const topology = this.#page.topology();
    if (!byId<HTMLDetailsElement>("sweep").open || !topology) return;
    const state = this.#page.state();
    const size: Parameter = {
      name: "size",
      label: "Bytes of an operation",
      unit: "B",
      offered: [64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536],
      isList: false,
      at: (value, now) => {
        const flows = now.flows.map((flow) => ({ ...flow, size: String(value) }));
        return { lab: changedLab(now), state: { ...now, flows } };
      },
    };
    const sliders = slidersOf(topology, state).map((slider): Parameter => {
      const places = slider.places.map(Number);
      return {
        name: slider.name,
        label: slider.label.replace(/, B$/, ""),
        unit: slider.label.endsWith(", B") ? "B" : "",
        offered: slider.places.filter(Boolean).map(Number),
        isList: true,
        at: (value, now) => {
          const what_if = slider.moved(now.what_if, places.indexOf(value));
          return { lab: changedLab({ ...now, what_if }), state: now };
        },
      };
    });
    this.#parameters = [size, ...sliders];
    const options = this.#parameters.map(({ name, label }) => ({ value: name, text: label }));
    const before = this.#over.value;
    const constant = { value: "constant", text: "A constant…" };
    choices(this.#over, [...options, constant], before || "size");
    const isGone = before !== "" && this.#over.value !== before;
    if (this.#values.value === "" || isGone) this.#offer();
    try {
      const { constants } = await this.#page.constants(changedLab(state));
      this.#constants = constants.filter(({ value }) => Number.isFinite(Number(value)));
      byId("constants").replaceChildren(
        ...this.#constants.map(({ path, value, unit }) =>
          make("option", { value: path, label: `${path}: ${value} ${unit}` }),
        ),
      );
    } catch {
      this.#constants = [];
    }
  }

  /** The parameter that is chosen. */
  #parameter(): Parameter {
    const { value } = this.#over;
    const found = this.#parameters.find(({ name }) => name === value);
    if (found) return found;
    const path = this.#path.value.trim();
    const constant = this.#constants.find((it) => it.path === path);
    if (!path) throw new Error("cannot sweep: choose a constant");
    if (!constant) throw new Error(`cannot sweep: the lab has no number ${path}`);
    const now = Number(constant.value);
    return {
      name: path,
      label: path,
      unit: constant.unit === "1" ? "" : constant.unit,
      offered: now ? [now / 4, now / 2, now, 2 * now, 4 * now] : [0, 1, 2, 4, 8],
      isList: false,
      at: (to, state) => ({ lab: { ...changedLab(state), set: { [path]: to } }, state }),
    };
  }

  #offer(): void {
    const isConstant = this.#over.value === "constant";
    byId("sweep-path-line").hidden = !isConstant;
    if (isConstant && !this.#path.value) {
      this.#values.value = "";
      return;
    }
    try {
      this.#values.value = this.#parameter().offered.join(", ");
    } catch (error) {
      this.#page.status((error as Error).message);
    }
  }

  async #run(): Promise<void> {
    let parameter: Parameter;
    let values: number[];
    try {
      parameter = this.#parameter();
      values = valuesOf(this.#values.value);
      const wrong = parameter.isList && values.find((it) => !parameter.offered.includes(it));
      if (wrong) {
        const known = parameter.offered.join(", ");
        throw new Error(`cannot sweep ${parameter.label} over ${wrong}: it is one of ${known}`);
      }
    } catch (error) {
      this.#page.status((error as Error).message);
      return;
    }
    const said = byId("sweep-said");
    let problem = "";
    await this.#page.running(async () => {
      this.forget();
      try {
        this.#swept = await this.#runs(parameter, values);
        const title = `Rate by ${parameter.label}`;
        byId("sweep-plot").innerHTML = await this.#page.plot(title, this.#swept);
        byId("sweep-csv").hidden = false;
      } catch (error) {
        if (error instanceof Stopped) throw error;
        problem = error instanceof Error ? error.message : String(error);
      }
    });
    said.classList.toggle("fault", !!problem);
    said.textContent = problem || (this.#swept ? `${values.length} runs.` : "Stopped.");
  }

  async #runs(parameter: Parameter, values: number[]): Promise<Swept> {
    const { label, unit } = parameter;
    const swept: Swept = { label, unit, values, lines: [] };
    const add = (line: number, name: string, value: number, rate: number) => {
      swept.lines[line] ??= [name, []];
      swept.lines[line][1].push([value, rate]);
    };
    for (const [index, value] of values.entries()) {
      byId("sweep-said").textContent = `Run ${index + 1} of ${values.length}`;
      const { lab, state } = parameter.at(value, this.#page.state());
      let run: Run;
      try {
        run = await this.#page.run(state, lab);
      } catch (error) {
        if (error instanceof Stopped) throw error;
        throw new Error(`${label} ${value}: ${(error as Error).message}`);
      }
      const flows = lastOf(run)?.flows ?? [];
      // The size of an operation is part of a flow's own name, and may be what is swept.
      flows.forEach((flow, at) => {
        const ends = state.flows[at];
        add(at, `${ends?.from ?? flow.name} → ${ends?.to ?? ""}`, value, rateOf(flow));
      });
      const all = run.figures.at(-1);
      if (flows.length > 1 && all?.better === "higher") {
        add(flows.length, "all together", value, all.value);
      }
    }
    return swept;
  }
}
