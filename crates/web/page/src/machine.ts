// SPDX-License-Identifier: Apache-2.0 OR MIT
// The machine of the program that serves the page: its cards, runs on them, and bridge servers.

import type { Run } from "./answers.ts";
import { Stopped } from "./client.ts";
import { byId, choices, make } from "./dom.ts";
import { percent, rate, size, time } from "./format.ts";
import { shown, table } from "./result.ts";
import { ServedClient } from "./served.ts";

/** Time between two looks at bridge servers, ms. */
const INTERVAL_MS = 1000;
/** Age of what is said about a transfer from which it is taken to be gone, s. */
const STALE_S = 10;

/** A PCI function. */
interface Function_ {
  address: string;
  vendor: string;
  device: string;
  class_words: string;
  driver: string | null;
  iommu_group: number | null;
  link: string | null;
}

/** What the doctor has found. */
interface Finding {
  state: string;
  what: string;
  found: string;
  help: string;
}

interface Cards {
  functions: Function_[];
  diagnosis: { findings: Finding[]; problems: number };
  names: string[];
}

/** A stage of a transfer through a bridge. */
interface Stage {
  stage: string;
  bytes: number;
  busy_ps: number;
  waiting_for_slot_ps: number;
}

/** An event of a bridge server. */
interface BridgeEvent {
  time?: number;
  client?: string;
  text?: string;
  /** Bytes of a transfer that goes on. */
  of_bytes?: number;
  report?: { path: string; bytes: number; elapsed_ps: number; stages: Stage[] } | null;
}

interface Bridge {
  file: string;
  events: BridgeEvent[];
  /** Of each transfer that has not ended, how far it is. */
  moving: BridgeEvent[];
  problem: string | null;
}

/** The lab that the program was started with. */
export interface Begin {
  name: string;
  text: string | null;
  variant: string | null;
}

/** Stages of a transfer through a bridge, in words. */
const STAGES: Record<string, string> = {
  RdmaRead: "RDMA read",
  Dma: "DMA",
  RdmaWrite: "RDMA write",
};

const BENCHES = [
  { value: "write", text: "the card writes to host memory" },
  { value: "read", text: "the card reads host memory" },
  { value: "p2p", text: "the card writes to the other card" },
  { value: "latency", text: "messages to the other card and back" },
];

function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function cell(text: string): HTMLElement {
  return make("td", {}, text);
}

/** Shows the machine's part of the page. */
export function showMachine(): void {
  byId("machine-box").hidden = false;
  byId("where").textContent = "on this machine: runs are the program's, on all cores.";
  byId("stays").textContent = "It stays on this machine.";
  // The documentation is elsewhere.
  byId("home").replaceWith("Crosslane");
  const client = new ServedClient();
  const runner = new ServedClient();
  const examined = make("div", { "aria-live": "polite" });
  void client
    .told<Cards>({ ask: "cards" })
    .then((cards) => showCards(cards, client, runner, examined))
    .catch((error) => {
      // Cards of a server are there without a PCI bus.
      byId("cards").replaceChildren(make("p", { class: "note" }, sentenceOf(error)));
      byId("cards").append(form([], runner));
    });
  void watchBridges(new ServedClient());
}

function showCards(
  { functions, diagnosis, names }: Cards,
  client: ServedClient,
  runner: ServedClient,
  examined: HTMLElement,
): void {
  const examine = async (address: string): Promise<void> => {
    examined.replaceChildren(make("p", { class: "note" }, `Examining ${address}…`));
    try {
      const text = await client.told<string>({ ask: "doctor", address });
      examined.replaceChildren(
        make("div", { class: "scroll", tabindex: "0", role: "group" }, make("pre", {}, text)),
      );
    } catch (error) {
      examined.replaceChildren(make("p", { class: "fault" }, sentenceOf(error)));
    }
  };
  const rows = functions.map((it) =>
    make(
      "tr",
      {},
      cell(it.address),
      cell(`${it.vendor}:${it.device} ${it.class_words}`),
      cell(it.driver ?? "–"),
      cell(it.iommu_group === null ? "–" : String(it.iommu_group)),
      cell(it.link ?? "–"),
      make(
        "td",
        {},
        make(
          "button",
          {
            type: "button",
            class: "plain",
            "aria-label": `examine ${it.address}`,
            onclick: () => void examine(it.address),
          },
          "examine",
        ),
      ),
    ),
  );
  const head = ["address", "device", "driver", "group", "link", "doctor"];
  const problems = diagnosis.findings.filter((it) => it.state === "problem");
  const findings = problems.map((it) =>
    make("li", {}, `${it.what}: ${it.found}${it.help ? `. ${it.help}` : ""}`),
  );
  byId("cards").replaceChildren(
    rows.length ? table("PCI functions", head, rows, false) : make("p", {}, "There is no PCI function."),
    findings.length ? make("ul", { class: "faults" }, ...findings) : "",
    examined,
    form(names, runner),
  );
}

