// run_pass.cpp: a pass of a nest at one iteration of the outer dims, a chunk of the innermost dim at a time.
#include <algorithm>
#include <cstring>

#include "codegen/interpret/nest.h"
#include "codegen/interpret/rate.h"
#include "meshrt/shared_reduction.h"

namespace mesh {

// The first of `count` elements is there: repeats it.
void BoundPass::repeat(Instruction& instruction, int64_t count) {
  if (count > 1) instruction.move(instruction.result, 0, instruction.result + bytes_of(instruction.type), 1, count - 1);
}

void BoundPass::begin() {
  for (const BoundDim& bound : bounds_) extents_[bound.at] = bound.extent.now(binding_);
  for (Cursor& cursor : cursors_) cursor.start = cursor.window.pointer.at(binding_);
  const int64_t count = std::min(chunk_elements, extents_.back());
  for (Instruction& instruction : instructions_) {
    if (instruction.kind == Instruction::Kind::random) begin_draw(instruction);
    if (instruction.pace != Pace::nest) continue;
    evaluate(instruction, 0, 1);
    repeat(instruction, count);
  }
}

// The numbers of this step and these turns.
void BoundPass::begin_draw(Instruction& instruction) {
  instruction.key =
      meshrt::RandomKey(binding_.input.seed, instruction.random->path).at(static_cast<uint64_t>(binding_.input.step));
  instruction.begin = instruction.first;
  for (const auto& [loop, apart] : instruction.turns) instruction.begin += binding_.turns[loop] * apart;
  instruction.row_begin = instruction.begin;
  for (const auto& terms : instruction.random->turns) {
    int64_t turn = 0;
    for (const auto& [loop, times] : terms) turn += times * binding_.turns[loop.index];
    instruction.key = instruction.key.at(static_cast<uint64_t>(turn));
  }
  if (const int64_t each = instruction.random->of_sample; each > 0)
    instruction.samples.emplace(instruction.key, binding_.input, each);
}

// The cursor at the beginning of a row, or nowhere where the row is missing.
void BoundPass::begin_row(Cursor& cursor, std::span<const int64_t> outer_index) const {
  const auto index = [&](size_t dim) { return dim < outer_ ? outer_index[dim] : index_[dim - outer_]; };
  cursor.row = cursor.start;
  for (size_t i = 0; i < outer_ + index_.size(); ++i) cursor.row += index(i) * cursor.window.strides[i];
  for (const Window::Guard& guard : cursor.window.guards) {
    if (&guard == cursor.along) continue;
    const auto element = guard.reach.element(guard.dim < 0 ? 0 : index(static_cast<size_t>(guard.dim)));
    if (!element) {
      cursor.row = nullptr;
      return;
    }
    cursor.row += *element * guard.stride;
  }
}

void BoundPass::load(Instruction& instruction, int64_t first, int64_t count) const {
  const Cursor& cursor = cursors_[static_cast<size_t>(instruction.cursor)];
  const int64_t bytes = bytes_of(instruction.type);
  if (cursor.window.guards.empty()) {
    const std::byte* from = cursor.row + first * cursor.step * bytes;
    if (instruction.in_place) instruction.values = from;
    else instruction.move(from, cursor.step, instruction.result, 1, count);
    return;
  }
  const double outside = cursor.window.guards.front().outside;
  if (cursor.row == nullptr || cursor.along != nullptr) {
    write_literal(outside, instruction.type, instruction.result);
    if (count > 1) instruction.move(instruction.result, 0, instruction.result + bytes, 1, count - 1);
  }
  if (cursor.row == nullptr) return;
  if (cursor.along == nullptr) {
    instruction.move(cursor.row + first * cursor.step * bytes, cursor.step, instruction.result, 1, count);
    return;
  }
  // A stretch without gaps at a time.
  const Window::Guard& guard = *cursor.along;
  const auto at = [&](int64_t i) { return guard.reach.element(first + i); };
  for (int64_t i = 0; i < count; ++i) {
    if (!at(i)) continue;
    int64_t end = i + 1;
    while (end < count && at(end)) ++end;
    const int64_t apart = guard.reach.every == 1 ? guard.reach.step * guard.stride / bytes : 0;
    instruction.move(cursor.row + *at(i) * guard.stride, cursor.step + apart, instruction.result + i * bytes, 1,
                     end - i);
    i = end;
  }
}

// Elements [first, first + count) of the row.
void BoundPass::evaluate(Instruction& instruction, int64_t first, int64_t count) {
  using Kind = Instruction::Kind;
  switch (instruction.kind) {
    case Kind::load: return load(instruction, first, count);
    case Kind::literal: write_literal(instruction.literal, instruction.type, instruction.result); return;
    case Kind::turn:
      write_literal(static_cast<double>(binding_.turns[instruction.loop]), instruction.type, instruction.result);
      return;
    case Kind::step_number:
      write_literal(static_cast<double>(binding_.input.step), instruction.type, instruction.result);
      return;
    case Kind::rate:
      write_literal(learning_rate(*instruction.rate_of, binding_.input), instruction.type, instruction.result);
      return;
    case Kind::index: {
      auto* const result = reinterpret_cast<int32_t*>(instruction.result);
      const int64_t at = instruction.first + first;
      for (int64_t i = 0; i < count; ++i)
        result[i] = static_cast<int32_t>(
            instruction.places.empty() ? at + i : instruction.places[static_cast<size_t>(first + i)]);
      return;
    }
    case Kind::random: {
      const Instruction::Along* last = nullptr;
      for (const Instruction::Along& along : instruction.steps)
        if (static_cast<size_t>(along.dim) == outer_ + extents_.size() - 1) last = &along;
      const int64_t at = instruction.row_begin, step = last == nullptr ? 0 : last->apart;
      const bool dealt = last != nullptr && !last->places.empty();
      if (!dealt && !instruction.samples)
        return instruction.draw(instruction.key, at + first * step, step, instruction.result, count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t index = at + (dealt ? last->elements(first + i) : (first + i) * step);
        instruction.draw(instruction.key, instruction.samples ? instruction.samples->place(index) : index, step,
                         instruction.result + i * bytes_of(instruction.type), 1);
      }
      return;
    }
    case Kind::row:
      std::memcpy(instruction.result, rows_ + 8 * static_cast<size_t>(instruction.row),
                  meshrt::size_of(instruction.type));
      return;
    case Kind::apply: {
      const auto operand = [&](size_t i) -> const void* {
        const int of = instruction.operands[i];
        return of < 0 ? nullptr : instructions_[static_cast<size_t>(of)].values;
      };
      instruction.function(operand(0), operand(1), operand(2), instruction.result, count);
      return;
    }
  }
}

void BoundPass::run_row(std::span<const int64_t> outer_index) {
  for (Cursor& cursor : cursors_) begin_row(cursor, outer_index);
  const int64_t length = extents_.back();
  for (Instruction& instruction : instructions_) {
    instruction.row_begin = instruction.begin;
    for (const Instruction::Along& along : instruction.steps) {
      const auto at = static_cast<size_t>(along.dim);
      if (at < outer_) instruction.row_begin += along.elements(outer_index[at]);
      else if (at < outer_ + index_.size()) instruction.row_begin += along.elements(index_[at - outer_]);
    }
    if (instruction.pace != Pace::row) continue;
    int64_t at = 0;
    if (instruction.kind == Instruction::Kind::index) {
      const auto dim = static_cast<size_t>(instruction.dim);
      at = dim < outer_ ? outer_index[dim] : index_[dim - outer_];
    }
    evaluate(instruction, at, 1);
    repeat(instruction, std::min(chunk_elements, length));
  }
  for (int64_t first = 0; first < length; first += chunk_) {
    if (in_blocks_ && first % meshrt::ReductionBlocks::longest_piece == 0) begin_piece();
    const int64_t count = std::min(chunk_, length - first);
    for (Instruction& instruction : instructions_)
      if (instruction.pace == Pace::element) evaluate(instruction, first, count);
    const auto values = [&](int scalar) { return instructions_[static_cast<size_t>(scalar)].values; };
    for (Fold& fold : folds_) {
      if (once_) std::memcpy(fold.row, values(fold.scalar), static_cast<size_t>(fold.bytes));
      else if (fold.lanes) fold.reduction.fold(values(fold.scalar), fold.lanes, count);
      else fold.arg.fold(values(fold.scalar), first, count, fold.found);
    }
    for (const Output& output : outputs_) {
      const Cursor& cursor = cursors_[static_cast<size_t>(output.cursor)];
      std::byte* const to = cursor.row + first * cursor.step * bytes_of(cursor.window.type);
      if (output.accumulate) output.accumulate(values(output.scalar), to, cursor.step, count);
      else output.move(values(output.scalar), 1, to, cursor.step, count);
    }
  }
}

void BoundPass::begin_piece() {
  if (piece_ > 0 && piece_ % pieces_of_block_ == 0) end_block();
  ++piece_;
}

void BoundPass::end_block() {
  for (const Fold& fold : folds_) {
    if (!fold.joined) continue;
    fold.reduction.join(fold.lanes, fold.joined);
    fold.reduction.start(fold.lanes);
  }
}

void BoundPass::run(std::span<const int64_t> outer_index) {
  for (Fold& fold : folds_) {
    if (fold.lanes) fold.reduction.start(fold.lanes);
    else fold.arg.start(fold.found);
    if (fold.joined) fold.reduction.start(fold.joined);
  }
  if (in_blocks_) {
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < extents_.size(); ++i) rows *= extents_[i];
    pieces_of_block_ = meshrt::ReductionBlocks(rows, extents_.back()).pieces_of_block;
    piece_ = 0;
  }
  if (std::ranges::none_of(extents_, [](int64_t extent) { return extent == 0; })) {
    std::ranges::fill(index_, 0);
    do run_row(outer_index);
    while (next_index(index_, extents_));
  }
  end_block();
  for (const Fold& fold : folds_) {
    if (once_) break;  // the value itself is there already
    if (fold.lanes) fold.reduction.finish(fold.joined ? fold.joined : fold.lanes, fold.row);
    else *reinterpret_cast<int32_t*>(fold.row) = fold.begin + fold.found.index;
  }
}

}  // namespace mesh
