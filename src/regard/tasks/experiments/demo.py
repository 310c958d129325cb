"""The demonstration: the recipe of the built-in phrases, in any of their languages."""

from pathlib import Path

from regard.tasks.core.evaluation import Evaluation
from regard.tasks.core.fit import Say
from regard.tasks.experiments.ledger import Recipe, find, shipped
from regard.tasks.experiments.reproduce import Reproduced, reproduce
from regard.tasks.translation.alignment_view import alignment_view
from regard.tasks.translation.evaluation import TranslationEvaluation
from regard.tasks.translation.outputs import Translation
from regard.training.progress import Reporter
from regard.training.run.run import RunFolder
from regard.views.view import View


def recipe_to(language: str) -> Recipe:
    """The recipe from English to that language: the ledger's own, or the French one with another target."""
    name = f"demo-en-{language}"
    if name in {recipe.name for recipe in shipped()}:
        return find(name)
    recipe = find("demo-en-fr")
    config = {**recipe.config, "data": {**recipe.config["data"]}}
    config["data"]["phrases"] = {**config["data"]["phrases"], "target": language}
    return recipe.model_copy(update={"name": name, "config": config})


def demo(
    language: str,
    folder: Path,
    *,
    seed: int,
    epochs: int | None,
    threads: int | None,
    progress: str | Reporter,
    say: Say,
) -> Reproduced:
    """Train and evaluate the recipe in a new folder."""
    recipe = recipe_to(language)
    RunFolder(folder).refuse_taken()
    if epochs is not None:
        training = {**recipe.config["training"], "epochs": epochs}
        recipe = recipe.model_copy(update={"config": {**recipe.config, "training": training}})
    # Matrices this small are not worth sharing out: on a busy machine two threads mostly wait for each other.
    return reproduce(recipe, folder, seed=seed, threads=threads or 1, progress=progress, say=say)


def some_alignments(evaluation: Evaluation, count: int) -> View:
    """The alignments of some test phrases: first those that fit a terminal and change the order of their words."""
    assert isinstance(evaluation, TranslationEvaluation)
    translations = [one for one in evaluation.translations if one.alignment is not None]
    chosen = sorted(translations, key=lambda one: not _tells_much(one))[:count]
    return alignment_view([one.shown().matrix() for one in chosen])


def _tells_much(one: Translation) -> bool:
    return 5 <= len(one.source_words) <= 10 and _crosses(one.links())


def _crosses(links: list[tuple[int, int]]) -> bool:
    sources = [source for source, _ in sorted(links, key=lambda link: link[1])]
    return sources != sorted(sources)
