// SPDX-License-Identifier: Apache-2.0
// What is computed again in the backward pass in place of being kept, in Megatron's words.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/base/enum_set.h"

namespace moesim {

class YamlValue;

enum class RecomputeModule {
  core_attn,       // scores: statistics of the softmax
  moe_act,         // activation between the products of routed experts
  layernorm,       // outputs of norms that are kernels of their own: before MLA and before experts
  mla_up_proj,     // queries, keys and values from their compressed vectors
  mlp,             // dense FFN, from the output of its norm
  moe,             // router, dispatch, experts, combine, from the output of the norm
  shared_experts,  // from the output of the norm
  full             // whole layers, from their inputs
};
const std::vector<std::string>& recompute_module_names();  // by number

/// A set of modules. `full` contains all others.
class Recompute {
 public:
  Recompute() = default;
  Recompute(std::initializer_list<RecomputeModule> modules) : modules_(modules) {}
  void add(RecomputeModule module) { modules_.add(module); }
  bool has(RecomputeModule module) const;  // by itself or by `full`
  /// Whether one of these modules, which are not empty, is in the set; `full` covers all of them.
  bool covers(const Recompute& modules) const;
  bool empty() const { return modules_.empty(); }
  std::vector<std::string> names() const { return modules_.names(recompute_module_names()); }
  std::string text() const;  // "layernorm + moe_act", "none"
  bool operator==(const Recompute&) const = default;

 private:
  EnumSet<RecomputeModule> modules_;
};

/// "none", a module, or a list of modules; mistakes are recorded.
Recompute read_recompute(const YamlValue& value);
/// The same as numbers of any names, and such names as text: "layernorm + moe_act", "none".
std::vector<int> read_modules(const YamlValue& value, const std::vector<std::string>& names);
std::string text_of_modules(const std::vector<std::string>& names);

}  // namespace moesim
