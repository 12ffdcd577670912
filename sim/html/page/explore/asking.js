// The server: requests with the token, and one run at a time that follows the state.

// The token leaves the address at once, so that no link that is copied from it holds it.
const TOKEN_KEY = "moesim-token";
const given = new URL(location.href).searchParams.get("token");
if (given) sessionStorage.setItem(TOKEN_KEY, given);
window.history.replaceState(null, "", `/${location.hash}`);
const token = sessionStorage.getItem(TOKEN_KEY);
const CLIENT = crypto.randomUUID();

class Refused extends Error {}

let asked = 0;  // by which the server knows which request is the newest, whatever overtakes it

async function ask(path, {body, type = "application/json"} = {}) {
  let answer;
  try {
    answer = await fetch(path, {method: body === undefined ? "GET" : "POST", body,
      headers: {"X-Moesim-Token": token, "X-Moesim-Client": CLIENT, "X-Moesim-Asked": ++asked, ...(body === undefined ? {} : {"Content-Type": type})}});
  } catch {
    throw new Refused("moesim does not answer: it has ended, or another program has its port. Start moesim explore again.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({error: answer.statusText}));
  throw new Refused([said.error, said.hint].filter(Boolean).join("\n"));
}

/** Asks on until a run has ended; `progress(state)` hears of it. */
async function followed(answer, progress = () => {}) {
  let state = await answer.json();
  while (state.state === "waiting" || state.state === "running") {
    progress(state);
    state = await (await ask(`/api/run?id=${state.id}&seen=${state.change}`)).json();
  }
  progress(state);
  return state;
}

/** Runs what the state asks for, the newest only. While a slider is dragged, one run follows the other. */
const runner = {
  number: 0, id: null, busy: false, wanted: null, began: 0,
  shown: () => {}, told: () => {},

  /** `how`: "drag" asks for what is soon there, "commit" for all of it. */
  want(how) {
    if (how === "drag" && this.busy && performance.now() - this.began < 300) {
      this.wanted = how;
      return;
    }
    this.start(how);
  },

  async start(how) {
    const number = ++this.number;
    this.busy = true;
    this.wanted = null;
    this.began = performance.now();
    try {
      const state = history.now;
      const unknown = opened.of !== state.base + state.text;
      const slow = unknown || (opened.iteration && opened.recorded);
      if (slow && !await this.one(number, {quick: true, pictures: false}, state)) return;
      if (how === "drag" && slow) return;
      if (!slow && !await this.one(number, {pictures: false}, state)) return;
      if (how !== "drag") await this.one(number, {pictures: true}, state);
    } catch (error) {
      if (number === this.number) this.told({failed: error.message});
      if (!(error instanceof Refused)) throw error;
    } finally {
      if (number === this.number) {
        this.busy = false;
        if (this.wanted) this.start(this.wanted);
      }
    }
  },

  /** One run of a series; false if a newer one has taken its place. */
  async one(number, more, state) {
    const began = performance.now();
    const body = JSON.stringify(requestOf(state, more));
    const run = await followed(await ask("/api/run", {body}), now => {
      if (number !== this.number) return;
      this.id = now.id;
      if (now.opened) takeOpened(now.opened, state);
      if (now.state === "running" || now.state === "waiting") this.told({run: now, more, since: began});
    });
    if (number !== this.number) return false;
    if (run.state === "done") {
      this.shown(run.document, more, structuredClone(state));
      performance.measure(more.pictures ? "charts" : more.quick ? "first answer" : "answer", {start: began});
      this.told({done: more, ms: performance.now() - began});
      return true;
    }
    this.told(run.state === "cancelled" ? {cancelled: true} : {failed: run.failure.error});
    return false;
  },

  async cancel() {
    this.wanted = null;
    if (this.id !== null) await ask(`/api/cancel?id=${this.id}`, {body: ""});
  },
};

/** What the scenario was when its inputs were open. */
const opened = {of: null, clusters: {}, scenario: {}, iteration: false, recorded: false, listeners: []};

function takeOpened(said, state) {
  const same = JSON.stringify([said.clusters, said.scenario]) === JSON.stringify([opened.clusters, opened.scenario]);
  Object.assign(opened, {...said, iteration: Boolean(said.scenario.parallel || said.scenario.batch), of: state.base + state.text});
  if (!same) opened.listeners.forEach(listener => listener());
}
