// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page: what a user chooses becomes questions to the lab, and answers become what he sees.

import type { Checked, DirectionLoad, Drawn, Labs, LabText, Outline, Run } from "./answers.ts";
import { Build, EMPTY, flowsIn } from "./build.ts";
import { type Asker, Client, loaded, type Progress, Stopped } from "./client.ts";
import { byId, choices, make, save } from "./dom.ts";
import { Editor } from "./editor.ts";
import { Lesson } from "./lesson.ts";
import { gain, figure, rate, size, time } from "./format.ts";
import { type Begin, showMachine } from "./machine.ts";
import { explained, lastOf, namesOf, rateOf, shown, table } from "./result.ts";
import { isServed, ServedClient } from "./served.ts";
import { fragmentOf, stateOf } from "./share.ts";
import {
  changedLab,
  commandOf,
  FIRST,
  type Flow,
  labOf,
  type State,
  Store,
  workOf,
} from "./state.ts";
import { isLogarithmic, Sweep } from "./sweep.ts";
import { TimeLine } from "./time_line.ts";
import { STEPS, Tree } from "./tree.ts";
import { Unanswered } from "./wasm.ts";
import { shownSliders, slidersOf } from "./what_if.ts";

/** Sizes that the list offers; others may be typed. */
const SIZES = ["64", "256", "1K", "4K", "16K", "64K", "256K", "1M", "4M"];
/** Name of a lab whose text is not that of a shipped one. */
const OWN = "your own";

const program = isServed() ? new ServedClient() : null;
const module = program ? null : loaded(new URL("./crosslane.wasm", import.meta.url));
const asker = (): Asker => (module ? new Client(module) : new ServedClient());
// Labs are read and drawn while a run goes on.
const client = asker();
const runner = asker();
const store = new Store(FIRST);
const tree = new Tree(byId("tree"), (node) => (build.isOn ? build.look(node) : choose(node)));
const build = new Build({ client, store, tree, status });
const editor = new Editor(byId("editor"), byId("fault"), (text) => {
  store.change({ text, variant: store.state.variant });
});

const sweep = new Sweep({
  state: () => store.state,
  topology: () => drawn?.topology ?? null,
  constants: (lab) => client.ask({ ask: "constants", lab }),
  run: (state, lab) => ran(state, lab, false),
  running,
  plot: (title, { label, unit, values, lines }) => {
    const x = { label, unit, is_logarithmic: isLogarithmic(values) };
    const shown = lines.map(([name, points]): [string, [number, number][]] => [
      name,
      points.map(([value, rate]) => [value, rate / 1e6]),
    ]);
    const y = { label: "Rate", unit: "MB/s" };
    return client.ask({ ask: "plot", title, x, y, lines: shown });
  },
  status,
});

let labs: Labs | null = null;
let checked: Checked | null = null;
let drawn: Drawn | null = null;
/** The card that the next one is joined with. */
let armed: string | null = null;
/** The flow that cards are chosen for: the last one that was touched. */
let active = 0;
let lastRun: { run: Run; of: string } | null = null;
let loads: DirectionLoad[] = [];
let isRunning = false;
/** Runs that are to be made after those of now. */
let next: (() => Promise<void>) | null = null;
/** Counts checks, so that an answer that comes late is left out. */
let latest = 0;

function status(text: string): void {
  byId("status").textContent = text;
}

function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What the result of a run depends on. */
function keyOf(state: State, lab: unknown): string {
  return JSON.stringify([lab, state.flows, state.mover, state.operations]);
}

// The lab: chosen, read, checked and drawn.

async function textOf(state: State): Promise<string> {
  return state.text ?? client.ask({ ask: "text", name: state.name });
}

