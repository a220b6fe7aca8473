#include "codegen/commands/command.h"

namespace mesh {

std::vector<Command> commands() {
  return {check_command(),   plan_command(),  layout_command(),   diff_command(),     run_command(),
          build_command(),   bench_command(), evaluate_command(), predict_command(),  generate_command(),
          score_command(),   fetch_command(), verify_command(),   ckpt_command(),     data_command(),
          fmt_command(),     ir_command(),    reshard_command(),  schedule_command(), ops_command(),
          explain_command(), new_command(),   machine_command(),  slurm_command(),    doctor_command()};
}

}  // namespace mesh
