import io

import pytest
from rich.console import Console

from regard.errors import ConfigError
from regard.training.progress import reporter

NUMBERS = {"loss": 1.23456, "tokens_per_second": 12345.6}


def tell(style: str, **console) -> str:
    screen = io.StringIO()
    with reporter(style, Console(file=screen, width=100, **console)) as reporter_in_use:
        reporter_in_use.update(5, 0.25, 65.0, NUMBERS, line=True)
        reporter_in_use.update(6, 0.3, None, NUMBERS, line=False)
        reporter_in_use.validated(6, {"bleu": 41.5}, best=True)
        reporter_in_use.say("[bold]literal[/bold]")
        reporter_in_use.update(20, 1.0, 0.0, NUMBERS, line=False)
    return screen.getvalue()


def test_lines_are_plain_and_as_many_as_the_log_has():
    assert tell("auto") == (
        "step 5 (25%)  loss 1.235  12,346 tokens/s  1:05 left\n"
        "step 6  validation: bleu 41.5  (best so far)\n"
        "[bold]literal[/bold]\n"
    )


def test_a_terminal_gets_a_live_bar():
    screen = tell("auto", force_terminal=True)
    for part in ("step 20", "100%", "loss 1.235", "12,346 tokens/s", "0:00 left", "validation: bleu 41.5", "literal"):
        assert part in screen
    assert "\x1b[" in screen


def test_silence():
    assert tell("silent", force_terminal=True) == ""


def test_an_unknown_style_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'lines'"):
        reporter("line")
