// ckpt_change.cpp: `meshc ckpt diff` and `convert`.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/commands/ckpt.h"
#include "codegen/commands/command.h"
#include "meshrt/checkpoint.h"
#include "meshrt/failure.h"
#include "meshrt/log.h"
#include "meshrt/rename_map.h"

namespace mesh {

namespace {

using Json = nlohmann::ordered_json;
using meshrt::NamedArray, meshrt::SavedTensors, meshrt::bytes_text, meshrt::Type;

/// How far two tensors of one shape are apart.
struct Difference {
  int64_t numbers = 0;   // that differ
  double largest = 0;    // absolute difference
  double magnitude = 0;  // the largest number of the first
};

/// Visits the numbers of two tensors of one shape in pairs.
template <class Visit>
void for_each_pair(const NamedArray& a, const NamedArray& b, Visit visit) {
  const size_t count = a.data.size() / size_of(a.type);
  for (size_t begin = 0; begin < count; begin += numbers_at_once) {
    const size_t length = std::min(numbers_at_once, count - begin);
    const std::vector<double> x = numbers_of(a, begin, length), y = numbers_of(b, begin, length);
    for (size_t i = 0; i < length; ++i) visit(x[i], y[i]);
  }
}

Difference difference(const NamedArray& a, const NamedArray& b) {
  Difference found;
  if (a.type == b.type && std::ranges::equal(a.data, b.data)) return found;
  for_each_pair(a, b, [&](double x, double y) {
    found.magnitude = std::max(found.magnitude, std::abs(x));
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    ++found.numbers;
    const double apart = std::abs(x - y);
    found.largest = std::isnan(apart) ? INFINITY : std::max(found.largest, apart);
  });
  return found;
}

/// Numbers that a type with a smaller range does not have.
struct OutOfRange {
  int64_t infinite = 0, zero = 0;
};

OutOfRange out_of_range(const NamedArray& before, const NamedArray& after) {
  OutOfRange found;
  for_each_pair(before, after, [&](double x, double y) {
    if (std::isinf(y) && !std::isinf(x)) ++found.infinite;
    if (y == 0 && x != 0) ++found.zero;
  });
  return found;
}

/// What a tensor's floats are written as: moments need a range that f16 does not have (squares of gradients).
Type type_in(Type wanted, bool of_optimizer) { return of_optimizer && wanted == Type::f16 ? Type::f32 : wanted; }

}  // namespace

int compare_checkpoints(const std::string& first, const std::string& second, bool json) {
  const SavedTensors a = SavedTensors::open(first), b = SavedTensors::open(second);
  Json differing = Json::array();
  size_t same = 0;
  const auto tell = [&](const std::string& name, const std::string& what, Json entry) {
    entry["name"] = name;
    entry["what"] = what;
    differing.push_back(entry);
    if (!json) fmt::print("{}: {}\n", name, what);
  };
  for (const NamedArray& x : a.tensors()) {
    const NamedArray* y = b.find(x.name);
    if (!y) {
      tell(x.name, fmt::format("only in {}", a.path()), {});
    } else if (x.shape != y->shape) {
      tell(x.name, fmt::format("{} and {}", shape_text(x.type, x.shape), shape_text(y->type, y->shape)), {});
    } else {
      const Difference apart = difference(x, *y);
      const std::string types = x.type == y->type ? "" : fmt::format("{} and {}; ", name_of(x.type), name_of(y->type));
      if (types.empty() && apart.numbers == 0) ++same;
      else
        tell(x.name,
             apart.numbers == 0
                 ? types + "equal numbers"
                 : fmt::format("{}{} of {} numbers differ, by at most {:.3g} (largest number {:.3g})", types,
                               apart.numbers, x.data.size() / size_of(x.type), apart.largest, apart.magnitude),
             {{"numbers", apart.numbers}, {"largest", apart.largest}, {"magnitude", apart.magnitude}});
    }
  }
  for (const NamedArray& y : b.tensors())
    if (!a.find(y.name)) tell(y.name, fmt::format("only in {}", b.path()), {});
  if (json) fmt::print("{}\n", Json{{"schema", 1}, {"same", same}, {"differing", differing}}.dump(2));
  else fmt::print("{} tensors are the same, {} differ\n", same, differing.size());
  return differing.empty() ? exit_ok : exit_diagnostics;
}

int convert_checkpoint(const Conversion& conversion, bool json) {
  namespace fs = std::filesystem;
  // What is no float, as a count of steps, is that of the last one.
  const auto of_mean = std::span(conversion.from).first(conversion.mean ? conversion.from.size() - 1 : 0);
  const SavedTensors saved = SavedTensors::open(std::span(conversion.from).subspan(of_mean.size()));
  std::vector<SavedTensors> others;
  for (const std::string& path : of_mean) others.push_back(SavedTensors::open(path));
  require_alike(saved, others);
  const meshrt::RenameMap names =
      conversion.names.empty() ? meshrt::RenameMap() : meshrt::RenameMap::read(conversion.names);
  check_names(names, saved);
  std::optional<Type> type;
  for (const Type known : {Type::f64, Type::f32, Type::bf16, Type::f16})
    if (conversion.type == name_of(known)) type = known;
  std::vector<NamedArray> tensors;
  std::vector<std::vector<std::byte>> converted;  // what the tensors' data points to
  std::vector<std::string> optimizer;
  int64_t infinite = 0, zero = 0;
  for (NamedArray tensor : saved.tensors()) {
    if (saved.of_optimizer(tensor.name) && (conversion.parameters || conversion.mean)) continue;
    if (conversion.mean && is_float(tensor.type)) tensor.data = converted.emplace_back(mean_of(tensor, others));
    const Type to = type && is_float(tensor.type) ? type_in(*type, saved.of_optimizer(tensor.name)) : tensor.type;
    if (tensor.type != to) {
      const NamedArray before = tensor;
      tensor.data = converted.emplace_back(numbers_as(to, before));
      tensor.type = to;
      const OutOfRange lost = out_of_range(before, tensor);
      if (lost.infinite + lost.zero > 0)
        fmt::print(stderr, "warning: `{}`: of {} numbers {} {} infinite and {} {} 0 in {}\n", tensor.name,
                   tensor.data.size() / size_of(to), lost.infinite, lost.infinite == 1 ? "becomes" : "become",
                   lost.zero, lost.zero == 1 ? "becomes" : "become", name_of(to));
      infinite += lost.infinite;
      zero += lost.zero;
    }
    for (const NamedArray& part : renamed(tensor, names)) {
      if (saved.of_optimizer(tensor.name)) optimizer.push_back(part.name);
      tensors.push_back(part);
    }
  }
  if (fs::exists(conversion.to))
    throw meshrt::Failure(meshrt::Cause::environment, fmt::format("`{}` is there already", conversion.to));
  if (conversion.to.ends_with(".safetensors")) {
    write_safetensors(conversion.to, tensors, {{"format", "pt"}});
  } else {
    meshrt::Manifest manifest = saved.manifest().value_or(meshrt::Manifest());
    if (type) manifest.precision = conversion.type;
    manifest.job.clear();  // no job has written this one
    for (const std::string& name : names.tensors()) manifest.dims.erase(name);
    write_checkpoint(conversion.to, tensors, optimizer, manifest);
  }
  int64_t bytes = 0;
  for (const NamedArray& tensor : tensors) bytes += static_cast<int64_t>(tensor.data.size());
  if (json)
    fmt::print("{}\n", Json{{"schema", 1},
                            {"path", conversion.to},
                            {"tensors", tensors.size()},
                            {"bytes", bytes},
                            {"become_infinite", infinite},
                            {"become_zero", zero}}
                           .dump(2));
  else fmt::print("wrote {}: {} tensors, {}\n", conversion.to, tensors.size(), bytes_text(bytes));
  return exit_ok;
}

}  // namespace mesh
