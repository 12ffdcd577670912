// Runs of serving engines: users against GPUs, latencies, memory and queue over time, where passes spend theirs.

const LATENCIES = [["ttft", "TTFT"], ["tpot", "TPOT"], ["gap", "gap between tokens"], ["latency", "latency"]];
const PERCENTILES = [["p50_s", "50 %"], ["p90_s", "90 %"], ["p95_s", "95 %"], ["p99_s", "99 %"]];
const ENGINE_PARTS = [
  {key: "attention", name: "attention", hue: "blue", meaning: "projections, scores, output"},
  {key: "experts", name: "experts", hue: "sky", meaning: "products and activations of routed experts"},
  {key: "exchange", name: "exchanges", hue: "vermilion", meaning: "that no kernel hides: dispatch, combine, tensor groups"},
  {key: "wait", name: "waiting", hue: "grey", hatched: true, meaning: "in an exchange that the slowest GPU has not joined yet"},
  {key: "other", name: "other", hue: "mint", meaning: "gate, shared experts, norms, head, and the host"},
];
const CHANGES = [
  {name: "running", index: 4, text: whole, unit: "requests", hue: "blue"},
  {name: "waiting", index: 3, text: whole, unit: "requests", hue: "vermilion"},
  {name: "KV tokens", index: 2, text: whole, unit: "tokens", hue: "green"},
];

function engineCase(raw, index) {
  const ran = raw.not_run === undefined;
  const names = {index, id: index, raw, ran, unsuitable: raw.not_run || "", topology: raw.topology, policy: raw.policy, routing: raw.routing || "",
    fidelity: raw.fidelity, lossy: "", cannot_run: raw.cannot_run || "", notes: []};
  if (!ran) return names;
  return {...names, user: raw.tokens_per_s_per_user, gpu: raw.tokens_per_s_per_gpu, parts: ENGINE_PARTS.map(part => ({part, share: raw.parts[part.key]}))};
}

function enginesOf(name, document) {
  const cases = document.cases.map(engineCase), ran = cases.filter(shown => shown.ran);
  const differ = key => new Set(cases.map(shown => shown[key])).size > 1;
  const several = {topology: differ("topology"), fidelity: differ("fidelity"), routing: differ("routing")};
  const asked = Object.entries(document.serving || {}).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  const pass = Object.entries(document.parallel || {}).map(([key, value]) => `${key} ${Array.isArray(value) ? value.join(" ") : value}`);
  const played = [["parallel sizes", pass], ["steps", document.steps], ["warm-up steps", document.warmup]];
  return {kind: "engines", unit: "run", name, document, cases, ran, several, setting: settingOf(document),
    inputs: [...inputsOf(document, name), ...played, ["serving", asked]].filter(([, text]) => Array.isArray(text) ? text.length : text)};
}

const engineLabel = (shown, {several}) => [shown.cannot_run ? `${shown.policy} (!)` : shown.policy, several.topology && shown.topology, several.routing && shown.routing, several.fidelity && shown.fidelity]
  .filter(Boolean).join(" · ");

const engineTip = (shown, result) => ({title: engineLabel(shown, result), rows: [
  ["tokens/s per user", digits(shown.user)], ["tokens/s per GPU", digits(shown.gpu)],
  ...LATENCIES.map(([key, name]) => [`${name}, 50 and 95 %`, `${seconds(shown.raw[key].p50_s)}, ${seconds(shown.raw[key].p95_s)}`])]});

/** A case in its place among all, so that its colour is the same in every chart. */
const engineHue = (shown, result) => hueOf(result.ran.indexOf(shown));

const engineLegend = result => element("ul", {class: "legend"}, result.ran.map(shown =>
  element("li", {}, swatch({hue: engineHue(shown, result)}), engineLabel(shown, result))));

