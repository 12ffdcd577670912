// SPDX-License-Identifier: Apache-2.0
// LPLB's linear program and its interior-point solver.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/error.h"
#include "sim/mechanism/placement/serving/lplb.h"

namespace moesim::lplb {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  // [row][column]

constexpr int steps = 5;
constexpr double penalty = 1000;  // cost of the artificial variable
constexpr double stride = 0.999;  // share of the way to the boundary

/// Columns: stays[rank][d], leaves[rank][d], slack[rank], the busiest load Z, the artificial a.
struct Program {
  Matrix a;
  Vector b, c;
  std::size_t z, artificial;
};

void check(const Problem& problem) {
  const std::size_t ranks = problem.wiring.size();
  const std::size_t classes = ranks == 0 ? 0 : problem.wiring[0].size();
  bool good = classes > 0 && problem.movable.size() == ranks && problem.fixed.size() == ranks;
  std::set<std::pair<std::size_t, int>> replicated;
  for (std::size_t r = 0; good && r < ranks; ++r) {
    good = problem.wiring[r].size() == classes && problem.movable[r].size() == classes;
    for (std::size_t d = 0; good && d < classes; ++d) {
      const int q = problem.wiring[r][d];
      good = q >= 0 && q < static_cast<int>(ranks) && replicated.insert({d, q}).second;
    }
  }
  if (!good) throw Error(fmt::format("{} ranks are wired badly for LPLB", ranks));
}

Program program_of(const Problem& problem, double scale) {
  const std::size_t ranks = problem.wiring.size();
  const std::size_t classes = problem.wiring[0].size();
  const std::size_t pairs = ranks * classes;
  const std::size_t z = 2 * pairs + ranks;
  Program p{Matrix(ranks + pairs, Vector(z + 2)), Vector(ranks + pairs), Vector(z + 2), z, z + 1};
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t d = 0; d < classes; ++d) {
      const auto q = static_cast<std::size_t>(problem.wiring[r][d]);
      p.a[r][r * classes + d] += problem.movable[r][d] / scale;
      p.a[r][pairs + q * classes + d] += problem.movable[q][d] / scale;
      const std::size_t row = ranks + r * classes + d;
      p.a[row][r * classes + d] = p.a[row][pairs + r * classes + d] = 1;
      p.b[row] = 1;
    }
    p.a[r][2 * pairs + r] = 1;
    p.a[r][z] = -1;
    p.b[r] = -problem.fixed[r] / scale;
  }
  for (std::size_t row = 0; row < p.a.size(); ++row) {  // makes x = 1 feasible
    double sum = 0;
    for (std::size_t j = 0; j < p.artificial; ++j) sum += p.a[row][j];
    p.a[row][p.artificial] = p.b[row] - sum;
  }
  p.c[z] = 1;
  p.c[p.artificial] = penalty;
  return p;
}

/// Solves m y = v for a symmetric m by Cholesky's factors, in place; false unless m is positive.
bool cholesky_solve(Matrix& m, Vector& v) {
  const std::size_t n = v.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = m[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= m[i][k] * m[j][k];
      if (i != j) {
        m[i][j] = sum / m[j][j];
      } else if (sum > 0) {
        m[i][i] = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) v[i] -= m[i][k] * v[k];
    v[i] /= m[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) v[i] -= m[k][i] * v[k];
    v[i] /= m[i][i];
  }
  return true;
}

/// One affine-scaling step from x; the largest entry of the scaled direction, negative on failure.
double step(const Program& p, Vector& x) {
  const std::size_t rows = p.b.size();
  Matrix normal(rows, Vector(rows));
  Vector y(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double scaled = p.a[i][j] * x[j] * x[j];
      if (scaled == 0) continue;
      for (std::size_t k = 0; k <= i; ++k) normal[i][k] += scaled * p.a[k][j];
      y[i] += scaled * p.c[j];
    }
  }
  if (!cholesky_solve(normal, y)) return -1;
  Vector d(x.size());
  for (std::size_t j = 0; j < x.size(); ++j) {
    double reduced = p.c[j];
    for (std::size_t i = 0; i < rows; ++i) reduced -= p.a[i][j] * y[i];
    d[j] = x[j] * reduced;
  }
  const double largest = *std::max_element(d.begin(), d.end());
  if (largest <= 0) return largest == 0 ? 0 : -1;
  for (std::size_t j = 0; j < x.size(); ++j) x[j] *= 1 - stride / largest * d[j];
  return largest;
}

double residual(const Program& p, const Vector& x) {
  double worst = 0;
  for (std::size_t i = 0; i < p.b.size(); ++i) {
    double sum = -p.b[i];
    for (std::size_t j = 0; j < x.size(); ++j) sum += p.a[i][j] * x[j];
    worst = std::max(worst, std::abs(sum));
  }
  return worst;
}

}  // namespace

Solution solve(const Problem& problem, double scale) {
  check(problem);
  const std::size_t classes = problem.wiring[0].size();
  Solution solution;
  solution.stays.assign(problem.wiring.size(), Vector(classes, 0.5));
  if (!(scale > 0)) return solution;
  const Program p = program_of(problem, scale);
  Vector x(p.c.size(), 1);
  for (int i = 0; i < steps && solution.max_step >= 0; ++i) solution.max_step = step(p, x);
  const double a = x[p.artificial];
  solution.busiest = x[p.z] * scale;
  solution.accepted = solution.max_step >= 0 && solution.max_step < 0.1 && a >= 0 && a < 1e-4 &&
                      residual(p, x) < 0.05;
  if (!solution.accepted) return solution;
  for (std::size_t r = 0; r < solution.stays.size(); ++r) {
    for (std::size_t d = 0; d < classes; ++d) {
      solution.stays[r][d] = std::clamp(x[r * classes + d], 0.0, 1.0);
    }
  }
  return solution;
}

}  // namespace moesim::lplb
