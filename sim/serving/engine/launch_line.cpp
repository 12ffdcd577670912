// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/launch_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {
namespace {

void replace_all(std::string& text, const std::string& name, const std::string& value) {
  const std::string mark = "{" + name + "}";
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), value);
    at += value.size();
  }
}

/// Tokens of a pass as the engine's flag counts them: of all ranks if the preset does.
std::string tokens_of(const EngineModel& engine) {
  const std::int64_t tokens = engine.tokens_of_all_ranks != no_limit ? engine.tokens_of_all_ranks
                                                                     : engine.options.max_tokens;
  return std::to_string(tokens);
}

/// Of that kind; empty: none.
std::string text_of(const std::vector<std::pair<std::string, std::string>>& texts,
                    const std::string& kind) {
  const auto found = std::ranges::find(texts, kind, &std::pair<std::string, std::string>::first);
  return found != texts.end() ? found->second : "";
}

/// The part of the command that writes the lines for those facts and names them; empty: none.
std::string file_of(const LaunchTexts::File& file, const LaunchFacts& facts) {
  std::string lines;
  const auto add = [&](const std::vector<std::string>& added) {
    for (const std::string& line : added) lines += fmt::format(" '{}'", line);
  };
  if (facts.dp > 1) add(file.spread);
  if (facts.pool == LaunchFacts::Pool::prompts) add(file.prompts);
  if (facts.pool == LaunchFacts::Pool::decode) add(file.decode);
  if (facts.drafts > 0) add(file.drafts);
  return lines.empty() ? "" : fmt::format("{} <(printf '%s\\n'{})", file.flag, lines);
}

}  // namespace

std::string launch_line(const EngineModel& engine, const LaunchFacts& facts) {
  const LaunchTexts& texts = engine.launch;
  std::string line = texts.line;
  if (line.empty()) return line;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) line += " " + part;
  };
  if (facts.dp > 1) add(texts.spread);
  if (facts.ep > 1) add(texts.experts);
  if (facts.ep > 1 && facts.dp > 1) add(text_of(texts.dispatch, facts.dispatch));
  add(text_of(texts.overlaps, facts.overlap));
  if (facts.dcp > 1) add(texts.dcp);
  if (facts.drafts > 0) add(texts.drafts);
  if (facts.pool == LaunchFacts::Pool::prompts) add(texts.prompts);
  if (facts.pool == LaunchFacts::Pool::decode) add(texts.decode);
  add(file_of(texts.file, facts));
  replace_all(line, "model", facts.model);
  const std::pair<const char*, int> counts[] = {{"gpus", facts.gpus},
                                                {"tp", facts.tp},
                                                {"dp", facts.dp},
                                                {"ep", facts.ep},
                                                {"dcp", facts.dcp},
                                                {"drafts", facts.drafts},
                                                {"verified", facts.drafts + 1}};
  for (const auto& [name, count] : counts) replace_all(line, name, std::to_string(count));
  replace_all(line, "tokens", tokens_of(engine));
  replace_all(line, "memory", fmt::format("{:.2f}", engine.memory.share));
  return line;
}

std::string left_out_of_line(const EngineModel& engine, const LaunchFacts& facts) {
  const LaunchTexts& texts = engine.launch;
  std::vector<std::string> all;
  const auto has = [](const std::string& text, const char* mark) {
    return text.find(mark) != std::string::npos;
  };
  const bool says_groups = has(texts.line, "{tp}") || has(texts.line + texts.spread, "{dp}");
  if (facts.tp > 1 && facts.dp > 1 && !says_groups) {
    all.push_back(
        fmt::format("tensor groups of {} within {} ranks of attention", facts.tp, facts.dp));
  }
  if (facts.ep > 1 && facts.dp > 1 && !texts.dispatch.empty() &&
      text_of(texts.dispatch, facts.dispatch).empty()) {
    all.push_back("dispatch: " + facts.dispatch);
  }
  if (facts.overlap != "none" && text_of(texts.overlaps, facts.overlap).empty()) {
    all.push_back("overlap: " + facts.overlap);
  }
  if (facts.dcp > 1 && texts.dcp.empty()) all.push_back(fmt::format("dcp: {}", facts.dcp));
  if (facts.drafts > 0 && texts.drafts.empty() && texts.file.drafts.empty()) {
    all.push_back(fmt::format("drafts: {}", facts.drafts));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace moesim
