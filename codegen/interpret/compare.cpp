#include "codegen/interpret/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "codegen/graph/builder.h"
#include "codegen/graph/value_names.h"
#include "codegen/interpret/arrays.h"
#include "meshrt/random.h"

namespace mesh {

namespace {

using Arrays = std::map<std::string, meshrt::Array>;

meshrt::Array array_for(const Graph& graph, const ValueType& type) {
  std::vector<int64_t> shape;
  for (const auto& [name, size] : written_dims(graph, type)) shape.push_back(size);
  return make_array(type.element, std::move(shape));
}

void put(meshrt::Array& array, int64_t at, double value) {
  std::byte* const to = array.data.data() + static_cast<size_t>(at) * meshrt::size_of(array.type);
  const auto write = [&]<class T>(T number) { std::memcpy(to, &number, sizeof number); };
  switch (array.type) {
    case Type::f32: return write(static_cast<float>(value));
    case Type::f64: return write(value);
    case Type::bf16: return write(meshrt::Bfloat16(static_cast<float>(value)));
    case Type::f16: return write(meshrt::Float16(static_cast<float>(value)));
    case Type::i32: return write(static_cast<int32_t>(value));
    case Type::i64: return write(static_cast<int64_t>(value));
    case Type::u8:
    case Type::boolean: return write(static_cast<uint8_t>(value));
  }
}

/// A gradient that is zero but for rounding is made of terms as large as others are, whose roundings may be far above
/// that of 1. In numbers of fewer bits than f64 those of more say how far (allow_as_wider).
void allow_for_terms(std::vector<ComparedValue>& values) {
  constexpr double few_roundings = 1e-14;
  const auto is_meant = [](const ComparedValue& one) { return is_gradient_name(one.name) && one.type == Type::f64; };
  double largest = 0;
  for (const ComparedValue& one : values)
    if (is_meant(one)) largest = std::max(largest, one.largest);
  for (ComparedValue& one : values)
    if (is_meant(one) && !one.nan) one.equal = one.equal || one.difference <= few_roundings * largest;
}

// How many values a tensor of integers may take.
double values_of(const Graph& graph, const ValueType& type) {
  if (type.index_of) return static_cast<double>(graph.dim(type.index_of).size);
  return type.element == Type::boolean ? 2 : type.element == Type::u8 ? 256 : 100;
}

}  // namespace

bool Comparison::equal() const {
  return exit_code == 0 && differing_copies.empty() && std::ranges::all_of(values, &ComparedValue::equal);
}

Arrays random_feeds(const Program& program, uint64_t seed, double scale) {
  const Graph& graph = program.sharded.graph;
  Arrays feeds;
  for (const Stored& stored : graph.stored) {
    if (stored.kind != StoredKind::input) continue;
    const meshrt::RandomKey key(seed, "input " + stored.path);
    meshrt::Array array = array_for(graph, stored.type);
    for (int64_t i = 0; i < array.elements(); ++i)
      put(array, i,
          is_real(array.type) ? scale * meshrt::normal<double>(key, i)
                              : std::floor(meshrt::uniform<double>(key, i) * values_of(graph, stored.type)));
    feeds[stored.path] = std::move(array);
  }
  return feeds;
}

Arrays random_constants(const Program& program, uint64_t seed) {
  using Kind = meshrt::Initial::Kind;
  const Graph& graph = program.sharded.graph;
  Arrays constants;
  for (const Stored& stored : graph.stored) {
    const meshrt::Initial& initial = stored.initial;
    const bool constant = initial.kind == Kind::zeros || initial.kind == Kind::ones || initial.kind == Kind::constant;
    const bool first_value = stored.kind == StoredKind::parameter || stored.kind == StoredKind::state;
    if (!first_value || !constant || stored.computed || !is_real(stored.type.element)) continue;
    const double centre = initial.kind == Kind::zeros ? 0 : initial.kind == Kind::ones ? 1 : initial.a;
    const meshrt::RandomKey key(seed, "constant " + stored.path);
    meshrt::Array array = array_for(graph, stored.type);
    for (int64_t i = 0; i < array.elements(); ++i) put(array, i, centre + 0.1 * meshrt::normal<double>(key, i));
    constants[stored.path] = std::move(array);
  }
  return constants;
}

double bound_of_narrow(const Program& program) {
  double bound = 0;
  for (const Type type : {Type::bf16, Type::f16})
    if (const double place = type == Type::bf16 ? bf16_place : f16_place; rounds_to(program, type))
      bound = std::max(bound, (adds_up(program, type) ? places_of_parts : places_of_orders) * place);
  return bound;
}

double bound_of(Type type, double bound) { return bound != 0 ? bound : type == Type::f64 ? 1e-9 : 1e-5; }

ComparedValue compare_arrays(const std::string& name, const meshrt::Array& given, const meshrt::Array& reference,
                             double bound, bool any_precision) {
  const bool same_type =
      given.type == reference.type || (any_precision && is_real(given.type) && is_real(reference.type));
  if (!same_type || given.shape != reference.shape) internal_error("the two programs have different types for " + name);
  ComparedValue result{name, given.type, given.shape};
  const auto number = [](const meshrt::Array& of, int64_t i) {
    return element(of.type, of.data.data() + static_cast<size_t>(i) * meshrt::size_of(of.type));
  };
  for (int64_t i = 0; i < given.elements(); ++i) {
    const double a = number(given, i), b = number(reference, i);
    result.nan = result.nan || std::isnan(a) || std::isnan(b);
    result.difference = std::max(result.difference, difference_of(a, b));
    if (std::isfinite(b)) result.largest = std::max(result.largest, std::fabs(b));
  }
  // A sum that is zero but for rounding has nothing to be relative to.
  const double rounding = given.type == Type::f64 ? 1e-15 : 1e-7;
  const double allowed = bound_of(given.type, bound) * result.largest + rounding;
  result.equal = !result.nan && (is_real(given.type) ? result.difference <= allowed : result.difference == 0);
  return result;
}

double bound_of(const Program& program, const CompareOptions& options) {
  return options.bound != 0 ? options.bound : bound_of_narrow(program);
}

std::vector<ComparedValue> compare_results(const Program& program, const InterpretResult& given,
                                           const InterpretResult& expected, double bound, bool any_precision) {
  std::vector<ComparedValue> values;
  const Graph& graph = program.sharded.graph;
  const auto add = [&](const std::string& name, const meshrt::Array& mine, const meshrt::Array& theirs) {
    values.push_back(compare_arrays(name, mine, theirs, bound, any_precision));
  };
  const auto compare_metric = [&](const std::string& of, size_t i, double mine, double theirs) {
    meshrt::Array one = make_array(graph.type(graph.metrics[i].value).element, {}), other = one;
    put(one, 0, mine);
    put(other, 0, theirs);
    add(of + graph.metrics[i].name, one, other);
  };
  for (size_t i = 0; i < graph.metrics.size(); ++i) {
    compare_metric("metric ", i, given.metrics.back()[i], expected.metrics.back()[i]);
    if (!given.evaluated.empty()) compare_metric("evaluated ", i, given.evaluated[i], expected.evaluated[i]);
  }
  for (const auto& [name, array] : given.wanted) {
    const auto found = expected.wanted.find(name);
    if (found == expected.wanted.end()) internal_error("only one of the two programs has " + name);
    add(name, array, found->second);
  }
  allow_for_terms(values);
  for (const auto& [name, array] : given.outputs) add("output " + name, array, expected.outputs.at(name));
  const auto kind_of = [](StoredKind kind) {
    return kind == StoredKind::parameter ? "param" : kind == StoredKind::state ? "state" : "optimizer";
  };
  for (const Stored& stored : graph.stored) {
    if (stored.kind == StoredKind::input) continue;
    const auto found = expected.after.find(stored.path);
    if (found != expected.after.end())
      add(fmt::format("{}({})", kind_of(stored.kind), stored.path), given.after.at(stored.path), found->second);
    else if (!any_precision) internal_error("only one of the two programs has " + stored.path);
  }
  return values;
}

InterpretRequest compared_job(const Program& program, const CompareOptions& options) {
  InterpretRequest job{program};
  job.feeds = random_feeds(program, options.seed, options.scale);
  job.stored = random_constants(program, options.seed);
  job.seed = options.seed;
  job.poison = true;
  job.ends_at_outer_step = true;
  job.steps = job.planned_steps = options.steps;
  return job;
}

Comparison compare_programs(const Program& program, const Program& reference, const CompareOptions& options) {
  const bool evaluate = program.entry("evaluate") != nullptr && reference.entry("evaluate") != nullptr;
  const auto run = [&](const Program& of) {
    InterpretRequest request = compared_job(of, options);
    if (&of == &program) {
      request.other = options.other;
      request.other_rank = options.other_rank;
      request.keeps_memory = options.keeps_memory;
    }
    request.evaluated = evaluate ? evaluated_batches : 0;
    return interpret(request);
  };
  Comparison result;
  const InterpretResult expected = run(reference);
  result.exit_code = expected.exit_code;
  if (result.exit_code != 0) return result;
  InterpretResult given = run(program);
  result.exit_code = given.exit_code;
  if (result.exit_code != 0) return result;
  result.differing_copies = given.differing_copies;
  result.copies_difference = given.copies_difference;
  result.memory = std::move(given.memory);
  result.values = compare_results(program, given, expected, bound_of(program, options), options.any_precision);
  return result;
}

void allow_as_wider(Comparison& found, const Comparison& reference_in_wider, const std::string& wider) {
  found.wider = wider;
  for (ComparedValue& value : found.values) {
    const auto same = std::ranges::find(reference_in_wider.values, value.name, &ComparedValue::name);
    if (value.equal || value.nan || same == reference_in_wider.values.end() || same->nan) continue;
    value.equal = value.as_wider = value.difference <= 2 * same->difference;
  }
}

}  // namespace mesh
