// SPDX-License-Identifier: Apache-2.0
#include "sim/import/torch_types.h"

#include <algorithm>
#include <map>
#include <vector>

namespace moesim {

std::optional<NpyType> torch_type(std::string_view name) {
  static const std::map<std::string_view, NpyType> types = {
      {"FloatStorage", {'f', 4}},    {"float32", {'f', 4}},
      {"DoubleStorage", {'f', 8}},   {"float64", {'f', 8}},
      {"HalfStorage", {'f', 2}},     {"float16", {'f', 2}},
      {"BFloat16Storage", {'b', 2}}, {"bfloat16", {'b', 2}},
      {"LongStorage", {'i', 8}},     {"int64", {'i', 8}},
      {"IntStorage", {'i', 4}},      {"int32", {'i', 4}},
      {"ShortStorage", {'i', 2}},    {"int16", {'i', 2}},
      {"CharStorage", {'i', 1}},     {"int8", {'i', 1}},
      {"ByteStorage", {'u', 1}},     {"uint8", {'u', 1}},
      {"BoolStorage", {'u', 1}},     {"bool", {'u', 1}},
      {"uint16", {'u', 2}},          {"uint32", {'u', 4}},
      {"UntypedStorage", {'u', 1}}};
  const auto at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

bool is_harmless(std::string_view global) {
  static const std::vector<std::string_view> known = {
      "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3",
      "torch._utils._rebuild_parameter", "collections.OrderedDict", "torch.storage.UntypedStorage"};
  if (std::ranges::find(known, global) != known.end()) return true;
  return global.starts_with("torch.") && torch_type(global.substr(6));
}

}  // namespace moesim
