// generate.cpp: `meshc generate SPEC --params CKPT --prompt TEXT`: what a trained model writes.
#include <algorithm>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/text_model.h"

namespace mesh {

Command generate_command() {
  return {
      "generate",
      "write on from a prompt with a trained model",
      "The spec says what is generated: `generate token along seq from logits`. One position is computed at a time;\n"
      "what later ones need of it is kept. Prompts of several lengths go on side by side, in rounds of the spec's\n"
      "batch. Text is read as the run file says of the input: by its tokenizer, else byte by byte. The same seed "
      "gives\n"
      "the same text under every layout. The program is built for it and kept, as that of `meshc run`.",
      {{"meshc generate gpt.mesh --params out/gpt --prompt 'In the beginning' --tokens 100", "from a checkpoint"},
       {"meshc generate gpt.mesh --params out/gpt -f prompts.txt --greedy --json", "a prompt on each line"},
       {"meshc generate gpt.mesh --params out/gpt --prompt 'And ' --temperature 0.8 --top-p 0.95 --seed 7",
        "less freely, and other text"},
       {"meshc generate translate.mesh --params out/fr --prompt 'Open file' --beams 4 --length-penalty 0.6",
        "the likeliest translation, searched for"}},
      [](CLI::App& app) -> std::function<int()> {
        auto model = std::make_shared<TextModel>();
        model->declare(app, meshrt::generate_options());
        return [model] {
          meshrt::ask_for_prompt(model->request);
          const size_t prompts = meshrt::prompts_of(model->request).size();
          const auto width = static_cast<size_t>(std::max<int64_t>(1, model->request.beams));
          return model->start("generate", meshrt::generate, prompts, width, meshrt::check_prompts);
        };
      }};
}

}  // namespace mesh
