// Heat maps: a canvas of one dot per cell, enlarged, with axes, a scale of colours and a cursor.

const HEAT = {left: 74, right: 20, top: 8, bottom: 42, width: 1120, tallest: 26, least: 5};
const NO_VALUE = -1;

const heatColor = share => d3.interpolateViridis(Math.max(0, Math.min(1, share)));

/** The scale of colours: a strip from 0 (or `least`) to the greatest value, named by `text`. */
function colorScale(least, most, text, share) {
  const width = 260, svg = d3.create("svg").attr("viewBox", `0 0 ${width + 60} 34`).attr("width", width + 60);
  const strip = svg.append("g").attr("transform", "translate(20,0)");
  for (let i = 0; i < width; i += 4) {
    strip.append("rect").attr("x", i).attr("width", 4.5).attr("height", 11).attr("fill", heatColor(share(least + (most - least) * i / width)));
  }
  for (const value of d3.ticks(least, most, 5)) {
    strip.append("text").attr("class", "soft").attr("x", (value - least) / (most - least) * width).attr("y", 27).attr("text-anchor", "middle")
      .style("font-size", "11.5px").text(text(value));
  }
  return svg.node();
}

function ticksOf(labels, room) {
  const every = Math.max(1, Math.ceil(labels.length / Math.max(1, room)));
  return labels.map((label, i) => ({label, i})).filter(({i}) => i % every === 0);
}

/** `spec`: {rows, columns: labels; values[row][column] (-1: none), rowTitle, columnTitle, tip(row, column), text(value),
 *  root: of matrices whose values differ by orders, square, least}. */
function heatMap(spec) {
  const {rows, columns, values} = spec;
  const flat = values.flat().filter(value => value !== NO_VALUE);
  const least = spec.least || 0, most = Math.max(least + 1e-9, ...flat.reduce((m, v) => v > m[0] ? [v] : m, [0]));
  const share = value => spec.root ? Math.sqrt(value / most) : (value - least) / (most - least);
  const inner = spec.square ? Math.min(620, rows.length * HEAT.tallest) : HEAT.width - HEAT.left - HEAT.right;
  const cell = {width: inner / columns.length,
    height: spec.square ? inner / rows.length : Math.max(HEAT.least, Math.min(HEAT.tallest, 420 / rows.length))};
  const height = cell.height * rows.length;

  const canvas = element("canvas", {width: columns.length, height: rows.length,
    style: `width:${100 * inner / HEAT.width}%; height:${height}px; margin: ${HEAT.top}px 0 ${HEAT.bottom}px ${100 * HEAT.left / HEAT.width}%`});
  const paint = canvas.getContext("2d");
  values.forEach((row, y) => row.forEach((value, x) => {
    if (value === NO_VALUE) return;
    paint.fillStyle = heatColor(share(value));
    paint.fillRect(x, y, 1, 1);
  }));

  const svg = d3.create("svg").attr("viewBox", `0 0 ${HEAT.width} ${height + HEAT.top + HEAT.bottom}`).attr("width", "100%")
    .attr("height", height + HEAT.top + HEAT.bottom).attr("preserveAspectRatio", "none").attr("tabindex", 0).attr("role", "img")
    .attr("aria-label", `${spec.rowTitle} by ${spec.columnTitle}; arrow keys walk through the cells`);
  const frame = svg.append("g").attr("transform", `translate(${HEAT.left},${HEAT.top})`);
  for (const {label, i} of ticksOf(rows, height / 13)) {
    frame.append("text").attr("class", "soft").attr("x", -8).attr("y", (i + .5) * cell.height + 4).attr("text-anchor", "end").style("font-size", "11px").text(label);
  }
  for (const {label, i} of ticksOf(columns, inner / 42)) {
    frame.append("text").attr("class", "soft").attr("x", (i + .5) * cell.width).attr("y", height + 15).attr("text-anchor", "middle").style("font-size", "11px").text(label);
  }
  frame.append("text").attr("class", "soft").attr("x", inner / 2).attr("y", height + 33).attr("text-anchor", "middle").text(spec.columnTitle);
  frame.append("text").attr("class", "soft").attr("transform", `translate(${-HEAT.left + 14},${height / 2}) rotate(-90)`).attr("text-anchor", "middle").text(spec.rowTitle);
  const cursor = frame.append("rect").attr("fill", "none").style("stroke", "var(--vermilion)").attr("stroke-width", 2)
    .attr("width", cell.width).attr("height", cell.height).attr("visibility", "hidden");

  let at = null;
  const point = (row, column, x, y) => {
    at = [row, column];
    cursor.attr("visibility", "visible").attr("x", column * cell.width).attr("y", row * cell.height);
    tip.fill(spec.tip(row, column));
    tip.place(x, y);
  };
  const node = svg.node();
  const within = event => {
    const box = node.getBoundingClientRect();
    const x = (event.clientX - box.left) * HEAT.width / box.width - HEAT.left;
    const y = (event.clientY - box.top) - HEAT.top;
    const row = Math.floor(y / cell.height), column = Math.floor(x / cell.width);
    return row >= 0 && row < rows.length && column >= 0 && column < columns.length ? [row, column] : null;
  };
  const leave = () => { cursor.attr("visibility", "hidden"); tip.hide(); };
  node.addEventListener("pointermove", event => {
    const found = within(event);
    if (found) point(...found, event.clientX, event.clientY);
    else leave();
  });
  node.addEventListener("pointerleave", leave);
  node.addEventListener("blur", leave);
  node.addEventListener("keydown", event => {
    const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!move) return;
    event.preventDefault();
    const [row, column] = at ? [at[0] + move[0], at[1] + move[1]] : [0, 0];
    const to = [Math.max(0, Math.min(rows.length - 1, row)), Math.max(0, Math.min(columns.length - 1, column))];
    const box = cursor.attr("x", to[1] * cell.width).attr("y", to[0] * cell.height).node().getBoundingClientRect();
    point(...to, box.right, box.bottom);
  });
  return element("div", {class: "heat"}, colorScale(least, most, spec.text, share),
    element("div", {class: "cells", "data-cells": `${rows.length}x${columns.length}`}, canvas, node));
}
