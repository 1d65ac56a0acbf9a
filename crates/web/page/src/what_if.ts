// SPDX-License-Identifier: Apache-2.0 OR MIT
// "What if": sliders for payloads, tags, and the rate of a link, each a change of the lab in the
// words of `crosslane what-if`.

import type { Change, Function_, Topology } from "./answers.ts";
import { make } from "./dom.ts";
import type { State } from "./state.ts";

/** The changes of sliders, by their keys. */
type Changes = State["what_if"];

/** A slider: its places, and the one that the lab has as it is. */
export interface Slider {
  name: string;
  label: string;
  /** Values in order, as words; the empty one is that of the lab, whatever it is. */
  places: string[];
  /** The place of the lab as it is. */
  now: number;
  /** The place that changes have chosen. */
  at(changes: Changes): number;
  /** The changes with another place. */
  moved(changes: Changes, place: number): Changes;
}

const PAYLOADS = [128, 256, 512, 1024, 2048, 4096];
const TAGS = [4, 8, 16, 32, 64, 128, 256];
const WIDTHS = [1, 2, 4, 8, 16];
const GENERATIONS = [1, 2, 3, 4, 5, 6];

function functions(topology: Topology): { host: string; function: Function_ }[] {
  const all: { host: string; function: Function_ }[] = [];
  const walk = (host: string, found: Function_[]) => {
    for (const one of found) {
      all.push({ host, function: one });
      walk(host, one.children ?? []);
    }
  };
  for (const host of topology.hosts) walk(host.name, host.functions);
  return all;
}

function without(changes: Changes, key: string): Changes {
  return Object.fromEntries(Object.entries(changes).filter(([name]) => name !== key));
}

/** A slider of one setting, `PATH=VALUE`. */
function setting(name: string, label: string, path: string, values: number[], now: number): Slider {
  const known = values.indexOf(now);
  const places = known < 0 ? ["", ...values.map(String)] : values.map(String);
  const asItIs = Math.max(known, 0);
  const change = (place: number): Change => ({ set: `${path}=${places[place]}` });
  const same = (a: Change | undefined, b: Change) => JSON.stringify(a) === JSON.stringify(b);
  return {
    name,
    label,
    places,
    now: asItIs,
    at: (changes) => {
      const found = places.findIndex((_, place) => same(changes[name], change(place)));
      return found < 0 ? asItIs : found;
    },
    moved: (changes, place) =>
      place === asItIs ? without(changes, name) : { ...changes, [name]: change(place) },
  };
}

/** Two sliders of a link, generation and lanes, which are one change: `NODE=GxN`. */
function linkOf(node: string, now: [number, number]): Slider[] {
  const key = "link";
  const chosen = (changes: Changes): [number, number] => {
    const change = changes[key];
    const found = change && "link" in change && /=(\d+)x(\d+)$/.exec(change.link);
    return found ? [Number(found[1]), Number(found[2])] : now;
  };
  const slider = (which: 0 | 1, name: string, label: string, values: number[]): Slider => ({
    name,
    label,
    places: values.map(String),
    now: values.indexOf(now[which]),
    at: (changes) => values.indexOf(chosen(changes)[which]),
    moved: (changes, place) => {
      const rate: [number, number] = [...chosen(changes)];
      rate[which] = values[place]!;
      const isSame = rate[0] === now[0] && rate[1] === now[1];
      const change = { link: `${node}=${rate[0]}x${rate[1]}` };
      return isSame ? without(changes, key) : { ...changes, [key]: change };
    },
  });
  return [
    slider(0, "generation", `Generation of ${node}'s link`, GENERATIONS),
    slider(1, "width", `Lanes of ${node}'s link`, WIDTHS),
  ];
}

/** The sliders of a flow's requester and its tree. */
export function slidersOf(topology: Topology, state: Pick<State, "flows">): Slider[] {
  const flow = state.flows[0];
  const all = functions(topology);
  const found = [flow?.from, flow?.to]
    .map((name) => all.find((it) => it.function.node === name && it.function.link))
    .find(Boolean);
  if (!found) return [];
  const { host, function: card } = found;
  const { node, link } = card;
  const payload = card.max_payload_bytes;
  return [
    setting("mps", `Max_Payload_Size below ${host}, B`, `${host}.mps`, PAYLOADS, payload),
    setting("tags", `Tags of ${node}`, `${node}.tags`, TAGS, -1),
    ...linkOf(node, [link!.generation, link!.width]),
  ];
}

/** Shows sliders; `changed` gets all changes when one was moved. */
export function shownSliders(
  sliders: Slider[],
  changes: Changes,
  changed: (changes: Changes) => void,
): HTMLElement[] {
  return sliders.map((slider) => {
    const id = `slider-${slider.name}`;
    const words = (place: number) => {
      const value = slider.places[place];
      return place === slider.now ? `${value || ""} as it is`.trim() : value!;
    };
    const at = slider.at(changes);
    const output = make("output", { for: id }, words(at));
    const input: HTMLInputElement = make("input", {
      id,
      type: "range",
      min: 0,
      max: slider.places.length - 1,
      value: at,
      "aria-valuetext": words(at),
      oninput: () => {
        output.value = words(input.valueAsNumber);
        input.setAttribute("aria-valuetext", output.value);
      },
      onchange: () => changed(slider.moved(changes, input.valueAsNumber)),
    });
    const label = make("label", { for: id }, slider.label);
    return make("div", { class: "slider" }, label, output, input);
  });
}
