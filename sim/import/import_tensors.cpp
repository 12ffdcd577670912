// SPDX-License-Identifier: Apache-2.0
// Tensors that a user saved with torch.save: the lists of Megatron's RouterReplay (and NeMo
// AutoModel), the batches of verl and NeMo-RL, the router logits of Hugging Face transformers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "sim/base/most.h"
#include "sim/import/formats.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/layer_numbering.h"
#include "sim/import/marked_experts.h"
#include "sim/import/table_values.h"
#include "sim/import/torch_file.h"

namespace moesim {
namespace {

/// The first of some keys of a dict, null without any.
const PickleValue* first_of(const PickleValue& dict, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const PickleValue* value = pickle_get(dict, key)) return value;
  }
  return nullptr;
}

std::vector<NpyArray> load_list(const TorchFile& file, const PickleValue& list,
                                const std::string& name) {
  std::vector<NpyArray> arrays;
  for (const PickleValue& item : file.items(list, name)) {
    arrays.push_back(file.load(item, fmt::format("{}[{}]", name, arrays.size())));
  }
  if (arrays.empty()) throw error_in(file.path(), fmt::format("{} is empty", name));
  return arrays;
}

/// Runs `add` on every file.
template <class Add>
void for_each_torch_file(ImportSink& sink, const Add& add) {
  sink.experts();
  const auto files = input_files(sink.options().inputs);
  for (std::size_t i = 0; i < files.size(); ++i) {
    sink.progress(static_cast<double>(i) / static_cast<double>(files.size()));
    add(TorchFile(files[i]), static_cast<std::int64_t>(i));
  }
}

/// First and last + 1 valid column of a row of an attention mask; they follow each other.
std::pair<std::int64_t, std::int64_t> valid_part(const NpyArray& mask, std::int64_t row) {
  const std::int64_t width = mask.shape()[1];
  std::int64_t first = 0, last = width;
  while (first < width && mask.integer(row * width + first) == 0) ++first;
  while (last > first && mask.integer(row * width + last - 1) == 0) --last;
  for (std::int64_t i = first; i < last; ++i) {
    if (mask.integer(row * width + i) != 0) continue;
    throw error_in(mask.file(), fmt::format("row {} has padding between its tokens", row));
  }
  return {first, last};
}

void check_mask(const NpyArray& mask, std::int64_t rows, std::int64_t columns) {
  if (mask.type().is_integer() && mask.shape() == std::vector{rows, columns}) return;
  throw error_in(mask.file(), fmt::format("{} is not a mask of {} sequences of {} columns",
                                          mask.describe(), rows, columns));
}

/// A padded batch [sequence][column][layer][choice] with its mask. The last token of a sequence is
/// never fed back, so that it has no routes.
void add_padded(const NpyArray& batch, const NpyArray& mask, ImportSink& sink) {
  const auto& shape = batch.shape();
  check_mask(mask, shape[0], shape[1]);
  const std::int64_t row = shape[2] * shape[3];
  const NpyArray flat = batch.reshaped({shape[0] * shape[1], shape[2], shape[3]});
  const ChoiceTable all(flat, {}, "tlk");
  for (std::int64_t s = 0; s < shape[0]; ++s) {
    const auto [first, last] = valid_part(mask, s);
    const std::int64_t tokens = last - first - 1;
    sink.drop("of padding (mask)", (shape[1] - std::max<std::int64_t>(last - first, 0)) * shape[2]);
    if (last > first) sink.drop("of last tokens, which are not fed back", shape[2]);
    if (tokens <= 0 || row == 0) continue;
    RoutedPass pass{fmt::format("{}, sequence {}", batch.file(), s),
                    all.part(s * shape[1] + first, tokens),
                    {static_cast<std::int32_t>(tokens)}};
    pass.warm_up_first = false;
    sink.add(pass);
  }
}

