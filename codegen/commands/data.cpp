// data.cpp: `meshc data ACTION`: looks at data files and writes token files, without a spec.
#include "codegen/commands/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "codegen/commands/command.h"
#include "codegen/commands/write_file.h"
#include "meshrt/data.h"
#include "meshrt/run_keys.h"

namespace mesh {

namespace {

void allow(const DataOptions& options, const CLI::App& app, const std::string& name,
           const std::vector<std::string>& actions) {
  if (app.count(name) > 0 && std::ranges::find(actions, options.action) == actions.end())
    throw UsageError(fmt::format("{} does not belong to `meshc data {}`", name, options.action));
}

int run(const DataOptions& options, const CLI::App& app) {
  allow(options, app, "--output", {"tokenize", "pack", "train", "decode"});
  allow(options, app, "--type", {"tokenize", "pack"});
  allow(options, app, "--from", {"show", "pack", "decode"});
  allow(options, app, "--tokenizer", {"tokenize", "show", "decode"});
  for (const char* name : {"--documents", "--unknown"}) allow(options, app, name, {"tokenize"});
  for (const char* name : {"--end", "--no-end"}) allow(options, app, name, {"tokenize", "pack", "decode"});
  for (const char* name : {"--vocabulary", "--method"}) allow(options, app, name, {"train"});
  if (options.files.empty() != (options.action == "schema"))
    throw UsageError(fmt::format("`meshc data {}` takes {}", options.action, options.files.empty() ? "files" : "none"));
  if (options.action == "schema") {
    fmt::print("{}", meshrt::run_file_schema());
    return exit_ok;
  }
  if (options.action != "show" && options.action != "decode" && options.out.empty())
    throw UsageError(fmt::format("`meshc data {}` needs `-o FILE`", options.action));
  keep_read("-o", options.out, options.files);
  if (options.end && options.no_end) throw UsageError("--end and --no-end exclude each other");
  if (options.action == "show") return show_data(options);
  if (options.action == "tokenize") return tokenize_data(options);
  if (options.action == "pack") return pack_data(options);
  if (options.action == "decode") return decode_data(options);
  return train_data_tokenizer(options);
}

}  // namespace

Command data_command() {
  return {
      "data",
      "texts to tokens and back, pack and inspect data files; the schema of run files",
      "show FILE...       format, shape, range and first numbers of each\n"
      "tokenize TEXT...   a token file of texts: their bytes, or what a SentencePiece model (--tokenizer) makes of\n"
      "                   them, line by line; after each document the end marker\n"
      "pack FILE...       token files and arrays, each a document, as one token file\n"
      "decode FILE...     the text of token files, on stdout or in a file: bytes, or what the SentencePiece model "
      "makes\n"
      "                   of them, which keeps no line end within a document and one space of several; where a\n"
      "                   document ends, a line does\n"
      "train TEXT...      a SentencePiece model of texts\n"
      "schema             the JSON Schema of run files, for editors and scripts\n\n"
      "Token files are read by `data: { token: {file: FILE, type: TYPE, window: seq} }` in a run file: type u16 is\n"
      "nanoGPT's, llm.c and megatron (NAME.bin and NAME.idx) are those of these projects.",
      {{"meshc data show train.bin --from u16", "what is in a file"},
       {"meshc data train text.txt -o text.model --vocabulary 4000", "a vocabulary of 4000 pieces"},
       {"meshc data tokenize *.txt -o train.bin --tokenizer text.model", "each text a document, in llm.c's format"},
       {"meshc data tokenize lines.txt -o train --type megatron --documents line --end 0",
        "bytes; each line a document"},
       {"meshc data decode train.bin --tokenizer text.model -o text.txt", "its documents, a line each"},
       {"meshc data pack a.npy b.npy -o train.bin --type u16", "arrays as nanoGPT's token file"}},
      [](CLI::App& app) -> std::function<int()> {
        auto options = std::make_shared<DataOptions>();
        app.add_option("action", options->action)
            ->type_name("ACTION")
            ->required()
            ->check(CLI::IsMember({"show", "tokenize", "decode", "pack", "train", "schema"}));
        app.add_option("files", options->files)->type_name("[FILE...]");
        app.add_option("-o,--output", options->out, "the file to write")->type_name("FILE");
        app.add_option("--type", options->type, "of the file to write (default llm.c)")
            ->type_name("TYPE")
            ->check(CLI::IsMember({"u8", "u16", "i32", "llm.c", "megatron"}));
        app.add_option("--from", options->from,
                       "show, pack, decode: type of the files to read (default: by their first bytes)")
            ->type_name("TYPE")
            ->check(CLI::IsMember(meshrt::file_type_names()));
        app.add_option("--tokenizer", options->tokenizer, "a SentencePiece model (default: bytes)")->type_name("FILE");
        app.add_option("--documents", options->documents, "tokenize: what a document is (default: a file)")
            ->type_name("file|line|blank")
            ->check(CLI::IsMember({"file", "line", "blank"}));
        app.add_option("--end", options->end, "the number after each document (default: the model's end marker)")
            ->type_name("N")
            ->check(CLI::NonNegativeNumber);
        app.add_flag("--no-end", options->no_end, "nothing after a document");
        app.add_flag("--unknown", options->unknown,
                     "tokenize: the model's unknown piece for characters that it lacks (default: an error)");
        app.add_option("--vocabulary", options->vocabulary, "train: how many pieces (default 8000)")
            ->type_name("N")
            ->check(CLI::PositiveNumber);
        app.add_option("--method", options->method, "train: how pieces are chosen (default unigram)")
            ->type_name("unigram|bpe")
            ->check(CLI::IsMember({"unigram", "bpe"}));
        app.add_flag("--json", options->json, "print one JSON object");
        return [options, &app] { return run(*options, app); };
      }};
}

}  // namespace mesh
