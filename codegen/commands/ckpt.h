// ckpt.h: the actions of `meshc ckpt`. Each prints to stdout and returns the exit code.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshrt/checkpoint.h"
#include "meshrt/safetensors.h"

namespace mesh {

int list_checkpoints(const std::string& folder, bool json);
int show_checkpoint(const std::string& path, bool json);
int verify_checkpoints(const std::string& path, bool json);
/// exit_diagnostics when they differ.
int compare_checkpoints(const std::string& first, const std::string& second, bool json);

struct Conversion {
  std::vector<std::string> from;  // several: what they hold together
  std::string to;                 // a checkpoint, or one file when it ends with .safetensors
  std::string type;               // of all floats; empty: as they are
  std::string names;              // file that says what the tensors are called there
  bool parameters = false;        // without the optimizer
  bool mean = false;              // of several: the mean of each tensor, in place of all together
};
int convert_checkpoint(const Conversion& conversion, bool json);

/// Failure unless both have the same parameters and states, of the same shapes.
void require_alike(const meshrt::SavedTensors& first, std::span<const meshrt::SavedTensors> others);
/// Of a tensor of floats that all have; summed in f64.
std::vector<std::byte> mean_of(const meshrt::NamedArray& first, std::span<const meshrt::SavedTensors> others);

/// "f32[3, 4]"
std::string shape_text(meshrt::Type type, const std::vector<int64_t>& shape);

bool is_float(meshrt::Type type);
/// Numbers that a command has in memory at once.
constexpr size_t numbers_at_once = size_t{1} << 20;
/// `count` numbers of the tensor from number `first` on.
std::vector<double> numbers_of(const meshrt::NamedArray& tensor, size_t first, size_t count);
/// How many of a tensor's numbers are infinite or no number at all.
int64_t not_finite(const meshrt::NamedArray& tensor);

}  // namespace mesh
