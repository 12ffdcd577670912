// Sweeps: rows of scenarios, the axes in which they differ, and their figures.

const LINE_HUES = ["blue", "vermilion", "green", "purple", "orange", "sky", "wine", "olive", "indigo", "ink", "mint", "grey"];

const isTime = name => !name.includes("per_s") && (name.endsWith("_s") || name.includes("_s."));
const isMore = name => /per_s|mfu|tflops|speedup/.test(name);  // is better

/** A figure of a sweep's column as people read it; the unit follows from the name. */
function figureText(name, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return value;
  if (isTime(name)) return seconds(value);
  return name.endsWith("bytes") || name.includes("_bytes.") ? bytes(value) : digits(value);
}

/** {name, values, numbers}: numbers where all values are some, of one unit. */
function axisOf(name, rows) {
  const values = [...new Set(rows.map(row => row[name]))];
  const read = values.map(value => typeof value === "number" ? [null, value, ""] : /^(-?[\d.]+(?:e[-+]?\d+)?) ?([A-Za-z/%]*)$/.exec(value));
  const numeric = read.every(Boolean) && new Set(read.map(each => each[2])).size === 1;
  return {name, values, numbers: numeric ? new Map(values.map((value, i) => [value, Number(read[i][1])])) : null, unit: numeric ? read[0][2] : ""};
}

/** What one line says of a row: the axes that differ. */
const settingsOf = (row, axes) => axes.filter(axis => axis.values.length > 1).map(axis => [axis.name, String(row[axis.name])]);

function rowTip(row, axes, figures) {
  return {title: settingsOf(row, axes).map(([, value]) => value).join(" · ") || "the scenario",
    rows: [...settingsOf(row, axes), ...figures.map(name => [name, figureText(name, row[name])])]};
}

/** The best row by a figure; the first on ties. */
const bestOf = (rows, figure) => rows.reduce((best, row) => {
  if (typeof row[figure] !== "number") return best;
  if (!best) return row;
  return (isMore(figure) ? row[figure] > best[figure] : row[figure] < best[figure]) ? row : best;
}, null);

/** What a row's time is of, and the two figures that a front shows first. */
function unitOfSweep(figures) {
  if (figures.includes("tpot.p50_s")) return {time: "tpot.p50_s", unit: "later token", rivals: ["tokens_per_s_per_user", "tokens_per_s_per_gpu"]};
  const memory = ["peak_memory_bytes", "peak_memory.bytes"].find(name => figures.includes(name)) || figures[0];
  return {time: "step_s", unit: figures.includes("parts_s.bubble") ? "iteration" : "step", rivals: ["step_s", memory]};
}

function sweepOf(name, document) {
  const rows = document.rows.map(values => Object.fromEntries(document.columns.map((column, c) => [column, values[c]])));
  const axes = document.axes.map(axis => axisOf(axis, rows));
  const ran = rows.filter(row => row.state === "ok");
  const named = new Set([...document.axes, "id"]);
  const figures = document.columns.filter(column => !named.has(column) && ran.some(row => typeof row[column] === "number"));
  const inputs = [["result file", name], ["grid", `${document.file} (xxh3 ${document.grid})`], ["simulated by", document.versions.map(version => `moesim ${version}`)],
    ...Object.entries(document.inputs).map(([what, hashes]) => [what, hashes.map(hash => `xxh3 ${hash}`)])];
  return {kind: "sweep", name, document, cases: [], inputs, setting: `${document.file}: ${axes.map(axis => `${axis.values.length} × ${axis.name}`).join(", ")}`,
    rows, ran, axes, figures, ...unitOfSweep(figures)};
}

/** Rows without figures, by state and reason; `where`: values of axes that all of them have and not all rows. */
function reasonsOf(result) {
  const groups = grouped(result.rows.filter(row => row.state !== "ok"), row => `${row.state} ${row.reason}`);
  return [...groups.values()].sort((a, b) => b.length - a.length).map(rows => ({
    state: rows[0].state, reason: rows[0].reason, count: rows.length,
    where: result.axes.map(axis => [axis, [...new Set(rows.map(row => row[axis.name]))]])
      .filter(([axis, values]) => values.length < axis.values.length && values.length <= 6)
      .map(([axis, values]) => `${axis.name} ${values.join(", ")}`).join("; "),
  }));
}

