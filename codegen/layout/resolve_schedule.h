// resolve_schedule.h: `schedule: "1f1b"` of a pipeline's rule, or a file of PyTorch's: what its stages do when.
#pragma once
#include <optional>

#include "codegen/layout/mesh.h"
#include "codegen/schedule/named_schedules.h"
#include "frontend/ast.h"
#include "frontend/diagnostic.h"

namespace mesh {

/// What a pipeline's rule says of its schedule; null where it does not.
struct ScheduleOfRule {
  const ast::Attribute *schedule, *chunks, *backward;
};

/// Sets the pipeline's schedule and its lists, by name (`interleaved` where only `chunks` is said, `1f1b` where neither
/// is), or of a file (`"mine.csv"`, beside the spec) after it has passed the checks of schedule/checked_file.h; after
/// `backward: "split"` with each B as I and W. `axis` is null where it has one rank: nothing but names and numbers is
/// looked at then. E0411 for a name that no schedule has, for chunks that it cannot have and for another `backward`,
/// E0423 for a file that the stages cannot follow. Whether all was well.
bool resolve_schedule(const ScheduleOfRule&, ScheduleShape, const MeshAxis* axis, SourceMap&, Pipeline&,
                      DiagnosticSink&);

}  // namespace mesh
