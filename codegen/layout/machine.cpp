#include "codegen/layout/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "codegen/layout/budget.h"
#include "frontend/suggest.h"
#include "meshrt/log.h"

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

  std::function<void(const YAML::Node&)> number(std::optional<double>& to) {
    return [this, &to](const YAML::Node& node) { number(to.emplace())(node); };
  }

  /// A number of GB/s, or one for each of some sizes: `{ 64KiB: 2, 1MiB: 5 }`.
  std::function<void(const YAML::Node&)> rate(Rate& to) {
    return [this, &to](const YAML::Node& node) {
      Rate read;
      const auto point = [&](const YAML::Node* size) -> double& {
        const std::optional<int64_t> bytes = size ? parse_bytes(size->Scalar()) : 1;
        if (!bytes) fail(*size, "a size is expected here: 64KiB, 1MiB");
        read.points.push_back({bytes.value_or(0), 0});
        return read.points.back().gbs;
      };
      const auto check = [&](const YAML::Node& size) {
        if (read.points.back().bytes > 0) grows(size, read.points);
      };
      if (numbers(node, point, check)) to = std::move(read);
      else fail(node, "at least one size is expected here: { 1MiB: 5 }");
    };
  }

  /// A number of microseconds after a millisecond of work, or one for each of some times: `{ 100us: 20, 1ms: 90 }`.
  std::function<void(const YAML::Node&)> meetings(Meetings& to) {
    return [this, &to](const YAML::Node& node) {
      Meetings read;
      const auto point = [&](const YAML::Node* time) -> double& {
        const std::optional<double> work = time ? microseconds(time->Scalar()) : 1e3;
        if (!work) fail(*time, "a time of work is expected here: 100us, 1ms");
        else if (!read.points.empty() && *work <= read.points.back().work_us)
          fail(*time, "times of work grow from one to the next");
        read.points.push_back({work.value_or(0), 0});
        return read.points.back().wait_us;
      };
      if (numbers(node, point, [](const YAML::Node&) {})) to = std::move(read);
      else fail(node, "at least one time of work is expected here: { 1ms: 90 }");
    };
  }

  std::function<void(const YAML::Node&)> send(Links& to) {
    return [this, &to](const YAML::Node& node) {
      to.send = Link{};
      keys(node, {{"latency_us", number(to.send->latency_us)}, {"gbs", rate(to.send->gbs)}});
    };
  }

  std::function<void(const YAML::Node&)> whole(int64_t& to) {
    return [this, &to](const YAML::Node& node) {
      int64_t value = 0;
      if (node.IsScalar() && YAML::convert<int64_t>::decode(node, value) && value > 0) to = value;
      else fail(node, "a whole number from 1 is expected here");
    };
  }

  /// Reads each number of a map to where `point` of its key says, or one alone as that of null; then `check` of the
  /// key. False for an empty map.
  template <class Point, class Check>
  bool numbers(const YAML::Node& node, const Point& point, const Check& check) {
    if (!node.IsMap()) number(point(nullptr))(node);
    for (const auto& entry : node.IsMap() ? node : YAML::Node(YAML::NodeType::Map)) {
      number(point(&entry.first))(entry.second);
      check(entry.first);
    }
    return !node.IsMap() || node.size() > 0;
  }

  static std::optional<double> microseconds(const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit(end, text.data() + text.size());
    const double of_unit = unit == "us" ? 1 : unit == "ms" ? 1e3 : unit == "s" ? 1e6 : 0;
    if (error != std::errc() || !(number > 0) || of_unit == 0 || !std::isfinite(number)) return {};
    return number * of_unit;
  }

  /// The last point's size and time are more than those of the one before.
  void grows(const YAML::Node& size, const std::vector<Rate::Point>& points) {
    if (points.size() < 2) return;
    const Rate::Point &before = points[points.size() - 2], &last = points.back();
    const auto seconds = [](const Rate::Point& point) { return static_cast<double>(point.bytes) / point.gbs; };
    if (last.bytes <= before.bytes) fail(size, "sizes grow from one to the next");
    else if (before.gbs > 0 && last.gbs > 0 && seconds(last) < seconds(before))
      fail(size, fmt::format("at {:g} GB/s {} would take less time than {} at {:g} GB/s", last.gbs,
                             meshrt::bytes_text(last.bytes), meshrt::bytes_text(before.bytes), before.gbs));
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

double Rate::seconds(double bytes) const {
  const auto above =
      std::ranges::upper_bound(points, bytes, {}, [](const Point& point) { return double(point.bytes); });
  if (above == points.begin() || above == points.end())
    return bytes / (1e9 * (above == points.begin() ? points.front() : points.back()).gbs);
  const auto at = [](const Point& point) { return static_cast<double>(point.bytes) / (1e9 * point.gbs); };
  const Point &low = *std::prev(above), &high = *above;
  const double part = (bytes - static_cast<double>(low.bytes)) / static_cast<double>(high.bytes - low.bytes);
  return at(low) + part * (at(high) - at(low));
}

double Meetings::seconds(double work) const {
  Point low{0, 0};
  for (const Point& high : points) {
    const double part = (1e6 * work - low.work_us) / (high.work_us - low.work_us);
    if (part <= 1) return 1e-6 * (low.wait_us + part * (high.wait_us - low.wait_us));
    low = high;
  }
  return 1e-6 * low.wait_us;
}

double Rate::fastest() const { return std::ranges::max(points, {}, &Point::gbs).gbs; }

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
                                                  {"bf16", read.number(machine.gflops_bf16)},
                                                  {"attention", read.number(machine.gflops_attention)},
                                                  {"attention_bf16", read.number(machine.gflops_attention_bf16)},
                                                  {"elementwise", read.number(machine.gflops_elementwise)}});
                                  }},
                                 {"memory_gbs", read.rate(machine.memory)},
                                 {"node",
                                  [&](const YAML::Node& n) {
                                    read.keys(n, {{"ranks", read.whole(machine.node_ranks)},
                                                  {"latency_us", read.number(machine.node.together.latency_us)},
                                                  {"gbs", read.rate(machine.node.together.gbs)},
                                                  {"send", read.send(machine.node)},
                                                  {"meeting_us", read.meetings(machine.node.meetings)},
                                                  {"memory_gib", read.number(machine.node_memory_gib)}});
                                  }},
                                 {"network", [&](const YAML::Node& n) {
                                    read.keys(n, {{"latency_us", read.number(machine.network.together.latency_us)},
                                                  {"gbs", read.rate(machine.network.together.gbs)},
                                                  {"send", read.send(machine.network)},
                                                  {"meeting_us", read.meetings(machine.network.meetings)}});
                                  }}});
  } catch (const YAML::Exception& problem) {
    sink.error("E0602", span_at(sources, *file, problem.mark), "this is not the YAML of a machine description")
        .here(problem.msg);
  }
  if (sink.error_count() > errors) return std::nullopt;
  for (Links* links : {&machine.node, &machine.network}) {
    if (!links->send) continue;
    if (links->send->latency_us == 0) links->send->latency_us = links->together.latency_us;
    if (links->send->gbs.points.empty()) links->send->gbs = links->together.gbs;
  }
  return machine;
}

}  // namespace mesh
