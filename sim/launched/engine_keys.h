// SPDX-License-Identifier: Apache-2.0
// What the launches of all serving engines have in common.
#pragma once

#include <string>

#include "sim/launched/argument_table.h"
#include "sim/launched/launch_file.h"

namespace moesim {

/// The YAML that an argument names: a file of that name next to that of the launch, what the script
/// writes to it ("cat > NAME << EOF"), or what it prints in its place ("<(printf ...)"). Throws
/// Error if there is none.
NamedArguments options_of(const LaunchFile& launch, const NamedArgument& argument);

/// Degrees of one instance: `tp` of attention, `dp` ranks of attention, and experts.
struct LaunchedDegrees {
  std::int64_t tp = 1, dp = 1, ep = 1, etp = 1;
};

/// Experts of a tensor group: `names` say how many of its GPUs share them whole, the others are in
/// slices. Throws Error, which calls the group by `flag`, if these do not divide it.
void share_experts(const LaunchFile& launch, std::int64_t group, std::string_view names,
                   const std::string& flag, LaunchedDegrees& degrees);
void set_degrees(const LaunchedDegrees& degrees, Launched& launched);
/// Dispatch, and what was assumed of it; `transport`: in place of the policy's own.
void set_policy(const std::string& policy, const std::string& assumed, Launched& launched,
                const std::string& transport = "");
/// Drafts of a decode, of which nobody says how many are kept.
struct LaunchedDrafts {
  std::int64_t tokens = 0;  // that a decode verifies
  std::int64_t depth = 0;   // of a tree of them: at most so many are kept; 0: they are a chain
  std::string method;       // as the launch names it; empty: the engine's choice
  std::string model;        // that drafts them; empty: the launch names none
};
/// Notes if the model's own layers of multi-token prediction, which are simulated, do not draft.
void set_drafts(const LaunchedDrafts& drafts, Launched& launched);
/// Experts move after so many passes.
void set_rebalance(std::int64_t interval, Launched& launched);
/// Keys and values by a word for their type; notes what takes the place of another type.
void set_kv_type(const std::string& type, Launched& launched);
/// The share of memory that `names` say, `of` all that a GPU has or of what is free.
void take_memory_share(const LaunchFile& launch, std::string_view names, const char* of,
                       Launched& launched);
/// Weights by a word for their quantization; false: moesim has no such type.
bool set_weights(const std::string& quantization, Launched& launched);
/// The same of a flag, whose methods quantize attention and dense layers, too: notes if moesim does
/// not. A value that moesim has not is left out.
void take_quantization(const NamedArgument& argument, Launched& launched);
/// Of a request at most, if nobody says more.
inline constexpr std::int64_t usual_request_tokens = 8192;

/// Requests, of which no launch says anything, of at most so many tokens (0: any). If a pass of
/// `whole_prompts` tokens takes prompts whole (0: in chunks), they leave room for decodes in it.
void set_requests(std::int64_t ranks, std::int64_t most_tokens, std::int64_t whole_prompts,
                  Launched& launched);
/// One of two pools: the other is taken to be alike.
void set_pool(const std::string& pool, Launched& launched);
/// Throws Error for more than one pipeline stage.
void refuse_stages(const LaunchFile& launch, std::string_view names);

}  // namespace moesim
