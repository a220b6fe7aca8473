// windows.h: what convolution and pooling share: the dims along which windows move, how they stand in an op, what of
// them a rank holds, and how the language writes them.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/elaborate/functions.h"
#include "codegen/emit/emit_context.h"
#include "codegen/graph/dims.h"
#include "codegen/graph/op.h"
#include "codegen/interpret/binding.h"
#include "meshrt/window.h"

namespace mesh {

/// A dim along which windows move, from the wide one to the narrow one. Both may be the same.
struct WindowedDim {
  DimId wide, narrow;
  DimId kernel;  // of a convolution: the dim of its weights; else unset
  int64_t size, stride, dilation, before;

  WindowShape shape(const Graph&) const;
};

/// The numbers and dims of a DefinedOp (or a DefinedStep) that say which windows move: behind `first` numbers of its
/// own and in front of its other dims.
void add_windows(std::vector<DimId>& dims, std::vector<int64_t>& numbers, const std::vector<WindowedDim>&);
std::vector<WindowedDim> windows_of(const std::vector<DimId>& dims, const std::vector<int64_t>& numbers, size_t first);
/// How many of the dims these are.
constexpr size_t dims_of_window = 3;

/// "h: ky stride 2 pad 1 as h2, w: kx as w2"; where they lead to the wide dims "h2: ky stride 2 pad 1 as h".
std::string windows_text(const Graph&, const std::vector<WindowedDim>&, bool to_wide);

bool is_wide(const std::vector<WindowedDim>&, DimId);
bool is_narrow(const std::vector<WindowedDim>&, DimId);
Dims wide_dims(const std::vector<WindowedDim>&);
Dims narrow_dims(const std::vector<WindowedDim>&);
Dims kernel_dims(const std::vector<WindowedDim>&);
/// The dims that are none of those.
Dims other_dims(const Dims&, const Dims& these);
/// The narrow ones in the places of the wide ones, or the reverse.
Dims narrowed(Dims, const std::vector<WindowedDim>&);
Dims widened(Dims, const std::vector<WindowedDim>&);

/// Which side of the windows an operand or result has.
enum class WindowSide : uint8_t { none, wide, narrow };
/// The factors of an op whose windows lead from operands to results of the other side, or, where it sums over windows,
/// to none: of all other dims by name. `beside` are the operands that are read beside their part.
std::vector<Factor> window_factors(const Graph&, const Node&, const std::vector<WindowedDim>&,
                                   const std::vector<WindowSide>& operands, const std::vector<WindowSide>& results,
                                   const std::vector<size_t>& beside);

// ---- on a rank

/// What of the windows a step works on: one access of each side.
struct WindowAccess {
  const Access &wide, &narrow;
  const std::vector<WindowedDim>& windows;
};
/// Says where the rank that makes a part of one side lacks what its windows meet of the other, and of margins along
/// dims without windows.
void verify_windows(const Program&, const DefinedStep&, const WindowAccess&, bool makes_wide,
                    const std::function<void(const std::string&)>&);
/// "{{28, h_begin - 1, h_wide}, {28, h_begin, h_per_rows}, 3}, ..." of three meshrt::WindowDim, an argument each.
std::string windows_cpp(EmitContext&, const WindowAccess&);
meshrt::WindowDims bound_windows(const Binding&, const WindowAccess&);
/// The extents of some dims of an access together.
std::string extent_of(EmitContext&, const Access&, const std::function<bool(DimId)>& of);
int64_t extent_of(const Binding&, const Access&, const std::function<bool(DimId)>& of);

// ---- in the language

namespace elaboration {

/// What brackets with windows say.
struct WindowBrackets {
  std::vector<WindowedDim> windows;
  std::vector<Span> spans;
  std::vector<DimId> others;  // dims without a window
  std::vector<Span> other_spans;
};

/// What stands for the windows' size in the brackets: a dim of the weights, or, where there are none, a number too.
enum class WindowSizes : uint8_t { dims, numbers };

/// Reads `h: ky stride 2 dilate 2 as h2, w: kx, channel`, with the padding that `pad:` says; `to_wide`: the first dim
/// of each is the narrow one. Sizes are checked. Nothing where an error was reported.
std::optional<WindowBrackets> window_brackets(Elaboration&, const CallSite&, WindowSizes, bool to_wide);

}  // namespace elaboration

}  // namespace mesh
