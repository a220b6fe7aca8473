#include "codegen/program/kept_for_readers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "codegen/program/extent.h"

namespace mesh {
namespace {

std::optional<MapFunction> slope_of(MapFunction f) {
  switch (f) {
    case MapFunction::gelu: return MapFunction::gelu_slope;
    case MapFunction::gelu_tanh: return MapFunction::gelu_tanh_slope;
    case MapFunction::silu: return MapFunction::silu_slope;
    default: return {};
  }
}

bool is_slot_of(const Access& a, const Access& b) { return a.buffer == b.buffer && same_slots(a, b); }

/// The readers but `at`.
std::vector<Step*> other_readers(const MemoryUses& uses, const Access& access, const Step& at) {
  std::vector<Step*> readers = uses.readers(access);
  std::erase(readers, &at);
  return readers;
}

/// Whether `reader` applies the same function to the same slots, by the numbers that `operation` finds there.
bool repeats(const Program& program, const SingleMap& reader, const SingleMap& operation, const Access& result) {
  if (reader.function != operation.function || !same_dims(program, reader.to, result)) return false;
  for (size_t i = 0; i < operation.operands.size(); ++i) {
    const Access* other = i < reader.operands.size() ? reader.load(i) : nullptr;
    const Access* own = operation.load(i);
    if (!other || !own || !is_slot_of(*other, *own)) return false;
    // What is added must be the same number then: nobody writes it but the update at the end of the step.
    if (!is_slot_of(*own, result) && !program.buffer(own->buffer).stored) return false;
  }
  return true;
}

/// greater(argument, 0)
bool is_slope_of_relu(const SingleMap& reader) {
  if (reader.function != MapFunction::greater || reader.operands.size() != 2 || !reader.load(0)) return false;
  const auto* zero = std::get_if<Scalar::Literal>(&reader.operands[1]->what);
  return zero && zero->value == 0;
}

Pass& only_pass(Step& step) { return std::get<Nest>(step.what).passes[0]; }

}  // namespace

bool is_activation(MapFunction f) { return f == MapFunction::relu || slope_of(f); }

bool keep_repeated(Program& program, MemoryUses& uses, const Access& result, Step& at) {
  const std::optional<SingleMap> operation = single_map(at);
  std::vector<Step*> readers = other_readers(uses, result, at);
  for (const Step* step : readers) {
    const std::optional<SingleMap> reader = single_map(*step);
    if (!reader || !repeats(program, *reader, *operation, result)) return false;
  }
  readers.push_back(&at);
  for (Step* step : readers) {
    uses.change(*step, [&] {
      Pass& pass = only_pass(*step);
      std::erase_if(pass.scalars, [&](const Scalar& scalar) {
        const auto* load = std::get_if<Scalar::Load>(&scalar.what);
        return !load || load->access.buffer != result.buffer;
      });
      pass.stores[0].scalar = 0;
    });
  }
  return true;
}

std::optional<KeptSlope> keep_slope(Program& program, MemoryUses& uses, BufferNames& names, const Access& argument,
                                    const SingleMap& activation, Step& at) {
  const std::vector<Step*> readers = other_readers(uses, argument, at);
  const std::optional<MapFunction> slope = slope_of(activation.function);
  // A loop may go on from relu's result in place.
  if (!slope && uses.writers(activation.to).size() > 1) return {};
  for (const Step* step : readers) {
    const std::optional<SingleMap> reader = single_map(*step);
    if (!reader || !(slope ? reader->function == *slope && reader->load(0) : is_slope_of_relu(*reader))) return {};
    // Relu's result is positive where its argument was: under the same turns it must be the slot beside it.
    if (!slope && (!is_slot_of(*reader->load(0), argument) || !same_slots(argument, activation.to) ||
                   program.buffer(activation.to.buffer).dims != program.buffer(argument.buffer).dims))
      return {};
  }
  if (slope) {
    Buffer& buffer = program.buffer(argument.buffer);
    const std::string former = std::exchange(buffer.name, names.unique(std::string(info(*slope).name)));
    names.free(former);
  }
  for (Step* step : readers) {
    uses.change(*step, [&] {
      Pass& pass = only_pass(*step);
      if (slope) {
        const auto& apply = std::get<Scalar::Apply>(pass.scalars.back().what);
        pass.stores[0].scalar = apply.operands[0];
        pass.scalars.pop_back();
      } else {
        for (Scalar& scalar : pass.scalars)
          if (auto* load = std::get_if<Scalar::Load>(&scalar.what)) load->access.buffer = activation.to.buffer;
      }
    });
  }
  return KeptSlope{slope ? std::optional(argument) : std::nullopt};
}

}  // namespace mesh