async function refresh(): Promise<void> {
  const number = ++latest;
  const state = store.state;
  const lab = labOf(state);
  let outline: Outline | null = null;
  try {
    editor.show(await textOf(state));
    // A text that is no TOML has no outline, and the check says why.
    outline = await client.ask({ ask: "outline", lab }).catch(() => null);
    if (number !== latest) return;
    if (outline && !outline.nodes.length) {
      showEmpty(outline);
      return;
    }
    const found = await client.ask({ ask: "check", lab });
    if (number !== latest) return;
    checked = found;
    editor.fault(null);
    drawn = await client.ask({ ask: "topology", lab, loads });
    if (number !== latest) return;
    showLab();
    showFlows();
    build.show(labs!, outline, null);
  } catch (error) {
    if (number !== latest || error instanceof Stopped) return;
    const failure = error instanceof Unanswered ? error.failure : null;
    editor.fault(
      failure ?? { message: sentenceOf(error), help: null, place: null, is_interrupted: false },
    );
    // While a user builds, the error is beside the part.
    if (failure?.place && !build.isOn) byId<HTMLDetailsElement>("file").open = true;
    if (labs) build.show(labs, outline, failure);
    status(`The lab file has an error; the drawing is that before it. ${sentenceOf(error)}`);
  }
}

/** Shows a lab without nodes, which is no error but a beginning. */
function showEmpty(outline: Outline): void {
  checked = null;
  drawn = null;
  editor.fault(null);
  const said = "Nothing is here yet. Choose a root complex in the palette and add it as a host.";
  tree.blank(make("p", { class: "tree-empty" }, said));
  showChoices();
  byId("summary").textContent = "A lab without nodes.";
  byId("remarks-box").hidden = true;
  byId("what-if-box").hidden = true;
  byId("flows").replaceChildren();
  byId("command").textContent = "";
  byId<HTMLButtonElement>("run").disabled = true;
  build.show(labs!, outline, null);
}

/** Shows the names of labs and variants. */
function showChoices(): void {
  if (!labs) return;
  const { state } = store;
  const shipped = labs.labs.map((lab) => ({ value: lab.name, text: lab.name }));
  const isOwn = state.text !== null;
  choices(
    byId("lab"),
    isOwn ? [{ value: "", text: `${state.name} (${OWN})` }, ...shipped] : shipped,
    isOwn ? "" : state.name,
  );
  const variants = (checked?.variants ?? []).map((name) => ({ value: name, text: name }));
  choices(byId("variant"), [{ value: "", text: "none" }, ...variants], state.variant ?? "");
  byId("variant-line").hidden = variants.length === 0;
}

function showDrawing(): void {
  if (!drawn) return;
  tree.show(drawn);
  marked();
}

/** Shows the same lab with other loads, without a frame that is late. */
async function redraw(found: Drawn): Promise<void> {
  drawn = found;
  if (await tree.showBehind(found)) marked();
}

function marked(): void {
  build.drawn();
  tree.mark(store.state.flows, armed);
  byId("legend").hidden = loads.length === 0;
}

function showLab(): void {
  if (!labs || !checked || !drawn) return;
  const { state } = store;
  showChoices();
  byId("summary").textContent = checked.summary;
  showDrawing();
  tree.reveal(state.flows[0]?.from);
  const found = checked.checked[0];
  const remarks = [...(found?.warnings ?? []), ...(found?.notes ?? [])];
  byId("remarks").replaceChildren(...remarks.map(({ sentence }) => make("li", {}, sentence)));
  byId("remarks-box").hidden = remarks.length === 0;
  const count = remarks.length;
  byId("remarks-count").textContent = count === 1 ? "1 remark" : `${count} remarks`;
  showSliders();
}

// Flows.

/** Takes a card that a user has chosen: the first is where a flow begins, the second its end. */
function choose(node: string): void {
  if (armed === null || armed === node) {
    armed = armed === node ? null : node;
    status(
      armed ? `From ${armed}: choose the card or host whose memory it writes or reads.` : "",
    );
    tree.mark(store.state.flows, armed);
    return;
  }
  const { flows } = store.state;
  const like = flows[active] ?? flows[0] ?? FIRST.flows[0]!;
  const flow: Flow = { ...like, from: armed, to: node };
  const at = Math.min(active, Math.max(flows.length - 1, 0));
  armed = null;
  store.change({ flows: flows.toSpliced(at, 1, flow), what_if: {} });
  status(`A flow from ${flow.from} to ${flow.to}.`);
}