/// top-k of the logits of a token, the lowest id first among equals.
void choose(const NpyArray& logits, std::int64_t token, int top_k, std::vector<std::int32_t>& ids) {
  const std::int64_t experts = logits.shape()[1];
  std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> values(order.size());
  for (std::int64_t e = 0; e < experts; ++e) {
    values[e] = logits.real(token * experts + e);
    if (std::isnan(values[e])) {
      throw error_in(logits.file(),
                     fmt::format("token {} has a logit that is not a number", token));
    }
  }
  std::partial_sort(order.begin(), order.begin() + top_k, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return values[a] != values[b] ? values[a] > values[b] : a < b;
                    });
  ids.insert(ids.end(), order.begin(), order.begin() + top_k);
}

NpyArray choices_of(const NpyArray& logits, int experts, int top_k) {
  if (logits.shape().size() != 2 || logits.type().is_integer() || logits.shape()[1] != experts) {
    throw error_in(logits.file(), fmt::format("holds {}, not logits [token][{} experts]",
                                              logits.describe(), experts));
  }
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < logits.shape()[0]; ++t) choose(logits, t, top_k, ids);
  return NpyArray::of(std::move(ids), {logits.shape()[0], top_k}, logits.file());
}

void add_logits(const TorchFile& file, ImportSink& sink) {
  const PickleValue* list = first_of(file.root(), {"router_logits"});
  std::vector<NpyArray> layers;
  for (const NpyArray& logits : load_list(file, list ? *list : file.root(), "router_logits")) {
    layers.push_back(choices_of(logits, sink.experts(), sink.options().top_k));
  }
  const ChoiceTable all(std::move(layers));
  const PickleValue* mask_value = first_of(file.root(), {"attention_mask"});
  if (mask_value == nullptr) {
    sink.warn({Severity::warning, file.path(), 0, 0,
               "no attention_mask: all rows are taken as one sequence, padding included", "",
               "save {\"router_logits\": ..., \"attention_mask\": ...}"});
    sink.add({file.path(), all, {static_cast<std::int32_t>(all.tokens())}});
    return;
  }
  const NpyArray mask = file.load(*mask_value, "attention_mask");
  const std::int64_t rows = mask.shape().empty() ? 0 : mask.shape()[0];
  if (rows == 0) throw error_in(mask.file(), "is not a mask of sequences");
  check_mask(mask, rows, all.tokens() / rows);
  for (std::int64_t s = 0; s < rows; ++s) {
    const auto [first, last] = valid_part(mask, s);
    sink.drop("of padding (mask)", (mask.shape()[1] - (last - first)) * all.layers());
    if (last == first) continue;
    RoutedPass pass{fmt::format("{}, sequence {}", file.path(), s),
                    all.part(s * mask.shape()[1] + first, last - first),
                    {static_cast<std::int32_t>(last - first)}};
    pass.phase = Phase::prefill;
    pass.warm_up_first = false;
    sink.add(pass);
  }
}

/// The choices of all routers: a tensor for each, or one of all.
struct RouterLists {
  std::vector<NpyArray> ids;
  std::vector<int> layers = {};  // of a dict by layer
  std::string order = "";        // of the axes of one tensor
};

/// Layers come first where they are stacked, unless only the second axis is as long as they are.
RouterLists stacked_lists(NpyArray ids, const ImportOptions& options) {
  const auto known = std::ssize(options.known_layers());
  const auto& shape = ids.shape();
  const bool second = shape.size() == 3 && shape[0] != known && shape[1] == known;
  return {{std::move(ids)}, {}, second ? "tlk" : "ltk"};
}

/// The layer that a key of a dict names: 3, "3", "layer_3"; -1 for others.
std::int64_t layer_of_key(const PickleValue& key) {
  if (key.is(PickleValue::Kind::integer)) return key.integer;
  if (!key.is(PickleValue::Kind::text)) return -1;
  return layer_in_name(key.node->text).value_or(-1);
}

