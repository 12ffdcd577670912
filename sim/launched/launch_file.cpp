// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/launch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/exported_log.h"
#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/launched/argument_dumps.h"
#include "sim/launched/manifest.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr auto what_is_read =
    "read are launch scripts and start-up logs of Megatron-LM, vLLM, SGLang and TensorRT-LLM, "
    "YAML of their arguments, and manifests of Kubernetes that launch them";

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Where a program begins among the words of a command: behind its name.
struct Program {
  LaunchSoftware software;
  std::size_t behind;
};

/// "vllm serve", "-m sglang.launch_server", "trtllm-serve serve", an image of vLLM.
std::optional<Program> engine_in(const std::vector<LinedText>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const std::string name = base_name(word);
    const std::string next = i + 1 < words.size() ? words[i + 1].text : "";
    if (name == "vllm" && next == "serve") return Program{LaunchSoftware::vllm, i + 2};
    if (word.starts_with("vllm.entrypoints.") ||
        word.ends_with("vllm/entrypoints/openai/api_server.py")) {
      return Program{LaunchSoftware::vllm, i + 1};
    }
    if (word.find("vllm/vllm-openai") != word.npos || word.find("vllm-openai:") != word.npos) {
      return Program{LaunchSoftware::vllm, i + 1};
    }
    if (word == "sglang.launch_server" || word.ends_with("sglang/launch_server.py")) {
      return Program{LaunchSoftware::sglang, i + 1};
    }
    if (name == "sglang" && next == "serve") return Program{LaunchSoftware::sglang, i + 2};
    if (name == "trtllm-serve") {
      return Program{LaunchSoftware::trtllm, i + (next == "serve" ? 2U : 1U)};
    }
  }
  return std::nullopt;
}

/// A Python program with arguments of Megatron's parallelism or sizes.
std::optional<Program> megatron_in(const std::vector<LinedText>& words) {
  constexpr std::array marks = {"--tensor-model-parallel-size", "--pipeline-model-parallel-size",
                                "--expert-model-parallel-size", "--num-layers"};
  const auto is_mark = [&](const LinedText& word) {
    const std::string flag = word.text.substr(0, word.text.find('='));
    return std::ranges::find(marks, flag) != marks.end();
  };
  const auto mark = std::ranges::find_if(words, is_mark);
  if (mark == words.end()) return std::nullopt;
  const auto program = std::find_if(
      words.begin(), mark, [](const LinedText& word) { return word.text.ends_with(".py"); });
  const auto behind = program == mark ? words.begin() : program + 1;
  return Program{LaunchSoftware::megatron, static_cast<std::size_t>(behind - words.begin())};
}

/// Flags of a launcher. Those of one letter may have their number glued to them: "-N8".
void read_launcher(const std::vector<LinedText>& words, NamedArguments& into) {
  std::vector<LinedText> apart, unused;
  for (const LinedText& word : words) {
    const std::string& text = word.text;
    const bool glued = text.size() > 2 && text[0] == '-' && std::isalpha(text[1]) != 0 &&
                       text.find_first_not_of("0123456789", 2) == text.npos;
    if (glued) apart.push_back(word.part(0, 2));
    apart.push_back(glued ? word.part(2, text.size()) : word);
  }
  read_flags(
      apart, [](const std::string&) { return Takes::one; }, into, unused);
}

LaunchFile from_command(const ShellCommand& command, const Program& program,
                        const std::string& text, const std::string& file) {
  LaunchFile launch;
  launch.software = program.software;
  launch.arguments = NamedArguments(file, text);
  launch.launcher = NamedArguments(file, text);
  launch.environment = command.environment;
  const auto behind = command.words.begin() + static_cast<std::ptrdiff_t>(program.behind);
  std::vector<LinedText> words(behind, command.words.end());
  // What the program prints goes elsewhere.
  const auto redirected = std::ranges::find_if(words, [](const LinedText& word) {
    const std::size_t digits = word.text.find_first_not_of("0123456789&");
    return digits != word.text.npos && word.text[digits] == '>';
  });
  words.erase(redirected, words.end());
  const ArgumentTable table = table_of(program.software);
  read_flags(
      words, [&](const std::string& name) { return takes_of(table, name); }, launch.arguments,
      launch.others);
  read_launcher({command.words.begin(), behind}, launch.launcher);
  return launch;
}

/// Whether two launches differ in nothing that time depends on, as those of two nodes do.
bool same_launch(const LaunchFile& a, const LaunchFile& b) {
  if (a.software != b.software) return false;
  const ArgumentTable table = table_of(a.software);
  const auto covers = [&](const LaunchFile& one, const LaunchFile& other) {
    return std::ranges::all_of(one.arguments.all(), [&](const NamedArgument& argument) {
      const ArgumentRow* row = row_of(table, argument.name);
      const NamedArgument* there = other.arguments.find(argument.name);
      return (row != nullptr && row->use == ArgumentUse::ignored) ||
             (there != nullptr && there->values == argument.values);
    });
  };
  return covers(a, b) && covers(b, a);
}

