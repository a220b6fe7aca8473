// variables.h: the variables of launchers, as tests set them.
#pragma once
#include <cstdlib>
#include <utility>
#include <vector>

namespace meshrt::test {

/// The variables of launchers, as a test sets them; before and after it there are none.
class Variables {
 public:
  explicit Variables(const std::vector<std::pair<const char*, const char*>>& given) {
    clear();
    for (const auto& [name, value] : given) setenv(name, value, 1);
  }
  ~Variables() { clear(); }

 private:
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "PMI_SIZE",
                             "PMI_RANK",
                             "PMI_FD",
                             "WORLD_SIZE",
                             "RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_PROCID",
                             "SLURM_JOB_ID",
                             "SLURM_STEP_ID",
                             "SLURM_STEP_NODELIST",
                             "SLURM_STEP_NUM_NODES",
                             "LOCAL_WORLD_SIZE",
                             "MESHRT_TOKEN",
                             "MESHRT_TOKEN_FILE"})
      unsetenv(name);
  }
};

using Pairs = std::vector<std::pair<const char*, const char*>>;

inline Pairs operator+(Pairs a, const Pairs& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline const Pairs torchrun_two = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
inline const Pairs slurm_two = {{"SLURM_STEP_NUM_TASKS", "2"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_JOB_ID", "4294967295"},  // of a federation
                                {"SLURM_STEP_ID", "1"},
                                {"SLURM_STEP_NODELIST", "rack[1-2]n[3-4]"}};

}  // namespace meshrt::test
