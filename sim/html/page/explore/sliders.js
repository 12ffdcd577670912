// Sliders: keys of the scenario, of the cluster that is worked on, and of policies.

const DOUBLINGS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const upTo = most => DOUBLINGS.filter(value => value <= most);

/** Keys of a topology: {path, name, values} of whole numbers, {path, name, scaled} of quantities from an eighth to eight times. */
const CLUSTER_SLIDERS = [
  {path: "nodes", name: "nodes", values: upTo(256)},
  {path: "node.gpus", name: "GPUs per node", values: [1, 2, 4, 8, 16, 32, 36, 64, 72]},
  {path: "node.nvlink.bandwidth", name: "NVLink", scaled: true},
  {path: "node.nics.count", name: "NICs per node", values: [1, 2, 4, 8, 16, 32, 36, 64, 72]},
  {path: "node.nics.bandwidth", name: "NIC", scaled: true},
  {path: "node.nics.latency", name: "NIC latency", scaled: true},
  {path: "fabric.oversubscription", name: "oversubscription", values: [1, 1.5, 2, 3, 4, 6, 8], missing: 1, of: fabric => ["rail", "leaf-spine", "fat-tree"].includes(fabric.kind)},
  {path: "fabric.latency", name: "fabric latency", scaled: true},
  {path: "wan.bandwidth", name: "WAN", scaled: true},
  {path: "wan.latency", name: "WAN latency", scaled: true},
];

/** Keys of the scenario: of steps, of iterations, of both. */
const SCENARIO_SLIDERS = [
  {key: "ep", name: "expert parallel (EP)", values: upTo(512), steps: true, now: () => Math.max(...Object.values(opened.clusters).map(cluster => cluster.ep))},
  {key: "tokens_per_rank", name: "tokens per GPU", values: [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384], steps: true},
  {key: "repeat", name: "times the trace is played", values: upTo(256), steps: true, missing: 1},
  {key: "parallel.tp", name: "tensor parallel (TP)", values: upTo(64), iterations: true},
  {key: "parallel.pp", name: "pipeline stages (PP)", values: upTo(32), iterations: true},
  {key: "parallel.ep", name: "expert parallel (EP)", values: upTo(512), iterations: true},
  {key: "batch.micro", name: "micro-batch", values: upTo(16), iterations: true},
  {key: "batch.global", name: "global batch", values: [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], iterations: true},
  {key: "batch.sequence", name: "tokens of a sequence", values: [512, 1024, 2048, 4096, 8192, 16384, 32768], iterations: true},
  {key: "synth.skew", name: "skew of the routing", values: [0, .25, .5, .75, 1, 1.25, 1.5, 2], drawn: true},
];

const KNOBS = {"placement.slots": "slots per GPU", "placement.slots_per_gpu": "slots per GPU", "placement.redundant_experts": "redundant experts"};

/** How people call a key of a state: "h100-rail: NIC" for topology:h100-rail.node.nics.bandwidth. */
function sliderName(key) {
  const known = SCENARIO_SLIDERS.find(each => each.key === key);
  if (known) return known.name;
  const cluster = CLUSTER_SLIDERS.find(each => key.startsWith("topology:") && key.endsWith(`.${each.path}`));
  if (cluster) return `${short(key.slice(9, -cluster.path.length - 1))}: ${cluster.name}`;
  const knob = Object.keys(KNOBS).find(each => key.startsWith("policy:") && key.endsWith(`.${each}`));
  return knob ? `${key.slice(7, -knob.length - 1)}: ${KNOBS[knob]}` : key;
}

const at = (keys, path) => path.split(".").reduce((inner, key) => inner === null || inner === undefined ? undefined : inner[key], keys);

/** [number, unit] of "450 GB/s"; null if it is not a quantity. */
function quantityOf(text) {
  const found = /^([\d.]+(?:e[+-]?\d+)?)\s*([A-Za-z/]+)$/.exec(text || "");
  return found ? [Number(found[1]), found[2]] : null;
}

/** A range over `values`, at the one nearest to `value`. `text(value)`: as it is shown and set. */
function slider({id, name, values, value, text, changed, set, reset}) {
  const sorted = [...new Set([...values, value])].sort((a, b) => a - b);
  const output = element("output", {for: id}, text(value));
  const range = element("input", {type: "range", id, min: 0, max: sorted.length - 1, step: 1, "aria-label": name, "aria-valuetext": text(value),
    title: "double click: as in the scenario",
    oninput: () => {
      const moved = sorted[Number(range.value)];
      output.textContent = text(moved);
      range.setAttribute("aria-valuetext", text(moved));
      history.drag(state => set(state, moved));
    },
    onchange: () => history.commit(),
    ondblclick: () => history.commit(reset),
  });
  range.value = sorted.indexOf(value);
  return element("div", {class: changed ? "slider changed" : "slider"}, element("label", {class: "name", for: id}, name), output, range);
}

