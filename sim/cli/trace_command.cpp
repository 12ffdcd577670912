// SPDX-License-Identifier: Apache-2.0
// moesim trace info|verify|import|slice|synth: looks at, checks and makes routing traces.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <memory>
#include <numeric>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/model/moe_model.h"
#include "sim/trace/import/importer.h"
#include "sim/trace/slice.h"
#include "sim/trace/statistics.h"
#include "sim/trace/synth/synth.h"
#include "sim/trace/trace_json.h"
#include "sim/trace/verify.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

/// While it lives, Ctrl-C ends the work at its next step, so that nothing half-written stays; on a
/// terminal a line tells how far the work is.
class LongWork {
 public:
  explicit LongWork(std::string what) : what_(std::move(what)) {
    stop_signal = 0;
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int s) { stop_signal = s; });
  }
  ~LongWork() {
    if (shown_ >= 0) fmt::print(stderr, "\r\x1b[K");
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  }
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  TraceProgress progress() {
    return [this](double done) { show(done); };
  }

 private:
  void show(double done) {
    if (stop_signal != 0) throw std::runtime_error("interrupted; nothing was written");
    const int percent = static_cast<int>(done * 100);
    if (percent == shown_ || ::isatty(STDERR_FILENO) == 0) return;
    shown_ = percent;
    fmt::print(stderr, "\r{} {} %\x1b[K", what_, percent);
  }

  std::string what_;
  int shown_ = -1;
};

int whole_number(const std::string& flag, std::string_view text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error(fmt::format("{}: '{}' is not a whole number", flag, text));
  return value;
}

/// "a:b" -> {a, b}.
std::pair<int, int> pair_of(const std::string& flag, const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos)
    throw Error(fmt::format("{}: '{}' is not of the form A:B", flag, text));
  return {whole_number(flag, text.substr(0, colon)), whole_number(flag, text.substr(colon + 1))};
}

/// "1,2,5" (already split) or "FIRST:COUNT" -> model layer numbers.
std::vector<int> layers_of(const std::vector<std::string>& texts) {
  std::vector<int> layers;
  for (const auto& text : texts) {
    if (text.find(':') == std::string::npos) {
      layers.push_back(whole_number("--layers", text));
      continue;
    }
    const auto [first, count] = pair_of("--layers", text);
    for (int i = 0; i < count; ++i) layers.push_back(first + i);
  }
  return layers;
}

void report_written(const std::string& output) {
  const auto trace = RoutingTrace::open(output);
  fmt::print("wrote {}: {} steps, {} tokens, {} layers\n", output, trace.step_count(),
             trace.total_tokens(), trace.info().layers.size());
}

void write_steps(const RoutingTrace& trace, const std::string& output, LongWork& work) {
  auto writer = TraceWriter::create(output, trace.info(), TraceWriter::Publish::at_end);
  const auto progress = work.progress();
  for (int s = 0; s < trace.step_count(); ++s) {
    progress(static_cast<double>(s) / trace.step_count());
    writer.append_step(trace.step(s));
  }
  progress(1);
  writer.finish();
}

