"""Pieces a second in greedy writing at batch 1, beside transformers' GPT-2: one model, one set of weights, in turns.

    pip install transformers
    python benchmarks/generate.py [--json] [--quick]

Weights are random. Before anything is timed both sides must write the same tokens.
"""

import argparse
import sys
from typing import Any, NamedTuple

import torch

from regard.decoding.search import search
from regard.decoding.settings import SearchSettings
from regard.layers.layout import lay_out_for_steps
from regard.models.transformer.language import TransformerLanguageModel
from regard.models.transformer.settings import TransformerLanguageSettings
from turns import in_turns, report

END = 3


class Sizes(NamedTuple):
    """Of a model, and how many tokens it reads and writes."""

    layers: int
    dim: int
    heads: int
    vocabulary: int
    prompt: int = 8
    written: int = 96


ROWS = {
    "6 x 512, GPT-2's vocabulary": Sizes(6, 512, 8, 50257),
    "6 x 512": Sizes(6, 512, 8, 8000),
    "4 x 128": Sizes(4, 128, 4, 8000),
    "4 x 128, characters": Sizes(4, 128, 4, 65),
}
TOY = {"toy": Sizes(2, 12, 3, 31, prompt=3, written=7)}


def gpt2(sizes: Sizes) -> Any:
    """GPT-2 with random weights, large enough that what it writes depends on what it read."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=sizes.layers,
        n_embd=sizes.dim,
        n_head=sizes.heads,
        vocab_size=sizes.vocabulary,
        n_positions=sizes.prompt + sizes.written,
        activation_function="gelu",  # the exact form; GPT-2's own is an approximation by tanh
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.1)
        model.transformer.wte.weight[: END + 1] = 0.0  # the marks get 0, which is never the highest: nothing ends early
    return model


def same_weights(theirs: Any, sizes: Sizes) -> TransformerLanguageModel:
    """regard's language model with the weights of theirs."""
    settings = TransformerLanguageSettings(
        dim=sizes.dim,
        heads=sizes.heads,
        layers=sizes.layers,
        position="learned",
        context=sizes.prompt + sizes.written,
        dropout=0.0,
    )
    ours = TransformerLanguageModel(settings, sizes.vocabulary).eval()
    body, blocks = theirs.transformer, list(ours.stack.blocks)
    pairs = [(ours.embedding, body.wte), (ours.stack.position, body.wpe), (ours.stack.norm, body.ln_f)]
    for block, layer in zip(blocks, body.h, strict=True):
        pairs += [(block.attention_norm, layer.ln_1), (block.feed_forward_norm, layer.ln_2)]
        pairs += [(block.attention.inputs, layer.attn.c_attn), (block.attention.output, layer.attn.c_proj)]
        pairs += [(block.feed_forward.inputs, layer.mlp.c_fc), (block.feed_forward.output, layer.mlp.c_proj)]
    with torch.no_grad():
        for mine, given in pairs:
            # Their linear layers hold the transposed weight.
            turned = type(given).__name__ == "Conv1D"
            mine.weight.copy_(given.weight.T if turned else given.weight)
            if getattr(given, "bias", None) is not None:
                mine.bias.copy_(given.bias)
    lay_out_for_steps(ours)  # as a language model's run folder is loaded
    return ours


def compare(name: str, sizes: Sizes, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    theirs = gpt2(sizes)
    ours = same_weights(theirs, sizes)
    prompt = torch.randint(END + 1, sizes.vocabulary, (1, sizes.prompt))

    def write_theirs() -> list[int]:
        written = theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=sizes.written,
            pad_token_id=0,
        )
        return list(written[0, sizes.prompt :].tolist())

    settings = SearchSettings(max_length=sizes.written)

    def write_ours() -> list[int]:
        found = search(ours, None, 1, begin=prompt, end=END, settings=settings)
        return list(found[0][0].ids)

    one, other = write_ours(), write_theirs()
    if one != other:
        raise SystemExit(f"the two models write different tokens: {one} and {other}")
    seconds = in_turns({"transformers": write_theirs, "regard": write_ours}, rounds)
    row: dict[str, Any] = {"model": name}
    for side, taken in seconds.items():
        row[f"{side} pieces/s"] = round(sizes.written / taken["processor"])
    for kind in ("processor", "clock"):
        row[f"ratio, {kind}"] = seconds["transformers"][kind] / seconds["regard"][kind]
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = TOY if options.quick else ROWS
    report([compare(name, sizes, 1 if options.quick else options.rounds) for name, sizes in rows.items()], options.json)


if __name__ == "__main__":
    sys.exit(main())
