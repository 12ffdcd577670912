// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/parallel/layer_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/planner/parallel/layout_text.h"

namespace moesim {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& hint = "") {
  throw Error(message, hint);
}

/// value / parts, if Megatron-Core wants no rest.
int shared_out(int value, int parts, const std::string& what, const std::string& among) {
  if (value < 0 || value % parts != 0) {
    refuse(fmt::format("{} {} cannot be shared evenly by {} {}", value, what, parts, among));
  }
  return value / parts;
}

/// Layers per stage if the first or the last one has its own number.
std::vector<int> with_own_ends(const LayerSplit& s) {
  const int own = (s.in_first_stage ? 1 : 0) + (s.in_last_stage ? 1 : 0);
  if (s.pp < 2) refuse("layers of the first or last stage, with pp = 1");
  if (s.account_for_embedding || s.account_for_loss) {
    refuse("layers of the first or last stage next to an embedding or loss that counts as a layer",
           "say one or the other");
  }
  const int rest = s.layers - s.in_first_stage.value_or(0) - s.in_last_stage.value_or(0);
  const int others = s.pp - own;
  if (others == 0 && rest != 0) {
    refuse(fmt::format("two stages with {} and {} layers hold {}, not the model's {}",
                       *s.in_first_stage, *s.in_last_stage, s.layers - rest, s.layers));
  }
  const int each = others == 0 ? 0 : shared_out(rest, others, "layers", "other stages");
  std::vector<int> stages(static_cast<std::size_t>(s.pp), each);
  if (s.in_first_stage) stages.front() = *s.in_first_stage;
  if (s.in_last_stage) stages.back() = *s.in_last_stage;
  return stages;
}

/// Layers per position if stages share theirs evenly among their chunks.
std::vector<int> chunks_of(const std::vector<int>& stages, int vpp) {
  std::vector<int> positions;
  for (int chunk = 0; chunk < vpp; ++chunk) {
    for (const int layers : stages) {
      positions.push_back(shared_out(layers, vpp, "layers of a stage", "chunks (vpp)"));
    }
  }
  return positions;
}

std::vector<int> with_ends_as_layers(const LayerSplit& s) {
  const int embedding = s.account_for_embedding ? 1 : 0, loss = s.account_for_loss ? 1 : 0;
  const int each =
      shared_out(s.layers + embedding + loss, s.pp, "layers, embedding and loss counted", "stages");
  auto positions = chunks_of(std::vector<int>(static_cast<std::size_t>(s.pp), each), s.vpp);
  positions.front() -= embedding;
  positions.back() -= loss;
  return positions;
}

/// As even as possible, see LayerLayout.
std::vector<int> nearly_even(const LayerSplit& s) {
  const int count = s.pp * s.vpp;
  const int at_the_end = s.mtp + (1 + s.mtp);  // MTP layers, and a loss of the model and of each
  const int most = (s.layers + at_the_end + count - 1) / count;
  const int last = std::max(0, most - at_the_end);
  const int others = count - 1, rest = s.layers - last;
  std::vector<int> positions(static_cast<std::size_t>(count), rest / others);
  for (int p = others - rest % others; p < others; ++p) ++positions[static_cast<std::size_t>(p)];
  positions.back() = last;
  return positions;
}

std::vector<int> layers_per_position(const LayerSplit& s) {
  if (s.pp < 1 || s.vpp < 1 || s.layers < 1 || s.mtp < 0) {
    throw std::invalid_argument("a split of layers with a size below 1");
  }
  const int count = s.pp * s.vpp;
  const int held = s.layers + (s.account_for_embedding ? 1 : 0) + (s.account_for_loss ? 1 : 0);
  if (held < count) {
    refuse(fmt::format("{} on pp {} x vpp {} = {} stages and chunks", counted(s.layers, "layer"),
                       s.pp, s.vpp, count),
           "each holds at least one layer, unless a layout says otherwise");
  }
  if (s.in_first_stage || s.in_last_stage) return chunks_of(with_own_ends(s), s.vpp);
  if (s.account_for_embedding || s.account_for_loss) return with_ends_as_layers(s);
  if (s.layers % count != 0) return nearly_even(s);
  return std::vector<int>(static_cast<std::size_t>(count), s.layers / count);
}

