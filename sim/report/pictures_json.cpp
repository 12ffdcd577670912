// SPDX-License-Identifier: Apache-2.0
// Pictures as JSON: integers of few digits in lists, because a report holds many of them.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/report/pictures.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int most_load_cells = 128;  // GPUs, and steps, of a heat map
constexpr std::size_t most_drawn = 240;
constexpr int hosts_of_large = 4;
constexpr std::size_t most_switches = 48;

/// number / size, rounded up: cells of that size, or the size of that many cells.
int cells_of(int number, int size) { return (number + size - 1) / size; }
std::int64_t whole_percent(double share) { return std::llround(100 * share); }
std::int64_t nanoseconds(Seconds time) { return std::llround(time.value * 1e9); }

/// For one layer: the busiest GPU of every cell over the mean of the GPUs that compute the layer;
/// -1 if none does.
Json by_gpu(const std::map<int, RowsOfGpus>& steps, int gpus, int per_cell) {
  RowsOfGpus sum;
  std::int64_t all = 0;
  for (const auto& [step, rows] : steps) {
    for (const auto& [gpu, number] : rows) sum[gpu] += number, all += number;
  }
  std::vector<std::int64_t> cells(static_cast<std::size_t>(cells_of(gpus, per_cell)), -1);
  for (const auto& [gpu, number] : sum) {
    std::int64_t& cell = cells[gpu.index() / static_cast<std::size_t>(per_cell)];
    const double mean = static_cast<double>(all) / static_cast<double>(sum.size());
    cell = std::max(cell, mean > 0 ? whole_percent(static_cast<double>(number) / mean) : 0);
  }
  return cells;
}

double max_over_mean_of(const RowsOfGpus& rows) {
  std::int64_t most = 0, all = 0;
  for (const auto& [gpu, number] : rows) most = std::max(most, number), all += number;
  return all > 0 ? static_cast<double>(most) * static_cast<double>(rows.size()) /
                       static_cast<double>(all)
                 : 0;
}

/// For one layer: max / mean, the mean over the steps of a cell.
Json by_step(const std::map<int, RowsOfGpus>& steps, int number, int per_cell) {
  const auto cells = static_cast<std::size_t>(cells_of(number, per_cell));
  std::vector<double> sum(cells, 0);
  std::vector<int> count(cells, 0);
  for (const auto& [step, rows] : steps) {
    const auto cell = static_cast<std::size_t>(step / per_cell);
    if (cell >= cells) continue;
    sum[cell] += max_over_mean_of(rows);
    ++count[cell];
  }
  Json list = Json::array();
  for (std::size_t c = 0; c < cells; ++c) {
    list.push_back(count[c] == 0 ? -1 : whole_percent(sum[c] / count[c]));
  }
  return list;
}

Json loads_json(const Pictures& p) {
  const int steps = p.steps * p.microbatches;
  const int gpu_cells = cells_of(p.gpus, most_load_cells);
  const int step_cells = cells_of(steps, most_load_cells);
  Json layers = Json::array(), gpus = Json::array(), over_steps = Json::array();
  for (const auto& [layer, of_layer] : p.rows) {
    layers.push_back(layer);
    gpus.push_back(by_gpu(of_layer, p.gpus, gpu_cells));
    over_steps.push_back(by_step(of_layer, steps, step_cells));
  }
  return {{"layers", layers},
          {"gpus", p.gpus},
          {"gpus_per_cell", gpu_cells},
          {"percent_of_mean", gpus},
          {"steps", p.steps},
          {"microbatches", p.microbatches},
          {"steps_per_cell", step_cells},
          {"max_over_mean_percent", over_steps}};
}

Json traffic_json(const Pictures& p) {
  static constexpr std::array<const char*, traffic_kind_count> names = {"tokens", "parameters",
                                                                        "activations", "stages"};
  const int blocks = cells_of(p.gpus, p.gpus_of_block);
  Json matrices = Json::object();
  for (std::size_t kind = 0; kind < names.size(); ++kind) {
    if (p.traffic[kind].empty()) continue;
    std::vector<std::vector<std::int64_t>> rows(
        static_cast<std::size_t>(blocks),
        std::vector<std::int64_t>(static_cast<std::size_t>(blocks)));
    for (const auto& [pair, bytes] : p.traffic[kind]) {
      rows[static_cast<std::size_t>(pair.first)][static_cast<std::size_t>(pair.second)] =
          bytes / 1000 / p.steps;
    }
    matrices[names[kind]] = rows;
  }
  return {{"gpus_per_cell", p.gpus_of_block}, {"kilobytes_per_step", matrices}};
}

/// Vertices that are drawn, ascending.
std::vector<std::size_t> drawn_vertices(const Topology& topology) {
  std::set<std::size_t> drawn, switches;
  const auto& vertices = topology.vertices();
  const bool all = vertices.size() <= most_drawn;
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    if (all || (vertices[v].host >= 0 && vertices[v].host < hosts_of_large)) drawn.insert(v);
  }
  for (std::size_t before = 0; !all && before != drawn.size();) {
    before = drawn.size();
    std::set<std::size_t> reached;
    for (const Link& link : topology.links()) {
      const std::size_t to = link.to.index();
      if (drawn.contains(link.from.index()) && vertices[to].host < 0) reached.insert(to);
    }
    for (const std::size_t v : reached) {
      if (switches.size() < most_switches && drawn.insert(v).second) switches.insert(v);
    }
  }
  return {drawn.begin(), drawn.end()};
}