function showFlows(): void {
  if (!checked) return;
  const { hosts, endpoints } = checked.nodes;
  const { state } = store;
  const rows = state.flows.map((flow, index) => {
    const changed = (part: Partial<Flow>) => {
      const flows = store.state.flows.map((it, at) => (at === index ? { ...it, ...part } : it));
      store.change({ flows, what_if: {} });
    };
    const end = (name: "from" | "to", label: string) => {
      const select: HTMLSelectElement = make("select", {
        "aria-label": `${label}, flow ${index + 1}`,
        id: index ? undefined : name,
        onchange: () => changed({ [name]: select.value }),
      });
      const nodes = [...endpoints, ...hosts];
      choices(select, nodes.includes(flow[name]) ? nodes : [flow[name], ...nodes], flow[name]);
      return select;
    };
    const kind: HTMLSelectElement = make("select", {
      "aria-label": `operation, flow ${index + 1}`,
      onchange: () => changed({ kind: kind.value as Flow["kind"] }),
    });
    const kinds = [
      { value: "write", text: "writes" },
      { value: "read", text: "reads" },
    ];
    choices(kind, kinds, flow.kind);
    const bytes: HTMLInputElement = make("input", {
      "aria-label": `bytes of an operation, flow ${index + 1}`,
      list: "sizes",
      size: 6,
      value: flow.size,
      onchange: () => changed({ size: bytes.value.trim() }),
    });
    const remove = make(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-label": `remove flow ${index + 1}`,
        onclick: () =>
          store.change({ flows: store.state.flows.filter((_, at) => at !== index), what_if: {} }),
      },
      "×",
    );
    const parts = [end("from", "from"), kind, end("to", "to"), bytes];
    const touched = () => {
      active = index;
    };
    const row = { class: "flow", onfocusin: touched };
    return make("li", row, ...parts, state.flows.length > 1 && remove);
  });
  byId("flows").replaceChildren(...rows);
  byId<HTMLInputElement>(state.mover).checked = true;
  byId("engine-line").hidden = checked.nodes.engines.length === 0;
  byId<HTMLInputElement>("operations").value = state.operations ? String(state.operations) : "";
  const work = workOf(state, hosts);
  byId("command").textContent = typeof work === "string" ? work : commandOf(state, work);
  byId<HTMLButtonElement>("run").disabled = isRunning || typeof work === "string";
  tree.mark(state.flows, armed);
}

// Runs.

function progressed({ moved, picoseconds, tried }: Progress): void {
  const now = moved ? `${size(moved)} in ${time(picoseconds)} of simulated time` : "";
  const speed = picoseconds ? `, ${rate((moved / picoseconds) * 1e12)}` : "";
  status(tried ? `Searching what limits it: ${tried} runs` : `Running: ${now}${speed}`);
}

/** Time for each direction of a link until its load is drawn anew: browsers lay all of it out. */
const LOAD_PAUSE_MS = 0.25;

/** Shows the loads of links as they are now: in a drawing of loads, which is made once. */
function live(lab: LabText): (now: DirectionLoad[]) => void {
  let isDrawing = false;
  let due = 0;
  return (now) => {
    if (isDrawing || !isRunning) return;
    if (performance.now() < due) return;
    due = performance.now() + LOAD_PAUSE_MS * now.length;
    loads = now;
    if (tree.hasLoads) {
      tree.update(now);
      return;
    }
    isDrawing = true;
    void client
      .ask({ ask: "topology", lab, loads: now })
      .then(async (found) => {
        // A result that came meanwhile has loads of its own.
        if (isRunning && !tree.hasLoads) await redraw(found);
      })
      .catch(() => {})
      .finally(() => {
        isDrawing = false;
      });
  };
}

/** Makes runs while the page shows that it does; a stop ends them. One may wait for another. */
async function running(work: () => Promise<void>): Promise<void> {
  if (isRunning) {
    next = work;
    return;
  }
  isRunning = true;
  byId<HTMLButtonElement>("run").disabled = true;
  byId<HTMLButtonElement>("stop").disabled = false;
  byId("result-box").setAttribute("aria-busy", "true");
  try {
    await work();
    status("");
  } catch (error) {
    if (error instanceof Stopped) {
      status("Stopped.");
      next = null;
    } else {
      status("");
      byId("result").replaceChildren(make("p", { class: "fault" }, sentenceOf(error)));
      byId("why").replaceChildren();
    }
  }
  isRunning = false;
  byId("result-box").setAttribute("aria-busy", "false");
  byId<HTMLButtonElement>("stop").disabled = true;
  showFlows();
  const again = next;
  next = null;
  if (again) await running(again);
}

