// SPDX-License-Identifier: Apache-2.0
// A topology as text, every line with what its value rests on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/topology/import/import.h"
#include "sim/topology/import/stated_gpu.h"

namespace moesim {
namespace {

class TopologyText {
 public:
  TopologyText(const std::vector<ClusterFacts>& files, const std::string& gpu)
      : files_(files), facts_(merged(files)), gpu_(stated_gpu(facts_, gpu)), family_(gpu_.family) {
    per_domain_ = facts_.hosts_each.known() ? facts_.hosts_each.value : 1;
    gpus_per_host_ = facts_.gpus.known() ? facts_.gpus.value : is_rack() ? 4 : 8;
    nodes_ = node_count();
  }

  std::string write() {
    head();
    line("nodes", std::to_string(nodes_), nodes_comment());
    out_ += "node:\n";
    node();
    if (nodes_ > 1) fabric();
    return std::move(out_);
  }

 private:
  /// Adds 'key: value  # comment'; the key brings its indentation.
  void line(const std::string& key, const std::string& value, const std::string& comment) {
    out_ += fmt::format("{}: {}  # {}\n", key, value, comment);
  }

  bool is_rack() const {
    return per_domain_ > 1 && family_ && family_->nvlink_join == NvlinkJoin::rack_switch;
  }

  int node_count() const {
    if (!facts_.hosts.known()) return std::max(1, facts_.node_files);
    return std::max(1, (facts_.hosts.value + per_domain_ - 1) / per_domain_);
  }
  std::string nodes_comment() const {
    if (!facts_.hosts.known()) {
      return facts_.node_files > 1
                 ? fmt::format("read: {} describe a node each", counted(nodes_, "file"))
                 : assumed("the files describe one node");
    }
    if (per_domain_ == 1) return read_in(facts_.hosts.file);
    return read_in(facts_.domains.file,
                   fmt::format("{} in NVLink domains of {}", counted(facts_.hosts.value, "host"),
                               per_domain_));
  }

  void head() {
    std::vector<std::string> forms;
    for (const ClusterFacts& one : files_)
      forms.push_back(fmt::format("{} ({})", one.file, one.form));
    out_ =
        "# Values are marked: read, stated, or assumed. moesim topology check says what to "
        "measure.\n";
    for (const std::string& text : facts_.left_out) out_ += fmt::format("# left out: {}\n", text);
    if (facts_.other_nics.known()) {
      out_ += fmt::format("# left out: {}: {}, slower or farther from the GPUs\n",
                          facts_.other_nics.file, counted(facts_.other_nics.value, "more NIC"));
    }
    out_ += fmt::format("description: {} of {} GPUs\nsource: '{}'\n", counted(nodes_, "node"),
                        gpus_per_host_ * per_domain_,
                        quoted(fmt::format("{}", fmt::join(forms, ", "))));
    if (facts_.network.known()) line("network", network(), read_in(facts_.network.file));
    line("exchange_overhead", "12 us", assumed("as h100-rail; measure it"));
  }
  /// EFA's generation follows from the GPU that its instances have.
  std::string network() const {
    const std::string& read = facts_.network.value;
    if (read != "efa" || !family_) return read;
    const std::string gpu = family_->model;
    if (gpu.starts_with("h200")) return "efa-v3";
    const bool blackwell = gpu.find("b200") != gpu.npos || gpu.find("b300") != gpu.npos;
    return blackwell ? "efa-v4" : read;
  }
  static std::string quoted(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
    return out;
  }

  void node() {
    const int gpus = gpus_per_host_ * per_domain_;
    // Quoted, because YAML does not read - and null as names.
    line("  gpu", family_ ? gpu_.model : fmt::format("'{}'", quoted(gpu_.model)), gpu_.comment);
    line("  gpus", std::to_string(gpus),
         !facts_.gpus.known()
             ? assumed(is_rack() ? "4 of each host, as in racks of NVL72" : "no file says")
         : per_domain_ > 1
             ? read_in(facts_.gpus.file,
                       fmt::format("{} of each host, one NVLink domain", gpus_per_host_))
             : read_in(facts_.gpus.file));
    const bool joined = nvlink();
    pcie(joined);
    if (nodes_ > 1 || facts_.nics.known()) nics(joined);
  }

