#include "tests/program/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "codegen/interpret/arrays.h"
#include "codegen/interpret/interpreted_program.h"
#include "meshrt/launch.h"

namespace mesh::tests {

namespace {

void put(meshrt::Array& array, size_t at, double number) {
  const auto narrow = static_cast<float>(number);
  if (array.type == Type::f64) std::memcpy(array.data.data() + at * sizeof number, &number, sizeof number);
  else std::memcpy(array.data.data() + at * sizeof narrow, &narrow, sizeof narrow);
}

/// Fixed numbers of every shape, the same for all layouts.
std::map<std::string, meshrt::Array> feeds(const Graph& model, StoredKind kind) {
  std::map<std::string, meshrt::Array> arrays;
  for (const Stored& stored : model.stored) {
    if (stored.kind != kind) continue;
    meshrt::Array array{stored.type.element, {}, {}};
    for (const auto& [name, size] : written_dims(model, stored.type)) array.shape.push_back(size);
    array.data.resize(static_cast<size_t>(array.elements()) * meshrt::size_of(array.type));
    for (int64_t i = 0; i < array.elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (array.type == Type::i32) {
        const auto index = static_cast<int32_t>(i * 7 % model.dim(stored.type.index_of).size);
        std::memcpy(array.data.data() + at * sizeof index, &index, sizeof index);
      } else if (array.type == Type::u8) {
        array.data[at] = static_cast<std::byte>(i * 37 % 256);
      } else if (array.type == Type::boolean) {
        array.data[at] = static_cast<std::byte>(i * 7 % 3 == 0);
      } else {
        const double number = std::sin(1.0 + 3.7 * static_cast<double>(i) + static_cast<double>(stored.path.size()));
        put(array, at, number);
      }
    }
    arrays[stored.path] = std::move(array);
  }
  return arrays;
}

/// A tensor's dims as they are.
std::vector<size_t> logical(const meshrt::Tensor& tensor) {
  std::vector<size_t> order(tensor.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

}  // namespace

InterpretResult run(const Program& program) {
  InterpretRequest request{program};
  request.feeds = feeds(program.sharded.graph, StoredKind::input);
  request.stored = feeds(program.sharded.graph, StoredKind::parameter);
  request.steps = 3;
  return interpret(request);
}

namespace {

/// `body` on every rank of the program, with its inputs and parameters filled.
template <class Body>
void on_ranks(const Program& program, Body body) {
  std::map<std::string, meshrt::Array> arrays = feeds(program.sharded.graph, StoredKind::input);
  arrays.merge(feeds(program.sharded.graph, StoredKind::parameter));
  const int code =
      meshrt::launch_threads(static_cast<int>(program.sharded.layout.mesh.ranks()), [&](meshrt::Rank& rank) {
        InterpretedProgram run(program);
        rank.allocate(run.info().arena_bytes, run.info().own_bytes);
        run.bind(rank);
        meshrt::initialise(run.tensors(), 1);
        for (const meshrt::Tensor& tensor : run.tensors())
          if (const auto given = arrays.find(tensor.name); given != arrays.end())
            ArrayPart(tensor, logical(tensor)).read(given->second);
        body(run, rank);
        return 0;
      });
  EXPECT_EQ(code, 0);
}

}  // namespace

std::vector<double> evaluate(const Program& program, int batches) {
  std::vector<double> metrics;
  on_ranks(program, [&](InterpretedProgram& run, meshrt::Rank& rank) {
    const size_t entry = meshrt::entry_of(run.info(), "evaluate");
    std::vector<double> own(run.info().entries[entry].results);
    meshrt::reset(run, entry);
    for (int batch = 0; batch < batches; ++batch) run.run(entry, {}, {});
    run.finish(entry, own);
    if (rank.rank() == 0) metrics = own;
  });
  return metrics;
}

Called call(const Program& program, const std::string& entry) {
  Called result;
  for (const EntryPoint::Output& output : program.entry(entry)->outputs) {
    meshrt::Array& array = result.outputs[output.name];
    array.type = program.buffer(output.buffer).type;
    for (DimId dim : output.dims) array.shape.push_back(program.sharded.graph.dim(dim).size);
    array.data.resize(static_cast<size_t>(array.elements()) * meshrt::size_of(array.type));
  }
  on_ranks(program, [&](InterpretedProgram& run, meshrt::Rank& rank) {
    const size_t train = meshrt::entry_of(run.info(), "train"), other = meshrt::entry_of(run.info(), entry);
    std::vector<double> metrics(run.info().entries[train].results);
    for (int64_t step = 1; step <= 3; ++step) {
      meshrt::call(run, train, {.step = step}, metrics);
      if (rank.rank() == 0) result.metrics.push_back(metrics);
      if (step != 1) continue;
      meshrt::call(run, other, {.step = step}, {});
      for (const meshrt::Tensor& tensor : run.tensors())
        if (const auto found = result.outputs.find(tensor.name); found != result.outputs.end() && tensor.primary)
          ArrayPart(tensor, logical(tensor)).write(found->second);
    }
  });
  return result;
}

/// Every array of the first equals that of the second: to rounding where it is real.
static void expect_near(const std::map<std::string, meshrt::Array>& expected,
                        const std::map<std::string, meshrt::Array>& found, const std::string& what) {
  for (const auto& [path, array] : expected) {
    ASSERT_TRUE(found.contains(path)) << what;
    const meshrt::Array& other = found.at(path);
    if (array.type != Type::f32 && array.type != Type::f64) {
      EXPECT_EQ(array.data, other.data) << what << " " << path;
      continue;
    }
    double difference = 0, size = 1e-3;
    for (int64_t i = 0; i < array.elements(); ++i) {
      const size_t at = static_cast<size_t>(i) * meshrt::size_of(array.type);
      const double a = element(array.type, array.data.data() + at), b = element(other.type, other.data.data() + at);
      difference = std::max(difference, difference_of(a, b));
      size = std::max(size, std::abs(a));
    }
    EXPECT_LT(difference, (array.type == Type::f64 ? 1e-9 : 2e-5) * size) << what << " " << path;
  }
}

void expect_equal(const InterpretResult& expected, const InterpretResult& found, const std::string& what) {
  ASSERT_EQ(expected.exit_code, 0) << what;
  ASSERT_EQ(found.exit_code, 0) << what;
  EXPECT_EQ(found.differing_copies, "") << what;
  ASSERT_EQ(expected.metrics.size(), found.metrics.size());
  for (size_t step = 0; step < expected.metrics.size(); ++step)
    for (size_t i = 0; i < expected.metrics[step].size(); ++i)
      EXPECT_NEAR(expected.metrics[step][i], found.metrics[step][i], 1e-5 * (1 + std::abs(expected.metrics[step][i])))
          << what << " step " << step << " metric " << i;
  expect_near(expected.after, found.after, what);
  expect_near(expected.wanted, found.wanted, what);
}

}  // namespace mesh::tests
