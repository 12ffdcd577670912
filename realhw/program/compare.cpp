// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "realhw/core/matrix_math.h"
#include "realhw/core/numbers.h"
#include "realhw/core/parcels.h"
#include "realhw/program/compare_iteration.h"

namespace moesim {
namespace {

/// Tolerance, a part of the largest element of a vector: what sums and intermediate results in a
/// format may add up to.
double tolerance_of(RowFormat matrices) { return matrices == RowFormat::float32 ? 1e-4 : 3e-2; }

double largest(const Doubles& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

/// Compares one layer and pass of one rank.
class LayerComparison {
 public:
  LayerComparison(const RealStep& step, std::size_t layer, Pass pass, const RankProgram& program,
                  Device& device)
      : step_(step),
        routing_(step.layers[layer]),
        results_(program.layers[layer]),
        pass_(pass),
        program_(program),
        device_(device),
        arithmetic_(tolerance_of(program.matrices)) {
    std::vector<double> rounded(routing_.slot.size());  // [choice] on its way back
    for (const Op& op : step.plan.ops) {
      if (op.key.layer != routing_.number || op.key.pass != pass) continue;
      runs_ = runs_ || op.key.stage == Stage::experts;
      if (op.exchange() == nullptr || op.key.stage != Stage::combine) continue;
      if (op.exchange()->rows.empty()) continue;
      const std::int64_t bytes = row_bytes_of(*op.exchange()).value;
      const double rounding = 2 * rounding_of(format_for(bytes, step.shape.hidden));
      for (const RowMove& row : op.exchange()->rows) {
        for (int k = 0; k < routing_.top_k; ++k) {
          if ((row.choices >> k & 1) != 0)
            rounded[routing_.choice(row.token, k).index()] += rounding;
        }
      }
    }
    if (!rounded.empty()) tolerance_ += *std::ranges::max_element(rounded);
  }

  void run(const CompareOptions& options, Comparison& result) {
    if (!runs_) return;
    const bool forward = pass_ == Pass::forward;
    std::vector<const TokenResult*> tokens;
    for (const TokenResult& of_token : forward ? results_.outputs : results_.input_gradients) {
      if (routing_.kept[of_token.token.index()] != 0) tokens.push_back(&of_token);
    }
    const auto count = static_cast<std::int64_t>(tokens.size());
    const std::int64_t wanted =
        options.tokens < 0 ? count : std::min<std::int64_t>(count, options.tokens);
    auto& compared = forward ? result.outputs : result.input_gradients;
    auto& wrong = forward ? result.wrong_outputs : result.wrong_input_gradients;
    for (std::int64_t i = 0; i < wanted; ++i) {
      wrong += wrong_elements(*tokens[static_cast<std::size_t>(i * count / wanted)]);
      compared += step_.shape.hidden;
    }
    if (!forward && options.tokens < 0) compare_weights(result);
  }

 private:
  ReferenceExpert& expert(ExpertId id) {
    auto& slot = experts_[id];
    if (!slot)
      slot = std::make_unique<ReferenceExpert>(step_.shape, routing_.number, id, program_.matrices);
    return *slot;
  }
  std::vector<float> token_vector(TokenId token) const {
    std::vector<float> x(static_cast<std::size_t>(step_.shape.hidden));
    fill_token(routing_.number, token, x);
    return x;
  }
  /// The output gradient of a choice: that of the token times the gate weight.
  Doubles choice_gradient(ChoiceId choice) const {
    std::vector<float> dy(static_cast<std::size_t>(step_.shape.hidden));
    fill_output_gradient(routing_.number, routing_.token_of(choice), dy);
    Doubles result(dy.begin(), dy.end());
    for (double& value : result) value *= static_cast<double>(routing_.weight[choice.index()]);
    return result;
  }

  std::int64_t wrong_elements(const TokenResult& result) {
    const TokenId token = result.token;
    if (result.choices != routing_.kept[token.index()]) return step_.shape.hidden;
    std::vector<float> got(static_cast<std::size_t>(step_.shape.hidden));
    for (const RowSums::Term& term : result.terms) {
      const std::vector<float> row = read_values(device_, program_, term.from, step_.shape.hidden);
      for (std::size_t c = 0; c < got.size(); ++c) got[c] += term.weight * row[c];
    }
    const std::vector<float> x = token_vector(token);
    Doubles expected(got.size()), magnitude(got.size());
    for (int k = 0; k < routing_.top_k; ++k) {
      const ChoiceId choice = routing_.choice(token, k);
      if (routing_.dropped(choice)) continue;
      ReferenceExpert& e = expert(routing_.expert[choice.index()]);
      const bool forward = pass_ == Pass::forward;
      const double weight = forward ? static_cast<double>(routing_.weight[choice.index()]) : 1.0;
      const Doubles part =
          forward ? e.output(x) : e.backward(x, choice_gradient(choice), nullptr, nullptr);
      for (std::size_t c = 0; c < part.size(); ++c) {
        expected[c] += weight * part[c];
        magnitude[c] += std::fabs(weight * part[c]);
      }
    }
    return count_off(got, expected, (arithmetic_ + tolerance_) * largest(magnitude));
  }

  static std::int64_t count_off(const std::vector<float>& got, const Doubles& expected,
                                double tolerance) {
    std::int64_t wrong = 0;
    for (std::size_t c = 0; c < got.size(); ++c) {
      // Not a number is wrong too.
      const bool right = std::fabs(static_cast<double>(got[c]) - expected[c]) <= tolerance;
      wrong += right ? 0 : 1;
    }
    return wrong;
  }

  void compare_weights(Comparison& result) {
    std::vector<std::vector<ChoiceId>> choices_of(results_.slots.size());
    for (ChoiceId choice(0); choice.index() < routing_.slot.size(); ++choice.value) {
      if (routing_.dropped(choice) || routing_.gpu_of(choice) != program_.rank) continue;
      const SlotId first = routing_.placement.first_slot(program_.rank);
      const auto slot = routing_.slot[choice.index()].value - first.value;
      choices_of[static_cast<std::size_t>(slot)].push_back(choice);
    }
    const std::int64_t w1 = step_.shape.hidden * step_.shape.up();
    const std::int64_t w2 = step_.shape.ffn * step_.shape.hidden;
    for (std::size_t s = 0; s < results_.slots.size(); ++s) {
      const SlotGradients& slot = results_.slots[s];
      Doubles dw1(static_cast<std::size_t>(w1)), dw2(static_cast<std::size_t>(w2));
      for (const ChoiceId choice : choices_of[s]) {
        const std::vector<float> x = token_vector(routing_.token_of(choice));
        expert(slot.expert).backward(x, choice_gradient(choice), &dw1, &dw2);
      }
      for (const auto& [at, expected] : {std::pair{slot.w1, &dw1}, std::pair{slot.w2, &dw2}}) {
        const auto elements = static_cast<std::int64_t>(expected->size());
        result.weight_gradients += elements;
        result.wrong_weight_gradients += count_off(read_values(device_, program_, at, elements),
                                                   *expected, arithmetic_ * largest(*expected));
      }
    }
  }

  const RealStep& step_;
  const RoutedLayer& routing_;
  const LayerResults& results_;
  Pass pass_;
  const RankProgram& program_;
  Device& device_;
  double arithmetic_;
  bool runs_ = false;
  double tolerance_ = 0;  // of the rows on the way back
  std::map<ExpertId, std::unique_ptr<ReferenceExpert>> experts_;
};

}  // namespace

Comparison compare(const RealStep& step, const RankProgram& program, Device& device,
                   const CompareOptions& options) {
  Comparison result;
  result.wrong_bytes = device.findings().wrong_bytes;
  if (step.iteration) return result += compare_iteration(step, program, device, options.runs);
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      LayerComparison(step, i, pass, program, device).run(options, result);
    }
  }
  return result;
}

}  // namespace moesim
