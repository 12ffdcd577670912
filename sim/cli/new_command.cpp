// SPDX-License-Identifier: Apache-2.0
// moesim new: a commented scenario after four questions, or of a launch.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/launched/launched_cluster.h"
#include "sim/launched/launched_model.h"
#include "sim/launched/launched_text.h"
#include "sim/scenario/inputs.h"

namespace moesim {
namespace {

const std::vector<std::string> purposes = {"step", "training", "serving"};
inline const std::string drawn = "drawn";

struct NewScenario {
  std::string file = "scenario.yaml";
  std::string topology, model, trace, purpose;
  std::string from;  // a launch that answers some of them; empty: none
};

/// One of the four: what is asked, and what may be said.
struct Question {
  const char *flag, *text;
  std::string NewScenario::*answer;
  std::vector<std::string> choices;  // a file is one, too
  std::string by_default;
};

std::vector<Question> questions_of(const NewScenario& scenario) {
  std::vector<std::string> traces = data_names("traces");
  traces.push_back(drawn);
  std::vector<std::string> models = data_names("models/moe");
  if (!scenario.from.empty()) {  // launches may be of dense models, too
    const auto dense = data_names("models/dense");
    models.insert(models.end(), dense.begin(), dense.end());
  }
  return {{"--topology", "Which cluster?", &NewScenario::topology, data_names("topologies"),
           "h100-rail"},
          {"--model", "Which model?", &NewScenario::model, models, "gpt-oss-20b"},
          {"--trace", "Which routing: a recorded trace, or 'drawn'?", &NewScenario::trace, traces,
           drawn},
          {"--for", "What for: a 'step' of MoE layers, 'training' iterations, 'serving'?",
           &NewScenario::purpose, purposes, "step"}};
}

bool is_answer(const Question& question, const std::string& said) {
  if (std::ranges::find(question.choices, said) != question.choices.end()) return true;
  const bool path = said.find('/') != std::string::npos || said.ends_with(".yaml") ||
                    question.answer == &NewScenario::trace;
  return path && question.answer != &NewScenario::purpose && is_there(said);
}

std::string asked(const Question& question) {
  while (true) {
    fmt::print(stderr, "{} [{}; ? lists all] ", question.text, question.by_default);
    std::string said;
    if (!std::getline(std::cin, said)) throw std::runtime_error("no answer; nothing was written");
    if (said.empty()) return question.by_default;
    if (is_answer(question, said)) return said;
    fmt::print(stderr, "  {}\n",
               said == "?" ? fmt::format("{}", fmt::join(question.choices, ", "))
                           : did_you_mean(said, question.choices) + " (or the path of a file)");
  }
}

void check_answers(const NewScenario& scenario) {
  for (const Question& question : questions_of(scenario)) {
    const std::string& answer = scenario.*question.answer;
    if (answer.empty() || is_answer(question, answer)) continue;
    throw Error(fmt::format("{} {}: neither a known name nor a file", question.flag, answer),
                did_you_mean(answer, question.choices));
  }
}

/// Asks a person for what nothing says yet.
void ask_for_rest(NewScenario& scenario) {
  std::vector<std::string> missing;
  for (const Question& question : questions_of(scenario)) {
    if ((scenario.*question.answer).empty()) missing.emplace_back(question.flag);
  }
  if (missing.empty()) return;
  if (::isatty(STDIN_FILENO) == 0) {
    throw Error(fmt::format("'new' asks on a terminal, and this is none; {} would answer",
                            fmt::join(missing, ", ")),
                scenario.from.empty()
                    ? "for example moesim new my-run.yaml --topology h100-rail --model "
                      "gpt-oss-20b --trace drawn --for step"
                    : "for example --topology h100-rail --trace drawn");
  }
  for (const Question& question : questions_of(scenario)) {
    std::string& answer = scenario.*question.answer;
    if (answer.empty()) answer = asked(question);
  }
}

MoeModel model_named(const std::string& name) { return read_moe_model(data_file("models", name)); }

/// What the text depends on besides the names.
struct NewSizes {
  int gpus, hosts, experts;
  std::int64_t least_tokens = 0;  // of a recorded step
};

NewSizes sizes_of(const NewScenario& scenario) {
  const Topology topology = read_topology(data_file("topologies", scenario.topology)).topology;
  const MoeModel model = model_named(scenario.model);
  NewSizes sizes{topology.gpu_count(), topology.host_count(), model.experts};
  if (scenario.trace == drawn) return sizes;
  const RoutingTrace trace = RoutingTrace::open(trace_folder(scenario.trace));
  for (int s = 0; s < trace.step_count(); ++s) {
    const std::int64_t tokens = trace.step(s).tokens();
    sizes.least_tokens = s == 0 ? tokens : std::min(sizes.least_tokens, tokens);
  }
  return sizes;
}

/// The largest power of two that divides both and is at most `most`.
int common_degree(int gpus, int experts, int most) {
  int degree = 1;
  while (degree * 2 <= most && gpus % (degree * 2) == 0 && experts % (degree * 2) == 0) degree *= 2;
  return degree;
}

constexpr int step_tokens = 2048;

std::string routing_lines(const NewScenario& scenario, const NewSizes& sizes) {
  if (scenario.trace != drawn) {
    return fmt::format("trace: {}   # which experts every token chose; moesim list traces\n",
                       scenario.trace);
  }
  return fmt::format(
      "synth: {{skew: 0.5, tokens: {}, steps: 4}}   # drawn; a larger skew is less balanced. Your "
      "own trace: docs/how-to.md\n",
      scenario.purpose == "step" ? step_tokens * sizes.gpus : 32768);
}

std::string step_lines(const NewScenario& scenario, const NewSizes& sizes) {
  std::string text = fmt::format(
      "policy: [alltoall, deepep-normal, llep]   # moesim list policies\n"
      "ep: {}   # ranks of a group that holds all experts\n"
      "tokens_per_rank: {}\n",
      common_degree(sizes.gpus, sizes.experts, 64), step_tokens);
  if (scenario.trace != drawn) {
    const std::int64_t all = std::int64_t{step_tokens} * sizes.gpus;
    text += fmt::format("repeat: {}   # so often each recorded step is played, to have enough\n",
                        (all + sizes.least_tokens - 1) / sizes.least_tokens);
  }
  return text +
         "layers: recorded   # those of the trace; 'all' of the model need all in the trace\n";
}

std::string training_lines(const NewSizes& sizes) {
  const int pp = sizes.gpus % 2 == 0 && sizes.hosts > 1 ? 2 : 1;
  const int ep = common_degree(sizes.gpus / pp, sizes.experts, 8);
  return fmt::format(
      "policy: [alltoall, llep, hecate]   # moesim list policies\n"
      "parallel: {{pp: {}, ep: {}}}   # tp, cp, vpp, etp: docs/scenarios.md\n"
      "batch: {{global: {}, micro: 1, sequence: 4096}}   # in sequences; of tokens\n"
      "routing: [balanced, recorded]   # balanced: what benchmarks have\n"
      "steps: 0\n",
      pp, ep, 4 * (sizes.gpus / pp));
}

std::string serving_lines(const NewSizes& sizes) {
  return fmt::format(
      "policy: [deepep-low-latency, megatron-allgather]   # moesim list policies\n"
      "parallel: {{tp: 1, ep: {}}}\n"
      "serving:\n"
      "  batch: {{context: 4096, sequences: 64}}   # on each rank of attention\n"
      "  kv: bf16\n"
      "routing: [balanced, recorded]\n"
      "steps: 0\n",
      sizes.gpus);
}

std::string text_of_new(const NewScenario& scenario) {
  const NewSizes sizes = sizes_of(scenario);
  std::string text = fmt::format(
      "# {} on {} of {}. moesim compare {} runs it, moesim explore {} shows it.\n# Every key: "
      "docs/scenarios.md; flags win over this file.\ntopology: {}   # moesim list topologies; "
      "several: [a, b]\nmodel: {}   # moesim list models\n",
      scenario.purpose == "step"       ? "A step of MoE layers"
      : scenario.purpose == "training" ? "A training iteration"
                                       : "A decode step of an engine",
      counted(sizes.gpus, "GPU"), scenario.topology, scenario.file, scenario.file,
      scenario.topology, scenario.model);
  text += routing_lines(scenario, sizes);
  text += scenario.purpose == "step"       ? step_lines(scenario, sizes)
          : scenario.purpose == "training" ? training_lines(sizes)
                                           : serving_lines(sizes);
  return text + "# set: [topology.nodes=8]   # changes an input\n";
}

/// The launch, once it and a person have answered the questions.
Launched answered_launch(NewScenario& scenario) {
  Launched launched = read_launch(scenario.from);
  const std::string purpose = launched.serving ? "serving" : "training";
  if (scenario.purpose.empty()) scenario.purpose = purpose;
  if (scenario.purpose != purpose) {
    throw Error(fmt::format("--for {} with --from {}, which is a launch for {}", scenario.purpose,
                            scenario.from, purpose),
                "leave --for out");
  }
  const bool named = !scenario.model.empty();
  if (!named) scenario.model = model_of_launch(launched);
  // No routing is asked for if none is played.
  const bool played =
      scenario.model.empty() || needs_routing(launched, model_named(scenario.model).experts);
  if (!played && scenario.trace.empty()) scenario.trace = drawn;
  ask_for_rest(scenario);
  if (named) compare_sizes(scenario.model, launched);
  fit_topology(scenario.topology, launched);
  return launched;
}

std::string text_from_launch(NewScenario& scenario) {
  Launched launched = answered_launch(scenario);
  const MoeModel model = model_named(scenario.model);
  finish_for(model, launched);
  const NewSizes sizes{launched.gpus, 0, model.experts};
  if (!launched.assumed.empty() || !launched.not_simulated.empty()) {
    fmt::print(stderr, "{}: {}, {} not simulated; comments of {} name them\n", scenario.from,
               counted(std::ssize(launched.assumed), "assumption"),
               counted(std::ssize(launched.not_simulated), "argument"), scenario.file);
  }
  return text_of_launch(
      launched, {scenario.file, scenario.topology, scenario.model, routing_lines(scenario, sizes)},
      model.experts);
}

void write_new(NewScenario scenario) {
  if (is_there(scenario.file)) {
    throw error_in(scenario.file, "is there already, and 'new' replaces nothing",
                   "moesim new OTHER.yaml");
  }
  check_writable(scenario.file);
  check_answers(scenario);
  std::string text;
  if (!scenario.from.empty()) {
    text = text_from_launch(scenario);
  } else {
    ask_for_rest(scenario);
    text = text_of_new(scenario);
  }
  open_inputs(parse_scenario(text, scenario.file, {}));  // says what does not fit together
  write_file(scenario.file, text);
  fmt::print("{} is written. Now: moesim compare {}\n", scenario.file, scenario.file);
}

}  // namespace

void add_new_command(CommandLine& app) {
  const auto scenario = std::make_shared<NewScenario>();
  CommandLine command = app.add_subcommand(
      "new", "Writes a commented scenario after four questions; flags may answer them");
  command.add_option("FILE", scenario->file, "where it goes (default scenario.yaml)");
  command.add_option("--topology", scenario->topology,
                     "cluster: a name of `moesim list topologies` or a file");
  command.add_option("--model", scenario->model, "a name of `moesim list models` or a file");
  command.add_option("--trace", scenario->trace,
                     "a folder, a name of `moesim list traces`, or 'drawn'");
  command.add_option("--for", scenario->purpose, "step, training or serving");
  command.add_option(
      "--from", scenario->from,
      "a launch script or start-up log of Megatron-LM, vLLM, SGLang or TensorRT-LLM, "
      "or YAML of their arguments or of Kubernetes");
  command.callback([scenario] { write_new(*scenario); });
}

}  // namespace moesim
