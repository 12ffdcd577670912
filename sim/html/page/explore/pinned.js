// A pinned state next to the one that is shown: what moved, by how much, and in which part.

const pinned = {result: null, state: null, name: ""};

function pin(result, state, name) {
  Object.assign(pinned, {result, state, name});
  if (shownNow.result) show(shownNow.result.document, shownNow.more, shownNow.state);
}

/** Cases of both with the same names; of single ones whatever they are called. */
function pairsOf(before, after) {
  const ran = result => result.cases.filter(shown => shown.ran);
  const [old, now] = [ran(before), ran(after)];
  if (old.length === 1 && now.length === 1) return [[old[0], now[0]]];
  return now.map(shown => [old.find(each => keyOf(each) === keyOf(shown)), shown]).filter(([each]) => each);
}

const signed = value => `${value > 0 ? "+" : "−"}${seconds(Math.abs(value))}`;

/** [{part, seconds}] by how much each part has grown, the largest first. */
function partsMoved(before, after) {
  const old = new Map(before.parts.map(each => [each.part.key, each.seconds]));
  return after.parts.map(({part, seconds: value}) => ({part, seconds: value - (old.get(part.key) || 0)}))
    .filter(each => Math.abs(each.seconds) > 1e-3 * Math.max(before.time, after.time)).sort((a, b) => Math.abs(b.seconds) - Math.abs(a.seconds));
}

function movedText([before, after]) {
  const change = after.time / before.time - 1;
  const parts = partsMoved(before, after);
  const why = parts.length ? `: ${listed(parts.slice(0, 3).map(each => `${each.part.name} ${signed(each.seconds)}`))}` : "";
  return element("li", {}, element("b", {}, `${after.policy} on ${after.topology} `), `${seconds(before.time)} → ${seconds(after.time)} (${signedPercent(change)})${why}`);
}

function compareSection(result) {
  const pairs = pairsOf(pinned.result, result);
  const changes = pinned.state && shownNow.state ? changesBetween(pinned.state, shownNow.state) : [];
  const fastest = shown => shown.cases.find(each => each.best) || shown.cases.find(each => each.ran);
  const [was, is] = [fastest(pinned.result), fastest(result)];
  const lead = `${pinned.name}, against what is shown. ` + (keyOf(was) === keyOf(is) ? `${is.policy} on ${is.topology} is the first in both.` : `The first was ${was.policy} on ${was.topology}; now it is ${is.policy} on ${is.topology}.`);
  const moves = ([before, after]) => Math.abs(after.time / before.time - 1);
  const moved = pairs.filter(pair => moves(pair) >= 5e-4).sort((a, b) => moves(b) - moves(a));
  const still = pairs.length - moved.length;
  const table = element("table", {}, element("thead", {}, element("tr", {}, ["what differs", "pinned", "now"].map(text => element("th", {class: "name", scope: "col"}, text)))),
    element("tbody", {}, changes.map(([key, ...values]) => element("tr", {}, [sliderName(key), ...values].map(text => element("td", {class: "name"}, text))))));
  const view = new View(result);
  const most = Math.max(...moved.flat().map(shown => shown.time));
  const bars = !CHARTS ? [] : moved.map(([before, after]) => {
    const pair = [{...before, policy: "pinned", best: false, speedup: undefined, intervals: null}, {...after, policy: "now", best: false, speedup: before.time / after.time, intervals: null}];
    const drawn = {...result, cases: pair, clusters: false, several: {}};
    return captioned(after.policy, `on ${after.topology}; speedup over the pinned one`,
      drawGroup(pair, {result: drawn, view, parts: shown => shown.parts, hidden: new Set(), shares: false, most}));
  });
  return section("e-compare", "Compare", "What moved, and why?", lead,
    changes.length ? element("div", {class: "table"}, table) : element("p", {class: "said"}, "Nothing that was chosen here differs."),
    moved.length ? element("ul", {class: "moved"}, moved.map(movedText)) : "",
    element("p", {class: "said"}, !pairs.length ? "The two have no case in common." : still ? `${counted(still, "case")} did not move.` : ""), bars);
}
