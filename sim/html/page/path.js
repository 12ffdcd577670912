// The critical path: what it consists of in every case, and in the chosen one by layer and GPU.

const pathOf = shown => shown.raw.critical_path;
const PATH_KINDS = [
  {value: "kinds", text: "kinds of work", parts: shown => pathOf(shown).kinds.map(({kind, s}) => ({part: partNamed("path", kind), seconds: s}))},
  {value: "resources", text: "what binds it", parts: shown => Object.entries(pathOf(shown).bound_by_s).map(([key, s]) => ({part: resourceNamed(key), seconds: s}))},
];

/** "dispatch 41 %". */
function mostOfPath(shown) {
  if (!pathOf(shown) || !pathOf(shown).kinds.length) return null;
  const {kind, s} = pathOf(shown).kinds.reduce((a, b) => b.s > a.s ? b : a);
  return `${partNamed("path", kind).name} ${percent(s / shown.time)}`;
}

function pathTable(shown) {
  const most = times => Object.entries(times).reduce((a, b) => b[1] > a[1] ? b : a, ["–", 0]);
  const rows = pathOf(shown).kinds.slice().sort((a, b) => b.s - a.s).map(({kind, s, bound_by_s: by, busiest_link: link}) => {
    const [name, time] = most(by), part = partNamed("path", kind);
    return element("tr", {}, element("td", {class: "name"}, swatch(part), ` ${part.name}`), element("td", {}, seconds(s)), element("td", {}, percent(s / shown.time, 1)),
      element("td", {class: "name"}, time ? `${name} ${percent(time / s)}` : "–"), element("td", {class: "name"}, link ? link.link : "–"));
  });
  const heads = [["on the path", "name"], ["time", ""], ["share", ""], ["bound by", "name"], ["busiest link", "name"]];
  return element("div", {class: "table"}, element("table", {class: "path"},
    element("thead", {}, element("tr", {}, heads.map(([text, kind]) => element("th", {class: kind, scope: "col"}, text)))), element("tbody", {}, rows)));
}

/** One upright bar per layer. */
function layerBars(shown, unit) {
  const layers = pathOf(shown).layers, width = 1120, left = 70, height = 170, bottom = 34, top = 10;
  const name = ({layer}) => layer === null ? "none" : String(layer);
  const x = d3.scaleBand(layers.map(name), [left, Math.min(width - 20, left + 60 * layers.length)]).paddingInner(.12);
  const most = d3.max(layers, each => each.s) || 1, [size, unitName] = unitOf(most, TIME_UNITS);
  const y = d3.scaleLinear([0, most / size], [height - bottom, top]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("role", "group").attr("aria-label", "the path by layer");
  svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(4).tickSizeInner(-(width - left - 20)));
  svg.append("text").attr("class", "unit").attr("x", left - 40).attr("y", top + 2).attr("text-anchor", "end").text(unitName);
  const every = Math.ceil(layers.length / 40);
  layers.forEach((each, i) => {
    const bar = svg.append("rect").attr("class", "part layer").attr("x", x(name(each))).attr("width", x.bandwidth()).attr("y", y(each.s / size))
      .attr("height", height - bottom - y(each.s / size)).attr("fill", "var(--blue)").attr("tabindex", 0);
    if (i % every === 0) svg.append("text").attr("class", "soft").attr("x", x(name(each)) + x.bandwidth() / 2).attr("y", height - bottom + 15).attr("text-anchor", "middle").style("font-size", "11px").text(name(each));
    tells(bar.node(), () => ({title: each.layer === null ? "of no layer" : `layer ${each.layer}`, rows: [["on the path", seconds(each.s)], [`of the ${unit}`, percent(each.s / shown.time, 1)]]}));
  });
  svg.append("text").attr("class", "soft").attr("x", d3.mean(x.range())).attr("y", height - 2).attr("text-anchor", "middle").text("layer");
  return svg.node();
}

function pathGpus(shown) {
  const MOST = 5, gpus = pathOf(shown).gpus.slice().sort((a, b) => b.s - a.s);
  const text = ({gpu, s, others_waited_s: waited}) => `GPU ${gpu} ${percent(s / shown.time)}${waited > 0 ? ` (others waited ${seconds(waited)} for it)` : ""}`;
  return element("p", {class: "said"}, `It passes ${counted(gpus.length, "GPU")}, most of it ${listed(gpus.slice(0, MOST).map(text))}.`);
}

function pathSection(id, result, view) {
  const details = element("div", {class: "chart"});
  view.follow(() => {
    const shown = view.chosen;
    details.replaceChildren(...(shown && shown.ran ? [captioned(`The path of ${nameOf(shown, result.several)} on ${shown.topology}`, "longest part first", pathTable(shown), pathGpus(shown)),
      captioned("The same by layer", "an exchange counts for the layer that it belongs to", layerBars(shown, result.unit))] : []));
  });
  const made = section(id, "Critical path", `What does the end of the ${result.unit} wait for?`,
    `The chain of ops and waits that decides when the ${result.unit} ends: its parts add up to the time exactly. What is not on it can be slower without any harm; making a part of it faster helps until another chain is longer. Click a bar to see that case below.`,
    stackChart(result, view, PATH_KINDS), details);
  made.classList.add("long");
  return made;
}
