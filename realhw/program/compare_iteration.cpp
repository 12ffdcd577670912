// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/compare_iteration.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "realhw/core/reference_iteration.h"

namespace moesim {
namespace {

constexpr double tolerance = 1e-3;
using Expected = std::span<const double>;
using Range = std::pair<std::int64_t, std::int64_t>;

Range common(Range a, Range b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.second, b.second))};
}

double largest_of(Expected values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

class IterationComparison {
 public:
  IterationComparison(const RealStep& step, const RankProgram& program, Device& device, int runs)
      : step_(step),
        program_(program),
        results_(*program.iteration),
        device_(device),
        reference_(*step.iteration, step.layers) {
    for (int i = 0; i < runs; ++i) reference_.run();
  }

  Comparison run() {
    for (const auto& values : results_.values) compare_values(values);
    for (const auto& losses : results_.losses) {
      const Expected all = reference_.losses(losses.microbatch);
      const auto rows = static_cast<std::size_t>(step_.iteration->rows());
      const auto replica = static_cast<std::size_t>(results_.place.replica);
      count(losses.at, all.subspan(replica * rows, rows), largest_of(all), found_.outputs,
            found_.wrong_outputs);
    }
    for (const auto& dense : results_.dense) {
      const DenseTensors tensors(step_.iteration->model, dense.part,
                                 {step_.iteration->tp, results_.place.part});
      const TrainedTensor& whole_part = reference_.dense(dense.part);
      const TrainedTensor own{tensors.own(whole_part.weights),
                              tensors.own(whole_part.gradients),
                              {},
                              {},
                              tensors.own(whole_part.before)};
      for (const DenseTensor& tensor : tensors.all()) {
        const Range whole{tensor.offset, tensor.offset + tensor.rows * tensor.columns};
        compare_tensor(own, whole, dense.weights, dense.gradients, common(whole, dense.summed),
                       common(whole, dense.updated));
      }
    }
    const ExpertShape& shape = step_.shape;
    const std::int64_t of_expert = shape.hidden * (shape.up() + shape.ffn);
    for (const auto& held : results_.experts) {
      const Range whole{0, of_expert};
      compare_tensor(reference_.expert(held.layer, held.expert), whole, held.weights,
                     held.gradients, held.summed, held.updated);
    }
    return found_;
  }

 private:
  /// Those of the rank between blocks.
  Expected rows_of(Expected all, std::int64_t width) const {
    const HeldIteration& held = *step_.iteration;
    const auto elements = static_cast<std::size_t>(held.own_rows() * width);
    const int place = results_.place.replica * held.tp + results_.place.part;
    return all.subspan(static_cast<std::size_t>(place) * elements, elements);
  }

  void count(Place at, Expected expected, double magnitude, std::int64_t& compared,
             std::int64_t& wrong) {
    const std::vector<float> got =
        read_values(device_, program_, at, static_cast<std::int64_t>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Not a number is wrong, too.
      const bool right =
          std::fabs(static_cast<double>(got[i]) - expected[i]) <= tolerance * magnitude;
      wrong += right ? 0 : 1;
    }
    compared += static_cast<std::int64_t>(expected.size());
  }

  void compare_values(const IterationResults::Values& values) {
    const std::int64_t hidden = step_.shape.hidden;
    const Expected rows = rows_of(
        reference_.entering(values.microbatch, values.layer, values.block, values.pass), hidden);
    const bool forward = values.pass == Pass::forward;
    for (std::int64_t row = 0; row < step_.iteration->own_rows(); ++row) {
      const Expected of_row =
          rows.subspan(static_cast<std::size_t>(row * hidden), static_cast<std::size_t>(hidden));
      const Place at{values.at.buffer, values.at.offset + row * hidden * float_bytes};
      count(at, of_row, largest_of(of_row), forward ? found_.outputs : found_.input_gradients,
            forward ? found_.wrong_outputs : found_.wrong_input_gradients);
    }
  }

  /// Compares the elements of `whole` that the rank has summed, and updated.
  void compare_tensor(const TrainedTensor& expected, Range whole, Place weights, Place gradients,
                      Range summed, Range updated) {
    const auto part = [](const Doubles& all, Range range) {
      return Expected(all).subspan(static_cast<std::size_t>(range.first),
                                   static_cast<std::size_t>(range.second - range.first));
    };
    gradients.offset += summed.first * float_bytes;
    count(gradients, part(expected.gradients, summed), largest_of(part(expected.gradients, whole)),
          found_.weight_gradients, found_.wrong_weight_gradients);
    Doubles changes = expected.weights;
    for (std::size_t i = 0; i < changes.size(); ++i) changes[i] -= expected.before[i];
    weights.offset += updated.first * float_bytes;
    count(weights, part(expected.weights, updated), largest_of(part(changes, whole)),
          found_.weights, found_.wrong_weights);
  }

  const RealStep& step_;
  const RankProgram& program_;
  const IterationResults& results_;
  Device& device_;
  ReferenceIteration reference_;
  Comparison found_;
};

}  // namespace

Comparison compare_iteration(const RealStep& step, const RankProgram& program, Device& device,
                             int runs) {
  return IterationComparison(step, program, device, runs).run();
}

}  // namespace moesim