function reasonSection(id, result) {
  const reasons = reasonsOf(result);
  if (!reasons.length) return "";
  const columns = [{name: "scenarios", value: each => each.count, text: whole}, {name: "state", left: true, value: each => each.state, text: value => value},
    {name: "reason", left: true, value: each => each.reason, text: value => value}, {name: "where", left: true, value: each => each.where, text: value => value}];
  const {fill, save, table} = sortingTable(columns, () => reasons, {label: "what was not run", file: "moesim-not-run.csv", row: rowOfTable});
  fill();
  return section(id, "Not run", "What has no figures, and why?",
    "Unsuitable: the cluster, the model or the trace cannot host it, or it does not fit into memory. Failed: the simulation of it broke.",
    element("div", {class: "controls"}, save), table);
}

const rowOfTable = (row, columns) => element("tr", {}, columns.map(column => {
  const value = column.value(row);
  return element("td", {class: column.left ? "name wrapped" : ""}, value === null || value === undefined ? "–" : column.text(value));
}));

const SHOWN_FIGURES = ["ttft.p50_s", "ttft.p95_s", "tpot.p50_s", "tpot.p95_s", "tokens_per_s_per_user", "goodput_per_s", "step_s", "total.exposed_communication_s", "tokens_per_s_per_gpu", "mfu", "usd_per_million_tokens", "joules_per_token", "peak_memory_bytes", "peak_memory.bytes"];
const MOST_ROWS = 1000;

function rowSection(id, result) {
  const axes = result.axes.map(axis => ({name: axis.name, left: !axis.numbers, value: row => row[axis.name], text: String}));
  const figures = SHOWN_FIGURES.filter(name => result.figures.includes(name))
    .map(name => ({name, value: row => row[name], text: value => figureText(name, value)}));
  const lossy = result.ran.some(row => row.lossy) ? [{name: "lossy", left: true, value: row => row.lossy, text: value => value || "–"}] : [];
  const {fill, save, table} = sortingTable([...axes, ...lossy, ...figures], () => result.ran, {label: "all scenarios", file: "moesim-scenarios.csv", row: rowOfTable, most: MOST_ROWS});
  fill();
  const made = section(id, "Scenarios", "What did every scenario take?",
    `Click a column's name to sort by it. moesim query FILE --format csv has every figure.${result.ran.length > MOST_ROWS ? ` The first ${whole(MOST_ROWS)} of ${whole(result.ran.length)} in this order are shown.` : ""}`,
    element("div", {class: "controls"}, save), table);
  made.classList.add("long");
  return made;
}

function sweepSections(id, result) {
  const best = bestOf(winnersOf(result.ran), result.time), worst = result.ran.reduce((most, row) => row[result.time] > most[result.time] ? row : most, result.ran[0]);
  const counts = ["unsuitable", "failed"].map(state => `${whole(result.rows.filter(row => row.state === state).length)} ${state}`).join(", ");
  const answers = [["scenarios", `${whole(result.ran.length)} of ${whole(result.document.scenarios)} have figures`,
    `${counts}${result.rows.length < result.document.scenarios ? `, ${whole(result.document.scenarios - result.rows.length)} not simulated yet` : ""}`]];
  if (best) {
    answers.push([`fastest ${result.unit}`, seconds(best[result.time]), settingsOf(best, result.axes).map(pair => pair.join(" ")).join(", ")]);
    answers.push([`slowest ${result.unit}`, seconds(worst[result.time]), `${times(worst[result.time] / best[result.time])} as long`]);
  }
  const drawn = CHARTS && best ? [curveSection(`${id}-curves`, result), paretoSection(`${id}-pareto`, result)] : [];
  return {title: `${counted(result.rows.length, "scenario")} of ${result.document.file.replace(/^.*\//, "")}`, answers,
    sections: [...drawn, reasonSection(`${id}-not-run`, result), rowSection(`${id}-scenarios`, result)]};
}

FORMATS["moesim-sweep"] = {read: sweepOf, draw: sweepSections};
