// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/loaded_dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "realhw/cuda/loaded_calls.h"

namespace moesim::cuda {
namespace {

struct DenseLoader {
  const Addresses& addresses;
  DeviceLists& lists;

  /// Of a place that the call does not use: some address.
  float* at(const Place& place) const { return reinterpret_cast<float*>(addresses[place]); }

  LoadedDense operator()(const RowNorm& call) const {
    LoadedNorm loaded;
    loaded.list = {call.width, 0, static_cast<int>(call.ranges.size()), call.gradient, nullptr};
    std::vector<NormRange> ranges;
    for (const RowNorm::Range& range : call.ranges) {
      ranges.push_back({range.rows, range.stride, at(range.x), at(range.gain), at(range.dout),
                        at(call.gradient ? range.dx : range.out), at(range.dgain)});
      loaded.list.most_rows = std::max(loaded.list.most_rows, range.rows);
    }
    loaded.ranges = lists.add(ranges);
    return loaded;
  }

  LoadedDense operator()(const Rotary& call) const {
    return RotaryRows{call.heads, call.rows, call.sequence, call.way, at(call.from), at(call.to)};
  }

  LoadedDense operator()(const CausalAttention& call) const {
    if (call.sequence > longest_attended) {
      throw std::runtime_error(
          fmt::format("attention of {} tokens, more than the {} of this kernel", call.sequence,
                      longest_attended));
    }
    LoadedAttention loaded;
    loaded.gradient = call.gradient;
    loaded.rows = {call.heads,    call.sequences, call.sequence,  at(call.rows),
                   at(call.dout), at(call.out),   at(call.drows), nullptr};
    if (call.gradient) {
      const std::int64_t queries = call.sequences * call.sequence * call.heads.heads;
      loaded.sums = DeviceMemory(static_cast<std::size_t>(queries) * sizeof(float2));
      loaded.rows.sums = reinterpret_cast<float2*>(loaded.sums.data());
    }
    return loaded;
  }

  LoadedDense operator()(const CrossEntropy& call) const {
    const auto rows = static_cast<std::int64_t>(call.labels.size());
    return LoadedCrossEntropy{call.gradient,
                              {rows, call.words, call.weight, nullptr, at(call.logits),
                               at(call.shares), at(call.losses), at(call.dlogits)},
                              lists.add(call.labels)};
  }

  LoadedDense operator()(const DividedEntropy& call) const {
    return LoadedDividedEntropy{call.joined,
                                {std::ssize(call.labels), call.words, call.parts, nullptr,
                                 at(call.logits), at(call.sums), at(call.shares), at(call.losses)},
                                lists.add(call.labels)};
  }

  /// Ranges with one target become one, so that no two threads add to an element.
  LoadedDense operator()(const AddValues& call) const {
    std::map<float*, std::pair<std::int64_t, std::vector<const float*>>> targets;
    for (const AddValues::Range& range : call.ranges) {
      auto& [elements, from] = targets[at(range.to)];
      if (!from.empty() && elements != range.elements) {
        throw std::runtime_error("ranges that are added to one place differ in size");
      }
      elements = range.elements;
      from.push_back(at(range.from));
    }
    LoadedAdd loaded;
    std::vector<AddedRange> ranges;
    std::vector<const float*> all;
    for (const auto& [to, added] : targets) {
      const auto first = static_cast<std::uint32_t>(all.size());
      all.insert(all.end(), added.second.begin(), added.second.end());
      ranges.push_back({to, added.first, first, static_cast<std::uint32_t>(all.size())});
      loaded.list.most_elements = std::max(loaded.list.most_elements, added.first);
    }
    loaded.list.ranges = static_cast<int>(ranges.size());
    loaded.ranges = lists.add(ranges);
    loaded.from = lists.add(all);
    return loaded;
  }

  LoadedDense operator()(const AdamUpdate& call) const {
    LoadedAdam loaded;
    const AdamRule& rule = call.rule;
    loaded.list.first_decay = static_cast<float>(rule.first_decay);
    loaded.list.second_decay = static_cast<float>(rule.second_decay);
    loaded.list.rate = static_cast<float>(rule.rate / rule.first_correction());
    loaded.list.second_scale = static_cast<float>(1 / rule.second_correction());
    loaded.list.epsilon = static_cast<float>(rule.epsilon);
    std::vector<AdamRange> ranges;
    for (const AdamUpdate::Range& range : call.ranges) {
      ranges.push_back({at(range.gradients), at(range.first), at(range.second), at(range.weights),
                        range.elements});
      loaded.list.most_elements = std::max(loaded.list.most_elements, range.elements);
    }
    loaded.list.ranges = static_cast<int>(ranges.size());
    loaded.ranges = lists.add(ranges);
    return loaded;
  }
};

struct DenseRunner {
  const DeviceLists& lists;
  cudaStream_t stream;

  void operator()(const LoadedNorm& loaded) const {
    NormList list = loaded.list;
    list.range = lists[loaded.ranges];
    launch_norm(list, stream);
  }
  void operator()(const RotaryRows& rows) const { launch_rotary(rows, stream); }
  void operator()(const LoadedAttention& loaded) const {
    loaded.gradient ? launch_attention_gradient(loaded.rows, stream)
                    : launch_attention(loaded.rows, stream);
  }
  void operator()(const LoadedCrossEntropy& loaded) const {
    CrossEntropyRows rows = loaded.rows;
    rows.labels = lists[loaded.labels];
    loaded.gradient ? launch_cross_entropy_gradient(rows, stream)
                    : launch_cross_entropy(rows, stream);
  }
  void operator()(const LoadedDividedEntropy& loaded) const {
    DividedEntropyRows rows = loaded.rows;
    rows.labels = lists[loaded.labels];
    loaded.joined ? launch_joined_entropy(rows, stream) : launch_entropy_of_part(rows, stream);
  }
  void operator()(const LoadedAdd& loaded) const {
    AddedList list = loaded.list;
    list.range = lists[loaded.ranges];
    list.from = lists[loaded.from];
    launch_add(list, stream);
  }
  void operator()(const LoadedAdam& loaded) const {
    AdamList list = loaded.list;
    list.range = lists[loaded.ranges];
    launch_adam(list, stream);
  }
};

}  // namespace

std::shared_ptr<const LoadedDense> load_dense(const DenseCall& call, const Addresses& addresses,
                                              DeviceLists& lists) {
  return std::make_shared<const LoadedDense>(std::visit(DenseLoader{addresses, lists}, call));
}

void run_dense(const LoadedDense& loaded, const DeviceLists& lists, cudaStream_t stream) {
  std::visit(DenseRunner{lists, stream}, loaded);
}

}  // namespace moesim::cuda
