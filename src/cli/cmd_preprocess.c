/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker preprocess`: JSON lines to token files. Tokenizers are Python packages, so the work is done by
 * stoker._tools.preprocess; here is its help.
 */
#include <stddef.h>

#include "cli/command.h"
#include "cli/python.h"

static const struct cli_option options[] = {
    {0, "input", "FILE...", "JSON lines; .gz and .zst too; patterns; - is standard input", NULL, NULL},
    {0, "json-keys", "KEY...", "members that hold texts (text)", NULL, NULL},
    {0, "output-prefix", "PREFIX", "writes PREFIX_KEY_document.bin and .idx", NULL, NULL},
    {0, "workers", "N", "worker processes (the CPUs that may be used)", NULL, NULL},
    {0, "find-optimal-num-workers", NULL, "try a sample with several numbers of workers, say which is best, and end",
     NULL, NULL},
    {0, "workers-to-check", "N...", "the numbers that are tried (16 32 64)", NULL, NULL},
    {0, "max-documents", "N", "lines of the sample (100000)", NULL, NULL},
    {0, "append-eod", NULL, "end every document that has a token with the end-of-document id", NULL, NULL},
    {0, "split-sentences", NULL, "one sequence a sentence; writes PREFIX_KEY_sentence", NULL, NULL},
    {0, "sentence-splitter", "KIND", "nltk or rules (nltk)", NULL, NULL},
    {0, "keep-newlines", NULL, "keep the white space between sentences, at the end of the first", NULL, NULL},
    {0, "lang", "NAME", "language of the sentence splitter (english)", NULL, NULL},
    {0, "partitions", "N", "deal the lines to N files first, in turn (1)", NULL, NULL},
    {0, "keep-sequential-samples", NULL, "deal consecutive lines to one file", NULL, NULL},
    {0, "tokenizer-type", "TYPE",
     "HuggingFaceTokenizer, GPT2BPETokenizer, SentencePieceTokenizer, ByteLevelTokenizer or NullTokenizer", NULL, NULL},
    {0, "tokenizer-model", "FILE", "tokenizer.json (or its folder), or a SentencePiece model", NULL, NULL},
    {0, "tokenizer-hf-no-include-special-tokens", NULL, "leave out what the tokenizer puts around texts", NULL, NULL},
    {0, "vocab-file", "FILE", "vocab.json of GPT2BPETokenizer", NULL, NULL},
    {0, "merge-file", "FILE", "merges.txt of GPT2BPETokenizer", NULL, NULL},
    {0, "vocab-size", "N", "vocabulary of NullTokenizer", NULL, NULL},
    {0, "eod-id", "ID", "end-of-document id (the tokenizer's)", NULL, NULL},
    {0, "whole-texts", NULL, "give the tokenizer whole texts, not pieces of them", NULL, NULL},
    {0, "on-error", "POLICY", "bad lines: raise or skip (raise)", NULL, NULL},
    {0, "restart", NULL, "begin anew, whatever an earlier run has done", NULL, NULL},
    {0, "chunk-bytes", "BYTES", "input that one part of the work holds (16 to 256 MiB)", NULL, NULL},
    {0, "cache-bytes", "BYTES", "memory of each worker for known pieces (128 MiB)", NULL, NULL},
    {0, "log-interval", "N", "documents between two lines of progress (1000)", NULL, NULL},
    {0, "progress", NULL, "lines of progress although stderr is no terminal", NULL, NULL},
    {0, "no-progress", NULL, "no lines of progress", NULL, NULL},
    {0, "json", NULL, "print the result as one JSON object", NULL, NULL},
};

int cmd_preprocess(int argc, char **argv)
{
    const struct cli_usage usage = {
        "preprocess", "--input FILE... --output-prefix PREFIX --tokenizer-model FILE [options]",
        "Turn JSON lines into token files of Megatron-LM: one document a line and key, in the order of the lines.\n"
        "A run that was interrupted goes on where it was when the command is given again.",
        options, sizeof options / sizeof options[0]};
    return cli_python_run(&usage, "preprocess", argc, argv);
}
