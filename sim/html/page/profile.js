// A profiled step next to the simulated one: where its time goes, kind by kind, and both as timelines.

PARTS.profile = [
  {key: "products", name: "products", hue: "blue", meaning: "GEMM of experts, projections, router"},
  {key: "attention", name: "attention", hue: "sky", meaning: "its kernels, forward and backward"},
  {key: "rows and activations", name: "rows and activations", hue: "green", meaning: "norms, activations, permutes, casts, copies"},
  {key: "optimizer", name: "optimizer", hue: "olive", meaning: "the update"},
  {key: "unknown", name: "unknown", hue: "indigo", meaning: "kernels that no table names"},
  {key: "host", name: "host", hue: "ink", meaning: "the GPU waits for its host"},
  {key: "tokens", name: "tokens", hue: "vermilion", meaning: "exposed dispatch and combine"},
  {key: "other exchanges", name: "other exchanges", hue: "orange", meaning: "exposed exchanges of weights, gradients, groups of GPUs"},
  {key: "both", name: "kernels and exchanges", hue: "mint", meaning: "both run at the same time"},
  {key: "idle", name: "idle", hue: "pale", meaning: "neither runs"},
];

const SIDES = ["measured", "simulated"];

/** The group of every kind; one that is in none is a group itself. */
function groupOfKind(document) {
  const of = new Map(Object.entries(document.groups).flatMap(([name, kinds]) => kinds.map(kind => [kind, name])));
  return kind => of.get(kind) || kind;
}

/** A step's time by group, so that it adds up to the wall time. */
function wallParts(step, document) {
  const of = groupOfKind(document), sums = new Map();
  for (const [kind, value] of Object.entries(step.exposed_s)) sums.set(of(kind), (sums.get(of(kind)) || 0) + value);
  const known = PARTS.profile.filter(part => sums.has(part.key)).map(part => part.key);
  const keys = [...known, ...[...sums.keys()].filter(key => !known.includes(key))];
  return [...keys.map(key => ({part: partNamed("profile", key), seconds: sums.get(key)})),
    {part: partNamed("profile", "both"), seconds: step.both_s}, {part: partNamed("profile", "idle"), seconds: step.idle_s}];
}

