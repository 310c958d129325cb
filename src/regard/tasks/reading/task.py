"""The task of reading: a story and a question in, the answer out, and the weights with which it was found.

There are two kinds of readers: one reads sentence by sentence and answers with one word (`stories`), the other points
at the words of the text that are the answer (`spans`).
"""

from regard.tasks.core.task import Kinds
from regard.tasks.reading.spans.task import TASK as SPANS
from regard.tasks.reading.stories.task import TASK as STORIES

TASK = Kinds({"sentences": STORIES, "span": SPANS}, default="sentences")
