// What every policy leaves on the table: its time next to times that its plan cannot beat.

const BOUNDS = [
  {key: "perfect_balance_s", name: "perfect balance", hue: "green", symbol: "symbolCircle", meaning: "the kernels of the mean GPU, were all GPUs equally loaded and everything else free"},
  {key: "pure_compute_s", name: "pure compute", hue: "blue", symbol: "symbolSquare", meaning: "the kernels of the GPU that computes longest, everything else free"},
  {key: "pure_port_s", name: "pure port", hue: "vermilion", symbol: "symbolTriangle", meaning: "all bytes at full rate on the link that takes longest, and the exchanges of a GPU's stream after each other"},
  {key: "no_communication_s", name: "no exchange", hue: "orange", symbol: "symbolDiamond", meaning: "the same plan with exchanges that take no time, but wait for whoever joins last"},
  {key: "no_bubble_s", name: "no bubble", hue: "purple", symbol: "symbolCross", meaning: "the GPU that waits least for other pipeline stages, without that wait"},
  {key: "dedup", name: "perfect dedup", hue: "ink", symbol: "symbolStar", meaning: "every token once into each host and GPU that needs it, at the full rate of the port that takes longest; of the first step"},
];

/** [{bound, share, seconds}] of a case, the largest last. */
function boundsOf(shown) {
  const stored = shown.raw.time_bounds, dedup = shown.raw.perfect_dedup;
  const told = key => stored && stored[key] > 0 && (key !== "no_bubble_s" || shown.kind === "iterations");  // a step has no pipeline
  const list = BOUNDS.filter(({key}) => told(key)).map(bound => ({bound, seconds: stored[bound.key], share: stored[bound.key] / shown.time}));
  if (dedup && dedup.bound_s > 0) list.push({bound: BOUNDS[BOUNDS.length - 1], seconds: dedup.bound_s, share: dedup.bound_s / dedup.step_s});
  return list.sort((a, b) => a.share - b.share);
}

function boundTip(shown, result) {
  const dedup = shown.raw.perfect_dedup;
  return {
    title: `${nameOf(shown, result.several)}: ${seconds(shown.time)}`,
    text: "A plan of this policy cannot be faster than",
    rows: [...boundsOf(shown).reverse().map(({bound, seconds: value, share}) => [bound.name, `${seconds(value)} · ${percent(share, 1)}`, bound]),
      ...(dedup ? [["off-host bytes, least", `${bytes(dedup.other_host_bytes)}, ${bytes(dedup.least_other_host_bytes)}`]] : [])],
  };
}

function drawBounds(cases, {result, view}) {
  const left = leftOf(result), inner = BAR.width - left - 270, height = 26 + cases.length * (BAR.height + BAR.gap);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${BAR.width} ${height}`).attr("width", BAR.width).attr("role", "group");
  const scale = d3.scaleLinear([0, 1], [0, inner]);
  svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},18)`)
    .call(d3.axisTop(scale).ticks(6).tickSizeInner(-(height - 18)).tickFormat(value => percent(value)));
  cases.forEach((shown, i) => {
    const row = svg.append("g").attr("class", "row").attr("transform", `translate(0,${24 + i * (BAR.height + BAR.gap)})`)
      .attr("tabindex", 0).attr("role", "button").attr("aria-pressed", String(view.chosen === shown));
    const list = boundsOf(shown), nearest = list[list.length - 1];
    row.append("rect").attr("class", "back").attr("y", -3).attr("width", BAR.width).attr("height", BAR.height + 6).attr("rx", 5);
    row.append("text").attr("class", shown.best ? "strong" : null).attr("x", left - 10).attr("y", 16).attr("text-anchor", "end").text(labelOf(shown, result));
    row.append("rect").attr("x", left).attr("y", 4).attr("width", inner).attr("height", BAR.height - 8).attr("rx", 3).style("fill", "var(--pale)");
    if (nearest) {
      row.append("rect").attr("class", "left").attr("x", left + scale(nearest.share)).attr("y", 4).attr("width", inner - scale(nearest.share)).attr("height", BAR.height - 8).attr("fill", "url(#hatch)");
    }
    for (const {bound, share} of list) {
      row.append("path").attr("class", "part bound").attr("data-bound", bound.key).attr("data-share", share)
        .attr("transform", `translate(${left + scale(share)},${BAR.height / 2})`).attr("d", d3.symbol().type(d3[bound.symbol]).size(90)()).style("fill", `var(--${bound.hue})`);
    }
    const said = row.append("text").attr("x", left + inner + 12).attr("y", 16);
    said.append("tspan").attr("class", "strong").text(seconds(shown.time));
    if (nearest) said.append("tspan").attr("class", "soft").attr("dx", 7).text(`${percent(1 / nearest.share - 1, 1)} above ${nearest.bound.name}`);
    row.attr("aria-label", `${labelOf(shown, result)}: ${list.map(({bound, share}) => `${bound.name} ${percent(share)}`).join(", ")}`);
    tells(row.node(), () => boundTip(shown, result));
    activates(row.node(), () => view.change({chosen: shown}));
  });
  return svg.node();
}

function boundLegend(result) {
  const mark = bound => {
    const svg = d3.create("svg").attr("viewBox", "-8 -8 16 16").attr("width", 16).attr("height", 16);
    svg.append("path").attr("d", d3.symbol().type(d3[bound.symbol]).size(90)()).style("fill", `var(--${bound.hue})`);
    return svg.node();
  };
  const present = BOUNDS.filter(bound => result.cases.some(shown => shown.ran && boundsOf(shown).some(each => each.bound === bound)));
  return element("ul", {class: "legend"}, present.map(bound => {
    const item = element("li", {tabindex: 0}, mark(bound), bound.name);
    tells(item, () => ({title: bound.name, text: `No plan of the policy is faster than ${bound.meaning}.`}));
    return item;
  }));
}

function boundSection(id, result, view) {
  const drawing = element("div", {class: "chart"});
  const made = section(id, "Bounds", "What does each policy leave on the table?",
    `A mark is a time that no plan of that policy can beat with one cost taken away, as a share of its simulated ${result.unit}: the nearer to 100 %, the less there is to win by removing that cost. The hatched rest beyond the last mark comes of several costs together.`,
    boundLegend(result), drawing);
  made.classList.add("long");
  view.follow(() => drawing.replaceChildren(...facets(result, view, () => `shares of each policy's own ${result.unit}`, drawn => drawBounds(drawn, {result, view}))));
  return made;
}
