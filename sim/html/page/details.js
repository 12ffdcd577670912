// Charts of one case: the one that is chosen by a click on its bar or from the list.

/** Cases that have something to draw, as a list; all sections of a result share the choice. */
function caseChooser(result, view, has) {
  const drawn = result.cases.filter(shown => shown.ran && has(shown));
  const text = shown => [nameOf(shown, result.several), result.several.topology && `on ${shown.topology}`, shown.best && "(fastest)"].filter(Boolean).join(" ");
  const holder = element("span");
  view.follow(() => holder.replaceChildren(chooser("case", drawn.map(shown => ({value: String(shown.index), text: text(shown)})),
    view.chosen && String(view.chosen.index), index => view.change({chosen: result.cases[Number(index)]}))));
  const left = result.cases.filter(shown => shown.ran).length - drawn.length;
  return element("div", {class: "controls"}, holder,
    left > 0 ? element("span", {class: "count"}, `drawn: ${drawn.length} of ${drawn.length + left} cases: first, fastest and slowest of every cluster, then as many as fit; run only one to draw it`) : "");
}

/** A section that draws the chosen case again whenever the choice changes; `has`: whether it can. */
function caseSection(id, title, question, lead, result, view, draw, has = shown => shown.pictures) {
  const chart = element("div", {class: "chart"});
  let drawnFor = null;
  view.follow(() => {
    if (!view.chosen || view.chosen === drawnFor) return;
    drawnFor = view.chosen;
    chart.replaceChildren(...(has(view.chosen) ? [draw(view.chosen)].flat() :
      [element("p", {class: "said"}, `${view.chosen.policy} on ${view.chosen.topology} is not among the cases that are drawn.`)]));
  });
  return section(id, title, question, lead, caseChooser(result, view, has), chart);
}

const captioned = (title, small, ...content) => element("figure", {}, element("figcaption", {}, `${title} `, element("small", {}, small)), content);

const cellNames = (number, per, name) => Array.from({length: Math.ceil(number / per)}, (_, i) => per === 1 ? String(i) : `${i * per}`);
const cellTitle = (i, per, name, number) => per === 1 ? `${name} ${i}` : `${name}s ${i * per} to ${Math.min(number, (i + 1) * per) - 1}`;
const ratio = value => times(value / 100);

function loadCharts(shown) {
  const {loads} = shown.pictures;
  const steps = loads.steps * loads.microbatches;
  const step = loads.microbatches > 1 ? "microbatch" : "step";
  const byGpu = captioned("Rows that every GPU's experts compute", `over the mean GPU of the layer; 1× is balanced${loads.gpus_per_cell > 1 ? `; a cell is the busiest of ${loads.gpus_per_cell} GPUs` : ""}`,
    heatMap({rows: loads.layers.map(String), columns: cellNames(loads.gpus, loads.gpus_per_cell), values: loads.percent_of_mean,
      rowTitle: "layer", columnTitle: "GPU", text: ratio,
      tip: (row, column) => ({title: `layer ${loads.layers[row]}, ${cellTitle(column, loads.gpus_per_cell, "GPU", loads.gpus)}`,
        rows: loads.percent_of_mean[row][column] === NO_VALUE ? [["", "does not compute this layer"]] :
          [["rows over the mean GPU's", ratio(loads.percent_of_mean[row][column])]]})}));
  if (steps < 2) return [byGpu];
  return [byGpu, captioned(`Busiest over mean GPU, ${step} by ${step}`, `what a layer waits for${loads.steps_per_cell > 1 ? `; a cell is the mean of ${loads.steps_per_cell} ${step}s` : ""}`,
    heatMap({rows: loads.layers.map(String), columns: cellNames(steps, loads.steps_per_cell), values: loads.max_over_mean_percent, least: 100,
      rowTitle: "layer", columnTitle: step, text: ratio,
      tip: (row, column) => ({title: `layer ${loads.layers[row]}, ${cellTitle(column, loads.steps_per_cell, step, steps)}`,
        rows: [["busiest over mean GPU", ratio(loads.max_over_mean_percent[row][column])]]})}))];
}