async function ran(
  state: State,
  lab: LabText,
  why: boolean,
  heard?: (loads: DirectionLoad[]) => void,
): Promise<Run> {
  const work = workOf(state, checked?.nodes.hosts ?? tree.hosts);
  if (typeof work === "string") throw new Error(work);
  return runner.ask({ ask: "run", lab, work, why }, progressed, heard);
}

async function run(): Promise<void> {
  await running(async () => {
    const { state } = store;
    const lab = labOf(state);
    byId("why").replaceChildren();
    byId("compared").replaceChildren();
    const first = await ran(state, lab, false, live(lab));
    lastRun = { run: first, of: keyOf(state, lab) };
    byId("result").replaceChildren(...shown(first));
    byId("text-of-run").textContent = first.text;
    byId("text-box").hidden = false;
    byId("time-box").hidden = false;
    byId("time-line").replaceChildren();
    loads = lastOf(first)?.link_loads ?? [];
    await redraw(await client.ask({ ask: "topology", lab, loads }));
    if (lastOf(first)?.error_count) return;
    const whole = await ran(state, lab, true);
    lastRun = { run: whole, of: keyOf(state, lab) };
    const scenario = lastOf(whole);
    const why = scenario?.why_not_faster ?? null;
    byId("why").replaceChildren(
      make("h2", {}, "Why not faster"),
      ...explained(why, scenario?.not_explained ?? null),
    );
    byId("text-of-run").textContent = whole.text;
    tree.outline(why?.steps[0]?.limits ?? []);
    await compare();
  });
  await showTrace();
}

/** Events of a time line, at most. */
const MOST_EVENTS = 200_000;

/** Makes the run once more for its trace, when a user opens the time line. */
async function showTrace(): Promise<void> {
  if (!byId<HTMLDetailsElement>("time").open || byId("time-line").childElementCount) return;
  await running(async () => {
    const { state } = store;
    const work = workOf(state, checked?.nodes.hosts ?? tree.hosts);
    if (typeof work === "string") throw new Error(work);
    const trace = { most: MOST_EVENTS, values: true };
    const { trace: found } = await runner.ask(
      { ask: "run", lab: labOf(state), work, trace },
      progressed,
    );
    if (!found) return;
    const line = new TimeLine(byId("time-line"), found);
    line.draw();
    new Lesson(byId("lesson"), found, (event) => line.show(event));
  });
}

// The sliders of "what if".

function showSliders(): void {
  if (!drawn) return;
  const sliders = slidersOf(drawn.topology, store.state);
  const made = shownSliders(sliders, store.state.what_if, (what_if) => {
    store.change({ what_if });
    void running(compare);
  });
  byId("sliders").replaceChildren(...made);
  byId("what-if-box").hidden = made.length === 0;
  void sweep.show();
}

/** Makes the run with what sliders change, and shows both. */
async function compare(): Promise<void> {
  const { state } = store;
  const box = byId("compared");
  const changes = Object.values(state.what_if);
  if (!changes.length) {
    box.replaceChildren();
    return;
  }
  try {
    const lab = labOf(state);
    const key = keyOf(state, lab);
    if (lastRun?.of !== key) lastRun = { run: await ran(state, lab, false), of: key };
    const before = lastRun.run;
    const after = await ran(state, changedLab(state), true);
    showCompared(before, after);
  } catch (error) {
    if (error instanceof Stopped) throw error;
    box.replaceChildren(make("p", { class: "fault" }, sentenceOf(error)));
  }
}

