// The cluster with the utilization of its links.

const IN_HOST = ["nic", "socket", "pcie_switch", "gpu", "nvswitch"];  // from the top
const KIND_NAMES = {pcie_switch: "PCIe switch", nvswitch: "NVSwitch", gpu: "GPU", nic: "NIC"};
const kindName = kind => KIND_NAMES[kind] || kind;

/** Links from the nearest host, of every vertex of the fabric; 0 in hosts. */
function distancesOf(drawing) {
  const distance = drawing.vertices.map(vertex => vertex[2] >= 0 ? 0 : Infinity);
  for (let changed = true; changed;) {
    changed = false;
    for (const [from, to] of drawing.links) {
      if (distance[from] + 1 < distance[to]) distance[to] = distance[from] + 1, changed = true;
    }
  }
  return distance.map(each => each === Infinity ? 1 : each);
}

/** Where vertices are: the fabric by its distance from the hosts, then what hosts hold; hosts next to each other. */
function layoutOf(drawing) {
  const distance = distancesOf(drawing), farthest = Math.max(...distance);
  const tierOf = i => distance[i] > 0 ? farthest - distance[i] : farthest + Math.max(0, IN_HOST.indexOf(drawing.vertices[i][1]));
  const width = 1120, tiers = [...new Set(drawing.vertices.map((_, i) => tierOf(i)))].sort((a, b) => a - b);
  const step = 78, places = [];
  const hosts = [...new Set(drawing.vertices.map(vertex => vertex[2]).filter(host => host >= 0))];
  const room = width / Math.max(1, hosts.length);
  const boxes = hosts.map((host, i) => ({host, x: i * room + 6, width: room - 12, top: Infinity, bottom: 0}));
  tiers.forEach((tier, at) => {
    const y = 34 + at * step;
    const members = drawing.vertices.map((vertex, i) => ({vertex, i})).filter(({i}) => tierOf(i) === tier);
    const fabric = members.filter(({vertex}) => vertex[2] < 0);
    fabric.forEach(({i}, at) => { places[i] = {x: width * (at + .5) / fabric.length, y, room: width / fabric.length}; });
    boxes.forEach(box => {
      const own = members.filter(({vertex}) => vertex[2] === box.host);
      own.forEach(({i}, at) => { places[i] = {x: box.x + box.width * (at + .5) / own.length, y, room: box.width / own.length}; });
      if (own.length) box.top = Math.min(box.top, y), box.bottom = Math.max(box.bottom, y);
    });
  });
  return {width, height: 34 + (tiers.length - 1) * step + 46, places, boxes};
}

/** Both directions of a cable as one line: {a, b, there, back, class}, the busier of them says its colour. */
function cablesOf(drawing, permille) {
  const cables = new Map();
  drawing.links.forEach(([from, to, linkClass, bandwidth], i) => {
    const key = `${Math.min(from, to)} ${Math.max(from, to)} ${linkClass}`;
    const cable = cables.get(key) || cables.set(key, {a: from, b: to, name: drawing.classes[linkClass], bandwidth, there: 0, back: 0}).get(key);
    const way = from === cable.a ? "there" : "back";
    cable[way] = Math.max(cable[way], permille[i] / 1000);
  });
  return [...cables.values()].map(cable => ({...cable, most: Math.max(cable.there, cable.back)})).sort((a, b) => a.most - b.most);
}

