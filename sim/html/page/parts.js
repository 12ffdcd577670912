// What the time of a step or an iteration consists of: names, colours, and what each part means.
// Kernels are blue and green, exchanges that nothing hides warm, lost time grey.

const PARTS = {
  steps: [
    {key: "compute_s", name: "compute", hue: "blue", meaning: "kernels run, whatever travels at the same time"},
    {key: "tokens_s", name: "tokens", hue: "vermilion", meaning: "exposed dispatch and combine: token rows travel, no kernel runs"},
    {key: "weights_s", name: "weights", hue: "purple", meaning: "exposed exchanges of expert parameters, migrations included"},
    {key: "gradients_s", name: "gradients", hue: "orange", meaning: "exposed exchanges of gradients"},
    {key: "waiting_s", name: "waiting", hue: "grey", hatched: true, meaning: "in an exchange that the slowest GPU has not joined yet"},
    {key: "idle_s", name: "idle", hue: "pale", meaning: "in no exchange: host work, or slower GPUs have not ended"},
  ],
  iterations: [
    {key: "attention", name: "attention", hue: "blue", meaning: "projections, scores, output"},
    {key: "experts", name: "experts", hue: "sky", meaning: "products and activations of routed experts"},
    {key: "moe other", name: "other MoE kernels", hue: "green", meaning: "gate, shared experts, and what moves rows about"},
    {key: "dense", name: "dense blocks", hue: "mint", meaning: "norms, dense FFN, embedding, head, loss"},
    {key: "optimizer", name: "optimizer", hue: "olive", meaning: "the update"},
    {key: "tokens", name: "tokens", hue: "vermilion", meaning: "exposed dispatch and combine"},
    {key: "tensor", name: "tensor", hue: "orange", meaning: "exposed exchanges of tensor-parallel groups"},
    {key: "context", name: "context", hue: "yellow", meaning: "exposed exchanges of context-parallel groups"},
    {key: "weights", name: "weights", hue: "purple", meaning: "exposed exchanges of expert parameters and of updated weights"},
    {key: "gradients", name: "gradients", hue: "wine", meaning: "exposed sums of gradients between replicas"},
    {key: "host", name: "host", hue: "ink", meaning: "an op could run that the host has not issued, and host work"},
    {key: "waiting", name: "waiting", hue: "grey", hatched: true, meaning: "in an exchange that the slowest GPU has not joined yet"},
    {key: "bubble", name: "bubble", hue: "pale", meaning: "no kernel, and no exchange but those between pipeline stages"},
  ],
};

/** The part with this key; one that this page does not know yet is shown in grey under its own name. */
function partNamed(kind, key) {
  return PARTS[kind].find(part => part.key === key) ||
    {key, name: key.replace(/_s$/, "").replace(/[_-]/g, " "), hue: "grey", meaning: ""};
}

const DARK_LETTERS_ON = new Set(["sky", "orange", "yellow", "mint", "purple", "olive", "green"]);
const lettersOn = part => ["pale", "grey", "ink"].includes(part.hue) ? "plain" : DARK_LETTERS_ON.has(part.hue) ? "dark" : "";
