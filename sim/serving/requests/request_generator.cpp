// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/requests/request_generator.h"

#include <algorithm>
#include <cmath>

#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

enum Stream : std::uint64_t { arrival_stream = 1, input_stream, output_stream };

double exponential(Random& random) { return -portable_log(1 - random.uniform()); }

/// Gamma of that shape and scale 1 (Marsaglia and Tsang, "A simple method for generating gamma
/// variables", 2000; shapes below 1 by their boost).
double gamma_draw(double shape, Random& random) {
  if (shape < 1) {
    const double boost = portable_pow(1 - random.uniform(), 1 / shape);
    return gamma_draw(shape + 1, random) * boost;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), v = 1 + c * x;
    if (v <= 0) continue;
    const double cube = v * v * v;
    if (portable_log(1 - random.uniform()) < 0.5 * x * x + d - d * cube + d * portable_log(cube)) {
      return d * cube;
    }
  }
}

double gap(const ArrivalLaw& law, Random& random) {
  switch (law.kind) {
    case ArrivalLaw::Kind::poisson:
      return exponential(random) / law.rate;
    case ArrivalLaw::Kind::gamma: {
      const double shape = 1 / (law.variation * law.variation);
      return gamma_draw(shape, random) / (shape * law.rate);
    }
    case ArrivalLaw::Kind::even:
      return 1 / law.rate;
    case ArrivalLaw::Kind::at_once:
      break;
  }
  return 0;
}

std::int64_t draw_length(const LengthLaw& law, Random& random) {
  double tokens = law.mean;
  if (law.kind == LengthLaw::Kind::uniform) {
    tokens += law.spread * (2 * random.uniform() - 1);
  } else if (law.kind == LengthLaw::Kind::lognormal) {
    const double variance = portable_log(1 + law.spread * law.spread / (law.mean * law.mean));
    tokens *= portable_exp(std::sqrt(variance) * random.normal() - variance / 2);
  }
  const double least = static_cast<double>(law.least), most = static_cast<double>(law.most);
  return static_cast<std::int64_t>(std::llround(std::clamp(tokens, least, most)));
}

}  // namespace

RequestLog draw_requests(const RequestDraw& draw) {
  Random arrivals(draw.seed, arrival_stream), inputs(draw.seed, input_stream);
  Random outputs(draw.seed, output_stream);
  RequestLog log;
  log.concurrency = draw.concurrency;
  log.client = draw.client;
  double now = 0;
  for (std::int64_t i = 0; i < draw.count; ++i) {
    if (i > 0) now += gap(draw.arrivals, arrivals);
    log.requests.push_back(
        {Seconds(now), draw_length(draw.input, inputs), draw_length(draw.output, outputs)});
  }
  if (draw.shared_prefix > 0) {
    log.prefix_tokens = draw.shared_prefix;
    constexpr std::uint64_t same = 1;
    for (const ServingRequest& request : log.requests) {
      log.prefixes.add_row(request.input >= draw.shared_prefix ? std::vector{same}
                                                               : std::vector<std::uint64_t>{});
    }
  }
  return log;
}

}  // namespace moesim
