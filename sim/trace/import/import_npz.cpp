// SPDX-License-Identifier: Apache-2.0
// Id arrays [token][layer][choice] or [layer][token][choice], with sequence lengths and weights
// beside them, in one .npz or several .npy.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "sim/trace/import/importer.h"
#include "sim/trace/import/zip.h"
#include "sim/trace/npy.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

using Members = std::map<std::string, NpyArray>;

/// Leading sequences of at least this many equal tokens are warm-up passes, not text.
constexpr std::int64_t kDummyPass = 8;

Members read_members(const std::vector<std::string>& inputs) {
  Members members;
  const auto add = [&](const std::string& name, NpyArray array) {
    if (!members.emplace(name, std::move(array)).second)
      throw Error(fmt::format("two arrays are named '{}'", name));
  };
  for (const auto& input : inputs) {
    if (fs::path(input).extension() == ".npy") {
      add(fs::path(input).stem().string(), NpyArray::open(input));
      continue;
    }
    const ZipArchive archive(input);
    for (const auto& member : archive.members())
      if (member.name.ends_with(".npy"))
        add(member.name.substr(0, member.name.size() - 4),
            NpyArray::parse(archive.read(member), input + "/" + member.name));
  }
  return members;
}

/// The member called `name`, else the only one whose name is in `usual`.
const NpyArray* find(const Members& members, const std::string& name, const std::string& role,
                     const std::vector<std::string>& usual, bool required) {
  std::vector<std::string> names;
  for (const auto& [key, array] : members) names.push_back(key);
  if (!name.empty()) {
    const auto at = members.find(name);
    if (at == members.end())
      throw Error(fmt::format("there is no array '{}' for the {}", name, role),
                  did_you_mean(name, names));
    return &at->second;
  }
  const NpyArray* found = nullptr;
  for (const auto& candidate : usual)
    if (const auto at = members.find(candidate); at != members.end()) {
      if (found != nullptr)
        throw Error(fmt::format("several arrays could be the {}", role),
                    fmt::format("name one of: {}", fmt::join(names, ", ")));
      found = &at->second;
    }
  if (found == nullptr && required)
    throw Error(fmt::format("no array is named like {}", role),
                fmt::format("name one of: {}", fmt::join(names, ", ")));
  return found;
}

/// The ids with their axes told apart.
class IdTable {
 public:
  IdTable(const NpyArray& ids, const NpyArray* lengths, const ImportOptions& options) : ids_(ids) {
    if (ids.type().kind == 'f')
      throw error_in(ids.file(), fmt::format("holds {}; ids are integers", ids.type().name()));
    const auto& shape = ids.shape();
    if (shape.size() != 2 && shape.size() != 3)
      throw error_in(ids.file(), fmt::format("has shape {}; ids have three axes: token, layer, "
                                             "choice (or two for one layer)",
                                             shape_text(shape)));
    choices_ = shape.back();
    const bool single = shape.size() == 2;
    const bool tlk = single || token_major(shape, lengths, options.order);
    tokens_ = tlk ? shape[0] : shape[1];
    layers_ = single ? 1 : tlk ? shape[1] : shape[0];
    token_stride_ = tlk ? layers_ * choices_ : choices_;
    layer_stride_ = tlk ? choices_ : tokens_ * choices_;
    if (tokens_ == 0 || layers_ == 0 || choices_ == 0) throw error_in(ids.file(), "holds no ids");
  }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t layers() const { return layers_; }
  std::int64_t choices() const { return choices_; }
  const NpyArray& array() const { return ids_; }
  std::int64_t index(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    return token * token_stride_ + layer * layer_stride_ + k;
  }
  std::int64_t at(std::int64_t token, std::int64_t layer, std::int64_t k) const {
    return ids_.integer(index(token, layer, k));
  }
  bool all(std::int64_t token, std::int64_t value) const {
    for (std::int64_t l = 0; l < layers_; ++l)
      for (std::int64_t k = 0; k < choices_; ++k)
        if (at(token, l, k) != value) return false;
    return true;
  }
  bool same(std::int64_t a, std::int64_t b) const {
    for (std::int64_t l = 0; l < layers_; ++l)
      for (std::int64_t k = 0; k < choices_; ++k)
        if (at(a, l, k) != at(b, l, k)) return false;
    return true;
  }

