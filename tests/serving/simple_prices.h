// SPDX-License-Identifier: Apache-2.0
// Prices and runs that fit in one's head.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "sim/serving/deployment/deployment.h"

namespace moesim::testing {

inline constexpr double tiny = 1e-9;  // s: sums of a few times agree to that

/// A price by formula; keeps what was asked.
class FormulaPrices : public StepPrices {
 public:
  using Formula = std::function<double(const ServingBatch&)>;
  explicit FormulaPrices(Formula formula) : formula_(std::move(formula)) {}
  StepPrice price(const ServingBatch& batch, const PassKind& kind) override {
    asked.push_back(batch);
    asked_eagerly += kind.eager ? 1 : 0;
    return {Seconds(formula_(batch)), {}};
  }
  std::vector<ServingBatch> asked;
  int asked_eagerly = 0;

 private:
  Formula formula_;
};

inline double tokens_in(const ServingBatch& batch) {
  double tokens = 0;
  for (const auto& steps : batch.ranks) {
    for (const SequenceStep& step : steps) {
      tokens += static_cast<double>(step.tokens * step.count);
    }
  }
  return tokens;
}

/// Keys and values of so many bytes per token, and nothing else.
inline SequenceCache growing_by(std::int64_t bytes) {
  SequenceCache cache;
  cache.per_token = Bytes(bytes);
  return cache;
}

/// 1 s per pass and 1 ms per token.
inline FormulaPrices second_per_pass() {
  return FormulaPrices([](const ServingBatch& batch) { return 1 + 1e-3 * tokens_in(batch); });
}

inline RequestLog at_once(std::vector<std::pair<std::int64_t, std::int64_t>> lengths) {
  RequestLog log;
  for (const auto& [input, output] : lengths) log.requests.push_back({Seconds(0), input, output});
  return log;
}

inline Deployment one_engine(const EngineOptions& engine, StepPrices& prices) {
  Deployment deployment;
  deployment.pool = {engine, 1, &prices};
  return deployment;
}

}  // namespace moesim::testing