function showCompared(before: Run, after: Run): void {
  const flows = (run: Run) => lastOf(run)?.flows ?? [];
  const cell = (text: string, at: number) => make("td", at ? { class: "number" } : {}, text);
  const row = (...texts: [string, string, string, string]) => make("tr", {}, ...texts.map(cell));
  const later = flows(after);
  const rows = flows(before).map((flow, index) => {
    const [first, second] = [rateOf(flow), later[index] ? rateOf(later[index]) : 0];
    return row(flow.name, rate(first), rate(second), gain(first ? second / first - 1 : 0));
  });
  const [first, second] = [before.figures.at(-1), after.figures.at(-1)];
  if (rows.length > 1 && first && second) {
    const by = gain(second.value / first.value - 1);
    const words = (it: typeof first) => figure(it.value, it.better);
    rows.push(row("all together", words(first), words(second), by));
  }
  const why = lastOf(after)?.why_not_faster?.steps[0];
  const faults = lastOf(after)?.errors ?? [];
  byId("compared").replaceChildren(
    table("Before and after", ["flow", "before", "after", "change"], rows),
    ...after.notes.map((note) => make("p", { class: "note" }, note)),
    ...faults.slice(0, 4).map((fault) => make("p", { class: "fault" }, fault)),
    why
      ? make(
          "p",
          { class: "note" },
          `Then limited by ${namesOf(why)}.`,
        )
      : "",
  );
}

// Import, export, share.

async function imported(): Promise<void> {
  const said = byId("import-said");
  const text = byId<HTMLTextAreaElement>("dump").value;
  said.textContent = "Reading…";
  try {
    const name = "twin";
    const twin = await client.ask({ ask: "import", dumps: [{ name: "pasted", text }], name });
    const [first, second] = twin.summary.endpoints.map((endpoint) => endpoint.name);
    // Its first card reads and writes host memory, until others are chosen.
    const lab = { name: "twin.toml", text: twin.text };
    const found = await client.ask({ ask: "check", lab });
    const to = found.nodes.hosts[0] ?? second ?? "";
    const flows = [{ from: first ?? "", to, kind: "write" as const, size: "4K" }];
    forget();
    store.change({ ...lab, variant: null, flows, mover: "generic", what_if: {} });
    byId<HTMLDialogElement>("import").close();
    const gaps = twin.summary.gaps;
    status(
      `${twin.summary.endpoints.length} endpoints.` +
        (gaps.length ? ` The dump does not show all: ${gaps.slice(0, 3).join(" ")}` : ""),
    );
  } catch (error) {
    said.textContent = sentenceOf(error);
  }
}

async function exported(kind: string): Promise<void> {
  const { state } = store;
  const name = state.name.replace(/\.toml$/, "");
  try {
    if (kind === "toml") {
      const text = await client.ask({ ask: "written", lab: changedLab(state) });
      save(`${name}.toml`, text, "application/toml");
    } else if (kind === "svg") {
      const lab = labOf(state);
      const { svg } = await client.ask({ ask: "topology", lab, loads, standing: true });
      save(`${name}.svg`, svg, "image/svg+xml");
    } else if (!lastRun) {
      status("There is no result yet: run first.");
    } else if (kind === "json") {
      save(`${name}.json`, lastRun.run.json, "application/json");
    } else {
      const [lab, outcome] = [labOf(state), lastRun.run.json];
      const command = byId("command").textContent;
      const page = await client.ask({ ask: "report", lab, outcome, command });
      save(`${name}.html`, page, "text/html");
    }
  } catch (error) {
    status(sentenceOf(error));
  }
}

async function share(): Promise<void> {
  const fragment = await fragmentOf(store.state);
  history.replaceState(null, "", `#${fragment}`);
  try {
    await navigator.clipboard.writeText(location.href);
    status("The address is copied: it holds the lab, the flows and the changes.");
  } catch {
    status("The address of this page holds the lab, the flows and the changes.");
  }
}

function turn(isBuilding: boolean): void {
  armed = null;
  build.turn(isBuilding);
  tree.mark(store.state.flows, armed);
}

/** Forgets the last result: it is of another lab. */
function forget(): void {
  lastRun = null;
  sweep.forget();
  loads = [];
  for (const id of ["result", "why", "compared"]) byId(id).replaceChildren();
  for (const id of ["text-box", "time-box"]) byId(id).hidden = true;
  byId<HTMLDetailsElement>("time").open = false;
}