/** Both steps as stacked bars on one scale. */
function wallBars(document) {
  const left = 120, right = 130, inner = BAR.width - left - right, height = 26 + 2 * (BAR.height + BAR.gap);
  const most = Math.max(...SIDES.map(side => document[side].wall_s)) || 1, scale = d3.scaleLinear([0, most], [0, inner]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${BAR.width} ${height}`).attr("width", BAR.width).attr("role", "group");
  timeAxis(svg, scale, most, height, left);
  SIDES.forEach((side, i) => {
    const row = svg.append("g").attr("class", "row").attr("transform", `translate(0,${24 + i * (BAR.height + BAR.gap)})`).attr("tabindex", 0)
      .attr("aria-label", `${side}: ${seconds(document[side].wall_s)}`);
    row.append("text").attr("x", left - 10).attr("y", 16).attr("text-anchor", "end").text(side);
    let from = 0;
    for (const {part, seconds: value} of wallParts(document[side], document)) {
      if (value <= 0) continue;
      const wide = scale(value), x = left + scale(from);
      const bar = row.append("rect").attr("class", "part").attr("data-part", part.key).attr("x", x).attr("width", Math.max(wide, .5))
        .attr("height", BAR.height).attr("fill", fillOf(part));
      tells(bar.node(), () => ({title: `${side}: ${part.name}`, text: part.meaning,
        rows: [["time", seconds(value)], ["of the step", percent(value / document[side].wall_s, 1)]]}));
      const share = percent(value / document[side].wall_s);
      if (wide > 7 * share.length + 6) row.append("text").attr("class", `within ${lettersOn(part)}`).attr("x", x + 4).attr("y", 16).text(share);
      from += value;
    }
    row.append("text").attr("class", "strong").attr("x", left + scale(document[side].wall_s) + 12).attr("y", 16).text(seconds(document[side].wall_s));
  });
  const shown = PARTS.profile.filter(part => SIDES.some(side => wallParts(document[side], document).some(each => each.part === part && each.seconds > 0)));
  return [element("ul", {class: "legend"}, shown.map(part => element("li", {}, swatch(part), part.name))), svg.node()];
}

/** What dumbbells and the table take: [{name, measured, simulated, text}], the largest difference first. */
function kindRows(sums) {
  const names = new Set(SIDES.flatMap(side => Object.keys(sums[side])));
  return [...names].map(name => ({name, measured: sums.measured[name] || 0, simulated: sums.simulated[name] || 0}))
    .filter(row => row.measured > 0 || row.simulated > 0)
    .sort((a, b) => Math.abs(b.measured - b.simulated) - Math.abs(a.measured - a.simulated))
    .map(row => ({...row, error: row.measured > 0 ? row.simulated / row.measured - 1 : null}))
    .map(row => ({...row, text: `${row.error === null ? "not measured" : signedPercent(row.error)} · ${seconds(Math.abs(row.simulated - row.measured))} apart`}));
}

function groupSums(document) {
  const of = groupOfKind(document), sums = {};
  for (const side of SIDES) {
    sums[side] = {};
    for (const [kind, value] of Object.entries(document[side].kinds_s)) sums[side][of(kind)] = (sums[side][of(kind)] || 0) + value;
  }
  return sums;
}

function kindTable(document) {
  const rows = kindRows({measured: document.measured.kinds_s, simulated: document.simulated.kinds_s}), of = groupOfKind(document);
  const columns = [
    {name: "kind", value: row => row.name, text: value => value, left: true}, {name: "group", value: row => of(row.name), text: value => value, left: true},
    {name: "measured", value: row => row.measured, text: seconds}, {name: "simulated", value: row => row.simulated, text: seconds},
    {name: "error", value: row => row.error, text: signedPercent}];
  const {fill, save, table} = sortingTable(columns, () => rows.map((row, index) => ({...row, index, ran: true})),
    {label: "all kinds of kernels", file: "moesim-profile.csv", row: rowOf});
  fill();
  return [element("div", {class: "controls"}, save), table];
}

const MOST_LETTERS = 9;  // of a stream's name in front of its lane

function bothTimelines({timelines, ...document}) {
  const of = groupOfKind(document), ranks = {measured: timelines.measured_rank, simulated: timelines.simulated_rank};
  const used = [...new Set(timelines.lanes.flatMap(lane => lane.bars_ns.map(bar => bar[3])))].sort((a, b) => a - b);
  const gantt = {
    from_s: 0, to_s: timelines.length_s, folded: false, parts: "profile", kinds: used.map(i => [timelines.kinds[i], of(timelines.kinds[i])]),
    lanes: timelines.lanes.map(lane => ({gpu: lane.of, side: lane.of, stream: lane.stream,
      shortened: lane.stream.length > MOST_LETTERS ? `${lane.stream.slice(0, MOST_LETTERS - 1)}…` : lane.stream,
      bars: lane.bars_ns.map(([start, wait, length, kind]) => [start, wait, length, used.indexOf(kind), -1, -1, false])})),
  };
  const which = ranks.measured === ranks.simulated ? `rank ${ranks.measured}` : `rank ${ranks.measured} measured, rank ${ranks.simulated} simulated`;
  return captioned("Both steps, kernel by kernel", `${which}${timelines.left_out ? `; ${counted(timelines.left_out, "shortest kernel")} left out` : ""}`,
    ganttChart(gantt));
}

function profileSections(id, {document}) {
  const {measured, simulated} = document;
  const groups = kindRows(groupSums(document)), error = simulated.wall_s / measured.wall_s - 1;
  const waits = measured.without_waiting ? "without waiting for the last rank" : "exchanges with their waiting, as one rank cannot tell it";
  const shown = CHARTS ? [
    section(`${id}-time`, "Time", "Where does the time of the step go, measured and simulated?",
      "Kernels that no exchange hides, exchanges that no kernel hides, both, and neither: they add up to the step.",
      element("div", {class: "chart"}, wallBars(document))),
    section(`${id}-kinds`, "Measured", "Which kinds of kernels are far from what was measured?",
      `Sums over a step of all kernels of a kind, hidden ones, too; ${waits}. A dot is measured, a square simulated.`,
      pairLegend(), element("div", {class: "chart"}, captioned("Kinds in groups", "the largest difference first", dumbbells(groups)))),
    document.timelines ? section(`${id}-timeline`, "Timeline", "What does every stream do, measured and simulated?",
      "Both begin with their first kernel. Ctrl and the wheel zoom, dragging moves.", bothTimelines(document)) : "",
  ] : [];
  const worst = groups[0];
  return {
    title: `A step takes ${seconds(measured.wall_s)} measured, ${seconds(simulated.wall_s)} simulated`,
    answers: [
      ["error of the step", signedPercent(error), `${counted(measured.ranks, "rank")}, ${counted(measured.steps, "step")} measured`],
      worst ? ["farthest apart", worst.name, worst.text] : ["farthest apart", "nothing", ""],
      ["kernels without a kind", percent((measured.kinds_s.unknown || 0) / (sumOf(Object.values(measured.kinds_s)) || 1), 1), "of the measured kernels' time"],
    ],
    sections: [...shown, section(`${id}-all`, "Kinds", "What did every kind of kernel take?", "Click a column's name to sort by it.", kindTable(document))],
  };
}

const sumOf = values => values.reduce((sum, value) => sum + value, 0);

FORMATS["moesim-profile-validation"] = {
  read: (name, document) => ({kind: "profile", name, document, cases: [], setting: [document.policy && `policy ${document.policy}`, document.topology && `on ${document.topology}`].filter(Boolean).join(" "),
    inputs: [...inputsOf(document, name), ["scenario", document.scenario], ["policy", document.policy], ["topology", document.topology]].filter(([, text]) => text && text.length)}),
  draw: profileSections,
};
