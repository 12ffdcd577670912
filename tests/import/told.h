// SPDX-License-Identifier: Apache-2.0
// What becomes of a recording that a test writes, in words.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {

using TextsByName = std::map<std::string, std::string>;

/// " step NUMBER [LENGTHS] LAYER: IDS ... rank RANK" of the first token; step 0 is left out.
inline std::string step_text(const RoutingTrace& trace, int s) {
  const TraceStep& step = trace.step(s);
  const auto lengths = step.sequence_lengths();
  std::string text = step.number() == 0 ? "" : fmt::format(" step {}", step.number());
  text += fmt::format(" {}", std::vector<std::int32_t>(lengths.begin(), lengths.end()));
  for (std::size_t l = 0; l < trace.info().layers.size(); ++l) {
    text += fmt::format(" {}:", trace.info().layers[l]);
    const IdRows rows = step.ids(static_cast<int>(l));
    for (std::int64_t t = 0; t < rows.tokens(); ++t) {
      for (int k = 0; k < rows.top_k(); ++k) text += fmt::format(" {}", rows.at(t, k));
    }
  }
  return text + (step.has_source_ranks() ? fmt::format(" rank {}", step.source_rank(0)) : "");
}

/// "top TOP_K" and all steps, then what is dropped; or what is wrong. The options are those of
/// formats.py with a change.
inline std::string told(const std::string& kind, const std::string& folder,
                        const std::function<void(ImportOptions&)>& change = {}) {
  const ScratchFolder scratch;
  auto options = options_of(folder, scratch / "out");
  if (change) change(options);
  std::string text;
  const std::string error = error_of([&] {
    const Imported imported = import_trace(kind, options);
    const RoutingTrace trace = RoutingTrace::open(scratch / "out");
    for (const Diagnostic& warning : imported.warnings) {
      EXPECT_EQ(std::pair(warning.line, warning.column), std::pair(0, 0)) << warning.message;
    }
    text = fmt::format("top {}", trace.info().top_k);
    for (int s = 0; s < trace.step_count(); ++s) text += step_text(trace, s);
    const std::string rest = imported.report.substr(imported.report.find("dropped    "));
    if (rest != "dropped    nothing\n") text += "\n" + replace_all(rest, "dropped    ", "");
  });
  return error.empty() ? text : error.substr(error.find("error: "));
}

/// The same of files with these names.
inline std::string told_of(const std::string& kind, const TextsByName& texts,
                           const std::function<void(ImportOptions&)>& change = {}) {
  const ScratchFolder scratch;
  for (const auto& [name, text] : texts) write_bytes(scratch / ("in/" + name), text);
  return told(kind, scratch / "in", change);
}

}  // namespace moesim