LaunchFile from_script(const std::string& text, const std::string& file) {
  ShellScript script = read_shell_script(text, file);
  std::optional<LaunchFile> launch;
  int first_line = 0;
  NamedArguments launcher(file, text);
  for (const auto& [flag, values] : script.sbatch) {
    NamedArgument argument{argument_name(flag), {}, 0, flag};
    for (const LinedText& value : values) argument.values.push_back(value.text);
    if (!values.empty()) argument.line = values.front().line();
    launcher.add(argument);
  }
  for (const ShellCommand& command : script.commands) {
    auto program = engine_in(command.words);
    if (!program) program = megatron_in(command.words);
    const bool starts_ranks = !program && !command.words.empty() &&
                              (base_name(command.words[0].text) == "srun" ||
                               base_name(command.words[0].text) == "mpirun");
    if (starts_ranks) read_launcher(command.words, launcher);
    if (!program) continue;
    LaunchFile one = from_command(command, *program, text, file);
    if (launch && !same_launch(*launch, one)) {
      throw error_in(
          file,
          fmt::format("a second launch: {} in line {} and {} in line {}", name_of(launch->software),
                      first_line, name_of(one.software), command.line),
          "keep one of them in the file", command.line);
    }
    if (!launch) first_line = command.line;
    if (!launch) launch = std::move(one);
  }
  if (!launch) throw error_in(file, "nothing in it launches a known software", what_is_read);
  for (const NamedArgument& argument : launch->launcher.all()) launcher.add(argument);
  launch->launcher = launcher;
  for (const auto& [name, variable] : script.variables) {
    if (variable.items.size() == 1) launch->environment.try_emplace(name, variable.items[0]);
  }
  launch->script = std::move(script);
  return std::move(*launch);
}

bool is_log_of_vllm(const std::string& text) {
  return text.find("vllm") != text.npos || text.find("vLLM") != text.npos ||
         text.find("LLM engine (v") != text.npos;
}

/// "Initializing a V1 LLM engine (v0.10.2) with config: model='...', tensor_parallel_size=8, ...".
std::optional<NamedArguments> engine_config(const std::string& text, const std::string& file) {
  constexpr std::string_view engine = "LLM engine (v", mark = "with config: ";
  const std::size_t begin = text.find(engine), at = text.find(mark, std::min(begin, text.size()));
  if (begin == text.npos || at == text.npos || text.find('\n', begin) < at) return std::nullopt;
  const std::size_t from = at + mark.size(), end = std::min(text.find('\n', from), text.size());
  const auto config = python_dump(text.substr(0, from) + "(" + text.substr(from, end - from) + ")",
                                  text.substr(begin, from - begin), file);
  NamedArguments arguments(file, text);
  for (NamedArgument argument : config ? config->all() : std::vector<NamedArgument>{}) {
    if (argument.name == "max-seq-len") argument.name = "max-model-len";
    if (argument.name == "chunked-prefill-enabled") argument.name = "enable-chunked-prefill";
    arguments.add(std::move(argument));
  }
  return arguments;
}

std::optional<LaunchFile> from_log(const std::string& text, const std::string& file) {
  LaunchFile launch;
  launch.dump = true;
  const auto take = [&](LaunchSoftware software, std::optional<NamedArguments> arguments) {
    if (!arguments) return false;
    launch.software = software;
    launch.arguments = std::move(*arguments);
    launch.launcher = NamedArguments(file, text);
    return true;
  };
  const bool any = take(LaunchSoftware::megatron, megatron_dump(text, file)) ||
                   take(LaunchSoftware::sglang, python_dump(text, "ServerArgs", file)) ||
                   take(LaunchSoftware::vllm, python_dump(text, "non-default args:", file)) ||
                   (is_log_of_vllm(text) &&
                    take(LaunchSoftware::vllm, python_dump(text, "args: Namespace", file)));
  if (any) return launch;
  if (!take(LaunchSoftware::vllm, engine_config(text, file))) return std::nullopt;
  launch.script.doubts.emplace_back(
      "the engine's config does not say --enable-expert-parallel: without it");
  return launch;
}

/// YAML of a software's arguments, told by the names that only it has.
LaunchFile from_yaml(const std::string& text, const std::string& file) {
  if (const auto script = script_of_manifest(text, file)) return from_script(*script, file);
  LaunchFile launch;
  for (const LaunchSoftware software : {LaunchSoftware::megatron, LaunchSoftware::trtllm,
                                        LaunchSoftware::sglang, LaunchSoftware::vllm}) {
    launch = LaunchFile{};
    launch.software = software;
    launch.dump = true;
    launch.yaml = true;
    launch.arguments = NamedArguments(file, text);
    launch.launcher = NamedArguments(file, text);
    add_yaml(text, file, software == LaunchSoftware::megatron, 1, launch.arguments);
    const auto has = [&](std::string_view names) { return argument_of(launch, names) != nullptr; };
    const bool is_megatron =
        has("tensor-model-parallel-size pipeline-model-parallel-size "
            "expert-model-parallel-size");
    const bool is_trtllm =
        has("enable-attention-dp moe-expert-parallel-size kv-cache-config.dtype "
            "cuda-graph-config.enable-padding moe-config.backend");
    const bool is_sglang = has("model-path tp-size");
    const bool is_vllm = has("tensor-parallel-size data-parallel-size enable-expert-parallel");
    const bool fits = software == LaunchSoftware::megatron ? is_megatron
                      : software == LaunchSoftware::trtllm ? is_trtllm
                      : software == LaunchSoftware::sglang ? is_sglang
                                                           : is_vllm;
    if (fits) return launch;
  }
  throw error_in(file, "its keys are those of no known software", what_is_read);
}

}  // namespace

const char* name_of(LaunchSoftware software) {
  constexpr std::array names = {"Megatron-LM", "vLLM", "SGLang", "TensorRT-LLM"};
  return names[static_cast<std::size_t>(software)];
}

LaunchFile launch_file_of(const std::string& text, const std::string& file) {
  check_text(text, file);
  const auto container = exported_lines(text, file);
  const std::string& printed = container ? *container : text;
  if (auto log = from_log(printed, file)) return std::move(*log);
  if (file.ends_with(".yaml") || file.ends_with(".yml") || file.ends_with(".json")) {
    return from_yaml(printed, file);
  }
  return from_script(printed, file);
}

}  // namespace moesim
