#include "meshrt/run_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "files/yaml_reader.h"
#include "system/suggest.h"
#include "test_files.h"

namespace meshrt {
namespace {

class RunFileTest : public testing::Test {
 protected:
  RunFileTest() {
    folder_.write("train.bin", "abcd");
    folder_.write("val.bin", "abcd");
  }
  RunFile parse(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return parse_run_file("run.yaml", text, folder_.path(""), overrides);
  }
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return folder_.without_folder(failure_of([&] { parse(text, overrides); }));
  }
  TestFolder folder_;
};

TEST_F(RunFileTest, ReadsEveryKey) {
  const RunFile run = parse(R"(
data:       { token: {file: train.bin, type: u16, window: seq, from: 3, to: 12.5%}, target: {of: token, shift: 1} }
validation: { every: 250, steps: 20, token: {file: val.bin, from: 95%} }
train:      { steps: 5_000, seed: 7, shuffle: true, lr: 3.0e-4, timeout: 600, max_time: "23:50:00",
              stop: {patience: 4, metric: accuracy, mode: max} }
checkpoint: { dir: out/ckpt, every: 500, keep: 3, resume: never, async: false, file_size: 1.5 GB, best: {} }
log:        { every: 25, mean: true, jsonl: out/metrics.jsonl, watch: [grad_norm, layer.attn.wq], nonfinite: ignore, profile: true }
output:     { u: {every: 100, file: "out/u_{step}.npy"} }
)");
  ASSERT_EQ(run.data.size(), 2U);
  EXPECT_EQ(run.data[0].input, "token");
  EXPECT_EQ(folder_.without_folder(run.data[0].file.value), "train.bin");
  EXPECT_EQ(run.data[0].file.mark, (Mark{0, 2, 29, 9}));
  EXPECT_EQ(run.data[0].type.value, FileType::u16);
  EXPECT_EQ(run.data[0].window.value, "seq");
  EXPECT_EQ(run.data[0].from.value.of(1000), 3);
  EXPECT_EQ(run.data[0].to.value.of(1001), 125);
  EXPECT_EQ(run.data[1].of.value, "token");
  EXPECT_EQ(run.data[1].shift.value, 1);
  EXPECT_EQ(run.validation.every.value, 250);
  EXPECT_EQ(run.validation.steps.value, 20);
  EXPECT_EQ(run.train.steps.value, 5000);
  EXPECT_EQ(run.train.seed.value, 7U);
  EXPECT_TRUE(run.train.shuffle.value);
  EXPECT_EQ(run.train.rate.value, 3e-4);
  EXPECT_EQ(run.train.timeout.value, 600);
  EXPECT_EQ(run.train.max_time.value, 23 * 3600 + 50 * 60);
  EXPECT_EQ(run.train.stop.patience.value, 4);
  EXPECT_EQ(run.train.stop.metric.value, "accuracy");
  EXPECT_TRUE(run.train.stop.largest.value);
  EXPECT_TRUE(run.checkpoint.best.given());
  EXPECT_FALSE(run.checkpoint.best.metric.given());
  EXPECT_FALSE(run.checkpoint.best.largest.given());
  EXPECT_TRUE(run.log.mean.value);
  EXPECT_EQ(run.checkpoint.folder.value, "out/ckpt");
  EXPECT_EQ(run.checkpoint.keep.value, 3);
  EXPECT_EQ(run.checkpoint.resume.value, "never");
  EXPECT_FALSE(run.checkpoint.asynchronous.value);
  EXPECT_EQ(run.checkpoint.file_bytes.value, 1'500'000'000);
  EXPECT_EQ(run.log.every.value, 25);
  EXPECT_EQ(run.log.jsonl.value, "out/metrics.jsonl");
  ASSERT_EQ(run.log.watch.size(), 2U);
  EXPECT_EQ(run.log.nonfinite, Nonfinite::ignore);
  EXPECT_TRUE(run.log.profile.value);
  ASSERT_EQ(run.outputs.size(), 1U);
  EXPECT_EQ(run.outputs[0].file.value, "out/u_{step}.npy");
}

TEST_F(RunFileTest, ParametersComeFromOneFileOrSeveral) {
  const auto files = [&](const std::string& text) {
    std::vector<std::string> found;
    for (const auto& file : parse(text).train.params) found.push_back(folder_.without_folder(file.value));
    return found;
  };
  EXPECT_EQ(files("train: { params: train.bin }"), (std::vector<std::string>{"train.bin"}));
  EXPECT_EQ(files("train: { params: [train.bin, val.bin] }"), (std::vector<std::string>{"train.bin", "val.bin"}));
  EXPECT_TRUE(files("train: { steps: 1 }").empty());
  const RunFile run = parse("train: { params: train.bin, fresh: ['**.head', bias] }");
  ASSERT_EQ(run.train.fresh.size(), 2u);
  EXPECT_EQ(run.train.fresh[0].value, "**.head");
  EXPECT_TRUE(error("train: { fresh: [a] }").starts_with("`train` says how to read `params`, but not which\n"));
  for (const char* value : {"{}", "[]", "[[a]]", "[{}]", ""})
    EXPECT_TRUE(error(fmt::format("train: {{ params: {} }}", value)).starts_with("`train.params` must be a ")) << value;
  EXPECT_TRUE(error("train: { params: [train.bin, none.bin] }")
                  .starts_with("`train.params`: there is no file or folder `none.bin`\n  --> run.yaml:1:30\n"));
}

TEST_F(RunFileTest, WordsOfOtherPlacesSayWhere) {
  const struct {
    const char *text, *label;
  } cases[] = {
      {"train: { epochs: 5 }", "`steps` counts batches: samples / batch * 5"},
      {"epochs: 5", "`steps` counts batches: samples / batch * 5"},
      {"train: { batch: 32 }", "a size of the spec: `--set batch=32`, of its first input's first dim"},
      {"train: { batch_size: many }", "a size of the spec: `--set batch=N`, of its first input's first dim"},
      {"train: { learning_rate: 1 }", "did you mean `lr`?"},
      {"train: { early_stopping: 5 }", "`train: { stop: { patience: 5 } }` ends a run that gets no better"},
      {"checkpoint: { save_best: true }", "`checkpoint: { best: { metric: loss } }` keeps the best"},
      {"train: { weight_decay: 1 }", "the spec says it: `minimize LOSS with OPTIMIZER(...)`"},
      {"mesh: data=2", "the program is compiled for it: `meshc run SPEC --mesh data=2`"},
  };
  for (const auto& [text, label] : cases) EXPECT_TRUE(error(text).ends_with(std::string("^ ") + label)) << error(text);
  EXPECT_TRUE(failure_of([&] {
                parse("", {"train.batch=32"});
              }).ends_with("^^^^^ a size of the spec: `--set batch=32`, of its first input's first dim"));
}

TEST_F(RunFileTest, TheCommandLineStandsInPlaceOfTheRunFile) {
  const std::string file = folder_.path("train.bin"), mix = fmt::format("[{{file: {0}}}, {{file: {0}}}]", file);
  EXPECT_TRUE(parse("data: { a: {mix: " + mix + "} }", {"data.a.file=" + file}).data[0].mixture.empty());
  EXPECT_EQ(parse("data: { a: {file: train.bin} }", {"data.a.mix=" + mix}).data[0].mixture.size(), 2U);
  EXPECT_TRUE(error("train: { steps: 10 }", {"train.seed=18446744073709551615"})
                  .starts_with("`train.seed` must be a whole number of at most 9223372036854775807, not "));
  // Keys of the command line do not make a map of what is none.
  EXPECT_TRUE(error("- a", {"train.steps=3"}).starts_with("a run file must be a map of keys and values, not a list\n"));
}

TEST_F(RunFileTest, ATabIsCalledATab) {
  for (const char* text : {"train:\n\tsteps: 3\n", "train:\n  lr: 1\n \tsteps: 3\n", "train:\n\tsteps: 3\n\tlr: 1\n"})
    EXPECT_NE(error(text).find("a tab indents this line\n  --> run.yaml:"), std::string::npos) << error(text);
  EXPECT_EQ(error("train:\n\tsteps: 3\n"),
            "a tab indents this line\n  --> run.yaml:2:1\n2 |  steps: 3\n  | ^ YAML takes spaces alone");
  EXPECT_TRUE(error("train: { steps: 3\t\n").starts_with("this is not YAML: ")) << error("train: { steps: 3\t\n");
}

TEST_F(RunFileTest, AnEmptyFileHasDefaults) {
  for (const char* text : {"", "# nothing\n", "data:\ntrain:\nlog:\n"}) {
    const RunFile run = parse(text);
    EXPECT_FALSE(run.train.steps.given());
    EXPECT_FALSE(run.validation.given());
    EXPECT_EQ(run.train.seed.value, 1U);
    EXPECT_LT(run.train.rate.value, 0);
    EXPECT_EQ(run.log.every.value, 10);
    EXPECT_EQ(run.log.nonfinite, Nonfinite::stop);
    EXPECT_FALSE(run.train.shuffle.value);
    EXPECT_FALSE(run.checkpoint.folder.given());
    EXPECT_EQ(run.checkpoint.resume.value, "auto");
    EXPECT_TRUE(run.checkpoint.asynchronous.value);
  }
}

TEST_F(RunFileTest, ValidationTakesOverWhatItDoesNotSay) {
  const RunFile run = parse(R"(
data: { token: {file: train.bin, type: u16, window: seq, to: 95%}, target: {of: token, shift: 1} }
validation: { token: {from: 95%}, target: {shift: 2} }
)");
  ASSERT_EQ(run.validation.data.size(), 2U);
  const Source &token = run.validation.data[0], &target = run.validation.data[1];
  EXPECT_EQ(token.file.value, run.data[0].file.value);
  EXPECT_EQ(token.type.value, FileType::u16);
  EXPECT_EQ(token.window.value, "seq");
  EXPECT_EQ(token.from.value.of(100), 95);
  EXPECT_FALSE(token.to.given());
  EXPECT_EQ(target.input, "target");
  EXPECT_EQ(target.of.value, "token");
  EXPECT_EQ(target.shift.value, 2);
}

TEST_F(RunFileTest, ValidationTakesOverInputsThatItDoesNotName) {
  const std::string data =
      "data: { token: {file: train.bin, type: u16, window: seq, to: 95%}, target: {of: token, shift: 1}, other: {mix: "
      "[{file: train.bin, weight: 3}, {file: val.bin}], from: 2} }\n";
  for (const std::string validation : {"every: 5, steps: 1", "steps: 1, target: {}", "steps: 1, other: {from: 3}"}) {
    const RunFile run = parse(fmt::format("{}validation: {{ {} }}", data, validation));
    ASSERT_EQ(run.validation.data.size(), 3U) << validation;
    const auto of = [&](const char* input) { return *std::ranges::find(run.validation.data, input, &Source::input); };
    EXPECT_EQ(of("token").file.value, folder_.path("train.bin"));
    EXPECT_EQ(of("token").to.value.of(100), 95);
    EXPECT_EQ(of("target").of.value, "token");
    EXPECT_EQ(of("target").shift.value, 1);
    ASSERT_EQ(of("other").files().size(), 2U);
    EXPECT_EQ(of("other").files()[0].weight.value, 3);
    EXPECT_EQ(of("other").files()[1].from.value.of(100), validation.ends_with("3}") ? 3 : 2);
  }
}

TEST_F(RunFileTest, ReadsMixturesAndTakesThemOver) {
  const RunFile run = parse(R"(
data: { token: {mix: [{file: train.bin, weight: 0.7}, {file: val.bin, type: u8, to: 3}], type: u16, window: seq, to: 95%}, target: {of: token, shift: 1} }
validation: { steps: 5, token: {from: 95%} }
)");
  const Source &training = run.data[0], &held_out = run.validation.data[0];
  ASSERT_EQ(training.files().size(), 2U);
  EXPECT_EQ(training.files()[0].file.value, folder_.path("train.bin"));
  EXPECT_EQ(training.files()[0].weight.value, 0.7);
  EXPECT_EQ(training.files()[0].type.value, FileType::u16);
  EXPECT_EQ(training.files()[0].to.value.of(100), 95);
  EXPECT_EQ(training.files()[1].weight.value, 1);
  EXPECT_EQ(training.files()[1].type.value, FileType::u8);
  EXPECT_EQ(training.files()[1].to.value.of(100), 3);
  ASSERT_EQ(held_out.files().size(), 2U);
  EXPECT_EQ(held_out.window.value, "seq");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(held_out.files()[i].weight.value, training.files()[i].weight.value);
    EXPECT_EQ(held_out.files()[i].from.value.of(100), 95);
    EXPECT_FALSE(held_out.files()[i].to.given());
  }
  EXPECT_EQ(run.data[1].files().size(), 1U);
}

TEST_F(RunFileTest, ReadsLinesAndTakesThemOver) {
  const RunFile run = parse(R"(
data: { src: {file: train.bin, pad: 3, long: cut}, tgt: {file: train.bin, start: 1, to: 90%}, label: {file: train.bin, end: 2, type: bytes} }
validation: { src: {}, tgt: {from: 90%}, label: {file: val.bin, end: 4} }
)");
  const auto& data = run.data;
  EXPECT_TRUE(data[0].by_lines());
  EXPECT_EQ(data[0].pad.value, 3);
  EXPECT_EQ(data[0].longer.value, LongLine::cut);
  EXPECT_EQ(data[1].start.value, 1);
  EXPECT_FALSE(data[1].pad.given());
  EXPECT_EQ(data[1].longer.value, LongLine::skip);
  EXPECT_EQ(data[2].end.value, 2);
  const auto& held_out = run.validation.data;
  EXPECT_EQ(held_out[0].pad.value, 3);
  EXPECT_EQ(held_out[0].longer.value, LongLine::cut);
  EXPECT_EQ(held_out[1].start.value, 1);
  EXPECT_EQ(held_out[2].end.value, 4);
}

// "data.*.mix" and a key: a run file in which the key's value is a map, which none takes.
std::string with_a_map(const std::string& section, const std::string& key) {
  std::string inside = "{" + key + ": {x: 1}}", path = section;
  if (path.ends_with(".mix"))
    inside = fmt::format("[{{{}{}: {{x: 1}}}}, {{file: train.bin}}]", key == "file" ? "" : "file: train.bin, ", key);
  for (size_t dot = path.rfind('.'); dot != std::string::npos; dot = path.rfind('.')) {
    const std::string name = path.substr(dot + 1);
    inside = fmt::format("{{ {}: {} }}", name == "*" ? "a" : name, inside);
    path.resize(dot);
  }
  return path + ": " + inside;
}

// The table of keys is what the reader reads: no key is passed over, none is unknown.
TEST_F(RunFileTest, ReadsEveryKeyOfTheTable) {
  int keys = 0;
  for (const RunSection& section : run_sections())
    for (const RunKey& key : section.keys) {
      if (key.kind == RunKey::Kind::section) continue;
      ++keys;
      std::string path = section.path + "." + key.name;
      if (const size_t star = path.find('*'); star != std::string::npos) path[star] = 'a';
      const std::string said = error(with_a_map(section.path, key.name));
      EXPECT_NE(said.find("`" + path + "` must be "), std::string::npos) << path << ": " << said;
      EXPECT_EQ(said.find("unknown key"), std::string::npos) << said;
    }
  EXPECT_GE(keys, 50);
}

TEST_F(RunFileTest, OverridesChangeAndAdd) {
  const std::string text = "data: { token: {file: train.bin, type: u16} }\ntrain: { steps: 5 }\n";
  const std::string other = folder_.path("val.bin");
  const RunFile run = parse(text, {"train.steps=10", "train.lr=0.5", "data.token.file=" + other,
                                   "validation={every: 3, token: {}}", "log.watch=[a, b]", "train.steps=20"});
  EXPECT_EQ(run.train.steps.value, 20);
  EXPECT_EQ(run.train.rate.value, 0.5);
  EXPECT_EQ(run.data[0].file.value, other);
  EXPECT_EQ(run.data[0].type.value, FileType::u16);
  EXPECT_EQ(run.validation.every.value, 3);
  EXPECT_EQ(run.log.watch.size(), 2U);
}

TEST_F(RunFileTest, FilesAreRelativeToWhereTheyAreNamed) {
  EXPECT_EQ(parse("data: { a: {file: ./train.bin} }").data[0].file.value, folder_.path("train.bin"));
  // On the command line: the working directory, which has no such file.
  EXPECT_EQ(error("data: { a: {file: train.bin} }", {"data.a.file=train.bin"}),
            "`data.a.file`: there is no file `train.bin`\n"
            "  --> command line\n"
            "1 | data.a.file=train.bin\n"
            "  |             ^^^^^^^^^");
}

TEST_F(RunFileTest, EveryMistakeHasItsText) {
  const struct {
    const char *text, *message;
  } cases[] = {
      {"train:\n  stepz: 10\n",
       "unknown key `stepz` in `train`\n  --> run.yaml:2:3\n2 |   stepz: 10\n  |   ^^^^^ did you mean `steps`?"},
      {"trian: { steps: 10 }",
       "unknown key `trian`\n  --> run.yaml:1:1\n1 | trian: { steps: 10 }\n  | ^^^^^ did you mean `train`?"},
      {"train: { colour: 10 }",
       "unknown key `colour` in `train`\n  --> run.yaml:1:10\n1 | train: { colour: 10 }\n  |          ^^^^^^ known "
       "keys: steps, seed, shuffle, lr, "
       "params, names, fresh, partial, timeout, max_time, stop"},
      {"data: { a: {file: train.bin, windw: seq} }",
       "unknown key `windw` in `data.a`\n  --> run.yaml:1:30\n1 | data: { a: {file: train.bin, windw: seq} }\n"
       "  |                              ^^^^^ did you mean `window`?"},
      {"train: { steps: many }",
       "`train.steps` must be a whole number of at least 1, not `many`\n  --> run.yaml:1:17\n1 | train: { steps: many "
       "}\n  |                 ^^^^"},
      {"train: { steps: \"10\" }",
       "`train.steps` must be a whole number of at least 1, not the text \"10\"\n  --> run.yaml:1:17\n1 | train: { "
       "steps: \"10\" }\n"
       "  |                 ^^^^"},
      {"train: { steps: 0 }",
       "`train.steps` must be a whole number of at least 1, not `0`\n  --> run.yaml:1:17\n1 | train: { steps: 0 }\n  | "
       "                ^"},
      {"train: { steps: 10.5 }",
       "`train.steps` must be a whole number of at least 1, not `10.5`\n  --> run.yaml:1:17\n1 | train: { steps: 10.5 "
       "}\n"
       "  |                 ^^^^"},
      {"train: { steps: 99999999999999999999 }",
       "`train.steps` must be a whole number of at most 9223372036854775807, not `99999999999999999999`\n  --> "
       "run.yaml:1:17\n"
       "1 | train: { steps: 99999999999999999999 }\n  |                 ^^^^^^^^^^^^^^^^^^^^"},
      {"train: { steps: }",
       "`train.steps` must be a whole number of at least 1, not nothing\n  --> run.yaml:1:10\n1 | train: { steps: }\n  "
       "|          ^^^^^"},
      {"train: { steps: [1] }",
       "`train.steps` must be a whole number of at least 1, not a list\n  --> run.yaml:1:17\n1 | train: { steps: [1] "
       "}\n  |                 ^"},
      {"train: { lr: -1 }",
       "`train.lr` must be a number above 0, not `-1`\n  --> run.yaml:1:14\n1 | train: { lr: -1 }\n  |              "
       "^^"},
      {"train: { lr: nan }",
       "`train.lr` must be a number above 0, not `nan`\n  --> run.yaml:1:14\n1 | train: { lr: nan }\n  |              "
       "^^^"},
      {"train: { max_time: 12:99 }",
       "`train.max_time` must be a time such as 23:50:00, not `12:99`\n  --> run.yaml:1:20\n1 | train: { max_time: "
       "12:99 }\n"
       "  |                    ^^^^^"},
      {"Train: { steps: 10 }",
       "unknown key `Train`\n  --> run.yaml:1:1\n1 | Train: { steps: 10 }\n  | ^^^^^ did you mean `train`?"},
      {"steps: 10",
       "unknown key `steps`\n  --> run.yaml:1:1\n1 | steps: 10\n  | ^^^^^ did you mean `validation.steps` or "
       "`train.steps` or `log.trace.steps`?"},
      {"train: 10",
       "`train` must be a map of keys and values, not `10`\n  --> run.yaml:1:8\n1 | train: 10\n  |        ^^ keys: "
       "steps, seed, shuffle, lr, params, names, fresh, partial, timeout, max_time, stop"},
      {"validation: { every: 5 }\ntrain: { stop: {metric: loss} }",
       "`train.stop` does not say when\n  --> run.yaml:2:16\n2 | train: { stop: {metric: loss} }\n"
       "  |                ^ `patience: 5`: after so many evaluations"},
      {"validation: { every: 5 }\ntrain: { stop: {patience: 0} }",
       "`train.stop.patience` must be a whole number of at least 1, not `0`\n  --> run.yaml:2:27\n"
       "2 | train: { stop: {patience: 0} }\n  |                           ^"},
      {"validation: { every: 5 }\ntrain: { stop: {patience: 3, mode: least} }",
       "`train.stop.mode` must be one of min, max, not `least`\n  --> run.yaml:2:36\n"
       "2 | train: { stop: {patience: 3, mode: least} }\n  |                                    ^^^^^"},
      {"validation: { every: 5 }\ntrain: { stop: {patiance: 3, patience: 3} }",
       "unknown key `patiance` in `train.stop`\n  --> run.yaml:2:17\n"
       "2 | train: { stop: {patiance: 3, patience: 3} }\n  |                 ^^^^^^^^ did you mean `patience`?"},
      {"train: { stop: {patience: 3} }",
       "`train.stop` compares evaluations, and this run makes none\n  --> run.yaml:1:16\n"
       "1 | train: { stop: {patience: 3} }\n  |                ^ `validation: { every: 250 }` makes them"},
      {"data: { a: {file: train.bin} }\nvalidation: { steps: 1 }\ntrain: { stop: {patience: 3} }",
       "`train.stop` compares evaluations, and this run makes one, after its last step\n  --> run.yaml:3:16\n"
       "3 | train: { stop: {patience: 3} }\n  |                ^ `validation: { every: 250 }` makes them"},
      {"checkpoint: { dir: a, best: {metric: loss} }",
       "`checkpoint.best` is that of evaluations, and this run makes none\n  --> run.yaml:1:29\n"
       "1 | checkpoint: { dir: a, best: {metric: loss} }\n"
       "  |                             ^ `validation: { every: 250 }` makes them"},
      {"validation: { every: 5 }\ncheckpoint: { best: {metric: loss} }",
       "`checkpoint` does not say where\n  --> run.yaml:2:21\n2 | checkpoint: { best: {metric: loss} }\n"
       "  |                     ^ `dir: out/ckpt`, on the command line `checkpoint.dir=out/ckpt`"},
      {"- a",
       "a run file must be a map of keys and values, not a list\n  --> run.yaml:1:1\n1 | - a\n  | ^ keys: data, "
       "validation, train, checkpoint, "
       "log, output, run"},
      {"data: { a: train.bin }",
       "`data.a` must be a map of keys and values, not `train.bin`\n  --> run.yaml:1:12\n1 | data: { a: train.bin }\n"
       "  |            ^^^^^^^^^ keys: file, mix, type, tokenizer, window, pad, start, end, long, from, to, of, shift"},
      {"data: { a: {type: u16} }",
       "`data.a` says neither `file`, `mix` nor `of`\n  --> run.yaml:1:9\n1 | data: { a: {type: u16} }\n  |         ^"},
      {"data: { a: {file: nowhere.bin} }",
       "`data.a.file`: there is no file `nowhere.bin`\n  --> run.yaml:1:19\n1 | data: { a: {file: nowhere.bin} }\n  |  "
       "                 ^^^^^^^^^^^"},
      {"data: { a: {file: .} }",
       "`data.a.file`: `` is a folder\n  --> run.yaml:1:19\n1 | data: { a: {file: .} }\n  |                   ^"},
      {"data: { a: {file: train.bin, type: u61} }",
       "`data.a.type` must be one of bytes, u8, u16, i32, llm.c, idx, npy, megatron, not `u61`\n  --> run.yaml:1:36\n"
       "1 | data: { a: {file: train.bin, type: u61} }\n  |                                    ^^^ did you mean `u16`?"},
      {"data: { a: {file: train.bin, to: 0.95} }",
       "`data.a.to` must be a number of entries, or a share such as `95%`, not `0.95`\n  --> run.yaml:1:34\n"
       "1 | data: { a: {file: train.bin, to: 0.95} }\n  |                                  ^^^^"},
      {"data: { a: {file: train.bin, to: 101%} }",
       "`data.a.to` must be a number of entries, or a share such as `95%`, not `101%`\n  --> run.yaml:1:34\n"
       "1 | data: { a: {file: train.bin, to: 101%} }\n  |                                  ^^^^"},
      {"data: { a: {file: train.bin}, b: {of: c} }",
       "`data` has no input `c`\n  --> run.yaml:1:39\n1 | data: { a: {file: train.bin}, b: {of: c} }\n"
       "  |                                       ^ did you mean `a`?"},
      {"data: { a: {file: train.bin}, b: {of: c} }\nvalidation: { a: {file: train.bin} }",
       "`data` has no input `c`\n  --> run.yaml:1:39\n1 | data: { a: {file: train.bin}, b: {of: c} }\n"
       "  |                                       ^ did you mean `a`?"},
      {"data: { a: {type: u8} }\nvalidation: { every: 2 }",
       "`data.a` says neither `file`, `mix` nor `of`\n  --> run.yaml:1:9\n1 | data: { a: {type: u8} }\n  |         ^"},
      {"data: { a: {file: train.bin}, b: {of: a}, cc: {of: b} }",
       "`b` is itself of another input\n  --> run.yaml:1:52\n1 | data: { a: {file: train.bin}, b: {of: a}, cc: {of: b} "
       "}\n"
       "  |                                                    ^ did you mean `a`?"},
      {"data: { a: {file: train.bin}, b: {of: a, type: u8} }",
       "`data.b.type` stands beside `of`\n  --> run.yaml:1:48\n1 | data: { a: {file: train.bin}, b: {of: a, type: u8} "
       "}\n"
       "  |                                                ^^ `b` is read from where `a` is"},
      {"data: { a: {file: train.bin}, b: {of: a, pad: 0} }",
       "`data.b.pad` stands beside `of`\n  --> run.yaml:1:47\n1 | data: { a: {file: train.bin}, b: {of: a, pad: 0} }\n"
       "  |                                               ^ `b` is read from where `a` is"},
      {"data: { a: {file: train.bin, start: -1} }",
       "`data.a.start` must be a whole number of at least 0, not `-1`\n  --> run.yaml:1:37\n"
       "1 | data: { a: {file: train.bin, start: -1} }\n  |                                     ^^"},
      {"data: { a: {file: train.bin, pad: 0, long: cutt} }",
       "`data.a.long` must be one of skip, cut, not `cutt`\n  --> run.yaml:1:44\n"
       "1 | data: { a: {file: train.bin, pad: 0, long: cutt} }\n  |                                            ^^^^ "
       "did "
       "you mean `cut`?"},
      {"data: { a: {file: train.bin, long: cut} }",
       "`data.a.long` needs `pad`, `start` or `end`\n  --> run.yaml:1:36\n1 | data: { a: {file: train.bin, long: cut} "
       "}\n  |                                    ^^^ which make every line a sample"},
      {"data: { a: {file: train.bin, window: seq, end: 2} }",
       "`data.a.window` stands beside `pad`, `start` or `end`\n  --> run.yaml:1:38\n"
       "1 | data: { a: {file: train.bin, window: seq, end: 2} }\n  |                                      ^^^ a sample "
       "is "
       "a line or a window, not both"},
      {"data: { a: {file: train.bin, type: u16, end: 2} }",
       "`data.a.type` stands beside `pad`, `start` or `end`\n  --> run.yaml:1:36\n"
       "1 | data: { a: {file: train.bin, type: u16, end: 2} }\n  |                                    ^^^ lines are "
       "text"},
      {"data: { a: {file: train.bin, shift: 1} }",
       "`data.a.shift` needs `of`\n  --> run.yaml:1:37\n1 | data: { a: {file: train.bin, shift: 1} }\n"
       "  |                                     ^ which input is shifted?"},
      {"data: { a: {file: train.bin, window: seq} }\nvalidation: { a: {shift: 1, long: cut} }",
       "`validation.a.shift` needs `of`\n  --> run.yaml:2:26\n2 | validation: { a: {shift: 1, long: cut} }\n"
       "  |                          ^ which input is shifted?\n"
       "error: `validation.a.long` needs `pad`, `start` or `end`\n  --> run.yaml:2:35\n"
       "2 | validation: { a: {shift: 1, long: cut} }\n  |                                   ^^^ which make every "
       "line a sample"},
      {"data: { a: {file: train.bin, mix: [{file: train.bin}, {weight: 2}]} }",
       "`data.a.mix` stands beside `file`\n  --> run.yaml:1:35\n"
       "1 | data: { a: {file: train.bin, mix: [{file: train.bin}, {weight: 2}]} }\n"
       "  |                                   ^ one file, or several\n"
       "error: an entry of `data.a.mix` has no `file`\n  --> run.yaml:1:55\n"
       "1 | data: { a: {file: train.bin, mix: [{file: train.bin}, {weight: 2}]} }\n"
       "  |                                                       ^"},
      {"data: { a: {mix: [{file: train.bin}]} }",
       "`data.a.mix` must be a list of at least two files with weights, not a list\n  --> run.yaml:1:18\n"
       "1 | data: { a: {mix: [{file: train.bin}]} }\n  |                  ^"},
      {"data: { a: {mix: [{file: train.bin}, {file: train.bin}], pad: 0} }",
       "`data.a.mix` stands beside `pad`, `start` or `end`\n  --> run.yaml:1:18\n"
       "1 | data: { a: {mix: [{file: train.bin}, {file: train.bin}], pad: 0} }\n"
       "  |                  ^ files whose lines are samples are not mixed"},
      {"data: { a: {file: train.bin} }\nvalidation: { whole: true, steps: 5, a: {} }",
       "`validation` has both `whole` and `steps`\n  --> run.yaml:2:22\n2 | validation: { whole: true, steps: 5, a: {} "
       "}\n"
       "  |                      ^^^^ the whole file, or so many batches of it"},
      {"checkpoint: { every: 5 }",
       "`checkpoint` does not say where\n  --> run.yaml:1:22\n1 | checkpoint: { every: 5 }\n"
       "  |                      ^ `dir: out/ckpt`, on the command line `checkpoint.dir=out/ckpt`"},
      {"checkpoint: { dir: a, resume: nowhere }",
       "`checkpoint.resume`: there is no file or folder `nowhere`\n  --> run.yaml:1:31\n"
       "1 | checkpoint: { dir: a, resume: nowhere }\n"
       "  |                               ^^^^^^^ auto, never, or the path of a checkpoint"},
      {"checkpoint: { dir: a, file_size: 5 TB }",
       "`checkpoint.file_size` must be a number of bytes such as 5 GB, not `5 TB`\n  --> run.yaml:1:34\n"
       "1 | checkpoint: { dir: a, file_size: 5 TB }\n  |                                  ^^^^"},
      {"checkpoint: { dir: a, async: perhaps }",
       "`checkpoint.async` must be one of false, true, not `perhaps`\n  --> run.yaml:1:30\n"
       "1 | checkpoint: { dir: a, async: perhaps }\n  |                              ^^^^^^^"},
      {"train: { partial: true }",
       "`train` says how to read `params`, but not which\n  --> run.yaml:1:19\n1 | train: { partial: true }\n"
       "  |                   ^^^^ `params: PATH`"},
      {"log: { nonfinite: halt }",
       "`log.nonfinite` must be one of stop, warn, ignore, not `halt`\n  --> run.yaml:1:19\n1 | log: { nonfinite: halt "
       "}\n  "
       "|                   ^^^^"},
      {"log: { watch: wq }",
       "`log.watch` must be a list of names, not `wq`\n  --> run.yaml:1:15\n1 | log: { watch: wq }\n  |               "
       "^^"},
      {"log: { watch: [w, **.wq] }",
       "this is not YAML: the referenced anchor is not defined\n  --> run.yaml:1:19\n1 | log: { watch: [w, **.wq] }\n"
       "  |                   ^ what begins with `*` stands in quotes"},
      {"log: { jsonl: [] }",
       "`log.jsonl` must be a text, not a list\n  --> run.yaml:1:15\n1 | log: { jsonl: [] }\n  |               ^"},
      {"train: { steps: 1, steps: 2 }",
       "`steps` is given twice\n  --> run.yaml:1:20\n1 | train: { steps: 1, steps: 2 }\n  |                    ^^^^^ "
       "first on line 1"},
      {"train: { steps: 1",
       "this is not YAML: end of map flow not found\n  --> run.yaml:1:1\n1 | train: { steps: 1\n  | ^"},
      {"train: 1\n---\ntrain: 2\n",
       "one document is expected, here a second one begins\n  --> run.yaml:2:1\n2 | ---\n  | ^"},
      {",train: 1\n", "one document is expected, here a second one begins\n  --> run.yaml:1:1\n1 | ,train: 1\n  | ^"},
      {"# Größe\ntrain: { größe: 1 }",
       "unknown key `größe` in `train`\n  --> run.yaml:2:10\n2 | train: { größe: 1 }\n  |          ^^^^^ known keys: "
       "steps, seed, shuffle, lr, params, names, fresh, partial, timeout, max_time, stop"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error(text), message) << text;
}

// A program is built where its data is not; other mistakes are told there too.
TEST_F(RunFileTest, FilesMayBeElsewhere) {
  const std::string text = "data: { a: {file: nowhere.bin} }\ntrain: { params: nowhere }\n";
  const auto read = [&](const std::string& more) {
    return parse_run_file("run.yaml", text + more, folder_.path(""), {}, NamedFiles::may_lack);
  };
  EXPECT_EQ(read("log: { watch: [w] }").log.watch.size(), 1U);
  EXPECT_TRUE(error(text).starts_with("`data.a.file`: there is no file `nowhere.bin`")) << error(text);
  EXPECT_TRUE(failure_of([&] { read("log: { wach: [w] }"); }).starts_with("unknown key `wach` in `log`"));
}

TEST_F(RunFileTest, MistakesOnTheCommandLineAreShownThere) {
  const struct {
    const char *override_text, *message;
  } cases[] = {
      {"train.stepz=1",
       "unknown key `stepz` in `train`\n  --> command line\n1 | train.stepz=1\n  |       ^^^^^ did you mean `steps`?"},
      {"train.steps=abc",
       "`train.steps` must be a whole number of at least 1, not `abc`\n  --> command line\n1 | train.steps=abc\n  |    "
       "         ^^^"},
      {"train.steps=",
       "`train.steps` must be a whole number of at least 1, not nothing\n  --> command line\n1 | train.steps=\n  | "
       "^^^^^^^^^^^"},
      {"train.steps",
       "`train.steps` is not of the form key=value\n  --> command line\n1 | train.steps\n  | ^^^^^^^^^^^"},
      {"train.steps=[",
       "this is not YAML: end of sequence flow not found\n  --> command line\n1 | train.steps=[\n  |             ^"},
      {"train.steps.more=1",
       "`train.steps` must be a whole number of at least 1, not a map\n  --> command line\n1 | train.steps.more=1\n  | "
       "            ^^^^"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error("train: { steps: 1 }", {text}), message) << text;
}

TEST_F(RunFileTest, AllMistakesAreToldInOrder) {
  EXPECT_EQ(
      error("log: { evry: 1 }\ntrain:\n  steps: x\n", {"train.lr=y"}),
      "unknown key `evry` in `log`\n  --> run.yaml:1:8\n1 | log: { evry: 1 }\n  |        ^^^^ did you mean `every`?\n"
      "error: `train.steps` must be a whole number of at least 1, not `x`\n  --> run.yaml:3:10\n3 |   steps: x\n  |    "
      "      ^\n"
      "error: `train.lr` must be a number above 0, not `y`\n  --> command line\n1 | train.lr=y\n  |          ^");
}

TEST_F(RunFileTest, HostileTextsEnd) {
  std::string deep(200, '['), aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    aliases += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_NE(error(deep).find("YAML"), std::string::npos);
  EXPECT_NE(error(aliases).find("the text is nested too deeply or too large"), std::string::npos);
  EXPECT_NE(error("data: &a { b: *a }").find("--> run.yaml"), std::string::npos);
}

TEST(RunFileWords, NumbersAndTimes) {
  EXPECT_EQ(whole_number("5_000"), 5000);
  EXPECT_FALSE(whole_number("5e3"));
  EXPECT_EQ(decimal_number("3e-4"), 3e-4);
  EXPECT_FALSE(decimal_number("inf"));
  EXPECT_EQ(duration("90"), 90);
  EXPECT_EQ(duration("12:30"), 750);
  EXPECT_EQ(duration("2-01:00:00"), 2 * 86400 + 3600);
  for (const char* wrong : {"", "a", "1:2:3:4", "-5", "1:-1", "1:60"}) EXPECT_FALSE(duration(wrong)) << wrong;
  EXPECT_EQ(cut("95%")->of(4'600'001), 4'370'000);
  EXPECT_EQ(cut("33.333333%")->of(3), 0);
  EXPECT_EQ(cut("100%")->of(7), 7);
  for (const char* wrong : {"", "%", "-1", "-1%", "100.1%", "1.0000000%", "a%", "0.5"})
    EXPECT_FALSE(cut(wrong)) << wrong;
}

TEST(RunFileWords, ClosestWord) {
  const std::vector<std::string> words = {"steps", "seed", "lr", "timeout"};
  EXPECT_EQ(closest_word("setps", words), "steps");
  EXPECT_EQ(closest_word("rl", words), "lr");
  EXPECT_EQ(closest_word("tymeoot", words), "timeout");
  EXPECT_EQ(closest_word("banana", words), "");
}

}  // namespace
}  // namespace meshrt
