// job.cpp: a whole job in this process: feeds and parameters to the ranks, steps, results back into whole
// arrays, in which every rank's copy must agree.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "codegen/graph/builder.h"
#include "codegen/interpret/arrays.h"
#include "codegen/interpret/interpret.h"
#include "codegen/interpret/interpreted_program.h"
#include "frontend/suggest.h"
#include "meshrt/collectives.h"
#include "meshrt/failure.h"
#include "meshrt/launch.h"

namespace mesh {

namespace {

using Arrays = std::map<std::string, meshrt::Array>;

std::vector<int64_t> shape_of(const Graph& graph, const ValueType& type) {
  std::vector<int64_t> shape;
  for (const DimId dim : type.dims) shape.push_back(graph.dim(dim).size);
  return shape;
}

// As the spec writes an input, whose samples may be cut into micro-batches.
meshrt::Array fit_input(const Graph& graph, const meshrt::Array& array, const ValueType& type,
                        const std::string& what) {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const auto& [name, size] : written_dims(graph, type)) {
    names.push_back(name);
    sizes.push_back(size);
  }
  const int64_t bound = type.index_of ? graph.dim(type.index_of).size : -1;
  meshrt::Array fitted = fit_array(array, type.element, sizes, names, bound, what);
  fitted.shape = shape_of(graph, type);
  return fitted;
}

std::vector<std::string> names_of(const Graph& graph, const ValueType& type) {
  std::vector<std::string> names;
  for (const DimId dim : type.dims) names.push_back(graph.dim(dim).name);
  return names;
}

// What was given for the graph's stored tensors, checked and in their types.
class Given {
 public:
  explicit Given(const InterpretRequest& request) : graph_(request.program.sharded.graph) {
    for (const auto& [name, array] : request.feeds) add(name, array, true);
    for (const auto& [path, array] : request.stored) add(path, array, false);
    std::string missing;
    for (const Stored& stored : graph_.stored)
      if (stored.kind == StoredKind::input && !arrays.contains(stored.path) && is_read(request, stored))
        missing += fmt::format("{}`{}`", missing.empty() ? "" : ", ", stored.path);
    if (!missing.empty())
      throw meshrt::Failure(
          meshrt::Cause::data,
          fmt::format("nothing is fed to {}: every input needs its values, `--feed NAME=FILE.npy`", missing));
  }
  Arrays arrays;

 private:
  bool is_read(const InterpretRequest& request, const Stored& stored) const {
    if (request.entry.empty()) return true;
    const auto is_it = [&](StoredId id) { return &graph_.stored[id.index] == &stored; };
    return std::ranges::none_of(request.program.entry(request.entry)->unread, is_it);
  }
  void add(const std::string& name, const meshrt::Array& array, bool feed) {
    std::vector<std::string> known;
    for (const Stored& stored : graph_.stored) {
      if ((stored.kind == StoredKind::input) != feed) continue;
      known.push_back(stored.path);
      if (stored.path != name) continue;
      arrays[name] = fit_input(graph_, array, stored.type, fmt::format("{} `{}`", feed ? "feed" : "tensor", name));
      return;
    }
    const std::optional<std::string> close = did_you_mean(name, known);
    throw meshrt::Failure(meshrt::Cause::data,
                          fmt::format("the model has no {} `{}`{}", feed ? "input" : "parameter", name,
                                      close ? fmt::format("; did you mean `{}`?", *close) : ""));
  }
  const Graph& graph_;
};

// A whole array that the ranks fill together.
class Gathered {
 public:
  Gathered(std::string name, Type type, std::vector<int64_t> shape, std::vector<std::string> dims, size_t ranks)
      : name(std::move(name)),
        array(make_array(type, std::move(shape))),
        dims_(std::move(dims)),
        written_(ranks),
        differences_(ranks) {}

  std::string name;
  meshrt::Array array;

  // Every rank writes its part, then, when all have, compares.
  void write(const meshrt::Tensor& part, int rank) {
    if (!part.primary) return;
    const ArrayPart mine(part, order(part));
    mine.write(array);
    written_[static_cast<size_t>(rank)] = mine.elements();
  }
  void compare(const meshrt::Tensor& part, int rank) {
    if (!part.primary) differences_[static_cast<size_t>(rank)] = ArrayPart(part, order(part)).difference(array);
  }
  void check() const {
    const int64_t written = std::accumulate(written_.begin(), written_.end(), int64_t{0});
    if (written != array.elements())
      internal_error(fmt::format("the ranks hold {} of the {} elements of {}", written, array.elements(), name));
  }
  double difference() const { return *std::ranges::max_element(differences_); }