 private:
  bool token_major(const std::vector<std::int64_t>& shape, const NpyArray* lengths,
                   const std::string& order) const {
    if (!order.empty()) return order == "tlk";
    std::int64_t sum = 0;
    for (std::int64_t i = 0; lengths != nullptr && i < lengths->count(); ++i)
      sum += lengths->integer(i);
    if ((sum == shape[0]) == (sum == shape[1]))
      throw error_in(ids_.file(), fmt::format("{}: which axis is the tokens?", ids_.describe()),
                     "give --order tlk (token, layer, choice) or ltk");
    return sum == shape[0];
  }

  const NpyArray& ids_;
  std::int64_t tokens_ = 0, layers_ = 0, choices_ = 0;
  std::int64_t token_stride_ = 0, layer_stride_ = 0;
};

std::vector<std::int32_t> read_lengths(const IdTable& table, const NpyArray* lengths) {
  if (lengths == nullptr) return {static_cast<std::int32_t>(table.tokens())};
  if (lengths->type().kind == 'f' || lengths->shape().size() != 1)
    throw error_in(lengths->file(),
                   fmt::format("{} is not a list of sequence lengths", lengths->describe()));
  std::vector<std::int32_t> out;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < lengths->count(); ++i) {
    const std::int64_t length = lengths->integer(i);
    if (length <= 0 || length > table.tokens())
      throw error_in(lengths->file(), fmt::format("sequence {} has length {}", i, length));
    out.push_back(static_cast<std::int32_t>(length));
    sum += length;
  }
  if (sum != table.tokens())
    throw error_in(lengths->file(),
                   fmt::format("the sequences add up to {} tokens but the ids have "
                               "{}",
                               sum, table.tokens()));
  return out;
}

/// Which layers of the array to take, and their numbers in the model.
std::vector<std::int64_t> choose_layers(const IdTable& table, const ImportOptions& options,
                                        Import& made) {
  std::vector<std::int64_t> taken(static_cast<std::size_t>(table.layers()));
  std::iota(taken.begin(), taken.end(), 0);
  if (!options.layers.empty()) {
    if (static_cast<std::int64_t>(options.layers.size()) != table.layers())
      throw error_in(table.array().file(), fmt::format("has {} layers but --layers names {}",
                                                       table.layers(), options.layers.size()));
    if (options.moe_layers.empty()) return made.info.layers = options.layers, taken;
  } else if (static_cast<std::int64_t>(options.moe_layers.size()) == table.layers()) {
    return made.info.layers = options.moe_layers, taken;
  } else if (options.moe_layers.empty()) {
    throw error_in(table.array().file(), "does not say which layers of the model it holds",
                   "give --model or --layers FIRST:COUNT");
  } else if (options.moe_layers.back() >= table.layers()) {
    throw error_in(table.array().file(),
                   fmt::format("has {} layers but the model has {} MoE layers", table.layers(),
                               options.moe_layers.size()),
                   "--layers FIRST:COUNT says which they are");
  }
  // Indexed by model layer: the dense ones hold zeros and are left out.
  std::vector<std::int64_t> moe;
  for (const std::int64_t l : taken) {
    const int number =
        options.layers.empty() ? static_cast<int>(l) : options.layers[static_cast<std::size_t>(l)];
    if (std::find(options.moe_layers.begin(), options.moe_layers.end(), number) !=
        options.moe_layers.end()) {
      moe.push_back(l);
      made.info.layers.push_back(number);
      continue;
    }
    for (std::int64_t t = 0; t < table.tokens(); ++t)
      for (std::int64_t k = 0; k < table.choices(); ++k)
        if (const auto id = table.at(t, l, k); id != 0 && id != -1)
          throw error_in(table.array().file(),
                         fmt::format("layer {} is dense in the model but token {} chose expert {}",
                                     number, t, id));
    made.dropped["of dense layers"] += table.tokens();
  }
  if (moe.empty()) throw error_in(table.array().file(), "holds no MoE layer of the model");
  return moe;
}

/// Recorders of a fixed width leave the columns beyond top-k at -1.
int choose_top_k(const IdTable& table, const ImportOptions& options) {
  const auto wanted = options.top_k > 0 ? options.top_k : table.choices();
  if (wanted > table.choices())
    throw error_in(table.array().file(), fmt::format("has {} choices per token but top-k is {}",
                                                     table.choices(), wanted));
  for (std::int64_t t = 0; t < table.tokens(); ++t)
    for (std::int64_t l = 0; l < table.layers(); ++l)
      for (std::int64_t k = wanted; k < table.choices(); ++k)
        if (table.at(t, l, k) != -1)
          throw error_in(
              table.array().file(),
              fmt::format("has {} choices per token but top-k is {}", table.choices(), wanted));
  return static_cast<int>(wanted);
}