/// A dict of tensors by layer; nothing for others.
std::optional<RouterLists> lists_by_layer(const TorchFile& file, const PickleValue& dict,
                                          const ImportOptions& options) {
  std::map<std::int64_t, NpyArray> layers;
  const auto& items = dict.node->items;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::int64_t layer = layer_of_key(items[i]);
    if (layer < 0 || layer > max_layer_number || !items[i + 1].is(PickleValue::Kind::tensor) ||
        layers.contains(layer)) {
      return std::nullopt;
    }
    layers.emplace(layer, file.load(items[i + 1], fmt::format("layer {}", layer)));
  }
  RouterLists lists;
  for (auto& [layer, ids] : layers) {
    lists.layers.push_back(static_cast<int>(layer));
    lists.ids.push_back(std::move(ids));
  }
  if (lists.ids.empty()) return std::nullopt;
  if (!options.layers.empty()) {
    lists.layers.clear();
  } else {
    lists.layers = numbered_layers(lists.layers, options, file.path());
  }
  return lists;
}

/// Lists of tensors, one tensor of all layers, a dict by layer, or the only value of a dict.
RouterLists router_lists(const TorchFile& file, const PickleValue& value, const std::string& name,
                         const ImportOptions& options) {
  if (value.is(PickleValue::Kind::tensor)) return stacked_lists(file.load(value, name), options);
  if (value.is_list()) return {load_list(file, value, name)};
  if (value.is(PickleValue::Kind::dict)) {
    if (auto lists = lists_by_layer(file, value, options)) return std::move(*lists);
    const auto& items = value.node->items;
    const bool named = items.size() == 2 && items[0].is(PickleValue::Kind::text);
    if (named && !items[1].is(PickleValue::Kind::dict)) {
      return router_lists(file, items[1], items[0].node->text, options);
    }
  }
  throw error_in(file.path(), fmt::format("holds {}", file.names()),
                 "router-lists are a list of tensors [token][choice], one per router, one tensor "
                 "[layer][token][choice], or a dict by layer");
}

}  // namespace

void import_router_lists(ImportSink& sink) {
  for_each_torch_file(sink, [&](const TorchFile& file, std::int64_t number) {
    RouterLists lists = router_lists(file, file.root(), "list", sink.options());
    for (NpyArray& ids : lists.ids) {
      ids = without_marks(ids, sink.options().experts, sink.options().top_k);
    }
    const ChoiceTable ids = lists.ids.size() == 1 ? ChoiceTable(lists.ids.front(), {}, lists.order)
                                                  : ChoiceTable(std::move(lists.ids));
    RoutedPass pass{file.path(), ids, {static_cast<std::int32_t>(ids.tokens())}};
    pass.layers = lists.layers;
    pass.step = number;
    pass.phase = Phase::training;
    pass.of_routers = true;
    sink.add_microbatch(pass);
  });
}

void import_routed_batches(ImportSink& sink) {
  for_each_torch_file(sink, [&](const TorchFile& file, std::int64_t) {
    const NpyArray ids = file.load_at(file.root(), "routed_experts");
    if (ids.shape().size() == 4) {
      const PickleValue* mask = first_of(file.root(), {"attention_mask"});
      if (mask == nullptr) {
        throw error_in(file.path(), "has no 'attention_mask': its padding is 0, a sound id",
                       "save the batch's attention_mask with routed_experts");
      }
      return add_padded(ids, file.load(*mask, "attention_mask"), sink);
    }
    if (ids.shape().size() != 3) {
      throw error_in(ids.file(), fmt::format("{} is not [token][layer][choice] or a padded batch",
                                             ids.describe()));
    }
    const ChoiceTable table(ids, {}, "tlk");
    RoutedPass pass{file.path(), table, {static_cast<std::int32_t>(table.tokens())}};
    pass.of_routers = true;
    sink.add(pass);
  });
}

void import_hf_logits(ImportSink& sink) {
  if (sink.options().top_k == 0) throw Error("logits do not say top-k", "give --model or --top-k");
  if (sink.options().selects_otherwise) {
    throw Error("the model's gate does not choose the largest logits: a bias or groups decide",
                "record what the gate chose, with a hook");
  }
  for_each_torch_file(sink, [&](const TorchFile& file, std::int64_t) { add_logits(file, sink); });
}

}  // namespace moesim