char symbol_of(StagePartKind kind) { return "EtmL"[static_cast<int>(kind)]; }

/// What must be so many times in a layout.
void check_count(const std::string& symbols, char symbol, const char* what, int wanted) {
  const auto found = std::ranges::count(symbols, symbol);
  if (found == wanted) return;
  refuse(fmt::format("the layout has {} {} ({}), the model {}", found, what, symbol, wanted));
}

/// MTP layers are at one position, which is its stage's last chunk.
void check_mtp(const std::vector<std::string>& stages, int pp) {
  const auto has_mtp = [](const std::string& s) { return s.find('m') != std::string::npos; };
  if (std::ranges::count_if(stages, has_mtp) > 1) {
    refuse("the layout has MTP layers (m) in several virtual stages", "put them into one");
  }
  const auto at = std::ranges::find_if(stages, has_mtp);
  if (at != stages.end() && stages.end() - at > pp) {
    refuse("the layout has MTP layers (m) in a chunk that is not the last of its stage");
  }
}

}  // namespace

LayerLayout::LayerLayout(const LayerSplit& split) : pp_(split.pp) {
  int layer = 0;
  for (const int layers : layers_per_position(split)) {
    auto& parts = positions_.emplace_back();
    for (int i = 0; i < layers; ++i) parts.push_back({StagePartKind::layer, layer++});
  }
  positions_.front().insert(positions_.front().begin(), {StagePartKind::embedding});
  for (int i = 0; i < split.mtp; ++i) positions_.back().push_back({StagePartKind::mtp, i});
  positions_.back().push_back({StagePartKind::head});
}

LayerLayout::LayerLayout(const std::string& text, const LayerSplit& split) : pp_(split.pp) {
  const std::vector<std::string> stages = unroll_layout(text);
  if (stages.size() % static_cast<std::size_t>(pp_) != 0) {
    refuse(fmt::format("the layout has {} virtual stages, which pp = {} does not divide",
                       stages.size(), pp_));
  }
  const std::string all = std::accumulate(stages.begin(), stages.end(), std::string());
  if (!all.starts_with('E')) refuse("the layout does not begin with the embedding (E)");
  if (!all.ends_with('L')) refuse("the layout does not end with the loss (L)");
  check_count(all, 'E', "embeddings", 1);
  check_count(all, 'L', "losses", 1);
  check_count(all, 't', "layers", split.layers);
  check_count(all, 'm', "MTP layers", split.mtp);
  if (all.find('m') < all.rfind('t')) {
    refuse("the layout has a layer (t) after one of multi-token prediction (m)");
  }
  check_mtp(stages, pp_);
  int layer = 0, mtp = 0;
  for (const std::string& symbols : stages) {
    auto& parts = positions_.emplace_back();
    for (const char symbol : symbols) {
      if (symbol == 'E') parts.push_back({StagePartKind::embedding});
      if (symbol == 't') parts.push_back({StagePartKind::layer, layer++});
      if (symbol == 'm') parts.push_back({StagePartKind::mtp, mtp++});
      if (symbol == 'L') parts.push_back({StagePartKind::head});
    }
  }
}

int LayerLayout::layers(int position) const {
  return static_cast<int>(
      std::ranges::count(parts(position), StagePartKind::layer, &StagePart::kind));
}

int LayerLayout::position_of(StagePart part) const {
  for (int p = 0; p < positions(); ++p) {
    if (std::ranges::find(parts(p), part) != parts(p).end()) return p;
  }
  throw std::invalid_argument("a part that the layout does not have");
}

std::string LayerLayout::str() const {
  std::string text;
  for (int p = 0; p < positions(); ++p) {
    if (p > 0) text += '|';
    for (const StagePart& part : parts(p)) text += symbol_of(part.kind);
  }
  return text;
}

}  // namespace moesim
