#include "meshrt/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace meshrt {

namespace {

template <class T>
void fill_neutral(const Carried& one) {
  using Limits = std::numeric_limits<T>;
  constexpr T most = Limits::has_infinity ? Limits::infinity() : Limits::max();
  constexpr T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  std::fill_n(static_cast<T*>(one.data), one.count,
              one.reduce == Reduce::sum   ? T()
              : one.reduce == Reduce::max ? least
                                          : most);
}

void fill_neutral(const Carried& one, std::string_view entry) {
  switch (one.type) {
    case Type::f64: return fill_neutral<double>(one);
    case Type::f32: return fill_neutral<float>(one);
    case Type::i64: return fill_neutral<int64_t>(one);
    case Type::i32: return fill_neutral<int32_t>(one);
    case Type::u8: return fill_neutral<uint8_t>(one);
    case Type::boolean: return fill_neutral<bool>(one);
    case Type::bf16:
    case Type::f16: break;
  }
  throw std::logic_error(fmt::format("entry `{}` carries numbers of 16 bits", entry));
}

}  // namespace

size_t entry_of(const ProgramInfo& info, std::string_view name) {
  const auto found = std::ranges::find(info.entries, name, &EntryInfo::name);
  if (found == info.entries.end())
    throw std::out_of_range(fmt::format("program `{}` has no entry `{}`", info.name, name));
  return static_cast<size_t>(found - info.entries.begin());
}

ProgramInfo as_entry_reads(const ProgramInfo& info, std::string_view name) {
  ProgramInfo read = info;
  if (const std::string& samples = info.entries[entry_of(info, name)].samples; !samples.empty()) {
    read.sample_dim = samples;
    read.sample_dims = {samples};
  }
  return read;
}

void reset(Program& program, size_t entry) {
  std::vector<Carried> all;
  program.carried(entry, all);
  for (const Carried& one : all) fill_neutral(one, program.info().entries[entry].name);
}

void call(Program& program, size_t entry, const StepInput& input, std::span<double> results) {
  reset(program, entry);
  program.run(entry, input, results);
  program.finish(entry, results);
}

}  // namespace meshrt