function usersSection(id, result) {
  const figures = ["tokens/s per user", "tokens/s per GPU"], svg = emptyChart(figures.join(" against "));
  const rows = result.ran.map(shown => ({shown, id: shown.id, [figures[0]]: shown.user, [figures[1]]: shown.gpu}));
  const kept = new Set(frontOf(rows.filter(row => row.shown.routing !== "balanced" || !result.several.routing)
    .map(row => Object.assign(row, {per_s_user: row.shown.user, per_s_gpu: row.shown.gpu})), ["per_s_user", "per_s_gpu"]));
  const right = figureScale(figures[0], rows.map(row => row.shown.user), inner.x(), false), up = figureScale(figures[1], rows.map(row => row.shown.gpu), inner.y(), false);
  figureAxis(svg, figures[1], up, false, CURVE.width - CURVE.left - CURVE.right);
  figureAxis(svg, figures[0], right, true, CURVE.height - CURVE.top - CURVE.bottom);
  const at = row => [right(row.shown.user), up(row.shown.gpu)];
  const front = [...kept].sort((a, b) => a.shown.user - b.shown.user);
  svg.append("path").attr("class", "curve front").attr("d", d3.line().curve(d3.curveStepBefore)(front.map(at))).style("stroke", "var(--grey)");
  for (const row of rows) {
    point(svg, row, {x: at(row)[0], y: at(row)[1], hue: engineHue(row.shown, result), radius: kept.has(row) ? 7 : 4.5}, () => engineTip(row.shown, result));
  }
  return section(id, "Users", "What do users get, and what do GPUs give?",
    "Right: tokens per second of the median request. Up: output tokens per second and GPU. Large points: no other case is as good in both and better in one; balanced routing next to recorded one is no rival.",
    element("div", {class: "chart"}, element("figure", {"data-front": kept.size}, engineLegend(result), svg.node())));
}

