// record.h: everything that the ranks of a program hold, step by step, to compare two ways of running it.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "meshrt/program.h"

namespace mesh::tests {

/// The bytes that one rank holds after each step and after an evaluation: tensors and metrics by name.
using Record = std::map<std::string, std::string>;

using Make = std::function<std::unique_ptr<meshrt::Program>()>;

/// Three steps, each followed by a call of every entry that the program has beside the usual ones, and an evaluation of
/// two batches, on ranks that are threads, on inputs that depend on their places alone.
/// `before` is in every byte of memory that no tensor has, before the first step.
/// By rank; throws where the run fails.
std::vector<Record> record(const Make& make, int ranks, std::byte before = std::byte{0});

/// What differs, one line a value: "step 2 w on rank 3".
std::vector<std::string> differences(const std::vector<Record>& expected, const std::vector<Record>& found);

}  // namespace mesh::tests
