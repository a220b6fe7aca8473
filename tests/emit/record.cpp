#include "tests/emit/record.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "meshrt/driver.h"
#include "meshrt/launch.h"
#include "meshrt/program.h"

namespace mesh::tests {

namespace {

/// A number that depends on the place alone.
uint64_t scrambled(uint64_t x) {
  x = (x + 1) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
  return x ^ (x >> 32);
}

void fill(meshrt::Tensor& tensor, uint64_t step) {
  const int64_t n = tensor.local_elements();
  const uint64_t bound = tensor.index_bound > 0 ? static_cast<uint64_t>(tensor.index_bound) : 100;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t random = scrambled(static_cast<uint64_t>(i) + 1000 * step + 7 * tensor.name.size());
    const double number = static_cast<double>(random >> 11) * 0x1p-52 - 1;
    switch (tensor.type) {
      case meshrt::Type::f32: static_cast<float*>(tensor.data)[i] = static_cast<float>(number); break;
      case meshrt::Type::f64: static_cast<double*>(tensor.data)[i] = number; break;
      case meshrt::Type::i32: static_cast<int32_t*>(tensor.data)[i] = static_cast<int32_t>(random % bound); break;
      case meshrt::Type::i64: static_cast<int64_t*>(tensor.data)[i] = static_cast<int64_t>(random % bound); break;
      case meshrt::Type::boolean: static_cast<bool*>(tensor.data)[i] = random % 2 == 1; break;
      case meshrt::Type::u8: static_cast<uint8_t*>(tensor.data)[i] = static_cast<uint8_t>(random); break;
      default: throw std::logic_error("an input of a type that these tests do not fill");
    }
  }
}

}  // namespace

std::vector<Record> record(const Make& make, int ranks, std::byte before) {
  std::vector<Record> records(static_cast<size_t>(ranks));
  const int code = meshrt::launch_threads(ranks, [&](meshrt::Rank& rank) {
    const std::unique_ptr<meshrt::Program> program = make();
    meshrt::prepare(rank, *program);
    std::ranges::fill(std::span(rank.arena(), rank.arena_bytes()), before);
    std::ranges::fill(std::span(rank.own(), rank.own_bytes()), before);
    for (const meshrt::Tensor& tensor : program->tensors())
      std::memset(tensor.data, 0, static_cast<size_t>(tensor.local_elements()) * size_of(tensor.type));
    meshrt::initialise(program->tensors(), 1);
    Record& record = records[static_cast<size_t>(rank.rank())];
    const size_t train = entry_of(program->info(), "train"), evaluate = entry_of(program->info(), "evaluate");
    const size_t evaluated = program->info().metrics.size();
    std::vector<double> metrics(evaluated + program->info().watched.size());
    const auto note = [&](const std::string& name, const void* data, size_t bytes) {
      record[name] = std::string(static_cast<const char*>(data), bytes);
    };
    // Outputs are there until another entry is called.
    const auto is_left = [&](const meshrt::Tensor& tensor, size_t entry) {
      const auto gives = [&](const meshrt::EntryInfo& one) { return tensor.name.starts_with(one.name + "."); };
      if (tensor.role != meshrt::Role::output) return true;
      return entry == train ? std::ranges::none_of(program->info().entries, gives)
                            : gives(program->info().entries[entry]);
    };
    const auto note_tensors = [&](const std::string& when, size_t entry) {
      for (const meshrt::Tensor& tensor : program->tensors())
        if (is_left(tensor, entry))
          note(when + tensor.name, tensor.data, static_cast<size_t>(tensor.local_elements()) * size_of(tensor.type));
    };
    const auto fill_inputs = [&](uint64_t step) {
      for (meshrt::Tensor& tensor : program->tensors())
        if (tensor.role == meshrt::Role::input) fill(tensor, step);
    };
    const std::vector<meshrt::EntryInfo>& entries = program->info().entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].begins.empty()) continue;
      fill_inputs(1);
      program->run(i, {1, 5, -1, 1}, {});
    }
    for (int64_t step = 1; step <= 3; ++step) {
      fill_inputs(static_cast<uint64_t>(step));
      program->run(train, {step, 5, -1, 1}, metrics);
      const std::string when = "step " + std::to_string(step) + " ";
      note(when + "metrics", metrics.data(), metrics.size() * sizeof(double));
      note_tensors(when, train);
      for (size_t i = evaluate + 1; i < entries.size(); ++i) {
        if (!entries[i].begins.empty()) continue;
        meshrt::call(*program, i, {step, 5, -1, 1}, {});
        note_tensors(when + entries[i].name + " ", i);
      }
    }
    meshrt::reset(*program, evaluate);
    for (uint64_t batch = 7; batch < 9; ++batch) {
      fill_inputs(batch);
      program->run(evaluate, {3, 5, -1, 1}, {});
    }
    program->finish(evaluate, metrics);
    note("evaluated metrics", metrics.data(), evaluated * sizeof(double));
    return 0;
  });
  if (code != 0) throw std::runtime_error("a rank failed");
  return records;
}

std::vector<std::string> differences(const std::vector<Record>& expected, const std::vector<Record>& found) {
  std::vector<std::string> result;
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    if (expected[rank].size() != found[rank].size()) result.push_back("the number of values");
    for (const auto& [name, bytes] : expected[rank])
      if (const auto same = found[rank].find(name); same == found[rank].end() || same->second != bytes)
        result.push_back(name + " on rank " + std::to_string(rank));
  }
  return result;
}

}  // namespace mesh::tests
