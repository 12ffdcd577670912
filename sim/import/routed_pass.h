// SPDX-License-Identifier: Apache-2.0
// What importers hand over: the routes of one forward pass or one request, as its file holds them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/import/choice_table.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

struct RoutedPass {
  std::string where;  // file and record, for messages
  ChoiceTable ids;
  std::vector<std::int32_t> lengths;        // of the sequences; sums to the tokens
  std::vector<int> layers = {};             // model layer number of each layer; empty: unknown
  std::optional<ChoiceTable> weights = {};  // the shape of ids
  double weight_scale = 1;                  // one unit of the weights
  std::optional<std::int64_t> step = {};    // passes of one step follow each other; none: a
                                            // request, which fills steps with others
  int source_rank = -1;                     // that held all its tokens; -1: unknown
  std::optional<Phase> phase = {};
  std::optional<NpyArray> logical_of = {};  // [layer][slot], if ids are slots
  bool of_routers = false;                  // a layer per router, in order: none of dense layers,
                                            // those of multi-token prediction last
  bool warm_up_first = true;                // leading sequences of equal tokens are warm-up passes
  bool progress = false;                    // it is all of the inputs
};

}  // namespace moesim
