// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/launch_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/delimited.h"
#include "sim/base/read_number.h"

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
std::string tokens_of(const EngineModel& engine, int ranks) {
  if (engine.tokens_of_all_ranks == no_limit) return std::to_string(engine.options.max_tokens);
  const std::int64_t own = engine.options.max_tokens;
  return std::to_string(own < engine.tokens_of_all_ranks / ranks ? own * ranks
                                                                 : engine.tokens_of_all_ranks);
}

/// Of that kind; empty: none.
std::string text_of(const std::vector<std::pair<std::string, std::string>>& texts,
                    const std::string& kind) {
  const auto found = std::ranges::find(texts, kind, &std::pair<std::string, std::string>::first);
  return found != texts.end() ? found->second : "";
}

/// How a setting is said; empty: it cannot be.
std::string text_of(const std::vector<std::pair<std::string, std::string>>& texts,
                    const LaunchSetting& setting, int ranks) {
  std::string text = text_of(texts, setting.key + "=" + setting.value);
  if (text.empty()) text = text_of(texts, setting.key);
  replace_all(text, "value", setting.value);
  if (const auto count = parse_integer<std::int64_t>(setting.value)) {
    replace_all(text, "of_ranks", std::to_string(*count * ranks));
  }
  return text;
}

/// Adds a line of YAML. Two mappings "key: {a: 1}" of one key become one.
void add_line(std::vector<std::string>& lines, const std::string& line) {
  const auto brace = line.find('{');
  const auto same = std::ranges::find_if(lines, [&](const std::string& known) {
    return known.compare(0, brace, line, 0, brace) == 0;
  });
  if (same == lines.end()) return lines.push_back(line);
  if (brace == line.npos) return;
  same->pop_back();
  for (const std::string& part : cells_of(line.substr(brace + 1, line.size() - brace - 2), ',')) {
    if (same->find(part) == same->npos) *same += ", " + part;
  }
  *same += '}';
}

/// The part of the command that writes the lines for those facts and names them; empty: none.
std::string file_of(const LaunchTexts::File& file, const LaunchFacts& facts) {
  std::vector<std::string> lines;
  const auto add = [&](const std::vector<std::string>& added) {
    for (const std::string& line : added) add_line(lines, line);
  };
  if (facts.dp > 1) add(file.spread);
  if (facts.pool == LaunchFacts::Pool::prompts) add(file.prompts);
  if (facts.pool == LaunchFacts::Pool::decode) add(file.decode);
  if (facts.drafts > 0) add(file.drafts);
  for (const LaunchSetting& setting : facts.settings) {
    const std::string line = text_of(file.settings, setting, facts.dp);
    if (!line.empty()) add_line(lines, line);
  }
  if (lines.empty()) return "";
  return fmt::format("{} <(printf '%s\\n' '{}')", file.flag, fmt::join(lines, "' '"));
}

}  // namespace

std::vector<LaunchSetting> settings_of(const EngineModel& engine, const EngineModel& preset) {
  const EngineOptions &own = engine.options, &usual = preset.options;
  std::vector<LaunchSetting> settings;
  const auto add = [&](const char* key, const auto& value, const auto& of_preset) {
    if (value != of_preset) settings.push_back({key, fmt::format("{}", value)});
  };
  const auto router = [](const EngineOptions& options) {
    return router_names[static_cast<std::size_t>(options.router.kind)];
  };
  add("max_sequences", own.max_sequences, usual.max_sequences);
  add("chunk", own.chunk, usual.chunk);
  add("chunked_prefill", own.chunked_prefill, usual.chunked_prefill);
  add("mixed", own.mixed, usual.mixed);
  add("cadence", own.cadence, usual.cadence);
  if (own.graph_sizes != usual.graph_sizes) {
    settings.push_back({"graph_sizes", fmt::format("[{}]", fmt::join(own.graph_sizes, ", "))});
  }
  add("graph_prompt_tokens", own.graph_prompt_tokens, usual.graph_prompt_tokens);
  add("look_every", own.look_every, usual.look_every);
  add("plans_ahead", own.plans_ahead, usual.plans_ahead);
  add("balance_wait", own.balance_wait, usual.balance_wait);
  add("router", router(own), router(usual));
  add("kv.block", own.kv.block, usual.kv.block);
  add("kv.tokens", own.kv.capacity, usual.kv.capacity);
  add("kv.prefix_cache", own.kv.prefix_cache, usual.kv.prefix_cache);
  add("kv.reserve.initial", own.kv.reserve.initial, usual.kv.reserve.initial);
  add("kv.reserve.least", own.kv.reserve.least, usual.kv.reserve.least);
  add("overlap_from.decode", engine.overlap_from.decode, preset.overlap_from.decode);
  add("overlap_from.prompts", engine.overlap_from.prompts, preset.overlap_from.prompts);
  add("rebalance.interval", own.rebalance.interval, usual.rebalance.interval);
  return settings;
}

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
  for (const LaunchSetting& setting : facts.settings) {
    add(text_of(texts.settings, setting, facts.dp));
  }
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
  replace_all(line, "tokens", tokens_of(engine, facts.dp));
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
  for (const LaunchSetting& setting : facts.settings) {
    if (text_of(texts.settings, setting, facts.dp).empty() &&
        text_of(texts.file.settings, setting, facts.dp).empty()) {
      all.push_back(setting.text());
    }
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace moesim
