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
    {key: "offload", name: "offload", hue: "indigo", meaning: "exposed copies of activations to the memory of the host, and back"},
    {key: "host", name: "host", hue: "ink", meaning: "an op could run that the host has not issued, and host work"},
    {key: "waiting", name: "waiting", hue: "grey", hatched: true, meaning: "in an exchange that the slowest GPU has not joined yet"},
    {key: "bubble", name: "bubble", hue: "pale", meaning: "no kernel, and no exchange but those between pipeline stages"},
  ],
};

PARTS.path = [
  {key: "attention", name: "attention", hue: "blue", meaning: "kernels: projections, scores, output"},
  {key: "experts", name: "experts", hue: "sky", meaning: "kernels: products and activations of routed experts"},
  {key: "moe other", name: "other MoE kernels", hue: "green", meaning: "gate, shared experts, and what moves rows about"},
  {key: "dense", name: "dense blocks", hue: "mint", meaning: "kernels: norms, dense FFN, embedding, head, loss"},
  {key: "optimizer", name: "optimizer", hue: "olive", meaning: "the update"},
  {key: "dispatch", name: "dispatch", hue: "vermilion", meaning: "token rows travel to their experts"},
  {key: "combine", name: "combine", hue: "orange", meaning: "results travel back"},
  {key: "tensor", name: "tensor", hue: "yellow", meaning: "exchanges of tensor-parallel groups"},
  {key: "context", name: "context", hue: "indigo", meaning: "exchanges of context-parallel groups"},
  {key: "weights", name: "weights", hue: "purple", meaning: "exchanges of expert parameters and of updated weights"},
  {key: "migration", name: "migration", hue: "purple", hatched: true, meaning: "experts change places"},
  {key: "gradients", name: "gradients", hue: "wine", meaning: "sums of gradients between replicas"},
  {key: "offload", name: "offload", hue: "mint", hatched: true, meaning: "activations travel to the memory of the host, and back"},
  {key: "stage transfer", name: "between stages", hue: "grey", meaning: "transfers between pipeline stages"},
  {key: "host", name: "host", hue: "ink", meaning: "the host had not issued the op, or works itself"},
  {key: "idle", name: "idle", hue: "pale", meaning: "what no op of the plan explains"},
];

// What binds the path. Classes of links are those of the clusters: each takes the next hue.
PARTS.resources = [
  {key: "compute", name: "compute", hue: "blue", meaning: "kernels at the GPU's rate of flop"},
  {key: "memory", name: "memory", hue: "sky", meaning: "kernels at the GPU's memory bandwidth"},
  {key: "launch", name: "launch", hue: "mint", meaning: "kernels too short for anything but their launch"},
  {key: "contention", name: "contention", hue: "wine", meaning: "what kernels lose to exchanges at the same time"},
  {key: "minimum time", name: "minimum time", hue: "grey", meaning: "what an exchange takes however few bytes there are"},
  {key: "overhead", name: "overhead", hue: "yellow", meaning: "fixed cost of an exchange"},
  {key: "latency", name: "latency", hue: "olive", meaning: "of the links"},
  {key: "host", name: "host", hue: "ink", meaning: "the host had not issued the op, or works itself"},
  {key: "idle", name: "idle", hue: "pale", meaning: "what no op of the plan explains"},
];
const CLASS_HUES = ["vermilion", "orange", "purple", "indigo", "green"];

function resourceNamed(key) {
  const known = PARTS.resources.find(part => part.key === key);
  if (known) return known;
  const shared = key.startsWith("shared ");
  const links = PARTS.resources.filter(part => part.links).length;
  PARTS.resources.push(shared ? {key, name: key, hue: "grey", hatched: true, meaning: "what exchanges lose to others on the same link"} :
    {key, name: key, links: true, hue: CLASS_HUES[links % CLASS_HUES.length], meaning: `exchanges whose busiest link is of the class ${key}`});
  return resourceNamed(key);
}

/** The part with this key; one that this page does not know yet is shown in grey under its own name. */
function partNamed(kind, key) {
  return PARTS[kind].find(part => part.key === key) ||
    {key, name: key.replace(/_s$/, "").replace(/[_-]/g, " "), hue: "grey", meaning: ""};
}

const DARK_LETTERS_ON = new Set(["sky", "orange", "yellow", "mint", "purple", "olive", "green"]);
const lettersOn = part => ["pale", "grey", "ink"].includes(part.hue) ? "plain" : DARK_LETTERS_ON.has(part.hue) ? "dark" : "";
