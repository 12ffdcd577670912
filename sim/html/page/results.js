// From the documents of --json to what the page shows: every kind of result as cases of one form.

const report = {lossy: "never", results: []};  // what the page was given

/** {key, seconds} of all parts that a case has. They add up to its time. */
function partsOf(kind, raw) {
  const stored = kind === "steps" ? raw.breakdown : raw.parts_s;
  return Object.entries(stored).map(([key, value]) => ({part: partNamed(kind, key), seconds: value}));
}

function stepCase(raw) {
  return {
    time: raw.step_s, gpus: raw.gpus, steps: raw.steps, load: raw.total.load_max_over_mean,
    memory: raw.peak_memory_bytes, room: raw.gpu_memory_bytes, notes: raw.notes || [],
    offHost: raw.total.traffic.other_host_bytes / raw.steps,
    parameterBytes: (raw.total.parameter_traffic.same_host_bytes + raw.total.parameter_traffic.other_host_bytes) / raw.steps,
    migration: raw.migration_share || null, slowest: raw.slowest_compute_s, overlapped: raw.overlapped_communication_s, planning: raw.planning_s,
    busiest: raw.total.peak_link, migrated: raw.total.migrated_bytes / raw.steps,
    altered: (raw.dropped_choices + raw.replaced_choices) / raw.steps, lossy: raw.lossy ?? (raw.dropped_choices + raw.replaced_choices ? "alters choices" : ""),
  };
}

function iterationCase(raw) {
  return {
    time: raw.step_s, gpus: raw.gpus, steps: raw.steps, load: raw.load_max_over_mean,
    memory: raw.peak_memory.bytes, room: raw.peak_memory.gpu_memory_bytes, notes: raw.notes || [],
    migration: raw.migration_share || null, slowest: raw.slowest_compute_s, overlapped: raw.overlapped_s, tokens: raw.tokens_per_s_per_gpu,
    tflops: raw.tflops_per_gpu || null, mfu: raw.mfu || null, fullest: raw.peak_memory, lossy: raw.lossy || "",
  };
}

function caseOf(kind, raw, index) {
  const names = {
    index, raw, kind, pictures: raw.pictures || null, topology: raw.topology, policy: raw.policy, routing: raw.routing || "", fidelity: raw.fidelity,
    ran: raw.unsuitable === undefined, unsuitable: raw.unsuitable || "", cannot_run: raw.cannot_run || "",
  };
  if (!names.ran) return {...names, time: null, parts: [], notes: []};
  const figures = {overBalanced: raw.over_balanced, dollars: raw.usd_per_million_tokens, joules: raw.joules_per_token, intervals: raw.intervals || null};
  const made = {...names, ...figures, ...(kind === "steps" ? stepCase(raw) : iterationCase(raw)), parts: partsOf(kind, raw)};
  made.bound = made.parts.reduce((most, each) => each.seconds > most.seconds ? each : most);
  return made;
}

/** key -> values, in the order of their first. */
function grouped(values, keyOf) {
  const groups = new Map();
  for (const value of values) {
    const key = keyOf(value);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(value);
  }
  return groups;
}

/** Cases that compare have one baseline. */
function groupOf({raw, topology, fidelity}) {
  return raw.baseline ? JSON.stringify([raw.baseline, fidelity]) : `${topology} ${fidelity}`;
}

const isBaseline = ({raw, topology, policy, routing}) => raw.baseline &&
  raw.baseline.topology === topology && raw.baseline.policy === policy && (raw.baseline.routing || "") === routing;

/** Who may be named the best, of cases or of a sweep's rows: no what-if next to what can be (forced balance, what the cluster
 *  cannot run), nor, unless --lossy allow has asked for it or all are lossy cases of one policy, what computes something else. */
function winnersOf(all) {
  const recorded = all.some(each => each.routing !== "balanced"), runs = all.some(each => !each.cannot_run);
  const lossy = report.lossy === "allow" || all.every(each => each.lossy && each.policy === all[0].policy);
  return all.filter(each => (lossy || !each.lossy) && !(recorded && each.routing === "balanced") && !(runs && each.cannot_run));
}

