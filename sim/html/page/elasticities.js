// What a little more of each resource is worth.

function elasticityBars(shown, result) {
  const list = shown.raw.elasticities || [];
  const telling = list.filter(each => Math.abs(each.change) >= 5e-5), others = list.filter(each => Math.abs(each.change) < 5e-5);
  const none = others.length ? element("p", {class: "said"}, `Without effect: ${others.map(each => each.resource).join(", ")}.`) : "";
  if (!telling.length) return [none];
  const width = 1120, left = 230, right = 120, step = 28, height = 30 + telling.length * step;
  const low = Math.min(0, d3.min(telling, each => each.change)), high = Math.max(0, d3.max(telling, each => each.change));
  const scale = d3.scaleLinear([low, high], [left, width - right]).nice();
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("role", "group");
  svg.append("g").attr("class", "axis grid").attr("transform", "translate(0,18)").call(d3.axisTop(scale).ticks(7).tickSizeInner(-(height - 18)).tickFormat(value => percent(value, 1)));
  telling.forEach((each, i) => {
    const faster = each.change < 0, y = 26 + i * step, at = scale(each.change), zero = scale(0);
    const row = svg.append("g").attr("class", "row").attr("tabindex", 0).attr("data-resource", each.resource)
      .attr("aria-label", `${each.resource}: ${signedPercent(each.change)}`);
    row.append("rect").attr("class", "back").attr("y", y - 3).attr("width", width).attr("height", step - 1).attr("rx", 5);
    row.append("text").attr("x", left - 12).attr("y", y + 15).attr("text-anchor", "end").text(each.resource);
    row.append("rect").attr("class", "part").attr("x", Math.min(at, zero)).attr("y", y).attr("width", Math.max(1, Math.abs(at - zero))).attr("height", step - 7)
      .attr("fill", `var(--${faster ? "blue" : "vermilion"})`);
    row.append("text").attr("class", "strong").attr("x", Math.max(at, zero) + 8).attr("y", y + 15).text(`${faster ? "−" : "+"}${Math.abs(100 * each.change).toFixed(2)} %`);
    tells(row.node(), () => ({title: `${each.resource}, better by ${percent(each.factor - 1)}`,
      rows: [[`the ${result.unit}`, seconds(each.before_s)], ["with it", seconds(each.after_s)], ["change", `${(100 * each.change).toFixed(2)} %`]]}));
  });
  return [svg.node(), none];
}

const elasticitySection = (id, result, view) => caseSection(id, "Resources", "What would 10 % more of each resource change?",
  "The same plan simulated again with one resource better: bandwidths and rates of flop 10 % higher, latencies and overheads as much shorter. A bar to the left is a faster " + result.unit + "; blue: faster, red: slower.",
  result, view, shown => elasticityBars(shown, result), shown => shown.raw.elasticities);