  /// Whether NVLink joins all GPUs of the node.
  bool nvlink() {
    NvlinkShape shape = facts_.nvlink.value;
    if (!facts_.nvlink.known() || per_domain_ > 1) {
      shape = family_ && family_->nvlink_join == NvlinkJoin::mesh ? NvlinkShape::mesh
              : has_switch()                                      ? NvlinkShape::behind_switch
                                                                  : NvlinkShape::none;
    }
    if (gpus_per_host_ * per_domain_ == 1 || shape == NvlinkShape::none) return false;
    const std::string kind = shape == NvlinkShape::mesh    ? "mesh"
                             : shape == NvlinkShape::pairs ? "pairs"
                                                           : "switch";
    out_ += "  nvlink:\n";
    line("    kind", kind,
         shape == NvlinkShape::mixed
             ? assumed(facts_.nvlink.file + " joins only some pairs; no kind does that")
         : facts_.nvlink.known() ? read_in(facts_.nvlink.file)
                                 : assumed("no file says"));
    nvlink_rate(kind == "switch");
    line("    latency", "0.5 us", assumed("per hop"));
    return kind != "pairs";
  }
  bool has_switch() const {
    return family_ && !gpu_.is_card &&
           (family_->nvlink_join == NvlinkJoin::host_switch ||
            family_->nvlink_join == NvlinkJoin::rack_switch);
  }

  void nvlink_rate(bool behind_switch) {
    const GpuFamily* family = family_ && family_->nvlink > 0
                                  ? family_
                                  : family_named(facts_.amd.known() ? "mi300x" : "h100");
    if (facts_.nvlink_rate.known()) {
      line("    bandwidth", to_string(facts_.nvlink_rate.value),
           read_in(facts_.nvlink_rate.file, "what NCCL plans with, less than the data sheet"));
      return;
    }
    const int links = facts_.nvlinks.known() ? facts_.nvlinks.value
                      : behind_switch        ? family->nvlinks
                                             : 1;
    const std::string rate = to_string(BytesPerSecond(links * family->nvlink));
    const std::string each = fmt::format("{} of {} by data sheet", counted(links, "link"),
                                         to_string(BytesPerSecond(family->nvlink)));
    const bool known = facts_.nvlinks.known() && !gpu_.is_assumed && family == family_;
    line("    bandwidth", rate, known ? read_in(facts_.nvlinks.file, each) : assumed(each));
  }

  void pcie(bool joined) {
    const BytesPerSecond sheet(family_ ? family_->pcie : 64e9);
    out_ += "  pcie:\n";
    if (facts_.pcie_rate.known()) {
      line("    bandwidth", to_string(facts_.pcie_rate.value), read_in(facts_.pcie_rate.file));
    } else {
      line("    bandwidth", to_string(sheet), assumed("x16 by data sheet"));
    }
    line("    latency", "0.5 us", assumed("per hop"));
    const int places = facts_.sockets.value;
    if (joined || places < 2 || gpus_per_host_ % places != 0) return;
    line("    sockets", std::to_string(places), read_in(facts_.sockets.file));
    const int switches = facts_.switches.value;
    if (switches > 0 && gpus_per_host_ % (places * switches) == 0) {
      line("    switches", std::to_string(switches), read_in(facts_.switches.file, "per socket"));
    }
    out_ += "    socket_link: {bandwidth: 20 GB/s, latency: 0.5 us}  # assumed: between sockets\n";
  }

  static bool is_multiple(int a, int b) { return b > 0 && a % b == 0; }

