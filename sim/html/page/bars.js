// Stacked bars: what the time of every case consists of, or its critical path.

const BAR = {height: 24, gap: 6, leastLeft: 190, mostLeft: 420, right: 230, width: 1120};

const nameOf = (shown, several) => [shown.policy, several.routing && shown.routing, several.fidelity && shown.fidelity]
  .filter(Boolean).join(" · ");

/** What tells a case from those in its drawing. */
const labelOf = (shown, result) => result.clusters ? nameOf({...shown, policy: shown.topology}, result.several) : nameOf(shown, result.several);

/** Room for the labels of all cases, whose letters are some 7 wide. */
const leftOf = result => Math.min(BAR.mostLeft, Math.max(BAR.leastLeft, 20 + 7.2 * Math.max(...result.cases.map(shown => labelOf(shown, result).length))));

const fillOf = part => part.hatched ? "url(#hatch)" : `var(--${part.hue})`;

/** Grid lines and an axis of times above the bars; the unit is at its end. */
function timeAxis(svg, scale, most, height, left) {
  const [size, name] = unitOf(most, TIME_UNITS);
  const inUnits = scale.copy().domain(scale.domain().map(value => value / size));
  const axis = svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},18)`)
    .call(d3.axisTop(inUnits).ticks(7).tickSizeInner(-(height - 18)).tickFormat(value => digits(value)));
  axis.selectAll(".tick line").attr("class", "line");
  svg.append("text").attr("class", "unit").attr("x", left + scale.range()[1] + 16).attr("y", 9).text(name);
}

/** The parts of one case as [{part, seconds, from}], those in `hidden` left out. */
function stackOf(shown, parts, hidden) {
  let from = 0;
  return parts(shown).filter(({part, seconds}) => seconds > 0 && !hidden.has(part.key)).map(each => {
    const placed = {...each, from, shown};
    from += each.seconds;
    return placed;
  });
}

function caseTip(shown, result, parts) {
  return {
    title: `${shown.policy} on ${shown.topology}${shown.routing ? `, ${shown.routing} routing` : ""}`,
    rows: [[`one ${result.unit}`, `${seconds(shown.time)} (${times(shown.speedup)})`], ...(shown.cannot_run ? [["cannot run", shown.cannot_run]] : []), ...(shown.lossy ? [["lossy", shown.lossy]] : []),
      ...(speedupInterval(shown) ? [["90 % of speedups", speedupInterval(shown)], ["told apart", shown.intervals.told_apart]] : []),
      ...(notMeasured(shown) ? [["not measured, so wider", notMeasured(shown)]] : []),
      ...parts(shown).filter(each => each.seconds > 0)
        .map(({part, seconds: value}) => [part.name, `${seconds(value)} · ${percent(value / shown.time)}`, part])],
  };
}

/** The 90 % interval of a case against its baseline, as times: where it ends, at most at `inner`. */
function drawErrorBar(row, shown, scale, left, inner) {
  const [low, high] = shown.intervals.speedup.map(end => scale(shown.time * shown.speedup / end)).reverse();
  const end = Math.min(high, inner), below = BAR.height - 4;  // the labels within bars
  const bar = row.append("g").attr("class", "error").attr("data-ends", shown.intervals.speedup.join(" "));
  const line = (x1, x2, y1, y2) => ["halo", ""].forEach(kind =>
    bar.append("line").attr("class", kind).attr("x1", left + x1).attr("x2", left + x2).attr("y1", y1).attr("y2", y2));
  line(Math.min(low, inner), end, below, below);
  for (const cap of [low, high].filter(place => place <= inner)) line(cap, cap, below - 3, below + 3);
  return end;
}

/** Bars of one group on its own scale, or on one that `most` says. */
function drawGroup(cases, {result, view, parts, hidden, shares, most}) {
  const left = leftOf(result), inner = BAR.width - left - BAR.right;
  const height = 26 + cases.length * (BAR.height + BAR.gap);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${BAR.width} ${height}`).attr("width", BAR.width).attr("role", "group");
  const scale = d3.scaleLinear([0, shares ? 1 : most], [0, inner]);
  if (shares) {
    svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},18)`)
      .call(d3.axisTop(scale).ticks(6).tickSizeInner(-(height - 18)).tickFormat(value => percent(value)));
  } else {
    timeAxis(svg, scale, most, height, left);
  }
  const rows = svg.selectAll(".row").data(cases).join("g").attr("class", "row")
    .attr("transform", (_, i) => `translate(0,${24 + i * (BAR.height + BAR.gap)})`)
    .attr("tabindex", 0).attr("role", "button")
    .attr("aria-pressed", shown => String(view.chosen === shown))
    .attr("aria-label", shown => `${labelOf(shown, result)}: ${seconds(shown.time)}`);
  rows.append("rect").attr("class", "back").attr("x", 0).attr("y", -3).attr("width", BAR.width).attr("height", BAR.height + 6).attr("rx", 5);
  rows.append("text").attr("class", shown => shown.best ? "strong" : null).attr("x", left - 10).attr("y", 16)
    .attr("text-anchor", "end").text(shown => labelOf(shown, result));
  const width = (shown, value) => scale(shares ? value / shown.time : value);
  rows.each(function (shown) {
    const row = d3.select(this);
    const stack = stackOf(shown, parts, hidden);
    for (const each of stack) {
      const x = left + width(shown, each.from), wide = width(shown, each.seconds);
      const bar = row.append("rect").attr("class", "part").attr("data-part", each.part.key)
        .attr("x", x).attr("width", Math.max(wide, .5)).attr("height", BAR.height)
        .attr("fill", fillOf(each.part));
      tells(bar.node(), () => ({
        title: `${shown.policy}: ${each.part.name}`, text: each.part.meaning,
        rows: [["time", seconds(each.seconds)], [`of the ${result.unit}`, percent(each.seconds / shown.time, 1)]],
      }));
      if (wide > 46) {
        row.append("text").attr("class", `within ${lettersOn(each.part)}`)
          .attr("x", x + wide / 2).attr("y", 16).attr("text-anchor", "middle").text(percent(each.seconds / shown.time));
      }
    }
    let end = d3.sum(stack, each => width(shown, each.seconds));
    if (!shares && !hidden.size && speedupInterval(shown)) end = Math.max(end, drawErrorBar(row, shown, scale, left, inner));
    const total = row.append("text").attr("x", left + end + 8).attr("y", 16);
    total.append("tspan").attr("class", "strong").text(seconds(shown.time));
    if (shown.speedup !== undefined) total.append("tspan").attr("class", "soft").attr("dx", 7).text(times(shown.speedup));
    if (speedupInterval(shown)) total.append("tspan").attr("class", "soft").attr("dx", 5).text(`(${speedupInterval(shown)})`);
    if (shown.best) total.append("tspan").attr("dx", 7).attr("class", "soft").text("fastest");
    if (shown.cannot_run) total.append("tspan").attr("dx", 7).attr("class", "soft").text("cannot run");
    if (shown.lossy) total.append("tspan").attr("dx", 7).attr("class", "soft").text(shown.lossy);
    tells(this, () => caseTip(shown, result, parts));
    activates(this, () => view.change({chosen: shown}));
  });
  return svg.node();
}

/** Names of parts that some case has, as switches. */
function partLegend(result, parts, hidden, redraw) {
  const share = (shown, part) => parts(shown).some(each => each.part.key === part.key && each.seconds > 1e-5 * shown.time);
  const ran = result.cases.filter(shown => shown.ran);
  const present = [...new Map(ran.flatMap(shown => parts(shown).map(each => [each.part.key, each.part]))).values()]
    .filter(part => ran.some(shown => share(shown, part)));
  return element("ul", {class: "legend", "aria-label": "parts; click to hide"}, present.map(part => {
    const toggle = element("button", {type: "button", "aria-pressed": "true", onclick: () => {
      if (!hidden.delete(part.key)) hidden.add(part.key);
      toggle.setAttribute("aria-pressed", String(!hidden.has(part.key)));
      redraw();
    }}, swatch(part), part.name);
    tells(toggle, () => ({title: part.name, text: part.meaning}));
    return element("li", {}, toggle);
  }));
}

const MOST_BARS = 150;  // of a group; what lies beyond is in the table, and is said

/** Cases in groups that compare, as the filter admits; `draw(cases, most)` makes the drawing of one. */
function facets(result, view, small, draw) {
  const groups = grouped(view.ran(), groupOf);
  if (!groups.size) return [element("p", {class: "said"}, "No case that ran passes the filter.")];
  return [...groups].map(([, cases]) => {
    const drawn = cases.slice(0, MOST_BARS);
    const {topology, policy, fidelity} = cases[0];
    return element("figure", {class: "facet", "data-cases": drawn.length},
      element("figcaption", {}, result.clusters ? policy : topology, " ", element("small", {}, `${result.several.fidelity ? `at ${fidelity}, ` : ""}${small(cases)}`,
        drawn.length < cases.length ? `; the first ${drawn.length} of ${cases.length} cases in this order, all are in the table` : "")),
      draw(drawn, cases));
  });
}

/** Stacked bars of all cases. `kinds`: [{value, text, parts(case)}], one is shown at a time. */
function stackChart(result, view, kinds) {
  const hidden = new Set(), drawing = element("div", {class: "chart"}), legend = element("div");
  let scale = "own", {parts} = kinds[0];
  const redraw = () => {
    const visible = shown => d3.sum(stackOf(shown, parts, hidden), each => each.seconds);
    const most = d3.max(view.ran(), visible) || 1;
    drawing.replaceChildren(...facets(result, view, cases => `speedups over ${result.clusters ? cases[0].first.topology : cases[0].first.policy}`, (drawn, cases) =>
      drawGroup(drawn, {result, view, parts, hidden, shares: scale === "shares", most: scale === "one" ? most : d3.max(cases, visible) || 1})));
  };
  const relabel = () => legend.replaceChildren(partLegend(result, parts, hidden, redraw));
  const scales = [{value: "own", text: "each cluster its own"}, {value: "one", text: "one for all clusters"}, {value: "shares", text: `shares of the ${result.unit}`}];
  relabel();
  view.follow(redraw);
  return [element("div", {class: "controls"},
    kinds.length > 1 ? chooser("parts", kinds, kinds[0].value, value => { ({parts} = kinds.find(kind => kind.value === value)); hidden.clear(); relabel(); redraw(); }) : "",
    chooser("scale", scales, "own", value => { scale = value; redraw(); })), legend, drawing];
}

function barSection(id, result, view) {
  const made = section(id, "Time", `Where does the time of ${result.unit === "step" ? "a step" : "an iteration"} go?`,
    `The mean GPU's ${result.unit}; the parts add up to it. Every moment counts once, and communication only where no kernel hides it. ` +
    (result.cases.some(shown => shown.ran && speedupInterval(shown)) ? "A thin line is the 90 % interval against the baseline. " : "") +
    (result.cases.some(shown => shown.pictures) ? "Click a bar to draw that case below." : ""),
    stackChart(result, view, [{value: "parts", text: "parts", parts: shown => shown.parts}]));
  made.classList.add("long");
  return made;
}
