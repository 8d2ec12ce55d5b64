"""Fine-tune a causal language model on your documents, and stop before it repeats them.

python examples/finetune_gpt2.py --model DIR --text FILE_OR_FOLDER --out finetuned       (--smoke: a tiny new model)

Two monitors watch: do free samples share long runs of tokens with the training documents, and does the model continue
training pieces verbatim when it is prompted with their first tokens? Both are compared with held-out documents.
"""

import argparse
import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

import twoclocks as tc
from twoclocks.integrations.transformers import MonitorCallback, generator
from twoclocks.monitor import Extractable, Verbatim, continue_pieces

END, PARTS = "<|endoftext|>", 20  # a single file is cut into this many documents
LEAST = 4  # documents, and pieces of each kind


@dataclass(frozen=True)
class Scale:
    length: int = 128  # tokens of a training piece
    prefix: int = 32  # tokens of a prompt
    tokens: int = 50  # that must follow verbatim
    run: int = 50  # tokens in a row that make a free sample a copy
    pieces: int = 100_000  # at most so many are trained on
    prompts: int = 256  # per look, from each of the two sets; also the number of free samples
    batch: int = 8
    rate: float = 5e-5
    steps: int = 10_000
    every: int = 100


def documents(path: Path | None) -> list[str]:
    """The files of a folder, or the parts of one file; without a path, modules of Python's library."""
    if path is None:
        names = "ast bdb calendar cmd copy csv fractions glob gzip heapq inspect locale mailbox pdb queue sched shelve"
        return [(Path(random.__file__).parent / f"{name}.py").read_text(encoding="utf-8") for name in names.split()]
    if path.is_dir():
        return [file.read_text(encoding="utf-8") for file in sorted(path.rglob("*")) if file.is_file()]
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    ends = [len(lines) * i // PARTS for i in range(PARTS + 1)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(ends)]


def tiny(texts: list[str], positions: int) -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """A small new model, and a tokenizer made from the texts themselves."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    how = {"vocab_size": 512, "special_tokens": [END], "initial_alphabet": letters, "show_progress": False}
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(**how))
    size = {"n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": positions, "vocab_size": 512}
    none = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    model = GPT2LMHeadModel(GPT2Config(**size, **none, bos_token_id=0, eos_token_id=0, pad_token_id=0))
    return model, PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END)


def pieces_of(texts: list[str], tokenizer: PreTrainedTokenizerFast, length: int) -> np.ndarray:
    """Rows of a start token and the next tokens of a document; the rest of a document is left out."""
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    rows = [[start, *one[i : i + length - 1]] for one in ids for i in range(0, len(one) - length + 2, length - 1)]
    whole = np.array(rows, dtype=np.int64).reshape(-1, length)
    return np.random.default_rng(0).permutation(np.unique(whole, axis=0))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", help="folder with a model and its tokenizer, such as save_pretrained writes")
parser.add_argument("--text", type=Path, help="a UTF-8 text file, or a folder of them: one document each")
parser.add_argument("--out", type=Path, default=Path("finetuned"))
parser.add_argument("--smoke", action="store_true", help="a tiny new model on few pieces: less than a minute")
asked = parser.parse_args()


def refuse(reason: str) -> NoReturn:
    """One line, exit status 2: for wrong arguments and texts."""
    parser.exit(2, f"finetune_gpt2: {reason}\n")


scale = Scale(48, 12, 20, 20, 128, 128, 16, 3e-3, 800, 30) if asked.smoke else Scale()
torch.manual_seed(0)
try:
    texts = sorted(set(documents(asked.text)))
except (OSError, UnicodeDecodeError) as error:
    refuse(f"--text {asked.text}: cannot be read ({error}); give UTF-8 text files")
if len(texts) < LEAST:
    refuse(f"--text {asked.text}: has {len(texts)} different documents (a file: {PARTS} parts); give {LEAST} or more")
random.Random(0).shuffle(texts)
held_out_texts, train_texts = texts[: len(texts) // 4], texts[len(texts) // 4 :]  # whole documents are held out
if asked.model:
    if not Path(asked.model).is_dir():
        refuse(f"--model {asked.model}: is no folder; give one that save_pretrained wrote")
    tokenizer = AutoTokenizer.from_pretrained(asked.model, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(asked.model, local_files_only=True)
else:
    model, tokenizer = tiny(texts, scale.length)
train = pieces_of(train_texts, tokenizer, scale.length)[: scale.pieces]
held_out = pieces_of(held_out_texts, tokenizer, scale.length)
if min(len(train), len(held_out)) < LEAST:
    found = f"{len(train)} training pieces and {len(held_out)} held-out pieces of {scale.length} tokens"
    refuse(f"--text {asked.text}: gives {found}; give more or longer documents")
prompts = np.concatenate([train[: scale.prompts], held_out[: scale.prompts]])[:, : scale.prefix + scale.tokens]
print(f"{len(train)} training pieces and {len(held_out)} held-out pieces of {scale.length} tokens")


def strings(rows: np.ndarray) -> list[str]:
    return tokenizer.batch_decode(rows, skip_special_tokens=True)


def free_samples(model: GPT2LMHeadModel) -> list[str]:
    starts = np.full((scale.prompts, 1), train[0, 0])
    samples = strings(generator(model, do_sample=True, top_k=0)(starts, scale.length - 1))
    print(runs.run_lengths(samples, strings(held_out[: scale.prompts])))
    return samples


def continued(model: GPT2LMHeadModel) -> np.ndarray:
    rows = continue_pieces(prompts, generator(model), scale.prefix)
    verbatim, n = (rows == prompts).all(1), len(train[: scale.prompts])
    print(f"continued verbatim: training {verbatim[:n].mean():.1%}, held-out {verbatim[n:].mean():.1%} of the pieces")
    return rows


runs = tc.Monitor(
    strings(train), held_out=strings(held_out), copies=Verbatim(scale.run, split=tokenizer.tokenize), policy="caution"
)
short = train[:, : prompts.shape[1]], held_out[:, : prompts.shape[1]]
extractable = Extractable(scale.prefix, scale.tokens, decode=tokenizer.decode)
extraction = tc.Monitor(short[0], held_out=short[1], copies=extractable, policy="caution")
how = {"save_strategy": "no", "logging_strategy": "no", "report_to": [], "disable_tqdm": True}
how |= {"max_steps": scale.steps, "per_device_train_batch_size": scale.batch, "learning_rate": scale.rate}
data = [{"input_ids": row, "labels": row, "attention_mask": row**0} for row in torch.as_tensor(train)]
trainer = Trainer(model=model, args=TrainingArguments(str(asked.out), **how), train_dataset=data)
trainer.remove_callback(PrinterCallback)  # the samplers print what is of interest here
callbacks = {
    name: MonitorCallback(monitor, sampler, scale.every, key=f"twoclocks/{name}").attach(trainer)
    for name, monitor, sampler in (("runs", runs, free_samples), ("extraction", extraction, continued))
}
trainer.train()
trainer.save_model(asked.out)
tokenizer.save_pretrained(asked.out)
for name, callback in callbacks.items():
    found = callback.decision
    rates = f"copies {found.copy_rate:.1%}, by chance {found.copy_chance:.1%}"
    print(f"{name}: stop: {found.stop} at step {found.step}; {rates}; {found.reason}")
    callback.watcher.monitor.gallery(asked.out / f"{name}.png")
    callback.watcher.monitor.report(asked.out / f"{name}.html")
