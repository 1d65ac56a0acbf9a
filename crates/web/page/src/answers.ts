// SPDX-License-Identifier: Apache-2.0 OR MIT
// Questions to the lab and the types of its answers, as `crates/web` and `crates/results` have
// them. `make check-web` compiles answers of real runs against these types: no key may be missing,
// and none may be there that these do not have.

/** A lab: a shipped one by its name, or the text of a file, and what is changed in it. */
export interface LabText {
  name: string;
  text?: string;
  variant?: string;
  set?: Record<string, number>;
  changes?: Change[];
}

/** A change, in the words of `crosslane what-if`. */
export type Change = { set: string } | { move: string } | { link: string } | { acs: string };

/** Flows between generic requesters and memories, as `crosslane bench traffic` has them. */
export interface Traffic {
  kind: "traffic";
  flows: string[];
  operations?: number;
  outstanding?: number;
  mps?: number;
  in_turn?: boolean;
}

/** Transfers by the driver, as `crosslane bench write`, `read`, `p2p` and others have them. */
export interface Transfers {
  kind: "transfers";
  bench: "write" | "read" | "p2p" | "latency" | "chain";
  from?: string;
  to?: string;
  size?: string;
  iterations?: number;
  outstanding?: number;
  flows?: number;
  by?: "write" | "write-memory" | "read" | "both";
  both_ways?: boolean;
  mps?: number;
}

/** All that can be asked. */
export type Question =
  | { ask: "labs" }
  | { ask: "text"; name: string }
  | { ask: "check"; lab: LabText }
  | { ask: "constants"; lab: LabText }
  | { ask: "topology"; lab: LabText; loads?: DirectionLoad[]; standing?: boolean }
  | {
      ask: "run";
      lab: LabText;
      work: Traffic | Transfers;
      seed?: number;
      why?: boolean;
      trace?: { most?: number; from_ps?: number; values?: boolean };
    }
  | { ask: "report"; lab: LabText; outcome: string; command: string }
  | { ask: "written"; lab: LabText }
  | { ask: "edit"; lab: LabText; edit: Edit }
  | { ask: "outline"; lab: LabText }
  | { ask: "node"; lab: LabText; node: string }
  | { ask: "plot"; title: string; x: PlotAxis; y: PlotAxis; lines: [string, [number, number][]][] }
  | { ask: "import"; dumps: { name: string; text: string }[]; name: string };

/** The answer to a question. */
export type AnswerTo<Q extends Question> = Q extends { ask: "labs" }
  ? Labs
  : Q extends { ask: "text" | "written" | "report" | "plot" }
    ? string
    : Q extends { ask: "check" }
      ? Checked
      : Q extends { ask: "constants" }
        ? Constants
        : Q extends { ask: "topology" }
          ? Drawn
          : Q extends { ask: "run" }
            ? Run
            : Q extends { ask: "import" }
              ? Twin
              : Q extends { ask: "edit" }
                ? Edited
                : Q extends { ask: "outline" }
                  ? Outline
                  : Q extends { ask: "node" }
                    ? NodeView
                    : never;

/** A question that has no answer. */
export interface Failure {
  message: string;
  help: string | null;
  place: Place | null;
  is_interrupted: boolean;
}

/** A place in a lab file. */
export interface Place {
  key: string;
  part: string | null;
  line: number;
  column: number;
  length: number;
}

/** All that is shipped. */
export interface Labs {
  version: string;
  labs: { name: string; summary: string; variants: { name: string; summary: string }[] }[];
  parts: { name: string; kind: string; summary: string }[];
  style: string;
}

/** A lab that can be built. */
export interface Checked {
  name: string;
  summary: string;
  checked: {
    lab: string;
    variant: string | null;
    hosts: number;
    links: number;
    functions: number;
    constants: number;
    warnings: Remark[];
    notes: Remark[];
  }[];
  variants: string[];
  nodes: { hosts: string[]; switches: string[]; endpoints: string[]; engines: string[] };
  notes: string[];
}

/** A property of a lab that slows runs or makes them impossible. */
export interface Remark {
  kind: string;
  nodes: string[];
  sentence: string;
}

/** The constants of a lab with their provenance. */
export interface Constants {
  lab: string;
  summary: string;
  source: string | null;
  variant: string | null;
  variants: { name: string; summary: string }[];
  constants: {
    path: string;
    value: string;
    low?: string;
    high?: string;
    unit: string;
    provenance: string;
    source: string;
    line: number;
  }[];
}

/** A topology and its drawing. */
export interface Drawn {
  topology: Topology;
  svg: string;
}

/** The trees of a lab; keys that the page does not use are left out. */
export interface Topology {
  lab: string;
  hosts: { name: string; functions: Function_[] }[];
}