/** The baseline and the fastest of each group. */
function compareWithin(cases) {
  const groups = grouped(cases.filter(shown => shown.ran), groupOf);
  for (const rivals of groups.values()) {
    const first = rivals.find(isBaseline) || rivals.find(shown => shown.routing !== "balanced") || rivals[0];
    const running = winnersOf(rivals);
    for (const shown of rivals) {
      shown.first = first;
      shown.speedup = shown.raw.speedup || first.time / shown.time;
    }
    const most = Math.max(...running.map(shown => shown.speedup));
    for (const shown of rivals) {
      shown.best = running.includes(shown) && shown.speedup === most && running.length > 1;
    }
  }
  return groups;
}

/** "1.05–1.42×" of the 90 % interval of a speedup; none of the baseline. */
function speedupInterval(shown) {
  return shown.intervals && shown !== shown.first ? `${shown.intervals.speedup.map(end => end.toFixed(2)).join("–")}×` : "";
}

/** What a case rests on and nobody measured. */
const notMeasured = ({intervals}) => (intervals && intervals.unmeasured || []).join("; ");

/** Of a case that another recording might put on the other side of its baseline. */
const notTold = ({intervals}) => Boolean(intervals && intervals.told_apart && intervals.told_apart.startsWith("no"));

const named = file => file ? `${file.name}${file.xxh3 ? ` (xxh3 ${file.xxh3})` : ""}` : "";

/** [[what, text]] of where the figures come from. */
function inputsOf(document, name) {
  const many = files => (files || []).map(named).filter(Boolean);
  const topologies = document.topologies || (document.clusters || []).map(cluster => cluster.topology);
  const gpus = (document.clusters || []).flatMap(cluster => cluster.gpu_models || []);
  const seeds = Object.entries(document.seeds || {}).map(([what, seed]) => `${what}: ${seed === null ? "none" : seed}`);
  return [
    ["result file", name], ["simulated by", `moesim ${document.moesim}`],
    ["trace", named(document.trace)], ["model", named(document.model)],
    ["topologies", many(topologies)], ["GPU models", [...new Set(many(gpus))]], ["policies", many(document.policies)],
    ["changed", document.set], ["layers", document.layers && document.layers.join(", ")], ["pass", document.pass],
    ["repeat", document.repeat > 1 ? `${document.repeat}×` : ""],
    ["gradients are summed", document.accumulate === undefined ? "" :
      document.accumulate === "never" ? "never" : `every ${counted(document.accumulate, "step")}`],
    ["seeds", seeds],
  ].filter(([, text]) => Array.isArray(text) ? text.length : text);
}

function settingOf(document) {
  const clusters = document.clusters || document.topologies || [];
  return [document.model && `model ${document.model.name}`, document.trace && document.trace.name && `trace ${document.trace.name}`,
    clusters.length > 1 ? counted(clusters.length, "cluster") : ""].filter(Boolean).join(" · ");
}

/** What a document with cases of one kind becomes. */
function casesOf(kind, unit, name, document) {
  const cases = document.cases.map((raw, index) => caseOf(kind, raw, index));
  const groups = compareWithin(cases);
  const differ = key => new Set(cases.map(shown => shown[key])).size > 1;
  return {
    kind, unit, name, document, cases, groups, clusters: [...groups.values()].some(group => new Set(group.map(shown => shown.topology)).size > 1), inputs: inputsOf(document, name), setting: settingOf(document),
    several: {topology: differ("topology"), fidelity: differ("fidelity"), routing: differ("routing")},
  };
}

/** Kinds of documents, by their `format`. `read(name, document)`: {kind, name, document, cases, inputs, setting, and what
 *  its drawing needs}; `draw(id, result)`: {title, answers: [[what, figure, beside]], bar: controls, sections}. */
const FORMATS = {
  "moesim-result": {
    read: (name, document) => document.step === "engine" ? enginesOf(name, document)
      : document.step === "iteration" ? casesOf("iterations", "iteration", name, document)
      : document.step === "serving" ? casesOf("iterations", "step", name, document)
      : casesOf("steps", "step", name, document),
  },
};

const resultOf = ({name, document}) => FORMATS[document.format].read(name, document);
