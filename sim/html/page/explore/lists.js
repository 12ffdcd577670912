// Lists to choose from: scenario, clusters, model, trace, policies.

let choices = {scenarios: [], topologies: [], models: [], traces: [], policies: [], given: ""};

const option = (value, text, title) => element("option", {value, title}, text);

/** A list of one choice; `nothing`: what no choice means. */
function oneOf(label, names, value, nothing, choose) {
  const select = element("select", {"aria-label": label, onchange: () => choose(select.value)},
    nothing === null ? "" : option("", nothing), names.map(({name, text, description}) => option(name, text || short(name), description)));
  if (value && !names.some(({name}) => name === value)) select.append(option(value, short(value)));
  select.value = value || "";
  return element("label", {class: "field"}, label, select);
}

/** Choices, each with a button that takes it out, and a list of those to add. `press`: works on one of them, now `on`. */
function manyOf(label, names, chosen, {change, press, on}) {
  const rest = names.filter(({name}) => !chosen.includes(name));
  const add = element("select", {"aria-label": `add ${label}`, onchange: () => change([...chosen, add.value])},
    option("", `add a ${label} …`), rest.map(({name, description}) => option(name, short(name), description)));
  const described = name => (names.find(each => each.name === name) || {}).description;
  const chip = name => element("li", {class: press && name === on ? "on" : ""},
    press ? element("button", {type: "button", class: "word", "aria-pressed": String(name === on), title: "show its sliders", onclick: () => press(name)}, short(name))
      : element("span", {class: "word", title: described(name)}, short(name)),
    chosen.length < 2 ? "" : element("button", {type: "button", class: "out", "aria-label": `leave ${short(name)} out`, title: `leave ${short(name)} out`,
      onclick: () => change(chosen.filter(other => other !== name))}, "×"));
  return [element("ul", {class: "chosen", "aria-label": `chosen: ${label}`}, chosen.map(chip)), element("label", {class: "field"}, add)];
}

const namedOf = (list, key) => list.map(each => ({name: each[key], description: each.description}));
const droppedNames = {topologies: [], models: [], traces: []};  // {name: path, description}

/** What is simulated now, whoever said so. */
const clustersNow = () => history.now.topologies.length ? history.now.topologies : Object.keys(opened.clusters);
const policiesNow = () => history.now.policies.length ? history.now.policies : [opened.scenario.policy || []].flat().map(each => each.name || each);

let clusterOn = null;  // the one that sliders change

function scenarioList() {
  const names = namedOf(choices.scenarios, "scenario");
  if (choices.given) names.unshift({name: "given", text: `${short(choices.given)}, as started`, description: `what the command line said: ${choices.given}`});
  return oneOf("scenario", names, history.now.text ? "" : history.now.base, history.now.text ? "the dropped one" : "–", base => history.commit(state => {
    Object.assign(state, {...blank(), base});
  }));
}

function drawLists() {
  const clusters = clustersNow();
  if (!clusters.includes(clusterOn)) [clusterOn = null] = clusters;
  const {now} = history;
  return [
    element("h2", {}, "Scenario"), scenarioList(),
    element("h2", {}, "Clusters"),
    manyOf("cluster", [...droppedNames.topologies, ...namedOf(choices.topologies, "topology")], clusters, {
      on: clusterOn, press: name => { clusterOn = name; drawControls(); },
      change: topologies => history.commit(state => { state.topologies = topologies; clusterOn = topologies[topologies.length - 1]; }),
    }),
    element("h2", {}, "Policies"),
    manyOf("policy", namedOf(choices.policies, "policy"), policiesNow(), {change: policies => history.commit(state => { state.policies = policies; })}),
    element("h2", {}, "Model and routing"),
    oneOf("model", [...droppedNames.models, ...namedOf(choices.models, "model")], now.model || opened.scenario.model, null, model => history.commit(state => { state.model = model; })),
    oneOf("routing trace", [...droppedNames.traces, ...namedOf(choices.traces, "trace")], now.trace || traceName(opened.scenario.trace), "drawn by skew",
      trace => history.commit(state => useTrace(state, trace))),
  ];
}

const traceName = path => path && choices.traces.some(({trace}) => trace === short(path)) ? short(path) : path;

/** A recording, or with none of them routing that is drawn. */
function useTrace(state, trace) {
  for (const key of Object.keys(state.keys)) if (key.startsWith("synth")) delete state.keys[key];
  state.trace = trace || null;
  if (!trace) Object.assign(state.keys, {trace: null, synth: {skew: .5, tokens: 32768}});
  else delete state.keys.trace;
}
