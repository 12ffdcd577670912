// SPDX-License-Identifier: Apache-2.0
// Which parts of a model are where in a pipeline.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moesim {

/// A part of a model that is placed as one: the embedding, a transformer layer, a layer of
/// multi-token prediction (MTP), the head with its loss.
enum class StagePartKind { embedding, layer, mtp, head };
inline constexpr int stage_part_kind_count = 4;
struct StagePart {
  StagePartKind kind = StagePartKind::layer;
  int number = 0;  // of the layer, or of the MTP layer, from 0
  bool operator==(const StagePart&) const = default;
};

/// What is split: the layers of a model over stages, and chunks of them.
struct LayerSplit {
  int layers = 0;
  int mtp = 0;
  int pp = 1;
  int vpp = 1;
  // Megatron-Core's options; num_layers_in_first_pipeline_stage and the like.
  std::optional<int> in_first_stage = {}, in_last_stage = {};
  bool account_for_embedding = false, account_for_loss = false;
};

class LayerLayout {
 public:
  /// Parts by position. With vpp chunks a microbatch visits the stages vpp times: chunk c of stage
  /// s is at position c x pp + s. The embedding is at the first position, the head and what MTP
  /// layers there are at the last.
  ///  - Megatron-Core's options, if any is given: `in_first_stage` and `in_last_stage` are the
  ///    layers of those stages, the other stages share the rest evenly; or embedding and loss
  ///    count as a layer each and what results is shared evenly.
  ///  - Else, if the positions divide the layers, they share them evenly.
  ///  - Else, which Megatron-Core refuses, they share layers as evenly as possible, and each MTP
  ///    layer and each loss (of the model and of each MTP layer) counts as one, as in
  ///    Megatron-Bridge's layouts of DeepSeek-V3. Positions that have one less are those from the
  ///    first on, for the embedding and since early stages hold activations longest.
  /// Throws Error naming the rule that the numbers break.
  explicit LayerLayout(const LayerSplit& split);

  /// From Megatron-Core's text, see unroll_layout: `split` says layers, MTP layers and pp; vpp
  /// follows from the text. Throws Error for a mistake in it, or a text of another model:
  ///  - pp divides the virtual stages;
  ///  - E is the first part and L the last, both once; all layers and MTP layers are there;
  ///  - MTP layers come after all layers, at one position, and that in its stage's last chunk.
  LayerLayout(const std::string& text, const LayerSplit& split);

  /// These parts at each position.
  LayerLayout(std::vector<std::vector<StagePart>> positions, int pp)
      : pp_(pp), positions_(std::move(positions)) {}

  int pp() const { return pp_; }
  int vpp() const { return static_cast<int>(positions_.size()) / pp_; }
  int positions() const { return static_cast<int>(positions_.size()); }
  int position(int stage, int chunk) const { return chunk * pp_ + stage; }
  int stage_of(int position) const { return position % pp_; }
  int chunk_of(int position) const { return position / pp_; }
  /// Parts at a position, in the order in which a token passes them; maybe none.
  const std::vector<StagePart>& parts(int position) const {
    return positions_[static_cast<std::size_t>(position)];
  }
  const std::vector<StagePart>& parts(int stage, int chunk) const {
    return parts(position(stage, chunk));
  }
  /// Transformer layers at a position.
  int layers(int position) const;
  /// Where a layer, or another part, is.
  int position_of(StagePart part) const;

  /// As Megatron-Core writes it, repetitions written out: "Ett|tt|ttmL".
  std::string str() const;

 private:
  int pp_;
  std::vector<std::vector<StagePart>> positions_;
};

}  // namespace moesim
