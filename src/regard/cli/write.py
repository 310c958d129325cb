"""`regard write`: a language model continues a text."""

from typing import Annotated

import typer

from regard.cli.app import app
from regard.cli.command import RunFolder, Seed, Threads, command
from regard.cli.console import out, typed
from regard.errors import ConfigError

Prompt = Annotated[
    str,
    typer.Argument(metavar="PROMPT", help="What to continue; may have several lines. - reads standard input."),
]
Length = Annotated[int, typer.Option("--length", min=0, help="Tokens to write (words and marks; line ends count).")]
Count = Annotated[int, typer.Option("--count", min=1, help="Texts to write, a blank line between two.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Take the likeliest token each time; draw nothing.")]
Temperature = Annotated[
    float | None, typer.Option("--temperature", help="Of the draw; below 1 the likely tokens are drawn more often.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Draw among the k likeliest.")]
TopP = Annotated[float | None, typer.Option("--top-p", help="Draw among the likeliest that sum to p.")]
Reach = Annotated[
    int | None,
    typer.Option("--reach", min=1, help="Context length of a Transformer, in tokens (default: that of its training)."),
]
Ahead = Annotated[
    int,
    typer.Option(
        "--ahead", min=0, help="With --greedy: guess so many tokens from repetitions and check them at once; same text."
    ),
]
OneLine = Annotated[bool, typer.Option("--one-line", help="End with the line.")]


@command(
    app,
    "write",
    examples="""
    regard write runs/shakespeare "ROMEO:" --length 60 --seed 1
    regard write runs/shakespeare --top-p 0.9 --count 3 --one-line
    """,
)
def write(
    run: RunFolder,
    prompt: Prompt = "",
    length: Length = 100,
    count: Count = 1,
    greedy: Greedy = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    one_line: OneLine = False,
    reach: Reach = None,
    ahead: Ahead = 0,
    seed: Seed = None,
    threads: Threads = None,
) -> None:
    """Continue a text, sampling each next token from the model's distribution.

    The same seed draws the same text, on any machine that computes the same numbers.
    """
    from regard.cli.inputs import lines_of
    from regard.tasks.core.runs import config_of

    if ahead and not greedy:
        raise ConfigError("--ahead checks its guesses against the likeliest token: give --greedy, too")
    config_of(run, "write")
    given = "\n".join(lines_of("-")) if prompt == "-" else typed(prompt).replace("\r\n", "\n").replace("\r", "\n")

    from regard.tasks.core.load import load

    texts = load(run, threads=threads).write(
        given,
        length=length,
        count=count,
        sample=not greedy,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        one_line=one_line,
        reach=reach,
        ahead=ahead,
        seed=seed or 0,
    )
    out("\n\n".join(texts))