/** Work for a lab that is chosen from the list: its first card and where that writes. */
async function begin(lab: LabText): Promise<void> {
  const found = await client.ask({ ask: "check", lab });
  const { name, text = null, variant = null } = lab;
  const { hosts, endpoints } = found.nodes;
  const [from, to] = name === FIRST.name ? ["fpga1", "fpga5"] : [endpoints[0], hosts[0]];
  const flows = [{ from: from ?? "", to: to ?? "", kind: "write" as const, size: "4K" }];
  forget();
  store.change({ name, text, variant, flows, mover: "generic", what_if: {} });
}

/** Begins a lab by hand. */
function beginEmpty(): void {
  forget();
  const flows = flowsIn({ nodes: [], parts: [] }, []);
  const lab = { name: "mine.toml", text: EMPTY, variant: null };
  build.turn(true);
  build.choose(null);
  store.change({ ...lab, flows, mover: "generic", operations: null, what_if: {} });
  status("A lab without nodes: add a root complex first.");
}

function listen(): void {
  const on = (id: string, event: string, heard: () => unknown) =>
    byId(id).addEventListener(event, heard);
  on("run", "click", run);
  on("stop", "click", () => runner.stop());
  on("undo", "click", () => store.undo());
  on("redo", "click", () => store.redo());
  on("new", "click", beginEmpty);
  on("mode-flows", "change", () => turn(false));
  on("mode-build", "change", () => turn(true));
  on("share", "click", share);
  on("lab", "change", () => {
    const { value } = byId<HTMLSelectElement>("lab");
    if (value) void begin({ name: value }).catch((error) => status(sentenceOf(error)));
  });
  on("variant", "change", () => {
    forget();
    store.change({ variant: byId<HTMLSelectElement>("variant").value || null, what_if: {} });
  });
  on("add", "click", () => {
    const { flows } = store.state;
    active = flows.length;
    store.change({ flows: [...flows, { ...(flows.at(-1) ?? FIRST.flows[0]!) }] });
  });
  for (const mover of ["generic", "engine"] as const) {
    on(mover, "change", () => store.change({ mover }));
  }
  on("operations", "change", () => {
    const count = byId<HTMLInputElement>("operations").valueAsNumber;
    store.change({ operations: Number.isFinite(count) && count >= 1 ? Math.floor(count) : null });
  });
  on("time", "toggle", showTrace);
  on("paste", "click", () => byId<HTMLDialogElement>("import").showModal());
  on("import-read", "click", imported);
  on("import-cancel", "click", () => byId<HTMLDialogElement>("import").close());
  for (const kind of ["toml", "json", "svg", "html"]) {
    on(`export-${kind}`, "click", () => exported(kind));
  }
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && armed !== null) choose(armed);
    const isTyping = (event.target as Element).matches("input, textarea, select");
    if (!(event.ctrlKey || event.metaKey) || isTyping) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) store.redo();
    else store.undo();
  });
  store.hear((state, before) => {
    byId<HTMLButtonElement>("undo").disabled = !store.canUndo;
    byId<HTMLButtonElement>("redo").disabled = !store.canRedo;
    const isSameLab = JSON.stringify(labOf(state)) === JSON.stringify(labOf(before));
    if (isSameLab) {
      showFlows();
      showSliders();
      return;
    }
    if (state.text !== before.text || state.name !== before.name) forget();
    void refresh();
  });
}

/** Begins with the lab that the program was started with. */
async function beginAsStarted(program: ServedClient): Promise<void> {
  const found = await program.told<Begin | null>({ ask: "begin" });
  if (!found) return;
  const { name, text, variant } = found;
  await begin({ name, ...(text === null ? {} : { text }), ...(variant ? { variant } : {}) });
}

async function start(): Promise<void> {
  listen();
  byId("sizes").replaceChildren(...SIZES.map((value) => make("option", { value })));
  const steps = STEPS.map((words, step) =>
    make("li", {}, make("span", { class: `key step${step}` }), words),
  );
  byId("legend").append(...steps);
  try {
    const shared = await stateOf(location.hash);
    labs = await client.ask({ ask: "labs" });
    if (shared) store.change(shared);
    else if (program) await beginAsStarted(program);
    byId("version").textContent = labs.version;
    if (program) showMachine();
    await refresh();
    status("");
    byId("page").dataset["ready"] = "true";
  } catch (error) {
    status(sentenceOf(error));
  }
}

void start();
