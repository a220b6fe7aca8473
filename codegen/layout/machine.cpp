#include "codegen/layout/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "frontend/suggest.h"

namespace mesh {
namespace {

/// FNV-1a of the text, for the header of emitted programs.
std::string hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return fmt::format("{:016x}", hash);
}

/// What is at a place of the text: from there, the value if it stands there as it is read, else the rest of the line.
Span span_at(const SourceMap& sources, FileId file, const YAML::Mark& mark, const std::string& value = "") {
  const auto line = static_cast<uint32_t>(std::clamp<int64_t>(mark.line + 1, 1, sources.line_count(file)));
  const std::string_view text = sources.line_text(file, line);
  const size_t column = std::min(static_cast<size_t>(std::max(0, mark.column)), text.size());
  std::string_view rest = text.substr(column);
  if (!value.empty() && rest.starts_with(value)) rest = value;
  while (rest.ends_with(' ')) rest.remove_suffix(1);
  const auto first = sources.line_begin(file, line) + static_cast<uint32_t>(column);
  return {file, first, first + static_cast<uint32_t>(rest.size())};
}

class Reader {
 public:
  Reader(const SourceMap& sources, FileId file, DiagnosticSink& sink) : sources_(sources), file_(file), sink_(sink) {}

  /// Reads `node`'s keys by `fields`; anything else is an error with its place.
  void keys(const YAML::Node& node, const std::map<std::string, std::function<void(const YAML::Node&)>>& fields) {
    std::vector<std::string> known;
    for (const auto& [name, read] : fields) known.push_back(name);
    const std::string list = fmt::format("the keys here are {}", fmt::join(known, ", "));
    if (!node.IsMap()) {
      fail(node, "a map of keys is expected here").help(list);
      return;
    }
    for (const auto& entry : node) {
      const std::string key = entry.first.as<std::string>();
      if (const auto field = fields.find(key); field != fields.end()) {
        field->second(entry.second);
        continue;
      }
      const std::optional<std::string> near = did_you_mean(key, known);
      fail(entry.first, fmt::format("a machine description has no key `{}` here", key))
          .here(near ? fmt::format("did you mean `{}`?", *near) : "")
          .help(list);
    }
  }

  std::function<void(const YAML::Node&)> number(double& to) {
    return [this, &to](const YAML::Node& node) {
      try {
        const double value = node.as<double>();
        if (value > 0 && std::isfinite(value)) to = value;
        else fail(node, fmt::format("`{}` is no number above zero", node.Scalar()));
      } catch (const YAML::Exception&) {
        fail(node, "a number is expected here");
      }
    };
  }

  std::function<void(const YAML::Node&)> whole(int64_t& to) {
    return [this, &to](const YAML::Node& node) {
      int64_t value = 0;
      if (node.IsScalar() && YAML::convert<int64_t>::decode(node, value) && value > 0) to = value;
      else fail(node, "a whole number from 1 is expected here");
    };
  }

  DiagnosticBuilder fail(const YAML::Node& node, const std::string& what) {
    return sink_.error("E0602", span_at(sources_, file_, node.Mark(), node.IsScalar() ? node.Scalar() : ""), what);
  }

 private:
  const SourceMap& sources_;
  FileId file_;
  DiagnosticSink& sink_;
};

}  // namespace

std::optional<Machine> read_machine(const std::string& path, SourceMap& sources, DiagnosticSink& sink) {
  std::string reason;
  const std::optional<FileId> known = sources.find(path), file = known ? known : sources.load(path, reason);
  if (!file) {
    sink.error("E0601", Span{}, "cannot read the machine description `{}`: {}", path, reason)
        .help(
            "--machine takes a YAML file with name, gflops, memory_gbs, node and network; without it costs are those "
            "of a generic cluster");
    return std::nullopt;
  }
  const std::string text(sources.text(*file));
  const size_t errors = sink.error_count();
  Machine machine;
  machine.hash = hash_of(text);
  Reader read(sources, *file, sink);
  try {
    read.keys(YAML::Load(text), {{"name",
                                  [&](const YAML::Node& n) {
                                    if (n.IsScalar()) machine.name = n.Scalar();
                                    else read.fail(n, "a name is expected here");
                                  }},
                                 {"gflops",
                                  [&](const YAML::Node& n) {
                                    read.keys(n, {{"f32", read.number(machine.gflops_f32)},
                                                  {"f64", read.number(machine.gflops_f64)},
                                                  {"bf16", read.number(machine.gflops_bf16)}});
                                  }},
                                 {"memory_gbs", read.number(machine.memory_gbs)},
                                 {"node",
                                  [&](const YAML::Node& n) {
                                    read.keys(n, {{"ranks", read.whole(machine.node_ranks)},
                                                  {"latency_us", read.number(machine.node_latency_us)},
                                                  {"gbs", read.number(machine.node_gbs)},
                                                  {"memory_gib", read.number(machine.node_memory_gib)}});
                                  }},
                                 {"network", [&](const YAML::Node& n) {
                                    read.keys(n, {{"latency_us", read.number(machine.network_latency_us)},
                                                  {"gbs", read.number(machine.network_gbs)}});
                                  }}});
  } catch (const YAML::Exception& problem) {
    sink.error("E0602", span_at(sources, *file, problem.mark), "this is not the YAML of a machine description")
        .here(problem.msg);
  }
  if (sink.error_count() > errors) return std::nullopt;
  return machine;
}

}  // namespace mesh
