// What a result says first: its title, its answers; then its charts, its table, its inputs.

const CHARTS = typeof d3 !== "undefined";

const short = name => name.replace(/^.*\//, "");

/** "1.15× (90 %: 1.05–1.42×)". */
const gainOf = shown => `${times(shown.speedup)}${speedupInterval(shown) ? ` (90 %: ${speedupInterval(shown)})` : ""}`;

const costOf = shown => [shown.dollars && `${digits(shown.dollars)} $ per million tokens`, shown.joules && `${digits(shown.joules)} J per token`]
  .filter(Boolean).map(text => `; ${text}`).join("");

const spentOn = shown => `; most of it ${shown.bound.part.name} (${percent(shown.bound.seconds / shown.time)})`;

/** One policy: every cluster over the first one. */
function clusterAnswers(result, cases) {
  return cases.filter(shown => shown.routing === cases[0].first.routing).map(shown => [
    shown === shown.first ? "baseline" : `over ${shown.first.topology}`,
    shown === shown.first ? shown.topology : `${shown.topology}: ${times(shown.speedup)}`,
    `${seconds(shown.time)} per ${result.unit}${speedupInterval(shown) ? `, 90 %: ${speedupInterval(shown)}` : ""}${costOf(shown)}${spentOn(shown)}`]);
}

/** The fastest of a group, or its only one that may be; null where all compute something else. */
const bestIn = cases => cases.find(each => each.best) || winnersOf(cases)[0] || null;

/** Policies: the fastest of every cluster. */
function policyAnswer(result, cases) {
  const best = bestIn(cases);
  if (!best) return [`on ${cases[0].topology}`, "no winner", "every policy computes something else than the model states (see lossy)"];
  const doubt = notTold(best) ? `, not told apart from it (${best.intervals.told_apart})` : "";
  const gain = best.speedup > 1 ? `${gainOf(best)} as fast as ${best.first.policy}${doubt}` : "the first policy";
  return [`fastest on ${best.topology}${result.several.fidelity ? ` at ${best.fidelity}` : ""}`, nameOf(best, {}),
    `${seconds(best.time)} per ${result.unit}, ${gain}${costOf(best)}${spentOn(best)}`];
}

/** What to read first: the fastest of every cluster, or every cluster. */
function answersOf(result) {
  const groups = [...result.groups.values()];
  return result.clusters ? groups.flatMap(cases => clusterAnswers(result, cases)) : groups.map(cases => policyAnswer(result, cases));
}

/** How sure a headline is, if it is not: another recording, or an error of the simulator, may turn it round. */
function doubtOf(shown) {
  const said = shown.intervals && shown.intervals.told_apart || "";
  if (said.startsWith("no")) return ", not told apart";
  return said.startsWith("measure ") ? `, to be sure ${said}` : "";
}

/** "gb200-512: 2.60× h100-400". */
function clusterTitle(cases) {
  const best = cases.find(each => each.best) || cases[0].first;
  if (best === best.first) return `${best.topology} is the fastest of ${counted(new Set(cases.map(shown => shown.topology)).size, "cluster")}`;
  return `${best.topology}: ${gainOf(best)} ${best.first.topology}`;
}

function titleOf(result) {
  const groups = [...result.groups.values()];
  const best = groups.map(bestIn).filter(Boolean);
  const names = [...new Set(best.map(shown => shown.policy))];
  const ran = result.cases.filter(shown => shown.ran).length;
  if (ran === 1) return `${result.cases.find(shown => shown.ran).policy}: what one ${result.unit} is made of`;
  if (result.clusters) return clusterTitle(groups[0]);
  if (!best.length) return `No policy computes what the model states: ${counted(ran, "case")}`;
  if (groups.length === 1 && best[0] !== best[0].first) {
    return `${names[0]} is the fastest of ${counted(ran, "case")}: ${gainOf(best[0])} ${best[0].first.policy}${doubtOf(best[0])}`;
  }
  if (names.length === 1) return `${names[0]} is the fastest of ${counted(ran, "case")}`;
  const wins = name => groups.filter(cases => cases.some(each => each.best && each.policy === name)).length;
  if (!result.several.fidelity && names.length <= 3) {
    return `Fastest: ${listed(names.map((name, i) => `${name} on ${i ? wins(name) : counted(wins(name), "cluster")}`))}`;
  }
  return `No policy is the fastest everywhere: ${counted(ran, "case")}`;
}

const answerList = answers => element("ul", {class: "answers"}, answers.map(([what, figure, beside]) => element("li", {},
  element("div", {class: "what"}, what), element("div", {class: "figure"}, figure), element("div", {class: "beside"}, beside))));

function inputSection(id, result) {
  const {document} = result;
  const notes = [...(document.warnings || []).map(text => `warning: ${text}`),
    ...result.cases.flatMap(shown => (shown.notes || []).map(text => `${nameOf(shown, result.several || {})} on ${shown.topology} ${text}`)),
    ...result.cases.filter(shown => !shown.ran).map(shown => `${shown.policy} on ${shown.topology} was not run: ${shown.unsuitable}`)];
  const MOST = 12;
  const items = list => list.map(text => element("li", {}, text));
  return section(id, "Inputs", "Where do these figures come from?",
    "Inputs by name and hash: the same inputs give the same figures, whatever machine computes them.",
    element("dl", {class: "inputs"}, result.inputs.map(([what, text]) => [element("dt", {}, what),
      element("dd", {}, (Array.isArray(text) ? text : [text]).map((line, i) => [i ? element("br") : "", String(line)]))])),
    notes.length ? element("ul", {class: "notes"}, items(notes.slice(0, MOST))) : "",
    notes.length > MOST ? element("details", {}, element("summary", {}, `${notes.length - MOST} more notes`), element("ul", {class: "notes"}, items(notes.slice(MOST)))) : "");
}

/** Whether some case that ran has it: what a document does not hold is left out. */
const some = (result, has) => result.cases.some(shown => shown.ran && has(shown));

function chartSections(id, result, view) {
  if (!CHARTS) return [];
  return [
    barSection(`${id}-time`, result, view),
    some(result, shown => shown.raw.critical_path) ? pathSection(`${id}-path`, result, view) : "",
    some(result, shown => shown.raw.time_bounds) ? boundSection(`${id}-bounds`, result, view) : "",
    some(result, shown => shown.raw.elasticities) ? elasticitySection(`${id}-elasticities`, result, view) : "",
    ...detailSections(id, result, view),
  ];
}

function caseSections(id, result) {
  const view = new View(result);
  view.chosen = result.cases.find(shown => shown.best) || result.cases.find(shown => shown.ran);
  return {
    title: titleOf(result), answers: answersOf(result), bar: result.cases.length > 1 ? filterBar(view) : "",
    sections: [...chartSections(id, result, view), tableSection(`${id}-cases`, result, view)],
  };
}

const interruption = ({interrupted}) => interrupted ? element("p", {class: "banner"},
  `Interrupted: ${interrupted.done} of ${counted(interrupted.cases, "case")} are done; the others have no results.`) : "";

FORMATS["moesim-result"].draw = (id, result) => result.kind === "engines" ? engineSections(id, result) : caseSections(id, result);

function article(result, index) {
  const id = `r${index + 1}`;
  const made = FORMATS[result.document.format].draw(id, result);
  const inputs = inputSection(`${id}-inputs`, result);
  return element("article", {id}, element("h1", {}, made.title), element("p", {class: "setting"}, result.setting),
    interruption(result.document), answerList(made.answers), made.bar || "", made.sections, inputs);
}
