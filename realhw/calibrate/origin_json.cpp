// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/origin_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/base/error.h"
#include "sim/base/figures.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json inputs_json(const CalibrationInputs& inputs) {
  return {{"topology", inputs.topology}, {"model", inputs.model},   {"set", inputs.set},
          {"quick", inputs.quick},       {"rounds", inputs.rounds}, {"longest_ms", inputs.longest},
          {"rows", inputs.rows}};
}

CalibrationInputs read_inputs(const Json& json) {
  CalibrationInputs inputs;
  inputs.topology = json.at("topology").get<std::string>();
  inputs.model = json.at("model").get<std::string>();
  inputs.set = json.at("set").get<std::vector<std::string>>();
  inputs.quick = json.at("quick").get<bool>();
  inputs.rounds = json.at("rounds").get<int>();
  inputs.longest = json.at("longest_ms").get<double>();
  inputs.rows = json.at("rows").get<int>();
  return inputs;
}

}  // namespace

Json origin_json(const CalibrationOrigin& o) {
  return {
      {"planned_by", o.moesim},    {"inputs", inputs_json(o.inputs)},     {"topology", o.topology},
      {"model", o.model},          {"cluster_xxh3", o.cluster},           {"ranks", o.ranks},
      {"hidden", o.shape.hidden},  {"expert_ffn", o.shape.ffn},           {"gated", o.shape.gated},
      {"rounds", o.rounds.rounds}, {"runs_of_a_round", o.rounds.repeats}, {"plans_xxh3", o.plans}};
}

CalibrationOrigin read_calibration_origin(const Json& json) {
  CalibrationOrigin o;
  o.moesim = json.at("planned_by").get<std::string>();
  o.inputs = read_inputs(json.at("inputs"));
  o.topology = json.at("topology").get<std::string>();
  o.model = json.at("model").get<std::string>();
  o.cluster = json.at("cluster_xxh3").get<std::string>();
  o.ranks = json.at("ranks").get<int>();
  o.shape = ExpertShape(json.at("hidden").get<std::int64_t>(),
                        json.at("expert_ffn").get<std::int64_t>(), json.at("gated").get<bool>());
  o.rounds = {json.at("rounds").get<int>(), json.at("runs_of_a_round").get<int>()};
  o.plans = json.at("plans_xxh3").get<std::string>();
  if (o.shape.hidden < 1 || o.shape.ffn < 1) throw Error("the model has no sizes");
  if (o.ranks < 1) throw Error("the cluster has no GPUs");
  if (o.rounds.rounds < 1 || o.rounds.repeats < 1) throw Error("nothing is to be measured");
  return o;
}

Json provenance_json(const Provenance& p) {
  Json json = {{"moesim", p.moesim},   {"command", p.command},       {"date", p.date},
               {"backend", p.backend}, {"processors", p.processors}, {"hosts", p.hosts}};
  if (!p.sms.empty()) json["sms"] = p.sms;
  return json;
}

Provenance read_provenance(const Json& json, const CalibrationOrigin& origin) {
  Provenance p;
  p.moesim = json.at("moesim").get<std::string>();
  p.command = json.at("command").get<std::string>();
  p.date = json.at("date").get<std::string>();
  p.backend = json.at("backend").get<std::string>();
  p.processors = json.at("processors").get<std::vector<std::string>>();
  p.hosts = json.at("hosts").get<std::vector<std::string>>();
  p.sms = json.value("sms", p.sms);
  p.set_origin(origin);
  if (!p.sms.empty() && std::ssize(p.sms) != p.ranks) {
    throw Error(fmt::format("'sms' is of {}, not of {}", counted(p.sms.size(), "rank"), p.ranks));
  }
  if (std::ranges::any_of(p.sms, [](int sms) { return sms < 1; })) {
    throw Error("'sms' has a GPU without multiprocessors");
  }
  return p;
}

}  // namespace moesim
