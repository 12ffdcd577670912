// All cases as a table that sorts, and the same as a file for spreadsheets.

/** {name, value(case), text(value), left} of a column of the table. A column without any value is left out. */
function columnsOf(result) {
  const figure = (name, value, text) => ({name, value, text});
  const label = name => ({name, value: shown => shown[name], text: value => value, left: true});
  const columns = [
    ...["topology", "routing", "fidelity"].filter(key => result.several[key]).map(label),
    figure(result.unit, shown => shown.time, seconds), figure("speedup", shown => shown.speedup, times),
    {name: "cannot run", value: shown => shown.cannot_run, text: value => value || "–", left: true},
    {name: "lossy", value: shown => shown.lossy, text: value => value || "–", left: true},
    {name: "90 % of speedups", value: shown => shown.ran ? speedupInterval(shown) : "", text: value => value},
    {name: "told apart", left: true, value: shown => shown.intervals && shown.intervals.told_apart, text: value => value},
    {name: "not measured", left: true, value: shown => notMeasured(shown), text: value => value},
    figure("$/Mtoken", shown => shown.dollars, digits), figure("J/token", shown => shown.joules, digits),
    figure("over balanced", shown => shown.overBalanced, signedPercent),
    {name: "largest part", value: shown => shown.bound && shown.bound.part.name, text: value => value, left: true},
    figure("tokens/s/GPU", shown => shown.tokens, whole), figure("TFLOP/s/GPU", shown => shown.tflops, digits),
    figure("MFU", shown => shown.mfu, value => percent(value, 1)),
    ...PARTS[result.kind].map(part => figure(part.name,
      shown => (shown.parts.find(each => each.part.key === part.key) || {}).seconds, seconds)),
    {name: "most of the path", left: true, text: value => value, value: shown => shown.ran && mostOfPath(shown)},
    ...BOUNDS.map(bound => figure(`bound: ${bound.name}`,
      shown => shown.ran ? (boundsOf(shown).find(each => each.bound === bound) || {}).share : null, value => percent(value, 1))),
    figure("slowest GPU computes", shown => shown.slowest, seconds), figure("overlapped", shown => shown.overlapped, seconds),
    figure("planning", shown => shown.planning, seconds),
    figure("load max/mean", shown => shown.load, value => value.toFixed(2)),
    figure("off-host bytes", shown => shown.offHost, bytes), figure("parameter bytes", shown => shown.parameterBytes, bytes),
    figure("migration", shown => shown.migration, value => percent(value, 1)), figure("migrated", shown => shown.migrated, bytes),
    figure("altered choices", shown => shown.altered, whole),
    figure("busiest link", shown => shown.busiest && shown.busiest.utilization, value => percent(value)),
    figure("peak memory", shown => shown.memory, bytes),
  ];
  const says = column => result.cases.some(shown => shown.ran && column.value(shown));
  return [label("policy"), ...columns.filter(says)];
}

/** Spreadsheets compute what begins so, unless an apostrophe says that it is text. */
const sheetText = text => /^[=+\-@\t\r]./.test(text) && isNaN(text) ? `'${text}` : text;

function csvOf(columns, cases) {
  const cell = value => value === null || value === undefined ? "" : typeof value === "number" ? String(value) : `"${sheetText(value).replace(/"/g, '""')}"`;
  return [columns.map(column => cell(column.name)), ...cases.map(shown => columns.map(column => cell(column.value(shown))))]
    .map(row => row.join(",")).join("\n") + "\n";
}

function download(name, text) {
  const link = element("a", {href: URL.createObjectURL(new Blob([text], {type: "text/csv"})), download: name});
  link.click();
  URL.revokeObjectURL(link.href);
}

function rowOf(shown, columns) {
  if (!shown.ran) {
    const names = columns.filter(column => ["policy", "topology", "routing", "fidelity"].includes(column.name));
    return element("tr", {class: "unsuitable"}, names.map(column => element("td", {class: "name"}, column.value(shown))),
      element("td", {class: "wide", colspan: columns.length - names.length}, `not run: ${shown.unsuitable}`));
  }
  return element("tr", {class: shown.best ? "best" : ""}, columns.map(column => {
    const value = column.value(shown);
    const missing = value === null || value === undefined;
    return element("td", {class: column.left ? "name" : ""}, missing ? "–" : column.text(value));
  }));
}

function sorted(cases, column, direction) {
  if (!column) return cases;
  const missing = value => value === null || value === undefined || value === "";
  return [...cases].sort((a, b) => {
    const x = column.value(a), y = column.value(b);
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    return direction * (typeof x === "number" ? x - y : x.localeCompare(y)) || a.index - b.index;
  });
}

/** A table that sorts by a click on a column, and a button that saves all of it as CSV. `listed()`: what it shows now. */
function sortingTable(columns, listed, {label, file, row, most = Infinity}) {
  let by = null, direction = 1;
  const body = element("tbody");
  const fill = () => body.replaceChildren(...sorted(listed(), by, direction).slice(0, most).map(shown => row(shown, columns)));
  const heads = columns.map(column => {
    const head = element("th", {class: column.left ? "name" : "", scope: "col"}, element("button", {type: "button", onclick: () => {
      direction = by === column ? -direction : 1;
      by = column;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      fill();
    }}, column.name));
    return head;
  });
  const save = element("button", {type: "button", onclick: () => download(file, csvOf(columns, listed()))}, "Save as CSV");
  return {fill, save, table: element("div", {class: "table", tabindex: 0, role: "region", "aria-label": label},
    element("table", {}, element("thead", {}, element("tr", {}, heads)), body))};
}

function tableSection(id, result, view) {
  const {fill, save, table} = sortingTable(columnsOf(result), () => view.cases(), {label: "all cases", file: "moesim-cases.csv", row: rowOf});
  view.follow(fill);
  const made = section(id, "Cases", "What did every case take, move and hold?",
    `Per ${result.unit}, the mean of all that were simulated. Click a column's name to sort by it; bold: the fastest on its cluster.`,
    element("div", {class: "controls"}, save), table);
  made.classList.add("long");
  return made;
}
