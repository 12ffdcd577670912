// Elements, and what appears next to the pointer.

/** An element: attributes, and children that are elements or text (never HTML). */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

const swatch = part => element("span",
  {class: part.hatched ? "swatch hatched" : "swatch", style: `--hue: var(--${part.hue})`});

/** A choice among values: {value, text}. */
function chooser(label, choices, chosen, onchoose) {
  const select = element("select", {onchange: () => onchoose(select.value), "aria-label": label});
  for (const {value, text} of choices) {
    select.append(element("option", {value, selected: value === chosen}, text));
  }
  return element("label", {}, label, select);
}

const tip = {
  box: document.getElementById("tip"),

  /** `content`: {title, rows: [[name, value, part?]], text?}. */
  fill({title, rows = [], text}) {
    this.box.replaceChildren(element("b", {}, title), text ? element("div", {}, text) : "",
      element("table", {}, element("tbody", {}, rows.map(([name, value, part]) =>
        element("tr", {}, element("td", {}, part ? swatch(part) : "", name), element("td", {}, value))))));
    this.box.hidden = false;
  },

  place(x, y) {
    const {width, height} = this.box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
    const top = y + 16 + height > innerHeight ? y - 12 - height : y + 16;
    this.box.style.left = `${Math.max(4, left)}px`;
    this.box.style.top = `${Math.max(4, top)}px`;
  },

  hide() {
    this.box.hidden = true;
  },
};

/** What an element tells, by pointer and by keyboard. `content` is asked when it is needed. */
function tells(node, content) {
  const beside = () => {
    const at = node.getBoundingClientRect();
    tip.fill(content());
    tip.place(at.left + Math.min(at.width, 260) / 2, at.bottom - 8);
  };
  node.addEventListener("pointerenter", () => tip.fill(content()));
  node.addEventListener("pointermove", event => tip.place(event.clientX, event.clientY));
  node.addEventListener("pointerleave", () => tip.hide());
  node.addEventListener("focus", () => node.matches(":focus-visible") && beside());
  node.addEventListener("blur", () => tip.hide());
}

addEventListener("keydown", event => event.key === "Escape" && tip.hide());

/** A title for the contents, a question, one sentence on how to read the answer, controls, and the answer. */
function section(id, title, question, lead, ...content) {
  return element("section", {id, "data-title": title},
    element("h2", {}, question), element("p", {class: "lead"}, lead), content);
}

/** Enter or space on an element that is no button. */
function activates(node, action) {
  node.addEventListener("click", action);
  node.addEventListener("keydown", event => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action();
  });
}
