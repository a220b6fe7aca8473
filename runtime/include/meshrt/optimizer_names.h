// optimizer_names.h: by which name a run and a checkpoint know what an optimizer keeps beside a parameter's moments.
#pragma once

namespace meshrt {

/// Behind a path: a tensor of [replica, ...], what each of the replicas that train apart has of it.
inline constexpr const char* replica_suffix = ".replica";
/// Behind the name of a scaled loss: by what, where that is dynamic.
inline constexpr const char* scale_suffix = ".scale";
/// Behind the name of a scaled loss: how many steps were skipped, as gradients were not finite.
inline constexpr const char* skipped_suffix = ".skipped_steps";

}  // namespace meshrt
