// SPDX-License-Identifier: Apache-2.0
// moesim trace: looks at, checks and makes routing traces; here info, verify and slice.
#include "sim/cli/trace_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/read_number.h"
#include "sim/cli/commands.h"
#include "sim/cli/long_work.h"
#include "sim/flags/output_file.h"
#include "sim/trace/slice.h"
#include "sim/trace/statistics.h"
#include "sim/trace/verify.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

int whole_number(const std::string& flag, std::string_view text) {
  const int value = parse_integer<int>(text).value_or(-1);
  if (value < 0) throw Error(fmt::format("{}: '{}' is not a whole number", flag, text));
  return value;
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

void add_info(CommandLine& trace) {
  struct Flags {
    std::string directory;
    OutputFile json;
    StatisticsOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  CommandLine command = trace.add_subcommand("info", "Prints statistics of a trace");
  command.add_option("TRACE", flags->directory, "a trace folder, or the name of one among the data")
      .required();
  command
      .add_option("--ranks", flags->options.ranks,
                  "numbers of ranks with contiguous experts (default 2,4,8 .. 64)")
      .separated_by(',');
  command.add_option("--pairs", flags->options.pairs, "how many of the strongest pairs to name")
      .range(0, 1000);
  flags->json.add_to(command, "--json", "writes everything, per layer, to a file");
  command.callback([flags] {
    const auto recorded = RoutingTrace::open(find_trace(flags->directory));
    LongWork work("measuring");
    const auto statistics = measure(recorded, flags->options, work.progress());
    fmt::print(flags->json.beside(), "{}", statistics_text(recorded, statistics));
    flags->json.write(statistics_json(recorded, statistics));
  });
}

void add_verify(CommandLine& trace) {
  const auto directory = std::make_shared<std::string>();
  CommandLine command =
      trace.add_subcommand("verify", "Reads all of a trace and reports every problem");
  command.add_option("TRACE", *directory, "a trace folder, or the name of one among the data")
      .required();
  command.callback([directory] {
    LongWork work("verifying");
    std::vector<Diagnostic> errors;
    const std::string folder = find_trace(*directory);
    for (auto& problem : verify_trace(folder, work.progress())) {
      if (problem.severity == Severity::error)
        errors.push_back(std::move(problem));
      else
        fmt::print(stderr, "{}", problem.str());
    }
    if (!errors.empty()) throw Error(std::move(errors));
    const auto recorded = RoutingTrace::open(folder);
    fmt::print("{}: sound, {}, {}, {}\n", folder, counted(recorded.step_count(), "step"),
               counted(recorded.total_tokens(), "token"),
               counted(recorded.info().layers.size(), "layer"));
  });
}

void add_slice(CommandLine& trace) {
  struct Flags {
    std::string directory, output, steps, sequences;
    std::vector<std::string> layers;
    std::int64_t tokens = 0;
    SliceOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  CommandLine command = trace.add_subcommand("slice", "Makes a trace of a part of another one");
  command.add_option("TRACE", flags->directory, "a trace folder, or the name of one among the data")
      .required();
  command.add_option("-o,--output", flags->output, "the new trace folder").required();
  command.add_option("--steps", flags->steps, "A:B: recorded steps A to B - 1, counted from 0");
  command
      .add_option("--layers", flags->layers, "model layer numbers: FIRST:COUNT, or a list 0,7,15")
      .separated_by(',');
  command.add_option("--sequences", flags->sequences,
                     "A:B: sequences A to B - 1 of every step, counted from 0");
  Flag tokens =
      command.add_option("--tokens", flags->tokens, "number of tokens, the first of every step");
  command.add_option("--name", flags->options.name, "name of the new trace");
  command.callback([flags, tokens] {
    SliceOptions options = flags->options;
    if (!flags->steps.empty()) options.steps = pair_of("--steps", flags->steps);
    options.layers = layers_of(flags->layers);
    if (!flags->sequences.empty()) options.sequences = pair_of("--sequences", flags->sequences);
    if (tokens.given()) options.tokens = flags->tokens;
    LongWork work("slicing");
    write_steps(slice(RoutingTrace::open(find_trace(flags->directory)), options), flags->output,
                work);
    report_written(flags->output);
  });
}

}  // namespace

std::string find_trace(const std::string& name) {
  std::string folder = trace_folder(name);
  if (is_there(folder)) return folder;
  throw error_in(name, "there is no such trace", hint_for_trace(name));
}

std::pair<int, int> pair_of(const std::string& flag, const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos)
    throw Error(fmt::format("{}: '{}' is not of the form A:B", flag, text));
  return {whole_number(flag, text.substr(0, colon)), whole_number(flag, text.substr(colon + 1))};
}

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
  fmt::print("wrote {}: {}, {}, {}\n", output, counted(trace.step_count(), "step"),
             counted(trace.total_tokens(), "token"), counted(trace.info().layers.size(), "layer"));
}

void add_trace_command(CommandLine& app) {
  CommandLine trace = app.add_subcommand("trace", "Measures, checks and makes routing traces");
  trace.require_subcommand();
  add_info(trace);
  add_verify(trace);
  add_trace_check(trace);
  add_trace_import(trace);
  add_slice(trace);
  add_trace_serve(trace);
  add_trace_synth(trace);
}

}  // namespace moesim