 private:
  std::vector<size_t> order(const meshrt::Tensor& part) const {
    std::vector<size_t> positions;
    for (const meshrt::LocalDim& dim : part.dims) {
      const auto found = std::ranges::find(dims_, dim.name);
      if (found == dims_.end()) internal_error("the buffer of " + name + " has another dim: " + dim.name);
      positions.push_back(static_cast<size_t>(found - dims_.begin()));
    }
    return positions;
  }
  std::vector<std::string> dims_;
  std::vector<int64_t> written_;     // by rank
  std::vector<double> differences_;  // by rank
};

/// What lies in a rank's memory.
std::vector<std::byte> memory_of(const meshrt::Rank& rank) {
  std::vector<std::byte> memory(rank.arena(), rank.arena() + rank.arena_bytes());
  memory.insert(memory.end(), rank.own(), rank.own() + rank.own_bytes());
  return memory;
}

class Job {
 public:
  explicit Job(const InterpretRequest& request) : request_(request), given_(request) {
    const Graph& graph = request.program.sharded.graph;
    const auto ranks = static_cast<size_t>(request.program.sharded.layout.mesh.ranks());
    const auto gathered = [&](const std::string& name, const ValueType& type, Type element) {
      return Gathered(name, element, shape_of(graph, type), names_of(graph, type), ranks);
    };
    for (const Stored& stored : graph.stored) {
      before_.push_back(gathered(stored.path, stored.type, stored.type.element));
      after_.push_back(gathered(stored.path, stored.type, stored.type.element));
    }
    for (const auto& [name, id] : request.program.step().wanted) {
      const auto found = std::ranges::find(graph.wanted, name, &Wanted::name);
      if (found == graph.wanted.end()) internal_error("nobody wants `" + name + "`");
      if (request.program.sharded.placement(found->value).is_partial())
        internal_error("the wanted value `" + name + "` is not complete: a reduction over ranks is missing");
      wanted_.push_back(gathered(name, graph.type(found->value), request.program.buffer(id).type));
    }
    const EntryPoint& called = request.entry.empty() ? request.program.step() : *request.program.entry(request.entry);
    for (const EntryPoint::Output& output : called.outputs)
      if (!output.stored)
        outputs_.push_back(gathered(output.name, {.element = {}, .index_of = {}, .dims = output.dims},
                                    request.program.buffer(output.buffer).type));
    memory_.resize(ranks);
    metrics_.resize(ranks);
  }

  InterpretResult run() {
    InterpretResult result;
    result.exit_code =
        meshrt::launch_threads(static_cast<int>(request_.program.sharded.layout.mesh.ranks()), [&](meshrt::Rank& rank) {
          run_rank(rank);
          return 0;
        });
    if (result.exit_code != 0) return result;
    const auto take = [&](std::vector<Gathered>& from, Arrays& to, const std::string& when) {
      for (Gathered& gathered : from) {
        gathered.check();
        if (gathered.difference() > result.copies_difference) {
          result.copies_difference = gathered.difference();
          result.differing_copies = gathered.name + when;
        }
        to[gathered.name] = std::move(gathered.array);
      }
    };
    take(before_, result.before, " before the step");
    take(after_, result.after, " after the step");
    take(wanted_, result.wanted, "");
    take(outputs_, result.outputs, "");
    if (!request_.entry.empty()) {  // its outputs have its name in front
      Arrays named;
      for (auto& [name, array] : result.outputs) named[name.substr(request_.entry.size() + 1)] = std::move(array);
      result.outputs = std::move(named);
    }
    // What is a stored tensor itself has been overwritten when the values are read.
    for (auto& [name, array] : result.wanted)
      if (const std::string path = stored_path(name); !path.empty()) array = result.before.at(path);
    const size_t count = request_.program.sharded.graph.metrics.size();
    for (const std::vector<double>& seen : metrics_)
      for (size_t i = 0; i < seen.size(); ++i)
        if (const double difference = difference_of(seen[i], metrics_[0][i]); difference > result.copies_difference) {
          result.copies_difference = difference;
          result.differing_copies = "metric " + request_.program.sharded.graph.metrics[i % count].name;
        }
    for (size_t at = 0; at + count <= metrics_[0].size() && count > 0; at += count)
      result.metrics.emplace_back(metrics_[0].begin() + static_cast<std::ptrdiff_t>(at),
                                  metrics_[0].begin() + static_cast<std::ptrdiff_t>(at + count));
    result.metrics.resize(static_cast<size_t>(request_.steps + (request_.evaluated > 0 ? 1 : 0)));
    if (request_.evaluated > 0) {
      result.evaluated = std::move(result.metrics.back());
      result.evaluated.resize(request_.program.entry("evaluate")->results.size());
      result.metrics.pop_back();
    }
    result.memory = std::move(memory_);
    return result;
  }

