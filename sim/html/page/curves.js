// Curves of a sweep: a figure along any axis, a line per value of another one; and its Pareto front.

const CURVE = {width: 1120, height: 400, left: 90, right: 30, top: 16, bottom: 46};
const MOST_LINES = 24;

/** A scale of an axis: linear or logarithmic of numbers, else places. */
function axisScale(axis, range) {
  if (!axis.numbers) return d3.scalePoint(axis.values.map(String), range).padding(0.5);
  const numbers = [...axis.numbers.values()], [low, high] = d3.extent(numbers);
  if (low === high) return d3.scaleLinear([low - 1, high + 1], range);
  return low > 0 && high / low >= 4 ? d3.scaleLog([low, high], range) : d3.scaleLinear([low, high], range);
}

const placeOn = (axis, scale, value) => scale(axis.numbers ? axis.numbers.get(value) : String(value));

function figureScale(name, values, range, logarithmic) {
  const [low, high] = d3.extent(values);
  if (logarithmic && low > 0) return d3.scaleLog([low / 1.05, high * 1.05], range);
  return d3.scaleLinear([0, high * 1.05 || 1], range);
}

function figureAxis(svg, name, scale, horizontal, size) {
  const unit = isTime(name) ? unitOf(d3.max(scale.domain()), TIME_UNITS) : /bytes/.test(name) ? unitOf(d3.max(scale.domain()), BYTE_UNITS) : [1, ""];
  const inUnits = scale.copy().domain(scale.domain().map(value => value / unit[0]));
  const axis = (horizontal ? d3.axisBottom : d3.axisLeft)(inUnits).ticks(6).tickFormat(digits).tickSizeInner(-size);
  svg.append("g").attr("class", "axis grid").attr("transform", horizontal ? `translate(0,${CURVE.height - CURVE.bottom})` : `translate(${CURVE.left},0)`).call(axis);
  const label = svg.append("text").attr("class", "unit").text(`${name}${unit[1] ? ` (${unit[1]})` : ""}`);
  if (horizontal) label.attr("x", CURVE.width - CURVE.right).attr("y", CURVE.height - 8).attr("text-anchor", "end");
  else label.attr("x", CURVE.left).attr("y", 10);
}

function emptyChart(label) {
  return d3.create("svg").attr("viewBox", `0 0 ${CURVE.width} ${CURVE.height}`).attr("width", CURVE.width).attr("role", "group").attr("aria-label", label);
}

const inner = {x: () => [CURVE.left + 12, CURVE.width - CURVE.right], y: () => [CURVE.height - CURVE.bottom, CURVE.top + 8]};

const hueOf = line => LINE_HUES[line % LINE_HUES.length];
const dashOf = line => ["", "6 4", "2 4"][Math.floor(line / LINE_HUES.length) % 3];

/** A point that tells of its row. */
function point(svg, row, {x, y, hue, radius, faint}, content) {
  const dot = svg.append("circle").attr("class", faint ? "dot faint" : "dot").attr("cx", x).attr("cy", y).attr("r", radius).attr("tabindex", faint ? null : 0)
    .attr("data-id", row.id).style("fill", `var(--${hue})`);
  tells(dot.node(), content);
}

/** The best of the allowed ones, else of all. */
const bestOfAny = (rows, figure) => bestOf(winnersOf(rows), figure) || bestOf(rows, figure);

/** [{value, hue, dash, rows: the best per place}] of the lines of a chart. */
function linesOf(rows, along, lines, figure) {
  const values = lines ? lines.values : [null];
  return values.map((value, i) => ({value, hue: hueOf(i), dash: dashOf(i), rows: along.values.map(place =>
    bestOfAny(rows.filter(row => row[along.name] === place && (!lines || row[lines.name] === value)), figure)).filter(Boolean)}))
    .filter(line => line.rows.length);
}

