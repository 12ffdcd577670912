// Which cases a result shows now, and in which order. Charts and tables listen to one view.

class View {
  constructor(result) {
    this.result = result;
    this.words = "";
    this.only = {topology: "", fidelity: "", routing: ""};
    this.order = "listed";
    this.chosen = null;  // the case whose details are drawn
    this.listeners = [];
  }

  /** Calls the listener now and after every change. */
  follow(listener) {
    this.listeners.push(listener);
    listener();
  }

  change(what) {
    Object.assign(this, what);
    this.listeners.forEach(listener => listener());
  }

  admits(shown) {
    const text = `${shown.policy} ${shown.topology} ${shown.routing} ${shown.fidelity}`.toLowerCase();
    return this.words.toLowerCase().split(/\s+/).every(word => text.includes(word)) &&
      Object.entries(this.only).every(([key, wanted]) => wanted === "" || shown[key] === wanted);
  }

  cases() {
    const admitted = this.result.cases.filter(shown => this.admits(shown));
    if (this.order === "time") {
      admitted.sort((a, b) => (a.time === null) - (b.time === null) || a.time - b.time || a.index - b.index);
    }
    return admitted;
  }

  ran() {
    return this.cases().filter(shown => shown.ran);
  }
}

/** Search, one list per name in which cases differ, the order, and how many are shown. */
function filterBar(view) {
  const {result} = view;
  const only = key => {
    const values = [...new Set(result.cases.map(shown => shown[key]))];
    return chooser(key, [{value: "", text: "all"}, ...values.map(value => ({value, text: value}))], "",
      value => view.change({only: {...view.only, [key]: value}}));
  };
  const count = element("span", {class: "count", role: "status"});
  view.follow(() => {
    count.textContent = `${view.cases().length} of ${counted(result.cases.length, "case")}`;
  });
  return element("div", {class: "controls filters"},
    element("label", {}, "filter", element("input", {
      type: "search", placeholder: "words of a name, such as llep h100", "aria-label": "filter the cases",
      oninput: event => view.change({words: event.target.value}),
    })),
    ["topology", "routing", "fidelity"].filter(key => result.several[key]).map(only),
    chooser("order", [{value: "listed", text: "as listed"}, {value: "time", text: "fastest first"}], "listed",
      order => view.change({order})),
    count);
}