void add_info(CLI::App& trace) {
  struct Flags {
    std::string directory, json;
    StatisticsOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = trace.add_subcommand("info", "Prints what a trace looks like");
  command->add_option("TRACE", flags->directory, "A trace folder")->required();
  command
      ->add_option("--ranks", flags->options.ranks,
                   "Numbers of ranks with contiguous experts (default 2,4,8 .. 64)")
      ->delimiter(',');
  command->add_option("--pairs", flags->options.pairs, "How many of the strongest pairs to name")
      ->check(CLI::Range(0, 1000));
  command->add_option("--json", flags->json, "Writes everything, per layer, to this file");
  command->callback([flags] {
    const auto recorded = RoutingTrace::open(flags->directory);
    LongWork work("measuring");
    const auto statistics = measure(recorded, flags->options, work.progress());
    fmt::print("{}", statistics_text(recorded, statistics));
    if (!flags->json.empty()) write_file(flags->json, statistics_json(recorded, statistics));
  });
}

void add_verify(CLI::App& trace) {
  const auto directory = std::make_shared<std::string>();
  CLI::App* command = trace.add_subcommand("verify", "Reads all of a trace; reports every problem");
  command->add_option("TRACE", *directory, "A trace folder")->required();
  command->callback([directory] {
    LongWork work("verifying");
    std::vector<Diagnostic> errors;
    for (auto& problem : verify_trace(*directory, work.progress())) {
      if (problem.severity == Severity::error)
        errors.push_back(std::move(problem));
      else
        fmt::print(stderr, "{}", problem.str());
    }
    if (!errors.empty()) throw Error(std::move(errors));
    const auto recorded = RoutingTrace::open(*directory);
    fmt::print("{}: sound, {} steps, {} tokens, {} layers\n", *directory, recorded.step_count(),
               recorded.total_tokens(), recorded.info().layers.size());
  });
}

struct ImportFlags {
  std::string kind, model, phase;
  std::vector<std::string> layers;
  ImportOptions options;
};

void run_import(ImportFlags flags) {
  ImportOptions& options = flags.options;
  if (!flags.model.empty()) {
    const MoeModel model = read_moe_model(data_file("models/moe", flags.model));
    options.model = model.name;
    options.moe_layers = model.moe_layers;
    if (options.experts == 0) options.experts = model.experts;
    if (options.top_k == 0) options.top_k = model.top_k;
  }
  if (!flags.phase.empty()) {
    const auto& names = phase_names();
    const auto at = std::find(names.begin(), names.end(), flags.phase);
    if (at == names.end())
      throw Error(fmt::format("'{}' is no phase", flags.phase), did_you_mean(flags.phase, names));
    options.phase = static_cast<Phase>(at - names.begin());
  }
  options.layers = layers_of(flags.layers);
  LongWork work("importing");
  fmt::print("{}", import_trace(flags.kind, options, work.progress()));
}

void add_import(CLI::App& trace) {
  const auto flags = std::make_shared<ImportFlags>();
  ImportOptions& options = flags->options;
  CLI::App* command = trace.add_subcommand("import", "Makes a trace from another format");
  command->add_option("KIND", flags->kind, "esft, npz, npy or gpt-oss")->required();
  command->add_option("INPUT", options.inputs, "Files (esft: or a folder)")->required();
  command->add_option("-o,--output", options.output, "The new trace folder")->required();
  command->add_option("--name", options.name, "Name of the trace (default: of the folder)");
  command->add_option("--model", flags->model, "Model whose experts, top-k and layers these are");
  command->add_option("--experts", options.experts, "Experts per layer");
  command->add_option("--top-k", options.top_k, "Experts per token");
  command
      ->add_option("--layers", flags->layers, "Model layer numbers: FIRST:COUNT or a list 0,7,15")
      ->delimiter(',');
  command->add_option("--phase", flags->phase, "training, prefill, decode or mixed");
  command->add_option("--ids", options.ids, "npz: the array of expert ids");
  command->add_option("--lengths", options.lengths, "npz: the array of sequence lengths");
  command->add_option("--weights", options.weights, "npz: the array of gate weights");
  command->add_option("--order", options.order, "npz: tlk (token, layer, choice) or ltk")
      ->check(CLI::IsMember({"tlk", "ltk"}));
  command->add_option("--weight-scale", options.weight_scale, "npz: one unit of the weights");
  command->callback([flags] { run_import(*flags); });
}

void add_slice(CLI::App& trace) {
  struct Flags {
    std::string directory, output, steps;
    std::vector<std::string> layers;
    std::int64_t tokens = 0;
    SliceOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = trace.add_subcommand("slice", "Makes a trace of a part of another");
  command->add_option("TRACE", flags->directory, "A trace folder")->required();
  command->add_option("-o,--output", flags->output, "The new trace folder")->required();
  command->add_option("--steps", flags->steps, "A:B, recorded steps A to B - 1, counted from 0");
  command
      ->add_option("--layers", flags->layers, "Model layer numbers: FIRST:COUNT or a list 0,7,15")
      ->delimiter(',');
  CLI::Option* tokens =
      command->add_option("--tokens", flags->tokens, "The first tokens of every step");
  command->add_option("--name", flags->options.name, "Name of the new trace");
  command->callback([flags, tokens] {
    SliceOptions options = flags->options;
    if (!flags->steps.empty()) options.steps = pair_of("--steps", flags->steps);
    options.layers = layers_of(flags->layers);
    if (tokens->count() > 0) options.tokens = flags->tokens;
    LongWork work("slicing");
    write_steps(slice(RoutingTrace::open(flags->directory), options), flags->output, work);
    report_written(flags->output);
  });
}

struct SynthFlags {
  std::string output, fit;
  int layers = 1;
  SynthOptions options;
};

void run_synth(const SynthFlags& flags) {
  SynthOptions options = flags.options;
  options.layers.resize(static_cast<std::size_t>(flags.layers));
  std::iota(options.layers.begin(), options.layers.end(), 0);
  LongWork work("drawing");
  const auto progress = work.progress();
  Synthesis synthesis = flags.fit.empty()
                            ? Synthesis(options)
                            : Synthesis(options, RoutingTrace::open(flags.fit), progress);
  auto writer = TraceWriter::create(flags.output, synthesis.info(), TraceWriter::Publish::at_end);
  for (int s = 0; s < options.steps; ++s) writer.append_step(*synthesis.next_step(progress));
  progress(1);
  writer.finish();
  report_written(flags.output);
}

void add_synth(CLI::App& trace) {
  const auto flags = std::make_shared<SynthFlags>();
  SynthOptions& o = flags->options;
  CLI::App* command = trace.add_subcommand("synth", "Draws a synthetic trace");
  command->option_defaults()->always_capture_default();
  command->add_option("-o,--output", flags->output, "The new trace folder")->required();
  command->add_option("--name", o.name, "Name of the trace");
  command->add_option("--tokens", o.tokens, "Tokens per step");
  command->add_option("--sequences", o.sequences, "Sequences per step");
  command->add_option("--steps", o.steps, "Steps");
  command->add_option("--drift", o.drift, "Change of popularity per step, 0 to 1");
  command->add_option("--seed", o.seed, "The same seed gives the same trace");
  CLI::Option* fit = command->add_option("--fit", flags->fit,
                                         "A trace whose loads, pairs and overlap to reproduce");
  const std::vector<CLI::Option*> invented = {
      command->add_option("--experts", o.experts, "Experts per layer"),
      command->add_option("--top-k", o.top_k, "Experts per token"),
      command->add_option("--layers", flags->layers, "MoE layers")->check(CLI::Range(1, 100000)),
      command->add_option("--skew", o.skew, "Zipf exponent of expert popularity"),
      command->add_option("--affinity", o.affinity,
                          "Share of choices from the community of the first one, 0 to 1"),
      command->add_option("--communities", o.communities, "Communities (0: of 8 experts)"),
      command->add_option("--stickiness", o.stickiness,
                          "Probability to keep an expert of the token before, 0 to 1"),
      command->add_option("--groups", o.groups, "Group-limited gate: expert groups"),
      command->add_option("--kept-groups", o.kept_groups, "Groups that a token may use")};
  for (CLI::Option* option : invented) fit->excludes(option);
  command->callback([flags] { run_synth(*flags); });
}

}  // namespace

void add_trace_command(CLI::App& app) {
  CLI::App* trace = app.add_subcommand("trace", "Looks at, checks and makes routing traces");
  trace->require_subcommand(1);
  add_info(*trace);
  add_verify(*trace);
  add_import(*trace);
  add_slice(*trace);
  add_synth(*trace);
}

}  // namespace moesim
