// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/base/ordering.h"

namespace moesim {
namespace {

/// A = Q T Q^T; `basis` holds the columns of Q as rows.
struct Tridiagonal {
  std::vector<double> diagonal;
  std::vector<double> beside;  // beside[i] joins i and i + 1; the last is 0
  SquareMatrix basis;
};

SquareMatrix identity(int n) {
  SquareMatrix m(n);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) m.at(i, i) = 1;
  return m;
}

/// v of the reflection I - 2 v v^T / (v^T v) that clears column k below its subdiagonal, and
/// v^T v; 0 when there is nothing to clear.
double reflector(const SquareMatrix& a, std::size_t k, std::vector<double>& v) {
  const auto n = static_cast<std::size_t>(a.n);
  std::fill(v.begin(), v.end(), 0.0);
  double below = 0;
  for (std::size_t i = k + 2; i < n; ++i) below += a.at(k, i) * a.at(k, i);
  if (below == 0) return 0;
  const double head = a.at(k, k + 1), length = std::sqrt(head * head + below);
  for (std::size_t i = k + 1; i < n; ++i) v[i] = a.at(k, i);
  v[k + 1] += head < 0 ? -length : length;
  return v[k + 1] * v[k + 1] + below;
}

/// A <- H A H for the reflection H of v: A - v w^T - w v^T.
void reflect_both_sides(SquareMatrix& a, std::size_t k, const std::vector<double>& v,
                        double square) {
  const auto n = static_cast<std::size_t>(a.n);
  std::vector<double> w(n);
  double vw = 0;
  for (std::size_t i = k; i < n; ++i) {
    for (std::size_t j = k + 1; j < n; ++j) w[i] += a.at(i, j) * v[j];
    w[i] *= 2 / square;
    vw += v[i] * w[i];
  }
  for (std::size_t i = k; i < n; ++i) w[i] -= vw / square * v[i];
  for (std::size_t i = k; i < n; ++i) {
    for (std::size_t j = k; j < n; ++j) a.at(i, j) -= v[i] * w[j] + w[i] * v[j];
  }
}

/// Rows of the basis, the transposed Q, are multiplied by H from the left: Q^T <- H Q^T.
void reflect_rows(SquareMatrix& basis, std::size_t k, const std::vector<double>& v, double square) {
  const auto n = static_cast<std::size_t>(basis.n);
  std::vector<double> sum(n);
  for (std::size_t i = k + 1; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) sum[j] += v[i] * basis.at(i, j);
  }
  for (std::size_t i = k + 1; i < n; ++i) {
    const double factor = 2 * v[i] / square;
    for (std::size_t j = 0; j < n; ++j) basis.at(i, j) -= factor * sum[j];
  }
}

Tridiagonal tridiagonalise(SquareMatrix a) {
  const auto n = static_cast<std::size_t>(a.n);
  Tridiagonal t{
      .diagonal = std::vector<double>(n), .beside = std::vector<double>(n), .basis = identity(a.n)};
  std::vector<double> v(n);
  for (std::size_t k = 0; k + 2 < n; ++k) {
    const double square = reflector(a, k, v);
    if (square == 0) continue;
    reflect_both_sides(a, k, v, square);
    reflect_rows(t.basis, k, v, square);
  }
  for (std::size_t i = 0; i < n; ++i) {
    t.diagonal[i] = a.at(i, i);
    if (i + 1 < n) t.beside[i] = a.at(i, i + 1);
  }
  return t;
}

/// Rotates rows i and i + 1 of the basis by (cos, sin).
void rotate_rows(SquareMatrix& basis, std::size_t i, double c, double s) {
  for (std::size_t j = 0; j < static_cast<std::size_t>(basis.n); ++j) {
    const double upper = basis.at(i, j), lower = basis.at(i + 1, j);
    basis.at(i, j) = c * upper - s * lower;
    basis.at(i + 1, j) = s * upper + c * lower;
  }
}

/// One implicit QL step on the block l..m, whose inner entries next to the diagonal are not zero.
void ql_step(Tridiagonal& t, std::size_t l, std::size_t m) {
  auto& d = t.diagonal;
  auto& e = t.beside;
  const double half = (d[l + 1] - d[l]) / (2 * e[l]), root = std::sqrt(half * half + 1);
  const double shift = d[l] - e[l] / (half + (half < 0 ? -root : root));
  double g = d[m] - shift, s = 1, c = 1, carried = 0;
  for (std::size_t i = m; i-- > l;) {
    const double f = s * e[i], b = c * e[i], r = std::sqrt(f * f + g * g);
    e[i + 1] = r;
    if (r == 0) {  // the block splits here
      d[i + 1] -= carried;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - carried;
    const double q = (d[i] - g) * s + 2 * c * b;
    carried = s * q;
    d[i + 1] = g + carried;
    g = c * q - b;
    rotate_rows(t.basis, i, c, s);
  }
  d[l] -= carried;
  e[l] = g;
  e[m] = 0;
}

void diagonalise(Tridiagonal& t) {
  const std::size_t n = t.diagonal.size();
  for (std::size_t l = 0; l < n; ++l) {
    for (int steps = 0;; ++steps) {
      std::size_t m = l;  // the block that starts at l ends where the next entry is negligible
      while (m + 1 < n) {
        const double size = std::fabs(t.diagonal[m]) + std::fabs(t.diagonal[m + 1]);
        if (std::fabs(t.beside[m]) <= std::numeric_limits<double>::epsilon() * size) break;
        ++m;
      }
      if (m == l) break;
      if (steps == 100) throw std::runtime_error("eigenvalues do not converge");
      ql_step(t, l, m);
    }
  }
}

}  // namespace

Eigensystem symmetric_eigen(SquareMatrix matrix) {
  const int n = matrix.n;
  Tridiagonal t = tridiagonalise(std::move(matrix));
  diagonalise(t);
  const std::vector<std::size_t> order = descending<std::size_t>(t.diagonal);
  Eigensystem eigen{.values = {}, .vectors = SquareMatrix(n)};
  for (std::size_t i = 0; i < order.size(); ++i) {
    eigen.values.push_back(t.diagonal[order[i]]);
    for (std::size_t j = 0; j < order.size(); ++j) {
      eigen.vectors.at(i, j) = t.basis.at(order[i], j);
    }
  }
  return eigen;
}

}  // namespace moesim