function expertSection(id, result) {
  const loads = result.document.expert_loads;
  const names = Array.from({length: loads.experts}, (_, i) => String(i));
  return section(id, "Experts", "How unevenly does the recorded routing choose its experts?",
    "Before any placement: choices of every expert over the mean expert's, in all recorded steps together, and how uneven every step is by itself.",
    captioned("Choices of every expert", "1×: chosen as often as the mean expert of its layer",
      heatMap({rows: loads.layers.map(String), columns: names, values: loads.percent_of_mean, rowTitle: "layer", columnTitle: "expert", text: ratio,
        tip: (row, column) => ({title: `layer ${loads.layers[row]}, expert ${column}`, rows: [["choices over the mean expert's", ratio(loads.percent_of_mean[row][column])]]})})),
    loads.steps.length < 2 ? "" : captioned("Most chosen over mean expert, step by step",
      loads.steps.length < loads.recorded_steps ? `${loads.steps.length} of ${loads.recorded_steps} recorded steps, evenly spaced` : "recorded steps",
      heatMap({rows: loads.layers.map(String), columns: loads.steps.map(String), values: loads.max_over_mean_percent, least: 100, rowTitle: "layer", columnTitle: "recorded step", text: ratio,
        tip: (row, column) => ({title: `layer ${loads.layers[row]}, step ${loads.steps[column]}`, rows: [["most chosen over mean expert", ratio(loads.max_over_mean_percent[row][column])]]})})));
}

const TRAFFIC = {tokens: "token rows", parameters: "expert parameters and gradients", activations: "tensor and context groups", stages: "between pipeline stages"};

function trafficCharts(shown, result) {
  const {gpus_per_cell: per, kilobytes_per_step: matrices} = shown.pictures.traffic;
  const kinds = Object.keys(matrices);
  if (!kinds.length) return [element("p", {class: "said"}, "Nothing leaves its GPU.")];
  const holder = element("div");
  const draw = kind => {
    const values = matrices[kind].map((row, i) => row.map((value, j) => i === j && per === 1 ? NO_VALUE : value));
    const names = cellNames(values.length * per, per);
    const block = i => cellTitle(i, per, "GPU", values.length * per);
    holder.replaceChildren(captioned(`Bytes from every GPU to every other: ${TRAFFIC[kind] || kind}`,
      `per ${result.unit}${per > 1 ? `; rows and columns are blocks of ${per} successive GPUs` : ""}; what stays on its GPU is left out`,
      heatMap({rows: names, columns: names, values, square: true, root: true, rowTitle: "from GPU", columnTitle: "to GPU",
        text: value => bytes(value * 1000),
        tip: (row, column) => ({title: `${block(row)} to ${block(column)}`, rows: [[TRAFFIC[kind] || kind, bytes(matrices[kind][row][column] * 1000)]]})})));
  };
  draw(kinds[0]);
  const controls = kinds.length < 2 ? "" : element("div", {class: "controls"},
    chooser("bytes of", kinds.map(kind => ({value: kind, text: TRAFFIC[kind] || kind})), kinds[0], draw));
  return [controls, holder];
}

/** All of them, or only the one of that name. */
function detailSections(id, result, view, only) {
  if (!CHARTS || !result.cases.some(shown => shown.pictures)) return [];
  const {unit} = result;
  const of = (name, title, question, lead, draw) => [name, () => caseSection(`${id}-${name}`, title, question, lead, result, view, draw)];
  const all = [
    of("timeline", "Timeline", `What does every stream do, and when?`,
      `A lane per GPU and stream. Bars of exchanges begin when the GPU joins; the hatched part is waiting for the slowest. Drag to move, Ctrl and wheel or the buttons to zoom.`,
      shown => ganttCharts(shown, result)),
    ["experts", () => result.document.expert_loads ? expertSection(`${id}-experts`, result) : ""],
    of("loads", "Loads", "Which GPUs compute most?", "Loads after the policy placed the experts and divided the rows.", loadCharts),
    of("traffic", "Traffic", "Who sends how much to whom?", "Colours grow with the square root of the bytes, so that small ones show, too.", shown => trafficCharts(shown, result)),
    of("links", "Links", "Which links are busy?",
      `Utilization: the time that a link needs for its bytes at full rate, as a share of the ${unit}. A link far below 100 % may still bind: its exchange is only a part of the ${unit}.`,
      shown => linkCharts(shown, result)),
    ...(result.cases.some(shown => shown.pictures && shown.pictures.memory) ?
      [of("memory", "Memory", "What fills the fullest GPU, and when?", "Turn by turn of its pipeline stage, each at its fullest moment.", memoryCharts)] : []),
  ];
  return all.filter(([name]) => only === undefined || name === only).map(([, make]) => make());
}
