// Time against what it costs: memory of a GPU, or money if clusters have a price.

/** The cases that no other one beats in both. */
const paretoFront = (cases, cost) => cases.filter(shown => !cases.some(other =>
  other.time <= shown.time && cost(other) <= cost(shown) && (other.time < shown.time || cost(other) < cost(shown))));

function paretoChart(cases, result, {cost, costUnits, costName, costText}) {
  const front = paretoFront(cases, cost);
  const width = 1120, height = 300, left = 90, right = 200, top = 16, bottom = 44;
  const [size, unit] = unitOf(d3.max(cases, shown => shown.time), TIME_UNITS);
  const [costSize, costUnit] = unitOf(d3.max(cases, cost), costUnits);
  const x = d3.scaleLinear([0, d3.max(cases, cost) * 1.06 / costSize], [left, width - right]);
  const y = d3.scaleLinear([0, d3.max(cases, shown => shown.time) * 1.06 / size], [height - bottom, top]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("role", "group").attr("aria-label", "time against cost of every case");
  svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(6).tickSizeInner(-(width - left - right)));
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(x).ticks(8));
  svg.append("text").attr("class", "unit").attr("x", left - 24).attr("y", top - 4).attr("text-anchor", "end").text(unit);
  svg.append("text").attr("class", "soft").attr("x", (left + width - right) / 2).attr("y", height - 8).attr("text-anchor", "middle").text(`${costName}, ${costUnit}`);
  const line = front.slice().sort((a, b) => cost(a) - cost(b)).map(shown => `${x(cost(shown) / costSize)},${y(shown.time / size)}`);
  svg.append("path").attr("class", "curve front").attr("d", `M${line.join("L")}`).style("stroke", "var(--soft)");
  const labels = [];
  for (const shown of [...front, ...cases.filter(each => !front.includes(each))]) {
    const on = front.includes(shown), cx = x(cost(shown) / costSize), cy = y(shown.time / size);
    const dot = svg.append("circle").attr("class", on ? "dot" : "dot faint").attr("tabindex", 0).attr("cx", cx).attr("cy", cy).attr("r", on ? 7 : 5).style("fill", on ? "var(--blue)" : "var(--grey)");
    tells(dot.node(), () => ({title: `${shown.policy} on ${shown.topology}`, rows: [["time", seconds(shown.time)], [costName, costText(cost(shown))]]}));
    // A label that another one covers is left out: the tooltip has it.
    if (labels.some(([lx, ly]) => Math.abs(ly - cy) < 15 && Math.abs(lx - cx) < 170)) continue;
    labels.push([cx, cy]);
    svg.append("text").attr("class", on ? "strong" : "soft").attr("x", cx + 11).attr("y", cy + 4).text(labelOf(shown, result));
  }
  return svg.node();
}

function paretoSection(id, result) {
  const money = result.cases.every(shown => !shown.ran || shown.dollars);
  const kind = money ? {cost: shown => shown.dollars, costUnits: [[1, "$"]], costName: "price of a million tokens", costText: value => `${digits(value)} $`}
    : {cost: shown => shown.memory, costUnits: BYTE_UNITS, costName: "peak memory", costText: bytes};
  return section(id, "Pareto", money ? "Which cases are fast for their price?" : "Which cases are fast for their memory?",
    "To the left and below is better. The dashed line joins the cases that no other one beats in both.",
    [...result.groups.values()].map(cases => captioned(result.clusters ? cases[0].policy : cases[0].topology,
      counted(paretoFront(cases, kind.cost).length, "case") + " on the front", paretoChart(cases, result, kind))));
}
