// The report: an article for each result.

Object.assign(report, JSON.parse(document.getElementById("data").textContent));

function contents(articles) {
  const links = articles.flatMap(each => [...each.querySelectorAll("section")]);
  document.getElementById("contents").append(...links.map(part =>
    element("a", {href: `#${part.id}`}, articles.length > 1 ? `${part.parentNode.id.slice(1)}: ${part.dataset.title}` : part.dataset.title)));
}

const main = document.getElementById("results");
if (!CHARTS) {
  main.append(element("p", {class: "banner"},
    "This report has no charts: moesim was built without D3. Tables and inputs are complete. To have charts, install D3 (Debian: node-d3), configure and build again."));
}
const articles = report.results.map(resultOf).map(article);
main.append(...articles);
contents(articles);
document.title = `${articles.length ? articles[0].querySelector("h1").textContent : "no result"} – moesim report`;
document.getElementById("footer").append(`Written by moesim ${report.moesim}. All times are simulated unless they are called measured. ` +
  `This file needs no network.`);
