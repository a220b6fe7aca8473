// score.cpp: `meshc score SPEC --params CKPT -f FILE`: how likely a trained model says texts are.
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/text_model.h"

namespace mesh {

Command score_command() {
  return {
      "score",
      "how likely a trained model says given texts are",
      "Of a model that says what it generates. Each line of FILE is a text: what stands before a tab is given, what\n"
      "follows is scored; without a tab all but the first element is. Of an encoder-decoder the encoder reads what is\n"
      "given, and the text is whole: the mark behind it counts. A line of the answer has the text's log-likelihood in\n"
      "nats, that of an element, and `greedy` where each element is the likeliest; --json has those of all elements.\n"
      "Text is read as the run file says of the input. The program is built for it and kept, as that of `meshc run`.",
      {{"meshc score gpt.mesh --params out/gpt -f texts.txt", "a line for each text, then all together"},
       {"meshc score gpt.mesh --params out/gpt --text 'In the beginning God created' --json", "each element's"}},
      [](CLI::App& app) -> std::function<int()> {
        auto model = std::make_shared<TextModel>();
        model->declare(app, meshrt::score_options());
        return [model] { return model->start("score", meshrt::score, meshrt::texts_of(model->request).size()); };
      }};
}

}  // namespace mesh
