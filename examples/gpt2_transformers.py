"""A tiny GPT-2 on a small text, stopped when it repeats 50 tokens of its training text in a row.

python examples/gpt2_transformers.py --text FILE --out gpt2        (--smoke: seconds, on a short text)
"""

import argparse
import inspect
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import twoclocks as tc
from twoclocks.integrations.transformers import MonitorCallback
from twoclocks.monitor import Verbatim

START, LENGTH = 256, 96  # tokens are the 256 bytes and a start token


def rows_of(text: str) -> torch.Tensor:
    """The text as rows of a start token and LENGTH bytes each."""
    data = torch.tensor(list(text.encode()))
    pieces = data[: len(data) // LENGTH * LENGTH].reshape(-1, LENGTH)
    return torch.cat([torch.full((len(pieces), 1), START), pieces], 1)


def texts_of(rows: torch.Tensor) -> list[str]:
    return [bytes(token for token in row if token < START).decode(errors="replace") for row in rows.tolist()]


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--text", type=Path, help="a text file; default: the source of Python's argparse")
parser.add_argument("--out", type=Path, default=Path("gpt2"))
parser.add_argument("--smoke", action="store_true", help="four rows of text and a smaller network")
asked = parser.parse_args()
text = asked.text.read_text(encoding="utf-8") if asked.text else inspect.getsource(argparse)
rows = rows_of(text)
rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
n = 4 if asked.smoke else int(0.7 * len(rows))
train, held_out = rows[:n], rows[n:]
width, layers, steps, every, samples = (64, 1, 600, 40, 32) if asked.smoke else (256, 4, 20_000, 250, 256)


def sample(model: GPT2LMHeadModel) -> list[str]:
    first = torch.full((samples, 1), START, device=model.device)
    mask = torch.ones_like(first)
    drawn = model.generate(
        first, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=LENGTH, min_new_tokens=LENGTH
    )
    return texts_of(drawn)


torch.manual_seed(0)
size = {"n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": LENGTH + 1, "vocab_size": START + 1}
model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=START, eos_token_id=None, pad_token_id=START))
how = {"save_strategy": "no", "logging_strategy": "no", "report_to": [], "disable_tqdm": True}
rate = 5e-3 if asked.smoke else 3e-4
arguments = TrainingArguments(
    str(asked.out), max_steps=steps, per_device_train_batch_size=16, learning_rate=rate, **how
)
data = [{"input_ids": row, "labels": row} for row in train] * max(1, 64 // n)
trainer = Trainer(model=model, args=arguments, train_dataset=data)
letters = Verbatim(tokens=50, split=list)  # for texts of many words, Verbatim(tokens=50) counts words
monitor = tc.Monitor(train=texts_of(train), held_out=texts_of(held_out), copies=letters)
callback = MonitorCallback(monitor, sample, every).attach(trainer)
trainer.train()
print(f"stop: {callback.decision.stop} at step {trainer.state.global_step}; {callback.decision.reason}")
asked.out.mkdir(parents=True, exist_ok=True)
monitor.gallery(asked.out / "copies.png")
monitor.report(asked.out / "page.html")
