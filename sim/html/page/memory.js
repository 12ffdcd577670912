// What the fullest GPU holds in the course of an iteration.

const MEMORY_HUES = {weights: "blue", gradients: "wine", optimizer: "olive", placeholders: "grey", gathered: "purple", activations: "vermilion", working: "orange", transfers: "sky"};

function memoryCharts(shown) {
  const {memory} = shown.pictures;
  if (!memory) return [];
  const width = 1120, left = 70, right = 120, top = 12, height = 330, bottom = 40;
  const parts = memory.parts.map((name, i) => ({name, i, hue: MEMORY_HUES[name] || "grey"})).filter(({i}) => memory.megabytes.some(turn => turn[i] > 0));
  const total = turn => d3.sum(parts, ({i}) => turn[i]);
  const peak = d3.max(memory.megabytes, total), room = memory.gpu_memory_bytes / 1e6;
  const x = d3.scaleLinear([0, memory.megabytes.length], [left, width - right]);
  const y = d3.scaleLinear([0, Math.max(peak, room) * 1.04 / 1000], [height - bottom, top]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("class", "memory").attr("role", "img").attr("aria-label", "memory by turn");
  svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(6).tickSizeInner(-(width - left - right)));
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(x).ticks(Math.min(12, memory.megabytes.length)).tickFormat(d3.format("d")));
  svg.append("text").attr("class", "unit").attr("x", left - 8).attr("y", top - 2).attr("text-anchor", "end").text("GB");
  svg.append("text").attr("class", "soft").attr("x", (left + width - right) / 2).attr("y", height - 6).attr("text-anchor", "middle").text(`turn of pipeline stage ${memory.stage}`);
  const below = memory.megabytes.map(() => 0);
  for (const part of parts) {
    const area = memory.megabytes.map((turn, t) => [t, below[t], below[t] += turn[part.i]]);
    const path = area.flatMap(([t, , high]) => [[x(t), y(high / 1000)], [x(t + 1), y(high / 1000)]])
      .concat(area.slice().reverse().flatMap(([t, low]) => [[x(t + 1), y(low / 1000)], [x(t), y(low / 1000)]]));
    svg.append("path").attr("class", "area").attr("d", `M${path.map(point => point.map(v => v.toFixed(1)).join(",")).join("L")}Z`).style("fill", `var(--${part.hue})`);
  }
  svg.append("line").attr("x1", left).attr("x2", width - right).attr("y1", y(room / 1000)).attr("y2", y(room / 1000)).style("stroke", "var(--text)").attr("stroke-width", 1.5).attr("stroke-dasharray", "6 4");
  svg.append("text").attr("x", width - right + 8).attr("y", y(room / 1000) + 4).text(`${bytes(room * 1e6)} GPU`);
  const full = memory.megabytes.findIndex(turn => total(turn) === peak);
  svg.append("text").attr("class", "strong").attr("x", width - right + 8).attr("y", y(peak / 1000) + (Math.abs(y(peak / 1000) - y(room / 1000)) < 16 ? 20 : 4)).text(`${bytes(peak * 1e6)} peak`);
  memory.megabytes.forEach((turn, t) => {
    const hit = svg.append("rect").attr("class", "turn").attr("x", x(t)).attr("y", top).attr("width", x(1) - x(0)).attr("height", height - bottom - top).attr("fill", "transparent");
    tells(hit.node(), () => ({title: `turn ${t}: ${memory.turns[t]}`, rows: [["in all", bytes(total(turn) * 1e6)], ...parts.slice().reverse().filter(({i}) => turn[i] > 0).map(part => [part.name, bytes(turn[part.i] * 1e6), part])]}));
  });
  return [captioned(`GPU ${memory.gpu} of ${shown.policy}`, `fullest in turn ${full}: ${memory.turns[full]}`,
    element("ul", {class: "legend"}, parts.map(part => element("li", {}, swatch(part), part.name))), svg.node())];
}
