// job.h: the job that a run belongs to, as what started it calls it: Slurm, torchrun or meshrun. All of them start a
// job again when it has failed, under the same name, and tell how often they have.
#pragma once
#include <map>
#include <string>

namespace meshrt {

/// What has started this process ("slurm") to its name of the job, the same each time that it starts it again and in no
/// other job. Empty: nothing that starts jobs again.
std::map<std::string, std::string> job_names();

/// Whether this is a job of these names, started again.
bool is_restart_of(const std::map<std::string, std::string>& names);

}  // namespace meshrt
