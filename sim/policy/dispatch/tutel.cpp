// SPDX-License-Identifier: Apache-2.0
// All-to-alls of equal parts, and Tutel's choice between the flat one and 2DH (microsoft/tutel at
// 82af7aa; Hwang et al., arXiv 2206.03382).
#include <algorithm>

#include "sim/plan/exchange_time.h"
#include "sim/policy/dispatch/flat.h"
#include "sim/policy/dispatch/two_hop.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// Tutel looks the algorithm up by floor(capacity / 128), from trials. Ours predicts instead, for
/// every layer and step, the exchanges of both from the capacity, which every rank knows; the local
/// copies are left out. The flat one wins ties.
class AdaptiveTutel final : public Dispatch {
 public:
  AdaptiveTutel(const DispatchContext& context, const Padding& padding)
      : topology_(context.topology),
        row_bytes_(context.model.row_bytes()),
        ep_(context.ep),
        padding_(padding) {
    algorithms_.push_back(padded_alltoall(context, padding));
    exact_.push_back(padded_alltoall(context, {}));
    if (has_two_hops(context)) {
      algorithms_.push_back(two_hops(context, HopOrder::intra_first, padding));
      exact_.push_back(two_hops(context, HopOrder::intra_first, {}));
    }
  }

  const Dispatch& choose(const LayerTokens& tokens) const override {
    const auto rows = padded_rows(padding_, tokens, ep_);
    std::size_t best = 0;
    Seconds least = predicted(0, tokens, rows);
    for (std::size_t a = 1; a < algorithms_.size(); ++a) {
      const Seconds time = predicted(a, tokens, rows);
      if (time < least) best = a, least = time;
    }
    return *algorithms_[best];
  }

  // What follows is asked of the chosen dispatch; the flat one answers for both.
  int phases() const override { return algorithms_[0]->phases(); }
  std::string phase_name(int phase) const override { return algorithms_[0]->phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return algorithms_[0]->communicators(phase);
  }
  RowCounts count(const LayerTokens& tokens) const override { return choose(tokens).count(tokens); }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return choose(tokens).rows(tokens);
  }

 private:
  /// What the members of a communicator send each other.
  ByteMatrix traffic_of(const std::vector<std::uint32_t>& rows,
                        const std::vector<GpuId>& members) const {
    const auto gpus = static_cast<std::size_t>(topology_.gpu_count());
    ByteMatrix traffic(row_bytes_);
    auto member = members.begin();
    for (std::size_t from = 0; from < gpus; ++from) {
      const bool sends = member != members.end() && member->index() == from;
      traffic.add_dense_row({rows.data() + from * gpus, sends ? gpus : 0});
      if (sends) ++member;
    }
    return traffic;
  }

  /// The exchanges of one way, all communicators of a phase at once.
  Seconds predicted(std::size_t algorithm, const LayerTokens& tokens,
                    const std::vector<std::int64_t>& rows) const {
    RowCounts counts;
    pad_counts(*exact_[algorithm], tokens.assignment.placement(), rows, counts);
    Seconds time;
    for (int phase = 0; phase < exact_[algorithm]->phases(); ++phase) {
      std::vector<ExchangeDemand> demands;
      for (const auto& members : exact_[algorithm]->communicators(phase)) {
        demands.emplace_back(topology_.loads(
            traffic_of(counts.padded_phases[static_cast<std::size_t>(phase)], members)));
      }
      time += std::ranges::max(shared_times(demands));
    }
    return time;
  }

  const Topology& topology_;
  Bytes row_bytes_;
  int ep_;
  Padding padding_;
  std::vector<std::unique_ptr<Dispatch>> algorithms_;  // flat, two hops
  std::vector<std::unique_ptr<Dispatch>> exact_;       // the same without padding
};

/// Without padding nothing is equal.
Padding read_equal_parts(const YamlMap& params) {
  Padding padding = read_padding(params, Padding::Kind::max);
  if (padding.kind != Padding::Kind::none) return padding;
  if (const auto value = params.find("padding")) {
    value->error("'" + value->path() + "' may not be none: the parts would not be equal",
                 "say max or capacity");
  }
  return padding;
}

}  // namespace

std::unique_ptr<Dispatch> padded_alltoall(const DispatchContext& context, const Padding& padding) {
  return pad(std::make_unique<Evaluated<Flat<false>>>(
                 Flat<false>(runs_of(context.topology.gpu_count(), context.ep), "alltoall")),
             padding, context.ep);
}

// padding: max (default) or capacity (rule, factor).
DispatchMaker read_padded(const YamlMap& params) {
  const Padding padding = read_equal_parts(params);
  return [=](const DispatchContext& context) { return padded_alltoall(context, padding); };
}

// padding: max (default) or capacity (rule, factor).
DispatchMaker read_tutel(const YamlMap& params) {
  const Padding padding = read_equal_parts(params);
  return [=](const DispatchContext& context) {
    return std::make_unique<AdaptiveTutel>(context, padding);
  };
}

}  // namespace moesim