function clusterSlider({path, name, values, scaled, missing, of}) {
  const cluster = opened.clusters[clusterOn];
  const key = `topology:${clusterOn}.${path}`;
  // What was just chosen counts before the answer that has it.
  const chosen = history.now.set[key];
  const stored = chosen === undefined ? at(cluster.keys, path) : scaled ? chosen : Number(chosen);
  const found = stored === undefined && missing !== undefined && of(at(cluster.keys, path.replace(/\.[^.]*$/, "")) || {}) ? missing : stored;
  const common = {id: `s-${path.replaceAll(".", "-")}`, name, changed: key in history.now.set, reset: state => { delete state.set[key]; }};
  if (!scaled) {
    if (typeof found !== "number") return null;
    return slider({...common, values, value: found, text: String, set: (state, value) => { state.set[key] = String(value); }});
  }
  const quantity = quantityOf(found);
  if (!quantity) return null;
  // The middle stays where it was when the cluster was opened first, else a drag would run away.
  const middles = clusterSlider.middles;
  const middle = middles.get(key) || middles.set(key, quantity).get(key);
  const steps = Array.from({length: 13}, (_, i) => Number((middle[0] * 2 ** ((i - 6) / 2)).toPrecision(3)));
  const text = value => `${value} ${middle[1]}`;
  return slider({...common, values: steps, value: quantity[1] === middle[1] ? quantity[0] : middle[0], text, set: (state, value) => { state.set[key] = text(value); }});
}
clusterSlider.middles = new Map();

function scenarioSlider({key, name, values, steps, iterations, drawn, now, missing}) {
  const serving = Boolean(opened.scenario.serving);
  if ((steps && opened.iteration) || (iterations && (!opened.iteration || serving)) || (drawn && !opened.scenario.synth)) return null;
  const stored = key in history.now.keys ? history.now.keys[key] : at(history.now.keys.synth ? history.now.keys : opened.scenario, key) ?? at(opened.scenario, key);
  const value = stored !== undefined ? stored : now ? now() : missing;
  if (typeof value !== "number" || !isFinite(value)) return null;
  const set = (state, moved) => {
    if (key.startsWith("synth.") && state.keys.synth) state.keys.synth[key.slice(6)] = moved;
    else state.keys[key] = moved;
  };
  return slider({id: `s-${key.replaceAll(".", "-")}`, name, values, value, text: String, changed: key in history.now.keys, set,
    reset: state => { delete state.keys[key]; }});
}

/** Slots and redundant experts of the chosen policies that have them. */
function knobSliders() {
  return policiesNow().flatMap(policy => {
    const {knobs = []} = choices.policies.find(each => each.policy === policy) || {};
    return knobs.map(knob => {
      const key = `policy:${policy}.${knob}`;
      const value = Number(history.now.set[key] || 0);
      return slider({id: `s-${policy}-${knob.replaceAll(".", "-")}`, name: `${policy}: ${KNOBS[knob]}`, values: [0, 1, 2, 3, 4, 6, 8, 16, 32, 64], value,
        text: each => each === 0 && !(key in history.now.set) ? "its own" : String(each), changed: key in history.now.set,
        set: (state, moved) => { state.set[key] = String(moved); }, reset: state => { delete state.set[key]; }});
    });
  });
}

function drawSliders() {
  const made = [];
  const scenario = SCENARIO_SLIDERS.map(scenarioSlider).filter(Boolean);
  if (scenario.length) made.push(element("h2", {}, opened.iteration ? "Training" : "Step"), ...scenario);
  if (opened.clusters[clusterOn]) {
    const sliders = CLUSTER_SLIDERS.map(clusterSlider).filter(Boolean);
    if (sliders.length) made.push(element("h2", {}, short(clusterOn)), ...sliders);
  }
  const knobs = knobSliders();
  if (knobs.length) made.push(element("h2", {}, "Placement"), ...knobs);
  return made;
}

/** Draws lists and sliders anew; not while one of them is dragged, and the focus stays where it was. */
function drawControls() {
  if (history.before) return;
  const box = document.getElementById("controls");
  const focused = document.activeElement && box.contains(document.activeElement) ? document.activeElement : null;
  const mark = focused && (focused.id ? `#${focused.id}` : focused.getAttribute("aria-label") ? `[aria-label="${focused.getAttribute("aria-label")}"]` : null);
  const {scrollTop} = box;
  box.replaceChildren(...[drawLists(), drawSliders()].flat(Infinity).filter(Boolean));
  box.scrollTop = scrollTop;
  const again = mark && box.querySelector(mark);
  if (again) again.focus({preventScroll: true});
}
