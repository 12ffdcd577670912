// SPDX-License-Identifier: Apache-2.0
// Layers in chunks, of tokens that go to all experts alike.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "sim/planner/iteration/planner.h"
#include "sim/trace/memory_step.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim::test {

/// `keys`: more of the schedule, such as ", streamed: true"; `transport`: empty for that of the
/// dispatch.
inline SystemSpec in_chunks(const std::string& dispatch, int chunks, const std::string& keys = "",
                            const std::string& transport = "") {
  return parse_system(
      fmt::format("name: test\nsource: test\nrouting: identity\nplacement: contiguous\n"
                  "dispatch: {}\nschedule: {{kind: sequential, chunks: {}{}}}\n{}",
                  dispatch, chunks, keys, transport.empty() ? "" : "transport: " + transport),
      "test");
}

/// One choice each, token t of expert t modulo the experts: any so many tokens on end go to all.
inline RoutingTrace even_trace(const MoeModel& model, std::int64_t tokens) {
  TraceInfo info;
  info.model = info.name = model.name;
  info.experts = model.experts;
  info.top_k = 1;
  info.layers = {model.moe_layers.front()};
  info.phase = Phase::synthetic;
  StepArrays arrays;
  arrays.ids = IdArray(info.experts, tokens);
  for (std::int64_t t = 0; t < tokens; ++t) arrays.ids.set(t, static_cast<int>(t % info.experts));
  arrays.sequence_lengths.assign(static_cast<std::size_t>(tokens / info.experts), info.experts);
  return RoutingTrace(info, {make_step(info, std::move(arrays))});
}

}  // namespace moesim::test