function clusterPicture(drawing, permille) {
  const {width, height, places, boxes} = layoutOf(drawing);
  const cables = cablesOf(drawing, permille), most = Math.max(1e-6, ...cables.map(cable => cable.most));
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("class", "cluster").attr("role", "img")
    .attr("aria-label", "the cluster's links, coloured by utilization");
  for (const box of boxes) {
    svg.append("rect").attr("x", box.x).attr("y", box.top - 24).attr("width", box.width).attr("height", box.bottom - box.top + 48).attr("rx", 9)
      .style("fill", "var(--raised)").style("stroke", "var(--line)");
    if (boxes.length <= 24) {
      svg.append("text").attr("class", "soft").attr("x", box.x + 8).attr("y", box.bottom + 40).style("font-size", "11.5px")
        .text(drawing.vertices.find(vertex => vertex[2] === box.host)[0].replace(/\.[^.]*$/, ""));
    }
  }
  for (const cable of cables) {
    const a = places[cable.a], b = places[cable.b];
    const bend = a.y === b.y ? 26 + Math.abs(a.x - b.x) * .08 : 0;
    const line = svg.append("path").attr("class", "cable").attr("fill", "none").attr("stroke", heatColor(cable.most / most))
      .attr("stroke-width", 1.2 + 3.2 * cable.most / most).attr("stroke-opacity", cable.most > 0 ? .95 : .35)
      .attr("d", `M${a.x},${a.y} Q${(a.x + b.x) / 2},${(a.y + b.y) / 2 + bend} ${b.x},${b.y}`);
    const [from, to] = [drawing.vertices[cable.a][0], drawing.vertices[cable.b][0]];
    tells(line.node(), () => ({title: `${cable.name}, ${bytes(cable.bandwidth)}/s`, rows: [[`${from} to ${to}`, percent(cable.there, 1)], [`${to} to ${from}`, percent(cable.back, 1)]]}));
  }
  drawing.vertices.forEach(([name, kind], i) => {
    const {x, y, room} = places[i];
    const wide = Math.max(5, Math.min(kind === "gpu" ? 34 : 30, room - 3)), high = kind === "gpu" ? 20 : 14;
    const node = svg.append("g");
    node.append("rect").attr("x", x - wide / 2).attr("y", y - high / 2).attr("width", wide).attr("height", high).attr("rx", kind === "gpu" ? 4 : 7)
      .style("fill", kind === "gpu" ? "var(--text)" : "var(--ground)").style("stroke", "var(--soft)");
    const short = name.replace(/^.*\./, "").replace(/^gpu/, "");
    if (kind === "gpu" && wide > 11) {
      node.append("text").attr("x", x).attr("y", y + 4).attr("text-anchor", "middle").style("fill", "var(--ground)").style("font-size", "10.5px").text(short);
    }
    tells(node.node(), () => ({title: name, text: kindName(kind)}));
  });
  return element("div", {}, colorScale(0, most, value => percent(value, most < .1 ? 1 : 0), value => value / most), svg.node());
}

/** Mean and busiest link of every class. */
function classBars(classes) {
  const width = 1120, left = 190, inner = width - left - 330, step = 27, height = 24 + classes.length * step;
  const most = Math.max(1e-6, ...classes.map(each => each.most));
  const scale = d3.scaleLinear([0, most], [0, inner]);
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width);
  svg.append("g").attr("class", "axis grid").attr("transform", `translate(${left},18)`)
    .call(d3.axisTop(scale).ticks(6).tickSizeInner(-(height - 18)).tickFormat(value => percent(value, most < .05 ? 1 : 0)));
  classes.forEach((each, i) => {
    const row = svg.append("g").attr("class", "row").attr("transform", `translate(0,${24 + i * step})`).attr("tabindex", 0);
    row.append("rect").attr("class", "back").attr("width", width).attr("height", step - 3).attr("rx", 4);
    row.append("text").attr("x", left - 10).attr("y", 15).attr("text-anchor", "end").text(each.class);
    row.append("rect").attr("class", "part").attr("x", left).attr("y", 4).attr("width", Math.max(.5, scale(each.most))).attr("height", 15).style("fill", "var(--sky)");
    row.append("rect").attr("class", "part").attr("x", left).attr("y", 4).attr("width", Math.max(.5, scale(each.mean))).attr("height", 15).style("fill", "var(--blue)");
    row.append("text").attr("x", left + scale(each.most) + 8).attr("y", 15).text(percent(each.most, 1)).attr("class", "strong");
    row.append("text").attr("class", "soft").attr("x", left + scale(each.most) + 66).attr("y", 15).text(each.busiest);
    tells(row.node(), () => ({title: each.class, rows: [["links that carry bytes", `${whole(each.used)} of ${whole(each.links)}`], ["bytes on all of them", bytes(each.bytes)],
      ["mean utilization", percent(each.mean, 1)], ["busiest", `${percent(each.most, 1)}`], ["", each.busiest]]}));
  });
  return svg.node();
}

function linkCharts(shown, result) {
  const {links} = shown.pictures;
  const drawing = result.document.drawings.find(each => each.topology === shown.topology);
  const all = drawing.drawn_hosts === drawing.hosts;
  return [
    captioned("Link classes", "dark: the mean link; light: the busiest, with its name",
      classBars(links.classes)),
    captioned(all ? `${drawing.topology}, every link` : `${drawing.topology}, ${drawing.drawn_hosts} of ${whole(drawing.hosts)} hosts and the switches that they reach`,
      `colour and width: the busier direction${all ? "" : "; the figures above count every link"}`, clusterPicture(drawing, links.drawn_permille)),
  ];
}
