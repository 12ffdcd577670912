// Timelines: what chosen GPUs did on which stream.

const LANE = {height: 17, gap: 3, group: 12, left: 150, right: 20, width: 1120, top: 24};
const PASS_PARTS = {forward: {key: "forward", name: "forward", hue: "blue"}, backward: {key: "backward", name: "backward", hue: "green"}};
const STAGES = {key: "stages", name: "between stages", hue: "grey"};

function partOfKind([label, part], {folded, parts}) {
  if (folded && PASS_PARTS[label]) return PASS_PARTS[label];
  return part === "bubble" ? STAGES : partNamed(parts || "iterations", part);
}

function barTip(bar, kind, lane, folded, part) {
  const [start, wait, length, , layer, microbatch, backward] = bar;
  return {
    title: folded && PASS_PARTS[kind[0]] ? `${kind[0]} of microbatch ${microbatch}` : folded ? part.name : kind[0],
    rows: [[lane.side || "GPU, stream", lane.side ? lane.stream : `${lane.gpu}, ${lane.stream}`], layer >= 0 && ["layer", String(layer)],
      !folded && microbatch >= 0 && ["pass", `${backward ? "backward" : "forward"}, microbatch ${microbatch}`],
      ["starts at", seconds(start * 1e-9)], ["takes", seconds(length * 1e-9)],
      wait > 0 && ["of that waiting", seconds(wait * 1e-9)]].filter(Boolean),
  };
}

/** y of every lane; a GPU's lanes stand together. */
function placesOf(lanes) {
  let y = LANE.top + 8;
  return lanes.map((lane, i) => {
    if (i && lanes[i - 1].gpu !== lane.gpu) y += LANE.group;
    const place = y;
    y += LANE.height + LANE.gap;
    return place;
  });
}

function drawGantt(gantt, scale, svg) {
  const {lanes, kinds, folded} = gantt;
  const places = placesOf(lanes), height = places[places.length - 1] + LANE.height + 6;
  svg.selectAll("*").remove();
  const [from, to] = scale.domain();
  const most = to - from;
  const [size, name] = unitOf(most, TIME_UNITS);
  const axisScale = scale.copy().domain([from / size, to / size]);
  const precise = Math.max(0, Math.ceil(2 - Math.log10(most / size)));
  svg.append("g").attr("class", "axis grid").attr("transform", `translate(0,${LANE.top})`)
    .call(d3.axisTop(axisScale).ticks(8).tickSizeInner(-(height - LANE.top)).tickFormat(value => value.toLocaleString("en-US", {maximumFractionDigits: precise})));
  svg.append("text").attr("class", "unit").attr("x", LANE.left - 12).attr("y", LANE.top - 9).attr("text-anchor", "end").text(name);
  const clip = svg.append("g").attr("clip-path", "url(#lanes)");
  lanes.forEach((lane, i) => {
    const y = places[i];
    if (!i || lanes[i - 1].gpu !== lane.gpu) {
      svg.append("text").attr("class", "strong").attr("x", 4).attr("y", y + 13).text(lane.side || `GPU ${lane.gpu}`);
    }
    svg.append("text").attr("class", "soft").attr("x", LANE.left - 8).attr("y", y + 13).attr("text-anchor", "end").style("font-size", "11.5px").text(lane.shortened || lane.stream);
    svg.append("line").attr("x1", LANE.left).attr("x2", LANE.width - LANE.right).attr("y1", y + LANE.height + 1).attr("y2", y + LANE.height + 1).style("stroke", "var(--line)").attr("stroke-opacity", .6);
    for (const bar of lane.bars) {
      const start = bar[0] * 1e-9, moving = start + bar[1] * 1e-9, end = start + bar[2] * 1e-9;
      if (end < from || start > to) continue;
      const part = partOfKind(kinds[bar[3]], gantt);
      const x = scale(start), group = clip.append("g").attr("class", "op");
      if (moving > start) {
        group.append("rect").attr("class", "waits").attr("x", x).attr("y", y + 3).attr("width", Math.max(.4, scale(moving) - x)).attr("height", LANE.height - 6).attr("fill", "url(#hatch)");
      }
      const left = scale(moving), wide = Math.max(.6, scale(end) - left);
      group.append("rect").attr("class", wide > 3 ? "part" : null).attr("x", left).attr("y", y).attr("width", wide).attr("height", LANE.height)
        .attr("fill", fillOf(part)).attr("fill-opacity", folded && PASS_PARTS[part.key] && bar[5] % 2 ? .72 : 1);
      const text = folded && PASS_PARTS[part.key] ? String(bar[5]) : folded ? part.name : kinds[bar[3]][0];
      if (wide > 7 * text.length + 6) {
        group.append("text").attr("class", `within ${lettersOn(part)}`).attr("x", Math.max(left, LANE.left) + 4).attr("y", y + 12.5).text(text);
      }
      tells(group.node(), () => barTip(bar, kinds[bar[3]], lane, folded, part));
    }
  });
}

