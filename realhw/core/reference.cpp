// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "realhw/core/numbers.h"
#include "realhw/core/row_format.h"

namespace moesim {
namespace {

using Doubles = std::vector<double>;

constexpr double arithmetic_tolerance = 1e-4;

/// One expert, one row at a time.
class ReferenceExpert {
 public:
  ReferenceExpert(const ExpertShape& shape, int layer, ExpertId expert)
      : shape_(shape), weights_(shape, layer, expert), h_(up()), a_(ffn()) {}

  Doubles output(const std::vector<float>& x) {
    forward(x);
    Doubles y(hidden());
    for (std::size_t f = 0; f < ffn(); ++f) {
      for (std::size_t c = 0; c < hidden(); ++c) y[c] += a_[f] * weights_.w2[f * hidden() + c];
    }
    return y;
  }

  /// The gradient by x from that by the output; adds those of the weights where wanted.
  Doubles backward(const std::vector<float>& x, const Doubles& dy, Doubles* dw1, Doubles* dw2) {
    forward(x);
    Doubles da(ffn()), dh(up()), dx(hidden());
    for (std::size_t f = 0; f < ffn(); ++f) {
      for (std::size_t c = 0; c < hidden(); ++c) {
        da[f] += dy[c] * weights_.w2[f * hidden() + c];
        if (dw2 != nullptr) (*dw2)[f * hidden() + c] += a_[f] * dy[c];
      }
    }
    activate_gradient(shape_, h_.data(), da.data(), dh.data());
    for (std::size_t c = 0; c < hidden(); ++c) {
      for (std::size_t u = 0; u < up(); ++u) {
        dx[c] += dh[u] * weights_.w1[c * up() + u];
        if (dw1 != nullptr) (*dw1)[c * up() + u] += x[c] * dh[u];
      }
    }
    return dx;
  }

 private:
  std::size_t hidden() const { return static_cast<std::size_t>(shape_.hidden); }
  std::size_t ffn() const { return static_cast<std::size_t>(shape_.ffn); }
  std::size_t up() const { return static_cast<std::size_t>(shape_.up()); }
  void forward(const std::vector<float>& x) {
    std::fill(h_.begin(), h_.end(), 0.0);
    for (std::size_t c = 0; c < hidden(); ++c) {
      for (std::size_t u = 0; u < up(); ++u) h_[u] += x[c] * weights_.w1[c * up() + u];
    }
    activate(shape_, h_.data(), a_.data());
  }

  ExpertShape shape_;
  ExpertWeights weights_;
  Doubles h_, a_;
};

double largest(const Doubles& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

/// Compares one layer and pass of one rank.
class LayerComparison {
 public:
  LayerComparison(const RealStep& step, LayerState& layer, Pass pass)
      : step_(step), layer_(layer), routing_(layer.routing()), pass_(pass) {
    std::set<std::string> exchanges;  // phases: their exchanges have one name
    for (const Op& op : step.plan.ops) {
      if (op.layer != routing_.number || op.pass != pass) continue;
      runs_ = runs_ || op.stage == Stage::experts;
      if (op.exchange() == nullptr || op.stage != Stage::combine) continue;
      if (op.exchange()->rows.empty() || !exchanges.insert(op.name).second) continue;
      const std::int64_t bytes = parcels_of(*op.exchange(), layer.rank()).row_bytes.value;
      tolerance_ += 2 * rounding_of(format_for(bytes, step.shape.hidden));
    }
  }

  void run(const CompareOptions& options, Comparison& result) {
    if (!runs_) return;
    layer_.release(pass_);  // what no exchange takes
    std::vector<TokenId> tokens;
    for (TokenId token(0); token.value < routing_.tokens(); ++token.value) {
      const bool own = routing_.source[token.index()] == layer_.rank();
      if (own && routing_.kept[token.index()] != 0) tokens.push_back(token);
    }
    const auto count = static_cast<std::int64_t>(tokens.size());
    const std::int64_t wanted =
        options.tokens < 0 ? count : std::min<std::int64_t>(count, options.tokens);
    const bool forward = pass_ == Pass::forward;
    auto& compared = forward ? result.outputs : result.input_gradients;
    auto& wrong = forward ? result.wrong_outputs : result.wrong_input_gradients;
    for (std::int64_t i = 0; i < wanted; ++i) {
      wrong += wrong_elements(tokens[static_cast<std::size_t>(i * count / wanted)]);
      compared += step_.shape.hidden;
    }
    if (!forward && options.tokens < 0) compare_weights(result);
  }

 private:
  ReferenceExpert& expert(ExpertId id) {
    auto& slot = experts_[id];
    if (!slot) slot = std::make_unique<ReferenceExpert>(step_.shape, routing_.number, id);
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

  std::int64_t wrong_elements(TokenId token) {
    const Choices kept = routing_.kept[token.index()];
    if (layer_.rows(pass_).back.held(token) != kept) return step_.shape.hidden;
    std::vector<float> got(static_cast<std::size_t>(step_.shape.hidden));
    layer_.rows(pass_).back.take_sum(token, kept, got);
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
    return count_off(got, expected, (arithmetic_tolerance + tolerance_) * largest(magnitude));
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
    std::vector<std::vector<ChoiceId>> choices_of(layer_.slots().size());
    for (ChoiceId choice(0); choice.index() < routing_.slot.size(); ++choice.value) {
      if (routing_.dropped(choice) || routing_.gpu_of(choice) != layer_.rank()) continue;
      const SlotId first = routing_.placement.first_slot(layer_.rank());
      const auto slot = routing_.slot[choice.index()].value - first.value;
      choices_of[static_cast<std::size_t>(slot)].push_back(choice);
    }
    for (std::size_t s = 0; s < layer_.slots().size(); ++s) {
      const ExpertSlot& slot = layer_.slots()[s];
      Doubles dw1(slot.w1_gradient().size()), dw2(slot.w2_gradient().size());
      for (const ChoiceId choice : choices_of[s]) {
        const std::vector<float> x = token_vector(routing_.token_of(choice));
        expert(slot.expert()).backward(x, choice_gradient(choice), &dw1, &dw2);
      }
      for (const auto& [got, expected] :
           {std::pair{&slot.w1_gradient(), &dw1}, std::pair{&slot.w2_gradient(), &dw2}}) {
        result.weight_gradients += static_cast<std::int64_t>(got->size());
        result.wrong_weight_gradients +=
            count_off(*got, *expected, arithmetic_tolerance * largest(*expected));
      }
    }
  }

  const RealStep& step_;
  LayerState& layer_;
  const RoutedLayer& routing_;
  Pass pass_;
  bool runs_ = false;
  double tolerance_ = 0;  // of the rows on the way back
  std::map<ExpertId, std::unique_ptr<ReferenceExpert>> experts_;
};

}  // namespace

Comparison& Comparison::operator+=(const Comparison& other) {
  outputs += other.outputs;
  wrong_outputs += other.wrong_outputs;
  input_gradients += other.input_gradients;
  wrong_input_gradients += other.wrong_input_gradients;
  weight_gradients += other.weight_gradients;
  wrong_weight_gradients += other.wrong_weight_gradients;
  wrong_bytes += other.wrong_bytes;
  return *this;
}

Comparison compare(RankState& rank, const CompareOptions& options) {
  Comparison result;
  result.wrong_bytes = rank.wrong_bytes();
  for (std::size_t i = 0; i < rank.step().layers.size(); ++i) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      LayerComparison(rank.step(), rank.layer(i), pass).run(options, result);
    }
  }
  return result;
}

}  // namespace moesim