function drawCurves(result, {figure, along, lines, logarithmic}, drawn) {
  const svg = emptyChart(`${figure} by ${along.name}`);
  const x = axisScale(along, inner.x()), y = figureScale(figure, drawn.flatMap(line => line.rows.map(row => row[figure])), inner.y(), logarithmic);
  figureAxis(svg, figure, y, false, CURVE.width - CURVE.left - CURVE.right);
  const ticks = along.numbers ? d3.axisBottom(x).tickValues([...along.numbers.values()]).tickFormat(digits) : d3.axisBottom(x);
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${CURVE.height - CURVE.bottom})`).call(ticks);
  svg.append("text").attr("class", "unit").attr("x", CURVE.width - CURVE.right).attr("y", CURVE.height - 8).attr("text-anchor", "end")
    .text(`${along.name}${along.unit ? ` (${along.unit})` : ""}`);
  for (const line of drawn) {
    const at = row => [placeOn(along, x, row[along.name]), y(row[figure])];
    const ordered = [...line.rows].sort((a, b) => at(a)[0] - at(b)[0]);
    svg.append("path").attr("class", "curve").attr("d", d3.line()(ordered.map(at))).style("stroke", `var(--${line.hue})`).attr("stroke-dasharray", line.dash || null);
    for (const row of ordered) point(svg, row, {x: at(row)[0], y: at(row)[1], hue: line.hue, radius: 5}, () => rowTip(row, result.axes, [figure]));
  }
  return svg.node();
}

const lineLegend = (drawn, name) => element("ul", {class: "legend"}, drawn.filter(line => line.value !== null).map(line =>
  element("li", {}, swatch({hue: line.hue}), `${name === "policy" ? "" : `${name} `}${line.value}`)));

/** The rows that the choices of all other axes admit; "" is the best of all. */
const admitted = (rows, only) => rows.filter(row => Object.entries(only).every(([name, value]) => value === "" || String(row[name]) === value));

const NO_LINES = "all as one";

function curveSection(id, result) {
  const several = result.axes.filter(axis => axis.values.length > 1), drawing = element("div", {class: "chart"}), rest = element("div", {class: "controls"});
  const along = several.find(axis => axis.numbers) || several[0] || result.axes[0];
  if (!along) return "";
  const asked = {figure: result.time, along, lines: several.find(axis => axis !== along) || null, logarithmic: false};
  const only = {};
  const redraw = () => {
    const all = linesOf(admitted(result.ran, only), asked.along, asked.lines, asked.figure), drawn = all.slice(0, MOST_LINES);
    if (!drawn.length) return drawing.replaceChildren(element("p", {class: "said"}, "No scenario with figures has these values."));
    return drawing.replaceChildren(element("figure", {"data-lines": drawn.length}, lineLegend(drawn, asked.lines && asked.lines.name), drawCurves(result, asked, drawn),
      all.length > drawn.length ? element("p", {class: "said"}, `The first ${drawn.length} of ${all.length} lines.`) : ""));
  };
  const others = () => {
    const left = several.filter(axis => axis !== asked.along && axis !== asked.lines);
    Object.keys(only).filter(name => !left.some(axis => axis.name === name)).forEach(name => delete only[name]);
    rest.replaceChildren(...left.map(axis => chooser(axis.name, [{value: "", text: "the best"}, ...axis.values.map(value => ({value: String(value), text: String(value)}))],
      only[axis.name] || "", value => { only[axis.name] = value; redraw(); })));
    redraw();
  };
  const named = name => several.find(axis => axis.name === name) || null;
  const names = several.map(axis => ({value: axis.name, text: axis.name}));
  others();
  return section(id, "Curves", `How does ${result.unit === "iteration" ? "an iteration" : `a ${result.unit}`} change along an axis?`,
    "A point is a scenario: the best by this figure of all that share the values of its two axes, unless a value is chosen for the others. Hover a point to see it.",
    element("div", {class: "controls"}, chooser("figure", result.figures.map(value => ({value, text: value})), asked.figure, value => { asked.figure = value; redraw(); }),
      chooser("along", names, along.name, value => { asked.along = named(value); if (asked.lines === asked.along) asked.lines = null; others(); }),
      chooser("lines", [{value: "", text: NO_LINES}, ...names], asked.lines ? asked.lines.name : "", value => { asked.lines = named(value); others(); }),
      chooser("scale", [{value: "linear", text: "from zero"}, {value: "log", text: "logarithmic"}], "linear", value => { asked.logarithmic = value === "log"; redraw(); })),
    rest, drawing);
}

/** Rows that no other one beats in both figures, the best by the first of them first. */
function frontOf(rows, [x, y]) {
  const sign = name => isMore(name) ? -1 : 1, key = (row, name) => sign(name) * row[name];
  const ordered = rows.filter(row => typeof row[x] === "number" && typeof row[y] === "number")
    .sort((a, b) => key(a, x) - key(b, x) || key(a, y) - key(b, y) || a.id - b.id);
  let least = Infinity;
  let [lastX, lastY] = [NaN, NaN];
  return ordered.filter(row => {
    const same = row[x] === lastX && row[y] === lastY;
    if (!same && !(key(row, y) < least)) return false;
    least = key(row, y);
    [lastX, lastY] = [row[x], row[y]];
    return true;
  });
}

function drawFront(result, figures, front, colours) {
  const [x, y] = figures, svg = emptyChart(`${y} against ${x}`);
  const rows = result.ran.filter(row => typeof row[x] === "number" && typeof row[y] === "number");
  const right = figureScale(x, rows.map(row => row[x]), inner.x(), true), up = figureScale(y, rows.map(row => row[y]), inner.y(), true);
  figureAxis(svg, y, up, false, CURVE.width - CURVE.left - CURVE.right);
  figureAxis(svg, x, right, true, CURVE.height - CURVE.top - CURVE.bottom);
  const at = row => [right(row[x]), up(row[y])];
  svg.append("path").attr("class", "curve front").attr("d", d3.line().curve(d3.curveStepAfter)(front.map(at))).style("stroke", "var(--grey)");
  const kept = new Set(front);
  const hue = row => colours ? hueOf(colours.values.indexOf(row[colours.name])) : "blue";
  for (const row of [...rows.filter(each => !kept.has(each)), ...front]) {
    point(svg, row, {x: at(row)[0], y: at(row)[1], hue: hue(row), radius: kept.has(row) ? 6.5 : 3.5, faint: !kept.has(row)}, () => rowTip(row, result.axes, figures));
  }
  return svg.node();
}

function paretoSection(id, result) {
  const figures = [...result.rivals], several = result.axes.filter(axis => axis.values.length > 1), drawing = element("div", {class: "chart"});
  const colours = several.find(axis => axis.values.length <= LINE_HUES.length && !axis.numbers) || several[0];
  const redraw = () => {
    const front = frontOf(winnersOf(result.ran), figures);
    const axes = several.map(axis => ({name: axis.name, left: !axis.numbers, value: row => row[axis.name], text: String}));
    const {fill, save, table} = sortingTable([...axes, ...figures.map(name => ({name, value: row => row[name], text: value => figureText(name, value)}))], () => front,
      {label: "the Pareto front", file: "moesim-front.csv", row: rowOfTable});
    fill();
    const legend = colours ? colours.values.map((value, i) => ({value, hue: hueOf(i)})) : [];
    drawing.replaceChildren(element("figure", {"data-front": front.length}, lineLegend(legend, colours && colours.name), drawFront(result, figures, front, colours)),
      element("div", {class: "controls"}, save), table);
  };
  const choices = result.figures.map(value => ({value, text: value}));
  redraw();
  return section(id, "Pareto front", "What is best where two figures count?",
    "Large points: no other scenario is at least as good in both figures and better in one. Of rates more is better, of everything else less. The table below lists them.",
    element("div", {class: "controls"}, chooser("right", choices, figures[0], value => { figures[0] = value; redraw(); }),
      chooser("up", choices, figures[1], value => { figures[1] = value; redraw(); })), drawing);
}