/** The form of a run on cards, and its result. */
function form(names: string[], runner: ServedClient): HTMLElement {
  const box = make("div", { "aria-live": "polite" });
  const bench: HTMLSelectElement = make("select", { id: "card-bench" });
  choices(bench, BENCHES, "write");
  const input = (id: string, value: string, list?: string): HTMLInputElement =>
    make("input", { id, value, list, spellcheck: "false" });
  const line = (label: string, field: HTMLElement): HTMLElement =>
    make("div", { class: "line" }, make("label", { for: field.id }, label), field);
  const card = input("card", names[0] ?? "", "card-names");
  const peer = input("card-peer", names[1] ?? "", "card-names");
  const bytes = input("card-size", "64K", "sizes");
  const button = (id: string, text: string, isPrimary: boolean): HTMLButtonElement =>
    make("button", { id, type: "button", class: isPrimary ? "button primary" : "button" }, text);
  const run = button("card-run", "Run", true);
  const stop = button("card-stop", "Stop", false);
  stop.disabled = true;
  stop.addEventListener("click", () => runner.stop());
  run.addEventListener("click", async () => {
    [run.disabled, stop.disabled] = [true, false];
    box.replaceChildren(make("p", { class: "note" }, "Running…"));
    const hasPeer = bench.value === "p2p" || bench.value === "latency";
    const devices = (hasPeer ? [card, peer] : [card]).map((it) => it.value.trim());
    try {
      const question = {
        ask: "run_cards",
        devices,
        bench: bench.value,
        ...(bench.value === "latency" ? {} : { size: bytes.value.trim() }),
      };
      const made = await runner.told<Run>(question);
      box.replaceChildren(
        ...shown(made),
        make("div", { class: "scroll", tabindex: "0", role: "group" }, make("pre", {}, made.text)),
      );
      // The first rate of a page is that of the lab.
      box.querySelector("#rate")?.setAttribute("id", "card-rate");
    } catch (error) {
      const words = error instanceof Stopped ? "Stopped." : sentenceOf(error);
      box.replaceChildren(make("p", { class: "fault" }, words));
    }
    [run.disabled, stop.disabled] = [false, true];
  });
  return make(
    "div",
    {},
    make("h3", {}, "A run on cards"),
    make(
      "p",
      { class: "note" },
      "A card is vfio:ADDRESS once it is bound (crosslane device bind ADDRESS), or ",
      "vfio-user:SOCKET of crosslane lab serve.",
    ),
    make("datalist", { id: "card-names" }, ...names.map((value) => make("option", { value }))),
    line("Card", card),
    line("Transfer", bench),
    line("Other card", peer),
    line("Bytes", bytes),
    make("div", { class: "buttons" }, run, stop),
    box,
  );
}

/** Looks at the bridge servers again and again, while somebody sees the page. */
async function watchBridges(client: ServedClient): Promise<void> {
  for (;;) {
    if (!document.hidden) {
      try {
        const bridges = await client.told<Bridge[]>({ ask: "bridges" });
        if (!bridges.length) return;
        byId("bridges").replaceChildren(...bridges.flatMap(bridgeOf));
      } catch (error) {
        byId("bridges").replaceChildren(make("p", { class: "fault" }, sentenceOf(error)));
      }
    }
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
  }
}

/** The work of a transfer's stages, in words; nothing where there is no report. */
function stagesOf({ report }: BridgeEvent): string {
  if (!report) return "";
  const share = (ps: number) => percent(ps / Math.max(report.elapsed_ps, 1));
  const words = report.stages.map(({ stage, busy_ps, waiting_for_slot_ps }) => {
    const waits = waiting_for_slot_ps ? `, waits ${share(waiting_for_slot_ps)}` : "";
    return `${STAGES[stage] ?? stage} busy ${share(busy_ps)}${waits}`;
  });
  return words.join("; ");
}

/** The bytes that a transfer has moved, and of how many while it goes on. */
function movedOf({ report, of_bytes }: BridgeEvent): string {
  if (!report) return "";
  const total = of_bytes === undefined ? "" : ` of ${size(of_bytes)}`;
  const speed = rate((report.bytes / Math.max(report.elapsed_ps, 1)) * 1e12);
  return `${size(report.bytes)}${total} in ${time(report.elapsed_ps)}, ${speed}`;
}

/** Transfers that go on: how far each is and what its stages do. */
function underWay(moving: BridgeEvent[]): HTMLElement[] {
  const now = Date.now() / 1000;
  // A server that has ended says nothing of its transfers any more.
  const fresh = moving.filter((it) => now - (it.time ?? 0) < STALE_S);
  const rows = fresh.map((it) => {
    const [value, max] = [it.report?.bytes ?? 0, it.of_bytes ?? 1];
    const label = `transfer of ${it.client ?? "a client"}`;
    const bar = make("progress", { value: String(value), max: String(max), "aria-label": label });
    const name = cell(it.client ?? "");
    return make("tr", {}, name, make("td", {}, bar), cell(movedOf(it)), cell(stagesOf(it)));
  });
  const head = ["client", "progress", "moved", "stages"];
  return rows.length ? [table("Under way", head, rows, false)] : [];
}

/** A bridge server: its transfers, each with what its stages did, the newest first. */
function bridgeOf({ file, events, moving, problem }: Bridge): HTMLElement[] {
  const rows = events.toReversed().map((it) => {
    const at = it.time === undefined ? "" : new Date(1000 * it.time).toLocaleTimeString();
    return make("tr", {}, cell(at), cell(movedOf(it)), cell(stagesOf(it)), cell(it.text ?? ""));
  });
  const head = ["time", "moved", "stages", "event"];
  return [
    make("h3", {}, `Bridge ${file}`),
    problem ? make("p", { class: "fault" }, problem) : make("p", { hidden: true }),
    ...underWay(moving),
    rows.length
      ? table("Events", head, rows, false)
      : make("p", { class: "note" }, "No transfer so far."),
  ];
}
