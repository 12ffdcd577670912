// The answer: headline, the fastest of every cluster, and one chart at a time.

const shownNow = {result: null, view: null, tab: "time", more: {}, state: null};

const TABS = [
  {id: "time", name: "Bars", has: () => CHARTS, draw: (result, view) => barSection("e-time", result, view)},
  {id: "path", name: "Path", has: result => CHARTS && some(result, shown => shown.raw.critical_path), draw: (result, view) => pathSection("e-path", result, view)},
  {id: "bounds", name: "Bounds", has: result => CHARTS && some(result, shown => shown.raw.time_bounds), draw: (result, view) => boundSection("e-bounds", result, view)},
  ...[["timeline", "Timeline"], ["loads", "Loads"], ["traffic", "Traffic"], ["links", "Links"], ["memory", "Memory"], ["experts", "Experts"]].map(([id, name]) => (
    {id, name, pictures: true, has: result => CHARTS && some(result, shown => shown.pictures && (id !== "memory" || shown.pictures.memory)) && (id !== "experts" || result.document.expert_loads),
      draw: (result, view) => detailSections("e", result, view, id)})),
  {id: "pareto", name: "Pareto", has: result => CHARTS && result.cases.filter(shown => shown.ran).length > 1, draw: result => paretoSection("e-pareto", result)},
  {id: "cases", name: "Cases", has: () => true, draw: (result, view) => tableSection("e-cases", result, view)},
  {id: "explain", name: "Explain", has: () => true, draw: (result, view) => explainSection(result, view)},
  {id: "compare", name: "Compare", has: () => pinned.result !== null, draw: result => compareSection(result)},
  {id: "inputs", name: "Inputs", has: () => true, draw: result => inputSection("e-inputs", result)},
];

/** Draws the tab that is open; others when they are opened. */
function drawPanel() {
  const {result, view} = shownNow;
  const tab = TABS.find(each => each.id === shownNow.tab);
  const panel = document.getElementById("panel");
  if (!tab.has(result)) {
    panel.replaceChildren(element("p", {class: "said"}, tab.pictures ? "It is drawn once the sliders rest." : "There is nothing to draw here."));
    return;
  }
  panel.replaceChildren(...[tab.draw(result, view)].flat().filter(Boolean));
}

function openTab(id, focus) {
  shownNow.tab = id;
  document.querySelectorAll(".tabs button").forEach(button => {
    const on = button.dataset.tab === id;
    button.setAttribute("aria-selected", String(on));
    button.tabIndex = on ? 0 : -1;
    if (on && focus) button.focus();
  });
  document.getElementById("panel").setAttribute("aria-labelledby", `tab-${id}`);
  drawPanel();
}

function tabList(result) {
  const there = TABS.filter(tab => tab.has(result) || tab.pictures && shownNow.more.pictures === false && CHARTS && tab.id !== "memory");
  if (!there.some(tab => tab.id === shownNow.tab)) shownNow.tab = there[0].id;
  const move = event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    const i = there.findIndex(tab => tab.id === shownNow.tab);
    openTab(there[(i + step + there.length) % there.length].id, true);
  };
  return element("div", {class: "tabs", role: "tablist", "aria-label": "charts", onkeydown: move}, there.map(tab => element("button", {
    type: "button", role: "tab", id: `tab-${tab.id}`, "data-tab": tab.id, "aria-controls": "panel", "aria-selected": String(tab.id === shownNow.tab),
    tabindex: tab.id === shownNow.tab ? 0 : -1, onclick: () => openTab(tab.id),
  }, tab.name)));
}

const keyOf = ({topology, policy, routing, fidelity}) => [topology, policy, routing, fidelity].join("\n");

/** Shows a document; the case, filter and order that were chosen stay. */
function show(document_, more, state) {
  const result = resultOf({name: "", document: document_});
  const view = new View(result);
  const before = shownNow.view;
  const same = before && before.chosen && result.cases.find(shown => shown.ran && keyOf(shown) === keyOf(before.chosen));
  view.chosen = same || result.cases.find(shown => shown.best) || result.cases.find(shown => shown.ran);
  if (before) Object.assign(view, {words: before.words, order: before.order});
  Object.assign(shownNow, {result, view, more, state});
  const box = document.getElementById("shown");
  const keep = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.tab;
  box.classList.remove("stale");
  box.replaceChildren(element("h1", {}, titleOf(result)), element("p", {class: "setting"}, result.setting), answerList(answersOf(result)),
    tabList(result), element("div", {id: "panel", class: "panel", role: "tabpanel", tabindex: -1}));
  openTab(shownNow.tab, Boolean(keep));
  window.document.title = `${titleOf(result)} – moesim explore`;
}

/** "Explain this bar": what `moesim explain` says of the chosen case. */
function explainSection(result, view) {
  const said = element("pre", {class: "said", tabindex: 0});
  const button = element("button", {type: "button", onclick: async () => {
    const {topology, policy} = view.chosen;
    button.disabled = true;
    said.textContent = "explaining …";
    try {
      const state = structuredClone(shownNow.state);
      state.topologies = [clustersNow().find(name => (opened.clusters[name] || {}).name === topology) || topology];
      state.policies = [policy];
      const run = await followed(await ask("/api/run", {body: JSON.stringify(requestOf(state, {kind: "explain"}))}));
      said.textContent = run.state === "done" ? run.document.text : run.state === "failed" ? run.failure.error : "cancelled";
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
  }}, "Explain this case");
  return section("e-explain", "Explain", "Why does it take so long?", "Where the time of the first step goes, layer or stage in order, and the least that any plan needs.",
    caseChooser(result, view, () => true), element("div", {class: "controls"}, button), said);
}
