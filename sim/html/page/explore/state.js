// What the user has chosen: one object that is undone, shared and pinned as a whole.

/** Of a base scenario only what was changed: null and empty lists leave it as it is.
 *  {base, text, topologies, policies, model, trace, keys: {KEY: value}, set: {PATH: value}}. */
const blank = () => ({base: "", text: "", topologies: [], policies: [], model: null, trace: null, keys: {}, set: {}});

const history = {
  now: blank(), past: [], future: [], listeners: [],

  follow(listener) { this.listeners.push(listener); },
  tell(how) { this.listeners.forEach(listener => listener(how)); },

  /** What moves while a slider is dragged is no step of its own. */
  drag(change) {
    if (!this.before) this.before = structuredClone(this.now);
    change(this.now);
    this.tell("drag");
  },
  commit(change) {
    const before = this.before || structuredClone(this.now);
    this.before = null;
    if (change) change(this.now);
    if (JSON.stringify(before) === JSON.stringify(this.now)) return;
    this.past.push(before);
    this.future = [];
    this.tell("commit");
  },
  go(from, to) {
    if (!from.length) return;
    to.push(structuredClone(this.now));
    this.now = from.pop();
    this.tell("commit");
  },
  undo() { this.go(this.past, this.future); },
  redo() { this.go(this.future, this.past); },
};

/** What the server is asked for. */
function requestOf(state, more) {
  const flags = {...state.keys};
  if (state.topologies.length) flags.topology = state.topologies;
  if (state.policies.length) flags.policy = state.policies;
  if (state.model) flags.model = state.model;
  if (state.trace) flags.trace = state.trace;
  return {base: state.base, text: state.text, flags, set: Object.entries(state.set).map(([path, value]) => `${path}=${value}`), ...more};
}

const BASE64 = [["+", "-"], ["/", "_"], ["=", ""]];

/** A state as the fragment of an address. The token is never in it. */
function fragmentOf(state) {
  const bytesOf = new TextEncoder().encode(JSON.stringify(state));
  return BASE64.reduce((text, [from, to]) => text.replaceAll(from, to), btoa(Array.from(bytesOf, byte => String.fromCharCode(byte)).join("")));
}

/** The state of a fragment; null if it is none. */
function stateOf(fragment) {
  try {
    const text = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    const read = JSON.parse(new TextDecoder().decode(Uint8Array.from(text, letter => letter.charCodeAt(0))));
    const made = {...blank(), ...read};
    return Object.keys(made).length === Object.keys(blank()).length && Array.isArray(made.topologies) && Array.isArray(made.policies) ? made : null;
  } catch {
    return null;
  }
}

/** [[what, before, after]] of all that two states differ in. */
function changesBetween(before, after) {
  const flat = state => ({scenario: state.text ? "a dropped one" : state.base, clusters: state.topologies.map(short).join(", "), policies: state.policies.join(", "),
    model: state.model || "", trace: state.trace ? short(state.trace) : "", ...state.keys, ...state.set});
  const [a, b] = [flat(before), flat(after)];
  const text = value => value === undefined || value === "" ? "as in the scenario" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(key => text(a[key]) !== text(b[key])).map(key => [key, text(a[key]), text(b[key])]);
}

/** JSON as YAML that a person reads. */
function yamlOf(value, indent = "") {
  const plain = text => /^[A-Za-z][\w./ -]*$/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text) ? text : JSON.stringify(text);
  const leaf = each => typeof each === "string" ? plain(each) : JSON.stringify(each);
  const simple = each => each === null || typeof each !== "object" || (Array.isArray(each) && each.every(item => item === null || typeof item !== "object"));
  const inline = each => Array.isArray(each) ? `[${each.map(leaf).join(", ")}]` : leaf(each);
  if (Array.isArray(value)) {
    return value.map(each => simple(each) ? `${indent}- ${inline(each)}\n` : `${indent}- ${JSON.stringify(each)}\n`).join("");
  }
  return Object.entries(value).filter(([, each]) => each !== undefined).map(([key, each]) => simple(each) ? `${indent}${key}: ${inline(each)}\n`
    : `${indent}${key}:\n${yamlOf(each, `${indent}  `)}`).join("");
}
