#include "codegen/layout/machine.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace mesh {
namespace {

/// FNV-1a of the text, for the header of emitted programs.
std::string hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return fmt::format("{:016x}", hash);
}

class Reader {
 public:
  Reader(const std::string& path, DiagnosticSink& sink) : path_(path), sink_(sink) {}

  /// Reads `node`'s keys by `fields`; anything else is an error with its line.
  void keys(const YAML::Node& node, const std::map<std::string, std::function<void(const YAML::Node&)>>& fields) {
    std::string known;
    for (const auto& [name, read] : fields) known += (known.empty() ? "" : ", ") + name;
    if (!node.IsMap()) return fail(node, fmt::format("a map of keys is expected here; there are: {}", known));
    for (const auto& entry : node) {
      const std::string key = entry.first.as<std::string>();
      const auto field = fields.find(key);
      if (field == fields.end()) {
        fail(entry.first, fmt::format("unknown key `{}`; there are: {}", key, known));
      } else {
        field->second(entry.second);
      }
    }
  }

  std::function<void(const YAML::Node&)> number(double& to) {
    return [this, &to](const YAML::Node& node) {
      try {
        const double value = node.as<double>();
        if (!(value > 0)) return fail(node, fmt::format("{} must be above zero", value));
        to = value;
      } catch (const YAML::Exception&) {
        fail(node, "a number is expected here");
      }
    };
  }

  void fail(const YAML::Node& node, const std::string& what) {
    sink_.error("E0602", Span{}, "{}:{}: {}", path_, std::max(1, node.Mark().line + 1), what);
  }

 private:
  const std::string& path_;
  DiagnosticSink& sink_;
};

}  // namespace

std::optional<Machine> read_machine(const std::string& path, DiagnosticSink& sink) {
  std::ifstream file(path);
  if (!file) {
    sink.error("E0601", Span{}, "cannot read the machine description `{}`", path)
        .help(
            "--machine takes a YAML file with name, gflops, memory_gbs, node and network; without it costs are those "
            "of a generic cluster");
    return std::nullopt;
  }
  std::stringstream text;
  text << file.rdbuf();
  const size_t errors = sink.error_count();
  Machine machine;
  machine.hash = hash_of(text.str());
  Reader read(path, sink);
  try {
    double ranks = static_cast<double>(machine.node_ranks);
    read.keys(YAML::Load(text.str()), {{"name", [&](const YAML::Node& n) { machine.name = n.as<std::string>(); }},
                                       {"gflops",
                                        [&](const YAML::Node& n) {
                                          read.keys(n, {{"f32", read.number(machine.gflops_f32)},
                                                        {"f64", read.number(machine.gflops_f64)},
                                                        {"bf16", read.number(machine.gflops_bf16)}});
                                        }},
                                       {"memory_gbs", read.number(machine.memory_gbs)},
                                       {"node",
                                        [&](const YAML::Node& n) {
                                          read.keys(n, {{"ranks", read.number(ranks)},
                                                        {"latency_us", read.number(machine.node_latency_us)},
                                                        {"gbs", read.number(machine.node_gbs)},
                                                        {"memory_gib", read.number(machine.node_memory_gib)}});
                                        }},
                                       {"network", [&](const YAML::Node& n) {
                                          read.keys(n, {{"latency_us", read.number(machine.network_latency_us)},
                                                        {"gbs", read.number(machine.network_gbs)}});
                                        }}});
    machine.node_ranks = static_cast<int64_t>(ranks);
  } catch (const YAML::Exception& problem) {
    sink.error("E0602", Span{}, "{}:{}: {}", path, problem.mark.line + 1, problem.msg);
  }
  if (sink.error_count() > errors) return std::nullopt;
  return machine;
}

}  // namespace mesh
