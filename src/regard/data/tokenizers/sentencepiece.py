"""A SentencePiece model that was trained elsewhere, as it is."""

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from regard.data.text.units import word_indices
from regard.data.tokenizers.base import Encoded, Tokenizer
from regard.errors import ConfigError, DataError
from regard.vocabulary import SPECIALS, UNKNOWN


class SentencePieceTokenizer(Tokenizer):
    """A trained SentencePiece model; its ids move up by four, and its own unknown id becomes the library's.

    Its own normalisation (often NFKC) applies: the text comes back as far as the model keeps it.

    Args:
        model: content of the .model file.
        lower: whether upper case is folded to lower case before the model sees the text.

    Raises:
        ConfigError: the package sentencepiece is not installed.
        DataError: the bytes are no SentencePiece model.
    """

    kind = "sentencepiece"

    def __init__(self, model: bytes, lower: bool = False) -> None:
        super().__init__(lower)
        try:
            import sentencepiece
        except ImportError as error:
            raise ConfigError(
                "tokenizer=sentencepiece needs the package sentencepiece: pip install 'regard[sentencepiece]'"
            ) from error
        self._bytes = model
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise DataError(f"this is no SentencePiece model ({error})") from error

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, lower: bool = False) -> "SentencePieceTokenizer":
        """Read a .model file.

        Raises:
            ConfigError: the package sentencepiece is not installed.
            DataError: the file cannot be read, or is no SentencePiece model.
        """
        try:
            return cls(Path(path).read_bytes(), lower)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    @classmethod
    def train(cls, texts: Iterable[str], size: int, *, lower: bool = False) -> NoReturn:
        """Refused: such a model is trained with SentencePiece itself.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("a SentencePiece model is given, not trained here; name its file (sentencepiece_model=…)")

    @classmethod
    def load(cls, folder: Path, state: dict[str, Any]) -> "SentencePieceTokenizer":
        """The tokenizer of a saved state."""
        return cls(base64.b64decode(state["model"], validate=True), state["lower"])

    def state(self) -> dict[str, Any]:
        """All that makes this tokenizer, as JSON: the .model file in base64."""
        return {"model": base64.b64encode(self._bytes).decode("ascii")}

    def __len__(self) -> int:
        return len(SPECIALS) + self._model.get_piece_size()

    def token(self, number: int) -> str:
        """What an id stands for."""
        return SPECIALS[number] if number < len(SPECIALS) else self._model.id_to_piece(number - len(SPECIALS))

    def _encode(self, text: str) -> Encoded:
        found = self._model.encode(text, out_type="offset_mapping")
        ids = [UNKNOWN if self._model.is_unknown(number) else number + len(SPECIALS) for number in found["ids"]]
        spans = found["offsets"]
        return Encoded(ids, [text[start:end] for start, end in spans], word_indices(spans, text))

    def _join(self, ids: list[int], spelling: dict[int, str]) -> str:
        tokens = [
            spelling[place] if number == UNKNOWN else self._model.id_to_piece(number - len(SPECIALS))
            for place, number in enumerate(ids)
            # A model may write the control ids of the SentencePiece model itself; they show nothing either.
            if number == UNKNOWN or not self._model.is_control(number - len(SPECIALS))
        ]
        return self._model.decode_pieces(tokens)
