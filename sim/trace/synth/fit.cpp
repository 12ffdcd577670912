// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/fit.h"

#include <algorithm>
#include <cmath>

#include "sim/trace/layer_scan.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

constexpr int pilot_count = 24;
constexpr std::int64_t pilot_tokens = 1 << 15;

LayerScan scan_layer(const RoutingTrace& trace, int layer) {
  LayerScan scan(trace.info().experts, trace.info().top_k, {});
  for (int s = 0; s < trace.step_count(); ++s) {
    const IdRows rows = trace.step(s).ids(layer);
    if (check_ids(rows, trace.info().experts).any()) {
      throw Error("trace '" + trace.info().name + "' has ids that cannot be",
                  "`moesim trace verify` tells more");
    }
    scan.add(rows, trace.step(s).sequence_lengths());
  }
  return scan;
}

double overlap_of(const LayerScan& scan, int top_k) {
  if (scan.followers() == 0) return 0;
  return static_cast<double>(scan.kept()) / (static_cast<double>(scan.followers()) * top_k);
}

/// Loads and pairs of the recording times a correction per expert.
class Calibration {
 public:
  Calibration(const LayerScan& recorded, int top_k, std::int64_t sequence_length)
      : recorded_(recorded),
        top_k_(top_k),
        sequence_length_(sequence_length),
        experts_(static_cast<int>(recorded.counts().size())),
        correction_(recorded.counts().size(), 1.0),
        target_overlap_(overlap_of(recorded, top_k)) {}

  ChoiceModel run() {
    const double chance = static_cast<double>(top_k_) / experts_;
    stickiness_ = std::clamp((target_overlap_ - chance) / (1 - chance), 0.0, 0.98);
    for (int pilot = 0; pilot < pilot_count; ++pilot) improve(pilot);
    return model();
  }

 private:
  ChoiceModel model() const {
    ChoiceModel model;
    model.top_k = top_k_;
    model.stickiness = stickiness_;
    for (int e = 0; e < experts_; ++e) {
      model.popularity.push_back(count(recorded_, e) * correction_[e]);
    }
    normalise(model.popularity);
    if (top_k_ == 1) return model;
    model.affinity = 1;
    for (int a = 0; a < experts_; ++a) {
      std::vector<double> row;
      bool any = false;
      for (int e = 0; e < experts_; ++e) {
        const double pairs = e == a ? 0 : static_cast<double>(recorded_.pair(a, e));
        row.push_back(pairs * correction_[e]);
        any = any || row.back() > 0;
      }
      if (!any) row = model.popularity;
      normalise(row);
      model.partner_row.push_back(a);
      model.partners.push_back(std::move(row));
    }
    return model;
  }

  static double count(const LayerScan& scan, int e) {
    return static_cast<double>(scan.counts()[e]);
  }

  void improve(int pilot) {
    ChoiceSampler sampler(model());
    Random random(0x6d6f6573696dU, static_cast<std::uint64_t>(pilot));
    IdArray ids(experts_, pilot_tokens * top_k_);
    std::vector<std::int32_t> lengths;
    std::vector<int> row;
    for (std::int64_t t = 0; t < pilot_tokens; ++t) {
      if (t % sequence_length_ == 0) row.clear(), lengths.push_back(0);
      sampler.next(row, random);
      for (int k = 0; k < top_k_; ++k) ids.set(t * top_k_ + k, row[k]);
      ++lengths.back();
    }
    LayerScan drawn(experts_, top_k_, {});
    drawn.add({ids.data(), ids.width(), top_k_, pilot_tokens}, lengths);

    const double damping =
        pilot < pilot_count / 2 ? 0.7 : 0.3;  // later pilots average the noise out
    const double scale =
        static_cast<double>(drawn.tokens()) / static_cast<double>(recorded_.tokens());
    for (int e = 0; e < experts_; ++e) {
      const double ratio = (count(recorded_, e) * scale + 1) / (count(drawn, e) + 1);
      correction_[e] *= portable_pow(ratio, damping);
    }
    stickiness_ = std::clamp(stickiness_ + damping * (target_overlap_ - overlap_of(drawn, top_k_)),
                             0.0, 0.98);
  }

  const LayerScan& recorded_;
  int top_k_;
  std::int64_t sequence_length_;
  int experts_;
  std::vector<double> correction_;
  double target_overlap_;
  double stickiness_ = 0;
};

}  // namespace

LayerFit fit_layer(const RoutingTrace& trace, int layer, std::int64_t sequence_length) {
  const LayerScan recorded = scan_layer(trace, layer);
  const int top_k = trace.info().top_k;
  return {Calibration(recorded, top_k, sequence_length).run(), overlap_of(recorded, top_k)};
}

}  // namespace moesim