/// Marks tokens to keep; shortens or removes the sequences of the others.
std::vector<std::int64_t> choose_tokens(const IdTable& table, bool has_lengths, Import& made) {
  std::vector<std::int64_t> kept;
  std::vector<std::int32_t> lengths;
  std::int64_t first = 0;
  bool leading = has_lengths;
  for (const std::int32_t length : made.step.sequence_lengths) {
    std::int64_t equal = 1;
    while (leading && equal < length && table.same(first, first + equal)) ++equal;
    leading = leading && length >= kDummyPass && equal == length && !table.all(first, -1);
    if (leading) {
      made.dropped["of leading passes of equal tokens (warm-up)"] += length * table.layers();
    } else {
      const std::size_t before = kept.size();
      for (std::int64_t t = first; t < first + length; ++t) {
        if (!table.all(t, -1))
          kept.push_back(t);
        else
          made.dropped["of padding (-1)"] += table.layers();
      }
      if (kept.size() > before) lengths.push_back(static_cast<std::int32_t>(kept.size() - before));
    }
    first += length;
  }
  if (kept.empty()) throw error_in(table.array().file(), "holds padding only");
  made.step.sequence_lengths = std::move(lengths);
  return kept;
}

double scale_of(const NpyArray& weights, const ImportOptions& options) {
  if (options.weight_scale != 0) return options.weight_scale;
  if (weights.type().kind == 'f') return 1;
  if (fs::path(weights.file()).stem().string().ends_with("1e4")) return 1e-4;
  throw error_in(weights.file(),
                 fmt::format("holds {} weights of unknown unit", weights.type().name()),
                 "give --weight-scale, such as 1e-4");
}

}  // namespace

Import import_npz(const ImportOptions& options, const TraceProgress& progress) {
  const Members members = read_members(options.inputs);
  const NpyArray* ids =
      members.size() == 1 && options.ids.empty()
          ? &members.begin()->second
          : find(members, options.ids, "ids",
                 {"ids", "expert_ids", "topk_ids", "indices", "selected_experts"}, true);
  const NpyArray* lengths = find(members, options.lengths, "sequence lengths",
                                 {"seq_len", "seq_lens", "sequence_lengths", "lengths"}, false);
  const NpyArray* weights = find(members, options.weights, "weights",
                                 {"weights", "gate_weights", "topk_weights", "gate_w1e4"}, false);
  if (weights != nullptr && weights->shape() != ids->shape())
    throw error_in(weights->file(),
                   fmt::format("has shape {} but the ids have {}", shape_text(weights->shape()),
                               shape_text(ids->shape())));
  const IdTable table(*ids, lengths, options);
  Import made;
  made.info.experts = options.experts;
  made.info.top_k = choose_top_k(table, options);
  made.info.phase = Phase::mixed;
  made.step.sequence_lengths = read_lengths(table, lengths);
  const auto layers = choose_layers(table, options, made);
  const auto tokens = choose_tokens(table, lengths != nullptr, made);
  const double scale = weights != nullptr ? scale_of(*weights, options) : 1;

  const auto rows = static_cast<std::int64_t>(layers.size() * tokens.size());
  made.step.ids = IdArray(options.experts, rows * made.info.top_k);
  std::int64_t to = 0;
  for (const std::int64_t l : layers) {
    if (progress) progress(static_cast<double>(to) / static_cast<double>(rows * made.info.top_k));
    for (const std::int64_t t : tokens)
      for (std::int64_t k = 0; k < made.info.top_k; ++k, ++to) {
        const std::int64_t id = table.at(t, l, k);
        if (id < 0 || id >= options.experts)
          throw error_in(
              ids->file(),
              fmt::format("token {}, layer {} of the array: expert {} of a model with {} "
                          "experts",
                          t, l, id, options.experts),
              "ids beyond the experts are slots, shared experts, padding or another "
              "model's");
        made.step.ids.set(to, static_cast<int>(id));
        if (weights != nullptr)
          made.step.weights.push_back(
              static_cast<float>(weights->real(table.index(t, l, k)) * scale));
      }
  }
  return made;
}

}  // namespace moesim
