// SPDX-License-Identifier: Apache-2.0 OR MIT
// Outcomes of runs: the rate, the ceiling, the busiest link's time, and the bottleneck.

import type { Bench, Explanation, Flow, Run, Scenario, Step } from "./answers.ts";
import { make } from "./dom.ts";
import { figure, gain, percent, rate, size, time } from "./format.ts";

/** Uses of a link's time that move data, in the colours of reports; others are waits. */
const COLOURS: Record<string, string> = {
  payload: "c0",
  header: "c1",
  dllp: "c2",
  skp: "c3",
  nothing_to_send: "idle",
};
/** Colours of waits, in turn. */
const WAITS = ["c4", "c5", "c6", "c7", "c8", "c9"];
/** Trials that are shown. */
const SHOWN_TRIALS = 6;

/** The words of a use or a kind: `no_credit` is "no credit". */
function words(name: string): string {
  return name.replaceAll("_", " ").replace(/\b(dllp|skp)\b/g, (word) => word.toUpperCase());
}

/** The rate of a flow: by the engines' timers, or the only one. */
export function rateOf(flow: Flow): number {
  return (
    flow.hardware?.bytes_per_second ??
    flow.bytes_per_second ??
    flow.application_bytes_per_second ??
    0
  );
}

/** The outcome of a run as data. */
export function outcomeOf(run: Run): Bench {
  return JSON.parse(run.json) as Bench;
}

/** The last of its runs, and its figure. */
export function lastOf(run: Run): Scenario | undefined {
  return outcomeOf(run).scenarios.at(-1);
}

function bar(uses: { use: string; share: number }[], label: string): HTMLElement {
  let wait = 0;
  const part = ({ use, share }: { use: string; share: number }) => {
    const colour = COLOURS[use] ?? WAITS[wait++ % WAITS.length]!;
    return { use, share, colour };
  };
  const parts = uses.filter(({ share }) => share > 0.0005).map(part);
  const described = parts.map(({ use, share }) => `${words(use)} ${percent(share)}`).join(", ");
  return make(
    "div",
    { class: "account" },
    make(
      "div",
      { class: "stack", role: "img", "aria-label": `${label}: ${described}` },
      ...parts.map(({ share, colour }) =>
        make("span", { class: colour, style: `flex-grow: ${share}` }),
      ),
    ),
    make(
      "ul",
      { class: "parts" },
      ...parts.map(({ use, share, colour }) =>
        make("li", {}, make("span", { class: `key ${colour}` }), `${words(use)} ${percent(share)}`),
      ),
    ),
  );
}

function flowRow(flow: Flow): HTMLElement {
  const ceiling = flow.ceiling;
  const cell = (text: string, isNumber = true) =>
    make("td", isNumber ? { class: "number" } : {}, text);
  return make(
    "tr",
    {},
    cell(flow.name, false),
    cell(size(flow.bytes)),
    cell(String(flow.iterations)),
    cell(rate(rateOf(flow))),
    cell(ceiling ? rate(ceiling.less_dllps_bytes_per_second) : "–"),
    cell(flow.share_of_ceiling === null ? "–" : percent(flow.share_of_ceiling)),
    cell(flow.latency ? time(flow.latency.typical_ps) : "–"),
  );
}

/** A table in a box that scrolls; all columns but the first are numbers, unless it has none. */
export function table(
  caption: string,
  head: string[],
  rows: HTMLElement[],
  hasNumbers = true,
): HTMLElement {
  const heading = head.map((text, index) =>
    make("th", { scope: "col", class: index && hasNumbers ? "number" : "" }, text),
  );
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    make("table", {}, make("thead", {}, make("tr", {}, ...heading)), make("tbody", {}, ...rows)),
  );
}

/** The headline of a run: its figure. */
export function headline(run: Run): { value: string; note: string } {
  const scenario = lastOf(run);
  const found = run.figures.at(-1);
  if (!scenario || !found) return { value: "no figure", note: run.problem ?? "" };
  const only = scenario.flows.length === 1 ? scenario.flows[0] : undefined;
  const ceiling = only?.ceiling;
  // Of one flow the rate is that which the command prints beside its ceiling.
  const value = only ? rate(rateOf(only)) : figure(found.value, found.better);
  if (!only) return { value, note: `all ${scenario.flows.length} flows together` };
  if (!ceiling || only.share_of_ceiling === null) return { value, note: "" };
  const { direction, less_dllps_bytes_per_second: most } = ceiling;
  const share = percent(only.share_of_ceiling);
  return { value, note: `${share} of what ${direction ?? "the link"} can carry, ${rate(most)}` };
}

/** Shows a run. */
export function shown(run: Run): HTMLElement[] {
  const scenario = lastOf(run);
  if (!scenario) return [make("p", {}, run.problem ?? "The run has no outcome.")];
  const { value, note } = headline(run);
  const parts: HTMLElement[] = [
    make(
      "p",
      { class: "rate-line" },
      make("strong", { id: "rate" }, value),
      " ",
      make("span", {}, note),
    ),
  ];
  const errors = [...(run.problem ? [run.problem] : []), ...scenario.errors];
  if (errors.length) {
    parts.push(
      make("ul", { class: "faults" }, ...errors.slice(0, 8).map((text) => make("li", {}, text))),
    );
  }
  const head = ["flow", "size", "operations", "rate", "ceiling", "of it", "typical time"];
  parts.push(table("Flows", head, scenario.flows.map(flowRow)));
  return parts;
}

/** The limits of a step in words. */
export function namesOf(step: Step): string {
  return step.limits.map((limit) => limit.words).join(" and ");
}

/** Shows why a run was not faster. */
export function explained(why: Explanation | null, reason: string | null): HTMLElement[] {
  if (!why) return [make("p", {}, reason ?? "The run is not explained.")];
  const { better } = why.figure;
  const first = why.steps[0];
  const parts: HTMLElement[] = [];
  if (first) {
    const names = namesOf(first);
    const lifted = first.limits.map((limit) => limit.lifted).join(", ");
    const next = why.steps[1];
    parts.push(
      make(
        "p",
        { class: "verdict", id: "verdict" },
        `Limited by ${names}: ${figure(first.value, better)} (${gain(first.gain)}) `,
        `with that lifted (${lifted}).`,
        next ? ` Then ${namesOf(next)} would limit it.` : "",
      ),
    );
  } else {
    const none = "Nothing that can be lifted makes this run faster.";
    parts.push(make("p", { class: "verdict", id: "verdict" }, none));
  }
  if (why.account) {
    const label = `Time of ${why.account.direction} (${why.account.link})`;
    parts.push(make("h3", {}, label), bar(why.account.uses, label));
  }
  if (why.trials.length) {
    const row = ({ limit, value, gain: by }: Explanation["trials"][number]) =>
      make(
        "tr",
        {},
        make("td", {}, limit.words),
        make("td", {}, limit.lifted),
        make("td", { class: "number" }, figure(value, better)),
        make("td", { class: "number" }, gain(by)),
      );
    const head = ["without the limit", "with", "the run gives", "gain"];
    parts.push(
      make(
        "details",
        { class: "values" },
        make("summary", {}, "Each limit lifted alone"),
        table("Limits", head, why.trials.slice(0, SHOWN_TRIALS).map(row)),
      ),
    );
  }
  if (why.shortened) {
    parts.push(make("p", { class: "note" }, `Searched in a shorter run: ${why.shortened}.`));
  }
  return parts;
}