/** A line per case from its median to its 99 % percentile, on a logarithmic scale. */
function drawLatencies(result, key) {
  const left = Math.min(BAR.mostLeft, 30 + 7.2 * Math.max(...result.ran.map(shown => engineLabel(shown, result).length))), high = 30;
  const height = 34 + result.ran.length * high, times = result.ran.flatMap(({raw}) => PERCENTILES.map(([name]) => raw[key][name])).filter(value => value > 0);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${BAR.width} ${height}`).attr("width", BAR.width).attr("role", "group");
  const [low, most] = d3.extent(times), unit = unitOf(most, TIME_UNITS);
  const scale = d3.scaleLog([low / 1.1, most * 1.1], [left, BAR.width - 60]);
  const axis = scale.copy().domain(scale.domain().map(value => value / unit[0]));
  svg.append("g").attr("class", "axis grid").attr("transform", "translate(0,18)")
    .call(d3.axisTop(axis).ticks(6, digits).tickSizeInner(-(height - 18)));
  svg.append("text").attr("class", "unit").attr("x", BAR.width - 44).attr("y", 9).text(unit[1]);
  result.ran.forEach((shown, i) => {
    const row = svg.append("g").attr("class", "row").attr("transform", `translate(0,${36 + i * high})`), of = shown.raw[key], hue = engineHue(shown, result);
    row.append("text").attr("x", left - 12).attr("y", 5).attr("text-anchor", "end").text(engineLabel(shown, result));
    if (!(of.p50_s > 0)) return;
    row.append("line").attr("x1", scale(of.p50_s)).attr("x2", scale(of.p99_s)).style("stroke", `var(--${hue})`).style("stroke-width", 3);
    PERCENTILES.forEach(([name, share], p) => {
      const dot = row.append("circle").attr("class", "dot").attr("data-percentile", name).attr("data-s", of[name]).attr("cx", scale(of[name])).attr("r", 6.5 - p).attr("tabindex", 0).style("fill", `var(--${hue})`);
      tells(dot.node(), () => ({title: `${engineLabel(shown, result)}: ${share}`, rows: PERCENTILES.map(([each, text]) => [text, seconds(of[each])])}));
    });
  });
  return svg.node();
}

function latencySection(id, result) {
  const drawing = element("div", {class: "chart"});
  const redraw = key => drawing.replaceChildren(element("figure", {}, drawLatencies(result, key)));
  redraw("ttft");
  return section(id, "Latencies", "How long do users wait?",
    "Largest point: the median; then 90, 95 and 99 % of requests are at most so late. TTFT: to the first token, queueing included. TPOT: per later token.",
    element("div", {class: "controls"}, chooser("of", LATENCIES.map(([value, text]) => ({value, text})), "ttft", redraw)), drawing);
}

/** One figure of all cases over time; of several instances their sum. */
function drawOverTime(result, change) {
  const svg = emptyChart(`${change.name} over time`), height = CURVE.height - CURVE.bottom;
  const lines = result.ran.map(shown => {
    const latest = new Map();
    return {shown, points: shown.raw.samples.map(sample => {
      latest.set(sample[1], sample[change.index]);
      return [sample[0], d3.sum(latest.values())];
    })};
  }).filter(line => line.points.length);
  const right = d3.scaleLinear([0, d3.max(lines, line => line.points[line.points.length - 1][0]) || 1], inner.x());
  const up = figureScale(change.name, lines.flatMap(line => line.points.map(([, value]) => value)), inner.y(), false);
  figureAxis(svg, change.name, up, false, CURVE.width - CURVE.left - CURVE.right);
  figureAxis(svg, "time (s)", right, true, height - CURVE.top);
  for (const {shown, points} of lines) {
    const path = svg.append("path").attr("class", "curve").attr("data-samples", points.length).style("stroke", `var(--${engineHue(shown, result)})`)
      .attr("d", d3.line().curve(d3.curveStepAfter)(points.map(([time, value]) => [right(time), up(value)])));
    tells(path.node(), () => ({title: engineLabel(shown, result), rows: [["most", `${change.text(d3.max(points, ([, value]) => value))} ${change.unit}`]]}));
  }
  return svg.node();
}

function loadSection(id, result) {
  const drawing = element("div", {class: "chart"});
  const redraw = name => drawing.replaceChildren(element("figure", {}, engineLegend(result), drawOverTime(result, CHANGES.find(change => change.name === name))));
  redraw("running");
  return section(id, "Load", "How full are the engine's batch, its queue and its memory?",
    "At ends of passes, thinned. Tokens are those whose blocks of keys and values are in use.",
    element("div", {class: "controls"}, chooser("of", CHANGES.map(({name}) => ({value: name, text: name})), "running", redraw)), drawing);
}

function passSection(id, result) {
  const left = Math.min(BAR.mostLeft, 30 + 7.2 * Math.max(...result.ran.map(shown => engineLabel(shown, result).length)));
  const high = BAR.height + BAR.gap, height = 26 + result.ran.length * high;
  const svg = d3.create("svg").attr("viewBox", `0 0 ${BAR.width} ${height}`).attr("width", BAR.width).attr("role", "group");
  const scale = d3.scaleLinear([0, 1], [left, BAR.width - 130]);
  svg.append("g").attr("class", "axis grid").attr("transform", "translate(0,18)").call(d3.axisTop(scale).ticks(6).tickSizeInner(-(height - 18)).tickFormat(value => percent(value)));
  result.ran.forEach((shown, i) => {
    const row = svg.append("g").attr("class", "row").attr("transform", `translate(0,${24 + i * high})`);
    row.append("text").attr("x", left - 12).attr("y", 16).attr("text-anchor", "end").text(engineLabel(shown, result));
    let from = 0;
    for (const {part, share} of shown.parts.filter(each => each.share > 0)) {
      const x = scale(from), wide = scale(from + share) - x;
      const bar = row.append("rect").attr("class", "part").attr("data-part", part.key).attr("data-share", share).attr("x", x).attr("width", wide).attr("height", BAR.height).attr("fill", fillOf(part));
      tells(bar.node(), () => ({title: `${engineLabel(shown, result)}: ${part.name}`, text: part.meaning, rows: [["of the time of passes", percent(share, 1)]]}));
      if (wide > 46) row.append("text").attr("class", `within ${lettersOn(part)}`).attr("x", x + wide / 2).attr("y", 16).attr("text-anchor", "middle").text(percent(share));
      from += share;
    }
    row.append("text").attr("class", "soft").attr("x", scale(1) + 10).attr("y", 16).text(`${percent(shown.raw.busy)} busy`);
  });
  const legend = element("ul", {class: "legend"}, ENGINE_PARTS.map(part => element("li", {}, swatch(part), part.name)));
  return section(id, "Time", "Where does the time of passes go?", "Parts of the mean GPU's time in passes. Busy: the part of the run in which the engine had a pass.",
    element("div", {class: "chart"}, element("figure", {}, legend, svg.node())));
}

function engineTable(id, result) {
  const figure = (name, value, text) => ({name, value: shown => shown.ran ? value(shown.raw) : null, text});
  const label = key => ({name: key, left: true, value: shown => shown[key], text: value => value});
  const stated = key => result.ran.some(({raw}) => raw[key] !== undefined);
  const costs = [["$/Mtoken", "usd_per_million_tokens"], ["J/token", "joules_per_token"]].filter(([, key]) => stated(key));
  const sla = (result.document.serving || {}).sla;
  const columns = [label("policy"), ...["topology", "routing", "fidelity"].filter(key => result.several[key]).map(label),
    ...LATENCIES.flatMap(([key, name]) => [figure(`${name} p50`, raw => raw[key].p50_s, seconds), figure(`${name} p95`, raw => raw[key].p95_s, seconds)]),
    figure("tokens/s/GPU", raw => raw.tokens_per_s_per_gpu, digits), figure("tokens/s/user", raw => raw.tokens_per_s_per_user, digits),
    ...costs.map(([name, key]) => figure(name, raw => raw[key] ?? null, digits)), figure("requests/s", raw => raw.requests_per_s, digits),
    ...(sla ? [figure("goodput/s", raw => raw.goodput_per_s, digits), figure("SLA met", raw => raw.sla_met, value => percent(value, 1))] : []),
    figure("KV use, most", raw => raw.kv.tokens_per_rank === null ? null : raw.kv.max, value => percent(value, 1)),
    figure("waiting, mean", raw => raw.waiting.mean, digits), figure("preempted", raw => raw.kv.preemptions, whole)];
  const {fill, save, table} = sortingTable(columns, () => result.cases, {label: "all cases", file: "moesim-cases.csv", row: rowOf});
  fill();
  const made = section(id, "Cases", "What did every case take?", "Click a column's name to sort by it.", element("div", {class: "controls"}, save), table);
  made.classList.add("long");
  return made;
}

function engineSections(id, result) {
  const rivals = result.ran.filter(shown => !result.several.routing || shown.routing !== "balanced");
  const most = (name, of) => rivals.length ? [name, engineLabel(rivals.reduce((best, shown) => of(shown) > of(best) ? shown : best), result)] : [name, "none"];
  const first = (key, text) => {
    const [name, best] = most(text, shown => -(shown.raw[key].p95_s ?? Infinity)), found = rivals.find(shown => engineLabel(shown, result) === best);
    return [name, best, found ? `${seconds(found.raw[key].p95_s)} for 95 % of ${whole(found.raw.requests)} requests` : ""];
  };
  const [name, best] = most("most tokens per GPU", shown => shown.gpu), found = rivals.find(shown => engineLabel(shown, result) === best);
  const charts = CHARTS && result.ran.length ? [result.ran.length > 1 ? usersSection(`${id}-users`, result) : "", latencySection(`${id}-latencies`, result),
    loadSection(`${id}-load`, result), passSection(`${id}-time`, result)] : [];
  return {title: result.ran.length > 1 ? `${best} gives the most tokens per GPU of ${counted(rivals.length, "case")}` : `${best}: a run of an engine`,
    answers: [[name, best, found ? `${digits(found.gpu)} tokens/s and GPU, ${digits(found.user)} per user` : ""], first("ttft", "first tokens the soonest"), first("tpot", "later tokens the fastest")],
    sections: [...charts, engineTable(`${id}-cases`, result)]};
}