function ganttLegend(gantt) {
  const parts = [...new Map(gantt.kinds.map(kind => partOfKind(kind, gantt)).map(part => [part.key, part])).values()];
  const waits = gantt.lanes.some(lane => lane.bars.some(bar => bar[1] > 0));
  return element("ul", {class: "legend"}, parts.map(part => element("li", {}, swatch(part), part.name)),
    waits ? element("li", {}, swatch({hue: "grey", hatched: true}), "waiting for the slowest") : "");
}

function ganttChart(gantt) {
  const places = placesOf(gantt.lanes), height = places[places.length - 1] + LANE.height + 6;
  const svg = d3.create("svg").attr("viewBox", `0 0 ${LANE.width} ${height}`).attr("width", LANE.width).attr("class", "gantt").attr("role", "img")
    .attr("aria-label", "timeline; its figures are in the tooltips of its bars");
  const defs = element("div");
  const inner = svg.append("g"), whole = d3.scaleLinear([gantt.from_s, gantt.to_s], [LANE.left, LANE.width - LANE.right]);
  svg.append("clipPath").attr("id", "lanes").append("rect").attr("x", LANE.left).attr("y", 0).attr("width", LANE.width - LANE.left - LANE.right).attr("height", height);
  let view = whole.copy();
  const extent = [[LANE.left, 0], [LANE.width - LANE.right, height]];
  const zoom = d3.zoom().scaleExtent([1, 4000]).extent(extent).translateExtent(extent)
    .filter(function (event) { const e = event && event.type ? event : d3.event; return !e.button && (e.type !== "wheel" || e.ctrlKey); })
    .on("zoom", function (event) {
      view = ((event && event.transform) || d3.event.transform).rescaleX(whole);
      drawGantt(gantt, view, inner);
    });
  drawGantt(gantt, view, inner);
  svg.call(zoom).on("dblclick.zoom", null);
  const act = (label, title, action) => element("button", {type: "button", title, onclick: action}, label);
  const controls = element("div", {class: "controls"},
    act("+", "closer", () => svg.call(zoom.scaleBy, 2)), act("−", "farther", () => svg.call(zoom.scaleBy, .5)),
    act("←", "earlier", () => svg.call(zoom.translateBy, 200 * (view.domain()[1] - view.domain()[0]) / (gantt.to_s - gantt.from_s), 0)),
    act("→", "later", () => svg.call(zoom.translateBy, -200 * (view.domain()[1] - view.domain()[0]) / (gantt.to_s - gantt.from_s), 0)),
    act("whole", "all of it", () => svg.call(zoom.transform, d3.zoomIdentity)));
  return [controls, ganttLegend(gantt), element("div", {class: "lanes"}, svg.node())];
}

function ganttCharts(shown, result) {
  const {gantts} = shown.pictures;
  const first = result.unit === "step" ? "the first step" : "the first iteration";
  return gantts.map(gantt => {
    const gpus = new Set(gantt.lanes.map(lane => lane.gpu)).size;
    const all = shown.pictures.loads.gpus;
    const span = gantt.to_s - gantt.from_s;
    const title = gantt.folded ? `The whole ${result.unit}` : gantts.length > 1 ? `${seconds(span)} of it, op by op` : `Every op of ${first}`;
    const small = `${gpus} of ${counted(all, "GPU")}: the one that computes longest of those with the same layers` +
      (gantts.length === 1 && gpus > 1 ? ", the one that computes least, and GPU 0" : "") +
      (gantt.folded ? `; numbers: microbatches; waiting is left out` : gantts.length > 1 ? `, from ${seconds(gantt.from_s)} on` : "");
    return captioned(title, small, ganttChart(gantt));
  });
}
