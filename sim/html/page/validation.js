// Measured next to simulated: one dumbbell per policy, and where the difference of a policy comes from, op by op.

const PAIR = {
  measured: {name: "measured", hue: "vermilion"},
  simulated: {name: "simulated", hue: "blue"},
};

/** Two dots per row on one scale of times, joined by a line; `rows`: [{name, measured, simulated, text}]. */
function dumbbells(rows, onchoose, chosen) {
  const width = 1120, left = 260, right = 230, step = 26, height = 34 + rows.length * step;
  const most = d3.max(rows, row => Math.max(row.measured, row.simulated)) || 1;
  const scale = d3.scaleLinear([0, most], [0, width - left - right]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("role", "group");
  timeAxis(svg, scale, most, height - 8, left);
  rows.forEach((row, i) => {
    const line = svg.append("g").attr("class", "row").attr("transform", `translate(0,${38 + i * step})`).attr("tabindex", 0)
      .attr("aria-label", `${row.name}: measured ${seconds(row.measured)}, simulated ${seconds(row.simulated)}`);
    line.append("rect").attr("class", "back").attr("y", -13).attr("width", width).attr("height", step).attr("rx", 5);
    line.append("text").attr("x", left - 12).attr("y", 4).attr("text-anchor", "end").text(row.name);
    line.append("line").attr("x1", left + scale(row.measured)).attr("x2", left + scale(row.simulated))
      .style("stroke", "var(--grey)").attr("stroke-width", 3);
    line.append("circle").attr("class", "part measured").attr("cx", left + scale(row.measured)).attr("r", 6.5).style("fill", "var(--vermilion)");
    line.append("rect").attr("class", "part simulated").attr("x", left + scale(row.simulated) - 5).attr("y", -5).attr("width", 10).attr("height", 10)
      .style("fill", "var(--blue)");
    line.append("text").attr("class", "strong").attr("y", 4).attr("x", left + scale(Math.max(row.measured, row.simulated)) + 14).text(row.text);
    tells(line.node(), () => ({title: row.name, rows: [["measured", seconds(row.measured), PAIR.measured],
      ["simulated", seconds(row.simulated), PAIR.simulated], ...(row.more || [])]}));
    if (onchoose) {
      line.attr("role", "button").attr("aria-pressed", String(chosen === i));
      activates(line.node(), () => onchoose(i));
    }
  });
  return svg.node();
}

const pairLegend = () => element("ul", {class: "legend"}, Object.values(PAIR).map(each => element("li", {}, swatch(each), each.name)));

const MOST_OPS = 16;  // those with the largest differences

function opRows(policy) {
  const rows = policy.ops.map(op => ({
    name: `${op.stage === "other" ? "" : `${op.stage}: `}${op.name}${op.stream === "compute" ? "" : ` (${op.stream})`}`,
    measured: op.measured_s, simulated: op.simulated_s,
  }));
  rows.push({name: "waiting for the slowest", measured: policy.measured_waiting_s, simulated: policy.simulated_waiting_s});
  return rows.filter(row => row.measured > 0 || row.simulated > 0)
    .sort((a, b) => Math.abs(b.measured - b.simulated) - Math.abs(a.measured - a.simulated))
    .slice(0, MOST_OPS)
    .map(row => ({...row, text: `${signedPercent(row.simulated / row.measured - 1)} · ${seconds(Math.abs(row.simulated - row.measured))} apart`}));
}

/** One measured file: its policies, and the ops of the chosen one. */
function measuredFile(measured, tolerance) {
  const policies = element("div", {class: "chart"}), ops = element("div", {class: "chart"});
  const draw = chosen => {
    const rows = measured.policies.map(policy => ({
      name: policy.policy, measured: policy.measured_s, simulated: policy.simulated_s,
      text: `${signedPercent(policy.error)}${Math.abs(policy.error) > tolerance ? " beyond" : ""}`,
      more: [["error", signedPercent(policy.error)], ["spread of repeats", percent(policy.spread, 1)],
        ["place measured, simulated", `${policy.measured_place}, ${policy.simulated_place}`], ["wrong elements", whole(policy.wrong)]],
    }));
    policies.replaceChildren(element("figure", {"data-cases": rows.length},
      element("figcaption", {}, `${measured.topology}, ${counted(measured.ranks, "rank")} on ${counted(measured.hosts, "host")} `,
        element("small", {}, `step times, fastest measured first; ${measured.description}, ${measured.date}`)),
      dumbbells(rows, draw, chosen)));
    const policy = measured.policies[chosen];
    ops.replaceChildren(element("figure", {}, element("figcaption", {}, `Ops of ${policy.policy} `,
      element("small", {}, `mean over ranks, sum over a step; the ${MOST_OPS} largest differences`)), dumbbells(opRows(policy))));
  };
  draw(0);
  return [policies, ops];
}

function validationSections(id, result) {
  if (!CHARTS) return {title: "Measured against simulated", answers: [], sections: []};
  const {document} = result;
  const all = document.results.flatMap(measured => measured.policies);
  const worst = all.reduce((most, policy) => Math.abs(policy.error) > Math.abs(most.error) ? policy : most);
  const ordered = d3.sum(document.results, measured => measured.ordered_pairs);
  return {
    title: document.valid ? "The simulator is valid here" : "The simulator is not valid here",
    answers: [
      ["mean absolute error of step times", percent(document.mean_absolute_error, 1), `tolerance ${percent(document.tolerance, 1)}`],
      ["worst policy", signedPercent(worst.error), worst.policy],
      ["pairs in the measured order", `${ordered - document.misordered} of ${ordered}`, `that differ by more than ${percent(document.order_margin)}`],
    ],
    sections: [section(`${id}-measured`, "Measured", "How far is the simulation from what was measured?",
      "One row per policy: a dot is what was measured, a square what was simulated from the same plan. Click a row to see the ops of its step below.",
      pairLegend(), document.results.map(measured => measuredFile(measured, document.tolerance)))],
  };
}

FORMATS["moesim-validation"] = {
  read: (name, document) => ({kind: "validation", name, document, cases: [], inputs: inputsOf(document, name), setting: ""}),
  draw: validationSections,
};