/// Links between drawn vertices.
std::vector<std::size_t> drawn_links(const Topology& topology,
                                     const std::vector<std::size_t>& vertices) {
  std::vector<std::size_t> links;
  for (std::size_t l = 0; l < topology.links().size(); ++l) {
    const Link& link = topology.links()[l];
    if (std::ranges::binary_search(vertices, link.from.index()) &&
        std::ranges::binary_search(vertices, link.to.index())) {
      links.push_back(l);
    }
  }
  return links;
}

/// Share of the time that a link needs for its bytes.
double utilization(const Pictures& p, const Topology& topology, std::size_t link) {
  return p.time.value > 0 ? (Bytes(p.link_bytes[link]) / topology.links()[link].bandwidth) / p.time
                          : 0;
}

Json classes_json(const Pictures& p, const Topology& topology) {
  Json classes = Json::array();
  for (std::size_t c = 0; c < topology.classes().size(); ++c) {
    std::int64_t number = 0, used = 0, bytes = 0;
    double sum = 0, most = 0;
    std::string busiest;
    for (std::size_t l = 0; l < topology.links().size(); ++l) {
      const Link& link = topology.links()[l];
      if (static_cast<std::size_t>(link.link_class) != c) continue;
      const double u = utilization(p, topology, l);
      ++number;
      used += p.link_bytes[l] > 0 ? 1 : 0;
      bytes += p.link_bytes[l];
      sum += u;
      if (u <= most) continue;
      most = u;
      busiest = topology.vertices()[link.from.index()].name + " to " +
                topology.vertices()[link.to.index()].name;
    }
    classes.push_back({{"class", topology.classes()[c].name},
                       {"links", number},
                       {"used", used},
                       {"bytes", bytes / p.steps},
                       {"mean", number > 0 ? sum / static_cast<double>(number) : 0},
                       {"most", most},
                       {"busiest", busiest}});
  }
  return classes;
}

Json links_json(const Pictures& p, const Topology& topology) {
  Json drawn = Json::array();
  for (const std::size_t link : drawn_links(topology, drawn_vertices(topology))) {
    drawn.push_back(std::llround(1000 * utilization(p, topology, link)));
  }
  return {{"classes", classes_json(p, topology)}, {"drawn_permille", drawn}};
}

Json bars_json(const GanttLane& lane) {
  Json bars = Json::array();
  for (const GanttBar& bar : lane.bars) {
    bars.push_back({nanoseconds(bar.start), nanoseconds(bar.moving - bar.start),
                    nanoseconds(bar.end - bar.start), bar.kind, bar.layer, bar.microbatch,
                    bar.pass == Pass::backward ? 1 : 0});
  }
  return bars;
}

Json gantt_json(const Gantt& gantt) {
  Json kinds = Json::array(), lanes = Json::array();
  for (const GanttKind& kind : gantt.kinds) kinds.push_back({kind.label, name_of(kind.part)});
  for (const GanttLane& lane : gantt.lanes) {
    lanes.push_back(
        {{"gpu", lane.gpu.value}, {"stream", name_of(lane.stream)}, {"bars", bars_json(lane)}});
  }
  return {{"folded", gantt.folded},
          {"from_s", gantt.from.value},
          {"to_s", gantt.to.value},
          {"kinds", kinds},
          {"lanes", lanes}};
}

Json memory_json(const MemoryCurve& curve) {
  Json rows = Json::array();
  for (const auto& turn : curve.bytes) {
    Json row = Json::array();
    for (const std::int64_t bytes : turn) row.push_back(bytes / 1'000'000);
    rows.push_back(std::move(row));
  }
  return {{"gpu", curve.gpu.value}, {"stage", curve.stage}, {"gpu_memory_bytes", curve.room.value},
          {"parts", curve.parts},   {"turns", curve.turns}, {"megabytes", rows}};
}

}  // namespace

Json pictures_json(const Pictures& p, const Topology& topology) {
  Json gantts = Json::array();
  for (const Gantt& gantt : p.gantts) gantts.push_back(gantt_json(gantt));
  Json json = {{"loads", loads_json(p)},
               {"traffic", traffic_json(p)},
               {"links", links_json(p, topology)},
               {"gantts", gantts}};
  if (!p.memory.empty()) json["memory"] = memory_json(p.memory.front());
  return json;
}

Json drawing_json(const Topology& topology) {
  const std::vector<std::size_t> drawn = drawn_vertices(topology);
  Json vertices = Json::array(), links = Json::array(), classes = Json::array();
  std::set<int> hosts;
  for (const std::size_t v : drawn) {
    const Vertex& vertex = topology.vertices()[v];
    vertices.push_back({vertex.name, name_of(vertex.kind), vertex.host});
    if (vertex.host >= 0) hosts.insert(vertex.host);
  }
  const auto place = [&](VertexId vertex) {
    return std::ranges::lower_bound(drawn, vertex.index()) - drawn.begin();
  };
  for (const std::size_t l : drawn_links(topology, drawn)) {
    const Link& link = topology.links()[l];
    links.push_back({place(link.from), place(link.to), link.link_class, link.bandwidth.value});
  }
  for (const LinkClass& each : topology.classes()) classes.push_back(each.name);
  return {{"topology", topology.name()},
          {"gpus", topology.gpu_count()},
          {"hosts", topology.host_count()},
          {"drawn_hosts", hosts.size()},
          {"classes", classes},
          {"vertices", vertices},
          {"links", links}};
}

}  // namespace moesim