  void nics(bool joined) {
    const int gpus = gpus_per_host_ * per_domain_;
    int count = facts_.nics.known() ? facts_.nics.value * per_domain_ : gpus;
    std::string comment =
        !facts_.nics.known() ? assumed("one per GPU")
        : per_domain_ > 1
            ? read_in(facts_.nics.file, fmt::format("{} of each host", facts_.nics.value))
            : read_in(facts_.nics.file);
    const int sockets = joined ? 0 : std::max(1, facts_.sockets.value);
    const auto fits = [&](int n) {
      return sockets == 0 ? is_multiple(n, gpus) || is_multiple(gpus, n)
                          : n == 1 || is_multiple(n, gpus_per_host_ % sockets == 0 ? sockets : 1);
    };
    if (!fits(count)) {
      const int there = count;
      while (!fits(count)) --count;
      comment = assumed(fmt::format("{} has {}, which {} cannot share evenly", facts_.nics.file,
                                    there, counted(gpus, "GPU")));
    }
    out_ += "  nics:\n";
    line("    count", std::to_string(count), comment);
    if (facts_.nic_rate.known()) {
      line("    bandwidth", to_string(facts_.nic_rate.value), read_in(facts_.nic_rate.file));
    } else {
      line("    bandwidth", to_string(BytesPerSecond(family_ ? family_->nic : 50e9)),
           assumed("usual with this GPU"));
    }
    line("    latency", "1 us", assumed("to the first switch"));
    nics_ = count;
  }

  void fabric() {
    out_ += "fabric:\n";
    if (!facts_.fabric) {
      line("  kind", "switch", assumed("no file says; a switch without a bandwidth limit"));
      return;
    }
    const FabricShape& shape = facts_.fabric->value;
    const std::string& file = facts_.fabric->file;
    switch (shape.kind) {
      case FabricShape::Kind::one_switch:
        line("  kind", "switch", read_in(file, "one switch with hosts"));
        return;
      case FabricShape::Kind::rail:
        line("  kind", "rail",
             nics_ == shape.nics_per_host
                 ? read_in(file, "every NIC of a host is at another leaf")
                 : assumed(file + " has rails, as many as a host has NICs"));
        line("  cross_rail", shape.rails_joined ? "spine" : "pxn",
             read_in(file, shape.rails_joined ? "all leaves share the spines" : "rails are apart"));
        break;
      case FabricShape::Kind::leaf_spine:
        line("  kind", "leaf-spine", read_in(file));
        break;
      case FabricShape::Kind::fat_tree:
        line("  kind", "fat-tree", read_in(file));
        break;
    }
    leaves(shape, file);
  }

  void leaves(const FabricShape& shape, const std::string& file) {
    const int each = std::max(1, shape.most_on_leaf / per_domain_);
    line(
        "  nodes_per_leaf", std::to_string(each),
        shape.least_on_leaf == shape.most_on_leaf
            ? read_in(file)
            : read_in(file, fmt::format("leaves have {} to {}: filled in turn", shape.least_on_leaf,
                                        counted(shape.most_on_leaf, "host"))));
    const bool one_leaf = (nodes_ + each - 1) / each == 1;
    if (one_leaf && !shape.rails_joined) return;
    if (shape.kind == FabricShape::Kind::fat_tree) {
      line("  leaves_per_pod", std::to_string(shape.leaves_per_pod), read_in(file));
    }
    line("  spines", std::to_string(shape.spines), spines_comment(shape, file));
    if (shape.kind == FabricShape::Kind::fat_tree) {
      line("  cores", std::to_string(shape.cores), read_in(file, "a multiple of spines"));
    }
    if (shape.oversubscription > 0) {
      line("  oversubscription", fmt::format("{:.4g}", shape.oversubscription),
           read_in(file, "rates of links down over those up"));
    } else {
      line("  oversubscription", "1", assumed("no file has rates of links"));
    }
    line("  latency", "1 us", assumed("of a link between switches"));
  }

  static std::string spines_comment(const FabricShape& shape, const std::string& file) {
    if (!shape.has_spines) return assumed(file + " has no switch above its leaves; one joins them");
    if (shape.islands > 1) {
      return assumed(fmt::format("{} has {} islands that nothing joins; here spines join them",
                                 file, shape.islands));
    }
    return shape.spines > 1 ? read_in(file)
                            : assumed(file + " has one, which may stand for several");
  }

  const std::vector<ClusterFacts>& files_;
  MergedFacts facts_;
  StatedGpu gpu_;
  const GpuFamily* family_;  // null: not known
  std::string out_;
  int gpus_per_host_, per_domain_, nodes_, nics_ = 0;
};

}  // namespace

std::string topology_text(const std::vector<ClusterFacts>& files, const std::string& gpu) {
  return TopologyText(files, gpu).write();
}

}  // namespace moesim
