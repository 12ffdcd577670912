// Buttons, the line that tells how far a run is, and what the page begins with.

const button = (text, title, onclick, more = {}) => element("button", {type: "button", title, onclick, ...more}, text);

function saveAs(name, content, type) {
  const link = element("a", {href: URL.createObjectURL(new Blob([content], {type})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function exportReport() {
  const page = await (await ask("/api/report", {body: JSON.stringify(shownNow.result.document)})).blob();
  saveAs("moesim-report.html", page, "text/html");
}

/** Without changes of clusters and policies that were taken out: as a file it would refuse them. */
function sharedScenario() {
  const {topology, policy, set = []} = opened.scenario;
  const names = {topology: [topology].flat(), policy: [policy].flat().map(each => each.name || each)};
  const reaches = change => {
    const found = /^(topology|policy):(.*)$/.exec(typeof change === "string" ? change : "");
    return !found || names[found[1]].some(name => found[2].startsWith(`${name}.`));
  };
  const kept = set.filter(reaches);
  return {...opened.scenario, set: kept.length ? kept : undefined};
}

function share() {
  const fragment = `#s=${fragmentOf(history.now)}`;
  window.history.replaceState(null, "", `/${fragment}`);
  const link = element("input", {readonly: true, "aria-label": "address", value: `${location.origin}/${fragment}`, onfocus: event => event.target.select()});
  const yaml = element("textarea", {readonly: true, "aria-label": "scenario", spellcheck: false});
  yaml.value = yamlOf(sharedScenario());
  tellInDialog("Share what is shown", element("p", {class: "lead"}, "The address opens this state in a moesim explore of somebody else, who pastes it there. It does not hold the token."),
    link, element("p", {class: "lead"}, "Or as a scenario for moesim compare:"), yaml,
    element("div", {class: "controls"}, button("Save as moesim-scenario.yaml", "", () => saveAs("moesim-scenario.yaml", yaml.value, "text/yaml"))));
}

const undo = button("Undo", "Ctrl+Z", () => history.undo()), redo = button("Redo", "Ctrl+Shift+Z", () => history.redo());
const opening = element("input", {type: "file", multiple: true, hidden: true, "aria-label": "open files",
  onchange: () => { takeFiles([...opening.files].map(file => ({path: cleaned(file.name), file}))); opening.value = ""; }});

document.getElementById("actions").append(undo, redo,
  button("Pin", "keeps this state to compare others with it", () => shownNow.result && (pin(shownNow.result, structuredClone(shownNow.state), "The pinned state"))),
  button("Explain", "explains the case whose bar is chosen", () => shownNow.result && (openTab("explain"), document.querySelector("#e-explain .controls button").click())),
  button("Share", "as an address or a scenario", share), button("Report", "saves all charts as one HTML file", () => shownNow.result && exportReport()),
  button("Open …", "a topology, scenario, model, result or profile", () => opening.click()), opening);

const status_ = document.getElementById("status");
let clock = null;

/** What the status line says: {run, more}, {done}, {failed}, {cancelled} or {note}. */
runner.told = said => {
  clearInterval(clock);
  status_.classList.toggle("error", Boolean(said.failed));
  document.getElementById("shown").classList.toggle("stale", Boolean(said.failed) || Boolean(said.run && performance.now() - said.since > 400));
  if (said.failed) return status_.replaceChildren(said.failed);
  if (said.cancelled) return status_.replaceChildren("cancelled: what is shown is the answer before");
  if (said.note) return status_.replaceChildren(said.note);
  const first = said.more || said.done;
  const quick = shownNow.more.quick ? element("span", {class: "quick"}, opened.iteration ? "a first answer, on balanced routing" : "a first answer, by formula") : "";
  if (said.done) return status_.replaceChildren(`answered in ${seconds(said.ms / 1000)}`, quick);
  const passed = element("span");
  const at = said.run.progress || 0, toHere = performance.now() - said.since;
  const tick = () => {
    const now = performance.now() - said.since;
    const left = at > 0.02 ? `, about ${whole(Math.max(1, (toHere / at - now) / 1000))} s left` : "";
    passed.textContent = `${whole(now / 1000)} s${left}`;
  };
  tick();
  clock = setInterval(tick, 500);
  const what = first.quick ? "first answer" : first.pictures ? "charts" : "exact answer";
  status_.replaceChildren(element("progress", {max: 1, value: said.run.progress || null, "aria-label": "progress"}), `${what}: ${percent(said.run.progress || 0)}`, passed, said.run.note,
    quick, button("Cancel", "Escape", () => runner.cancel(), {id: "cancel"}));
};
runner.shown = show;

addEventListener("keydown", event => {
  if (event.key === "Escape" && runner.busy) runner.cancel();
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || /^(text|search)$/.test(event.target.type)) return;
  event.preventDefault();
  if (event.shiftKey) history.redo();
  else history.undo();
});

history.follow(how => {
  undo.disabled = !history.past.length;
  redo.disabled = !history.future.length;
  if (how === "commit") drawControls();
  runner.want(how);
});
opened.listeners.push(drawControls);
addEventListener("hashchange", () => {
  const state = location.hash.startsWith("#s=") && stateOf(location.hash.slice(3));
  if (state) history.commit(now => Object.assign(now, state));
});

async function start() {
  try {
    choices = await (await ask("/api/choices")).json();
  } catch (error) {
    runner.told({failed: error.message});
    return;
  }
  history.now = (location.hash.startsWith("#s=") && stateOf(location.hash.slice(3))) || {...blank(), base: choices.given ? "given" : choices.first};
  history.tell("commit");
}
start();