/** A function of a tree. */
export interface Function_ {
  node: string;
  port: string;
  kind: "endpoint" | "root port" | "upstream port" | "downstream port";
  max_payload_bytes: number;
  max_payload_supported_bytes: number;
  max_generation: number;
  max_width: number;
  link?: { name: string; upper: string; lower: string; generation: number; width: number } | null;
  children?: Function_[];
}

/** A run that was made. */
export interface Run {
  /** An outcome of type `Bench`, as `crosslane bench --json` prints it. */
  json: string;
  text: string;
  figures: (Figure | null)[];
  problem: string | null;
  trace: Trace | null;
  notes: string[];
}

/** The figure that a run is judged by. */
export interface Figure {
  value: number;
  better: "higher" | "lower";
}

/** The trace of a run: events are time, direction, time on the wire (ps), kind, words. */
export interface Trace {
  hash: string;
  count: number;
  directions: string[];
  events: [number, number, number, "tlp" | "replay" | "dllp" | "idle" | "retrain", string][];
  /**
   * Of each event, if asked for: class (0 posted, 1 non-posted, 2 completion, 3 none) and two
   * numbers: of a TLP its number and data credits, of an UpdateFC header and data credits granted
   * since the start, of an Ack or Nak TLPs that had arrived and their bytes.
   */
  values: [number, number, number][];
  /** Of each direction the credits of its receiver at the start, header and data of each class. */
  credits: (number | null)[][];
  /** Of each direction the time from its transmitter to its receiver, if asked for. */
  flights_ps: number[];
}

/** An edit of a lab file, as `crosslane::edit` has them. */
export type Edit =
  | { edit: "add"; part: string; below: string | null }
  | { edit: "remove"; node: string }
  | { edit: "move"; node: string; below: string }
  | { edit: "rename"; node: string; name: string }
  | {
      edit: "set";
      place: string;
      key: string;
      value: Scalar;
      range?: [number, number];
      source?: string;
    }
  | { edit: "unset"; place: string; key: string };

/** A value of a key. */
export type Scalar = boolean | number | string;

/** An axis of a plot. */
export interface PlotAxis {
  label: string;
  unit: string;
  is_logarithmic?: boolean;
}

/** A lab file after an edit. */
export interface Edited {
  text: string;
  /** The node that was added, if one was. */
  added: string | null;
}

/** Nodes and parts of a lab file. */
export interface Outline {
  nodes: {
    name: string;
    kind: "host" | "switch" | "endpoint";
    part: string;
    above: string | null;
    /** Tables that describe it, as errors have them: `endpoint.fpga{1..8}`, `link[2]`. */
    paths: string[];
  }[];
  parts: { name: string; kind: string; summary: string }[];
}

/** A node with every key that it can have. */
export interface NodeView {
  name: string;
  kind: "host" | "switch" | "endpoint";
  part: string;
  /** Nodes that have this part. */
  alike: number;
  tables: TableView[];
}

/** A table of a node; `own` is its path for this node alone, `shared` that of the part. */
export interface TableView {
  name: string;
  words: string;
  own: string;
  shared: string;
  is_absent: boolean;
  keys: KeyView[];
}

/** A key with its declaration and its value. */
export interface KeyView {
  key: string;
  words: string;
  allowed: string;
  schema: Schema;
  unit: string;
  /** Meaning of its absence: `error`, `-`, or the value that holds then. */
  absent: string;
  is_constant: boolean;
  value: Scalar | null;
  range: [number, number] | null;
  source: string | null;
  place: string | null;
}

/** The JSON Schema of a value, as far as lab files need it. */
export interface Schema {
  type?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  enum?: (string | number)[];
  pattern?: string;
  const?: string;
  anyOf?: Schema[];
}

/** The lab of a machine. */
export interface Twin {
  text: string;
  summary: {
    lab: string;
    endpoints: {
      name: string;
      address: string;
      vendor: string;
      device: string;
      class_words: string;
      described?: string;
      link?: string;
      best_link?: string;
      numa_node?: number;
    }[];
    parts: {
      part: string;
      kind: string;
      summary: string;
      is_match: boolean;
      devices: string[];
    }[];
    gaps: string[];
  };
}

/** Outcome of a benchmark in a lab. */
export interface Bench {
  schema: number;
  bench: string;
  lab: string;
  variant?: string;
  seed: number;
  version: string;
  scenarios: Scenario[];
}

/** Outcome of one run. */
export interface Scenario {
  bytes: number | null;
  flows: Flow[];
  while_all_active: {
    from_ps: number;
    to_ps: number;
    bytes: number;
    bytes_per_second: number;
  } | null;
  latency: {
    name: string;
    bytes: number;
    round_trips: number;
    one_way: Latencies;
    plan: Plan | null;
    wrong_words: number;
  } | null;
  links: Link[];
  link_loads: DirectionLoad[];
  links_span_ps: number | null;
  ports_set: string[];
  simulated_ps: number | null;
  tlp_hops: number | null;
  errors: string[];
  error_count: number;
  why_not_faster: Explanation | null;
  not_explained: string | null;
}