 private:
  void run_rank(meshrt::Rank& rank) {
    const bool other = request_.other_rank == rank.rank();
    InterpretedProgram program(other ? *request_.other : request_.program, request_.sources);
    rank.allocate(program.info().arena_bytes, program.info().own_bytes,
                  [&](int of) { return meshrt::memory_of(program.info(), of); });
    if (request_.poison) {
      std::memset(rank.arena(), 0xff, rank.arena_bytes());
      std::memset(rank.own(), 0xff, rank.own_bytes());
    }
    program.bind(rank);
    meshrt::initialise(program.tensors(), request_.seed);
    for (const meshrt::Tensor& tensor : program.tensors())
      if (const auto given = given_.arrays.find(tensor.name); given != given_.arrays.end())
        ArrayPart(tensor, logical(tensor)).read(given->second);

    const std::vector<meshrt::Axis> world{{rank.ranks(), 1}};
    const meshrt::Group& all = rank.group(world);
    const auto gather = [&](std::vector<Gathered>& to, std::span<const meshrt::Tensor> tensors) {
      for (size_t i = 0; i < tensors.size(); ++i) to[i].write(tensors[i], rank.rank());
      meshrt::barrier(rank, all, {});
      for (size_t i = 0; i < tensors.size(); ++i) to[i].compare(tensors[i], rank.rank());
    };
    const std::span<meshrt::Tensor> stored = program.tensors().first(before_.size());  // outputs follow
    std::vector<double> metrics(program.info().metrics.size() + program.info().watched.size());
    std::vector<double>& seen = metrics_[static_cast<size_t>(rank.rank())];
    meshrt::StepInput input;
    input.steps = request_.planned_steps;
    input.seed = request_.seed;
    const std::vector<meshrt::EntryInfo>& entries = program.info().entries;
    for (size_t i = 0; i < entries.size(); ++i)
      if (!entries[i].begins.empty() && !given_.arrays.contains(entries[i].begins)) program.run(i, input, {});
    const int64_t steps = request_.entry.empty() ? request_.steps : 0;
    if (steps == 0) {
      gather(before_, stored);
      program.run(meshrt::entry_of(program.info(), request_.entry), input, {});
    }
    for (int64_t taken = 1; taken <= steps; ++taken) {
      if (taken == steps) gather(before_, stored);
      input.step = request_.first_step + taken - 1;
      program.run(0, input, metrics);
      seen.insert(seen.end(), metrics.begin(), metrics.end());
      if (taken < steps) run_after(program, input, false);
    }
    if (request_.keeps_memory) memory_[static_cast<size_t>(rank.rank())] = memory_of(rank);
    gather(wanted_, program.wanted());
    std::vector<meshrt::Tensor> outputs;
    for (const Gathered& output : outputs_)
      outputs.push_back(
          *std::ranges::find(program.tensors().subspan(before_.size()), output.name, &meshrt::Tensor::name));
    gather(outputs_, outputs);
    if (steps > 0) run_after(program, input, request_.ends_at_outer_step);
    gather(after_, stored);
    if (request_.evaluated == 0) return;
    const size_t evaluate = meshrt::entry_of(program.info(), "evaluate");
    meshrt::reset(program, evaluate);
    for (int64_t batch = 0; batch < request_.evaluated; ++batch) program.run(evaluate, input, metrics);
    program.finish(evaluate, metrics);
    seen.insert(seen.end(), metrics.begin(), metrics.end());
  }

  // What is due after a training step, or all that ever is.
  static void run_after(InterpretedProgram& program, const meshrt::StepInput& input, bool all) {
    const std::vector<meshrt::EntryInfo>& entries = program.info().entries;
    for (size_t i = 0; i < entries.size(); ++i)
      if (const int64_t every = entries[i].after_steps; every > 0 && (all || input.step % every == 0))
        program.run(i, input, {});
  }

  // The stored tensor that a wanted value is; empty where it is computed.
  std::string stored_path(const std::string& wanted) const {
    const Graph& graph = request_.program.sharded.graph;
    ValueId value = std::ranges::find(graph.wanted, wanted, &Wanted::name)->value;
    for (;;) {
      const Node& node = graph.node(graph.value(value).producer);
      if (const auto* read = std::get_if<ReadOp>(&node.op)) return graph.stored[read->stored.index].path;
      if (!std::holds_alternative<ReshardOp>(node.op)) return "";
      value = node.inputs[0];
    }
  }
  static std::vector<size_t> logical(const meshrt::Tensor& tensor) {
    std::vector<size_t> order(tensor.dims.size());
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }

  const InterpretRequest& request_;
  const Given given_;
  std::vector<Gathered> before_, after_, wanted_, outputs_;
  std::vector<std::vector<double>> metrics_;    // by rank: of each step, then of the evaluation
  std::vector<std::vector<std::byte>> memory_;  // by rank
};

}  // namespace

InterpretResult interpret(const InterpretRequest& request) {
  if (request.steps < 1) internal_error("a job of no steps");
  return Job(request).run();
}

}  // namespace mesh
