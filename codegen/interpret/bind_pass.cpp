// bind_pass.cpp: what a pass of a nest becomes before it runs: instructions with rooms for their chunks, cursors into
// buffers, and as few dims as its accesses allow.
#include <algorithm>

#include "codegen/graph/builder.h"
#include "codegen/interpret/nest.h"
#include "codegen/program/shared_turns.h"
#include "meshrt/shared_reduction.h"

namespace mesh {

namespace {

void expect(bool good, const std::string& what) {
  if (!good) internal_error(what);
}

}  // namespace

BoundPass::BoundPass(Binding& binding, const Nest& nest, const Pass& pass, std::span<const LocalDim> outer,
                     std::span<const LocalDim> inner, std::byte* rows)
    : binding_(binding),
      outer_(outer.size()),
      in_blocks_(reduces_in_blocks(binding.program, nest, pass)),
      rows_(rows),
      dims_(outer.begin(), outer.end()) {
  const std::vector<Type>& row_types = nest.rows;
  dims_.insert(dims_.end(), inner.begin(), inner.end());
  for (const LocalDim& dim : inner) extents_.push_back(binding.extent(dim));
  asked_.assign(dims_.size(), false);
  bounds_ = bounds_among(binding, nest, inner);
  for (const BoundDim& bound : bounds_) asked_[outer_ + bound.at] = true;  // it stays a dim of its own
  for (const Scalar& scalar : pass.scalars) add(binding, scalar, row_types);
  add_outputs(binding, pass, dims_);
  for (const Pass::Reduction& reduction : pass.reductions) {
    const auto scalar = static_cast<size_t>(reduction.scalar), row = static_cast<size_t>(reduction.row);
    expect(scalar < instructions_.size() && row < row_types.size(), "a reduction refers to a value that is not there");
    const Type type = instructions_[scalar].type;
    Fold fold{reduction.scalar, rows + 8 * row};
    fold.bytes = bytes_of(type);
    if (reduction.arg) {
      expect(row_types[row] == Type::i32 && inner.size() == 1, "an arg reduction gives an i32 along one dim");
      fold.arg = chunk_kernels().arg_fold(reduction.reduce, type);
      fold.begin = static_cast<int32_t>(binding.range(inner[0]).begin);
    } else {
      expect(row_types[row] == type, "a reduction's row value has another type than what it reduces");
      fold.reduction = chunk_kernels().reduction(reduction.reduce, type);
      fold.lanes = registers_.emplace_back(std::make_unique<std::byte[]>(lane_bytes)).get();
      if (in_blocks_) fold.joined = registers_.emplace_back(std::make_unique<std::byte[]>(lane_bytes)).get();
    }
    expect(reduction.arg ? fold.arg.fold != nullptr : fold.reduction.fold != nullptr,
           std::string("the interpreter cannot reduce ") + meshrt::name_of(type));
    folds_.push_back(fold);
  }
  for (const Cursor& cursor : cursors_)
    for (const Window::Guard& guard : cursor.window.guards)
      if (guard.dim >= 0) asked_[static_cast<size_t>(guard.dim)] = true;
  if (folds_.empty()) merge_dims();
  once_ = extents_.empty();
  if (once_) {  // a row of one element
    extents_.push_back(1);
    for (Cursor& cursor : cursors_) cursor.window.strides.push_back(0);
  }
  index_.assign(extents_.size() - 1, 0);
  // Only now is it known which dim is innermost, and so how often each value changes.
  const size_t last = outer_ + extents_.size() - 1;
  for (Cursor& cursor : cursors_) {
    cursor.step = cursor.window.strides[last] / bytes_of(cursor.window.type);
    for (const Window::Guard& guard : cursor.window.guards)
      if (guard.dim == static_cast<int>(last)) cursor.along = &guard;
  }
  for (Instruction& instruction : instructions_) {
    if (instruction.kind == Instruction::Kind::load) {
      const Cursor& cursor = cursors_[static_cast<size_t>(instruction.cursor)];
      instruction.pace = cursor.step == 0 && cursor.along == nullptr ? Pace::row : Pace::element;
    }
    if (instruction.kind == Instruction::Kind::index)
      instruction.pace = static_cast<size_t>(instruction.dim) == last ? Pace::element : Pace::row;
    for (const Instruction::Along& along : instruction.steps)
      instruction.pace = std::max(instruction.pace, static_cast<size_t>(along.dim) == last ? Pace::element : Pace::row);
    if (instruction.kind == Instruction::Kind::apply)
      for (const int operand : instruction.operands)
        if (operand >= 0)
          instruction.pace = std::max(instruction.pace, instructions_[static_cast<size_t>(operand)].pace);
  }
  read_in_place();
}

void BoundPass::add(Binding& binding, const Scalar& scalar, const std::vector<Type>& row_types) {
  using Kind = Instruction::Kind;
  Instruction made{Kind::literal, Pace::nest, scalar.type, nullptr, nullptr};
  made.move = chunk_kernels().move(scalar.type);
  made.result = registers_.emplace_back(std::make_unique<std::byte[]>(chunk_elements * bytes_of(scalar.type))).get();
  made.values = made.result;
  const auto dim_at = [&](DimId dim) {
    const auto found = std::ranges::find(dims_, dim, &LocalDim::dim);
    expect(found != dims_.end(), "a nest asks for the index of dim " + binding.name(dim) + ", which it does not have");
    return static_cast<int>(found - dims_.begin());
  };
  if (const auto* load = std::get_if<Scalar::Load>(&scalar.what)) {
    made.kind = Kind::load;
    made.cursor = add_cursor(binding, load->access, dims_, scalar.type);
  } else if (const auto* literal = std::get_if<Scalar::Literal>(&scalar.what)) {
    made.literal = literal->value;
  } else if (const auto* index = std::get_if<Scalar::Index>(&scalar.what)) {
    expect(scalar.type == Type::i32, "an index is not of type i32");
    made.kind = Kind::index;
    made.dim = dim_at(index->dim);
    const LocalDim& along = dims_[static_cast<size_t>(made.dim)];
    if (along.placement.deal) made.places = global_indices(binding.program, along, binding.rank.rank());
    else made.first = binding.range(along).begin;
    asked_[static_cast<size_t>(made.dim)] = true;
  } else if (const auto* turn = std::get_if<Scalar::Turn>(&scalar.what)) {
    made.kind = Kind::turn;
    made.loop = turn->loop.index;
  } else if (std::holds_alternative<Scalar::StepNumber>(scalar.what)) {
    made.kind = Kind::step_number;
  } else if (const auto* rate = std::get_if<Scalar::Rate>(&scalar.what)) {
    made.kind = Kind::rate;
    made.rate_of = &rate->rate;
  } else if (const auto* random = std::get_if<Scalar::Random>(&scalar.what)) {
    made.kind = Kind::random;
    made.random = random;
    made.draw = chunk_kernels().draw(random->distribution, scalar.type);
    expect(made.draw != nullptr, std::string("there are no random numbers of ") + meshrt::name_of(scalar.type));
    int64_t apart = 1;
    for (auto dim = random->dims.rbegin(); dim != random->dims.rend(); ++dim) {
      if (dim->turn) {
        made.turns.emplace_back(dim->turn->index, apart);
      } else {
        const auto at = static_cast<size_t>(dim_at(dim->dim));
        made.steps.push_back({static_cast<int>(at), apart, {}});
        if (dims_[at].placement.deal)
          made.steps.back().places = global_indices(binding.program, dims_[at], binding.rank.rank());
        else made.first += binding.range(dims_[at]).begin * apart;
        asked_[at] = true;
      }
      apart *= binding.program.sharded.graph.dim(dim->dim).size;
    }
  } else if (const auto* row = std::get_if<Scalar::Row>(&scalar.what)) {
    made.kind = Kind::row;
    made.pace = Pace::row;
    made.row = row->row;
    expect(static_cast<size_t>(row->row) < row_types.size() && row_types[static_cast<size_t>(row->row)] == scalar.type,
           "a row value is read under another type");
  } else {
    const auto& apply = std::get<Scalar::Apply>(scalar.what);
    const MapFunctionInfo& about = info(apply.function);
    made.kind = Kind::apply;
    expect(static_cast<size_t>(about.operands) == apply.operands.size(),
           std::string(about.name) + " has the wrong number of operands");
    std::vector<Type> types;
    for (size_t i = 0; i < apply.operands.size(); ++i) {
      const int operand = apply.operands[i];
      expect(operand >= 0 && static_cast<size_t>(operand) < instructions_.size(),
             "a scalar's operand does not stand before it");
      made.operands[i] = operand;
      types.push_back(instructions_[static_cast<size_t>(operand)].type);
    }
    const bool where = apply.function == MapFunction::where, cast = apply.function == MapFunction::cast;
    const Type operand = types[where ? 1 : 0], result = about.to_boolean ? Type::boolean : cast ? scalar.type : operand;
    expect(result == scalar.type && (!where || types[0] == Type::boolean) &&
               std::all_of(types.begin() + (where ? 1 : 0), types.end(), [&](Type type) { return type == operand; }),
           std::string(about.name) + " has operands or a result of the wrong type");
    made.function = chunk_kernels().function(apply.function, operand, scalar.type);
    expect(made.function != nullptr, std::string("there is no ") + std::string(about.name) + " of " +
                                         meshrt::name_of(operand) + " to " + meshrt::name_of(scalar.type));
  }
  instructions_.push_back(made);
}

int BoundPass::add_cursor(Binding& binding, const Access& access, std::span<const LocalDim> dims, Type type) {
  Cursor cursor{window(binding, access, dims)};
  expect(cursor.window.type == type, "buffer " + binding.buffer(access).name + " of " +
                                         meshrt::name_of(cursor.window.type) + " is accessed as " +
                                         meshrt::name_of(type));
  cursors_.push_back(std::move(cursor));
  return static_cast<int>(cursors_.size()) - 1;
}

void BoundPass::add_outputs(Binding& binding, const Pass& pass, std::span<const LocalDim> dims) {
  const auto output = [&](int scalar, const Access& to) -> Output& {
    expect(scalar >= 0 && static_cast<size_t>(scalar) < instructions_.size(), "a store refers to no scalar");
    const Type type = instructions_[static_cast<size_t>(scalar)].type;
    const int cursor = add_cursor(binding, to, dims, type);
    return outputs_.emplace_back(Output{scalar, cursor, chunk_kernels().move(type)});
  };
  for (const Pass::Accumulate& accumulate : pass.accumulates) {
    Output& made = output(accumulate.scalar, accumulate.to);
    const Type type = binding.buffer(accumulate.to).type;
    made.accumulate = chunk_kernels().accumulate(accumulate.reduce, type);
    expect(made.accumulate != nullptr, std::string("the interpreter cannot accumulate ") + meshrt::name_of(type));
  }
  for (const Pass::Store& store : pass.stores) output(store.scalar, store.to);
}

// Inner dims of one element go, and neighbours that every access walks through as one become one: longer rows.
void BoundPass::merge_dims() {
  const auto drop = [&](size_t inner) {
    const size_t dim = outer_ + inner;
    extents_.erase(extents_.begin() + static_cast<ptrdiff_t>(inner));
    for (BoundDim& bound : bounds_)
      if (bound.at > inner) --bound.at;
    asked_.erase(asked_.begin() + static_cast<ptrdiff_t>(dim));
    for (Cursor& cursor : cursors_) {
      std::vector<int64_t>& strides = cursor.window.strides;
      strides.erase(strides.begin() + static_cast<ptrdiff_t>(dim));
      for (Window::Guard& guard : cursor.window.guards)
        if (guard.dim > static_cast<int>(dim)) --guard.dim;
    }
    for (Instruction& instruction : instructions_) {
      if (instruction.dim > static_cast<int>(dim)) --instruction.dim;
      for (Instruction::Along& along : instruction.steps)
        if (along.dim > static_cast<int>(dim)) --along.dim;
    }
  };
  for (size_t i = extents_.size(); i-- > 0;)
    if (extents_[i] == 1 && !asked_[outer_ + i]) drop(i);
  for (size_t i = extents_.size(); i-- > 1;) {
    const size_t outer = outer_ + i - 1, inner = outer + 1;
    const bool together = std::ranges::all_of(cursors_, [&](const Cursor& cursor) {
      return cursor.window.strides[outer] == cursor.window.strides[inner] * extents_[i];
    });
    if (!together || asked_[outer] || asked_[inner]) continue;
    extents_[i] *= extents_[i - 1];
    drop(i - 1);
  }
}

// A contiguous load needs no copy, unless its buffer is written in this pass: then an output that takes the loaded
// value itself could see it changed.
void BoundPass::read_in_place() {
  const int64_t rank = binding_.rank.rank();
  const auto memory = [&](const Access& access) {
    const Buffer& held = binding_.program.buffer(storage(binding_.program, access.buffer));
    const std::byte* begin = binding_.memory(access.buffer);
    return std::pair(begin, begin + local_elements(binding_.program, held, rank) * bytes_of(held.type));
  };
  for (Instruction& instruction : instructions_) {
    if (instruction.kind != Instruction::Kind::load) continue;
    const Cursor& cursor = cursors_[static_cast<size_t>(instruction.cursor)];
    const auto read = memory(cursor.window.access);
    const bool written = std::ranges::any_of(outputs_, [&](const Output& output) {
      const auto [first, last] = memory(cursors_[static_cast<size_t>(output.cursor)].window.access);
      return first < read.second && read.first < last;
    });
    instruction.in_place = cursor.step == 1 && cursor.window.guards.empty() && !written;
    if (written && cursor.along != nullptr) chunk_ = 1;
  }
}

}  // namespace mesh