/** Durations, picoseconds. */
export interface Latencies {
  min_ps: number;
  typical_ps: number;
  average_ps: number;
  p99_ps: number;
  max_ps: number;
}

/** Outcome of one flow. */
export interface FlowOutcome {
  name: string;
  bytes: number;
  iterations: number;
  in_flight: number | null;
  latency: Latencies | null;
  application_bytes_per_second: number | null;
  hardware: {
    bytes: number;
    first_ps: number;
    last_ps: number;
    bytes_per_second: number;
  } | null;
  bytes_per_second: number | null;
  ceiling: Ceiling | null;
  share_of_ceiling: number | null;
}

/** A flow, with what only one kind of benchmark has. */
export type Flow = FlowOutcome & (TrafficDetail | TransfersDetail);

/** Rate that the links allow for the TLPs of a flow. */
export interface Ceiling {
  bytes_per_second: number;
  less_dllps_bytes_per_second: number;
  payload_bytes: number;
  carrier: string;
  header_dw: number;
  is_estimate: boolean;
  direction: string | null;
}

/** Values of generated traffic. */
export interface TrafficDetail {
  from: string;
  to: string;
  kind: string;
  is_core: boolean;
  is_streaming?: boolean;
  failed: number;
  outstanding: number;
  target: number;
  moved_bytes: number;
  request_tlps: number;
  steady_bytes_per_second: number | null;
}

/** Values of transfers by the driver. */
export interface TransfersDetail {
  moved_bytes: number;
  started_ps: number;
  ended_ps: number;
  post_to_first_tlp_ps: number | null;
  registration_ps: number | null;
  plan: Plan;
  wrong_words: number;
  first_wrong_word: number | null;
  channels: Channel[];
  lanes: ReceiveQueue[];
}

/** The path of a flow, as the driver plans it. */
export interface Plan {
  path: string[];
  max_payload_bytes: number;
  expected_bytes_per_second: number;
  slowest_link: string;
  through_root_complex: boolean;
  not_faster: string[];
}

/** Counters of an engine's channel; clocks are those of the engine. */
export interface Channel {
  device: string;
  kind: string;
  clock_ps: number;
  bytes: number;
  tlps: number;
  fetched: number;
  first_clocks: number;
  last_clocks: number;
  no_descriptor_clocks: number;
  no_data_clocks: number;
  no_tag_clocks: number;
  link_clocks: number;
  no_credit_clocks: number;
  gap_clocks: number;
}

/** Counters of an engine's receive queue. */
export interface ReceiveQueue {
  device: string;
  lane: number;
  clock_ps: number;
  received_bytes: number;
  drained_bytes: number;
  overflow: boolean;
  first_clocks: number;
  last_clocks: number;
}

/** One direction of a link that data crossed. */
export interface Link {
  direction: string;
  generation: number;
  width: number;
  flows: number[];
  bytes_per_second: number;
  ceiling_bytes_per_second: number;
  tlps: number;
  replayed_tlps: number;
  acks: number;
  naks: number;
  update_fcs: number;
  payload_bytes: number;
  header_bytes: number;
  replayed_bytes: number;
  dllp_bytes: number;
  skp_bytes: number;
  share: {
    payload: number;
    header: number;
    replay: number;
    dllp: number;
    skp: number;
    idle: Record<string, number>;
  };
}

/** Load of one direction of a link. */
export interface DirectionLoad {
  direction: string;
  link: string;
  payload_bytes_per_second: number;
  busy_share: number;
  uses: { use: string; share: number }[];
}

/** The bottleneck of a run, and the result of the same run without it. */
export interface Explanation {
  figure: Figure;
  measured: Figure | null;
  shortened: string | null;
  account: {
    direction: string;
    link: string;
    span_ps: number;
    uses: { use: string; share: number }[];
    iommus?: {
      host: string;
      iotlb_entries: number;
      walk_ps: number;
      walks: number;
      requests: number;
      misses: number;
      joined: number;
      walking_ps: number;
      queued_ps: number;
      waited_ps: number;
      walks_at_once: number;
    }[];
  } | null;
  steps: Step[];
  consequence: { use: string; share: number; share_without: number } | null;
  trials: { limit: Limit; value: number; gain: number }[];
}

/** Result of a run with limits lifted. */
export interface Step {
  limits: Limit[];
  value: number;
  gain: number;
}

/** A limit in a lab. */
export interface Limit {
  kind: string;
  place: string;
  words: string;
  lifted: string;
}
