"""JoeyNMT (Kreutzer, Bastings & Riezler 2019) as the other side: its own model, batch, loss and search, our weights.

It is installed beside regard by `make benchmarks`, without what it asks for and these files do not use.
"""

from types import SimpleNamespace

import torch
from joeynmt.batch import Batch
from joeynmt.decoders import RecurrentDecoder
from joeynmt.embeddings import Embeddings
from joeynmt.encoders import RecurrentEncoder
from joeynmt.model import Model
from torch import Tensor

from regard.data.translation.batches import TextBatch
from regard.models.seq2seq.recurrent import RecurrentTranslator
from regard.vocabulary import BEGIN, END, PADDING

ATTENTION = {"additive": "bahdanau", "general": "luong"}


def model_of(translator: RecurrentTranslator, smoothing: float) -> Model:
    """JoeyNMT's model of the same function: same sizes, same weights (its readout and output have no bias that counts).

    Without dropout and smoothing both give one loss, to rounding.
    """
    settings = translator.settings
    words = SimpleNamespace(
        pad_index=PADDING, bos_index=BEGIN, eos_index=END, sep_index=None, unk_index=1, specials=[], lang_tags=[]
    )
    source, target = (
        Embeddings(settings.embedding_dim, vocab_size=table.num_embeddings, padding_idx=PADDING)
        for table in (translator.embedding, translator.decoder.embedding)
    )
    encoder = RecurrentEncoder(
        settings.cell, settings.encoder_dim, settings.embedding_dim, emb_dropout=settings.dropout
    )
    decoder = RecurrentDecoder(
        settings.cell,
        settings.embedding_dim,
        settings.state_dim,
        encoder,
        ATTENTION[settings.attention],
        vocab_size=target.vocab_size,
        emb_dropout=settings.dropout,
        hidden_dropout=settings.dropout,
        input_feeding=settings.input_feeding,
    )
    model = Model(encoder, decoder, source, target, words, words)
    model.load_state_dict(weights_of(translator))
    model.loss_function = ("crossentropy", smoothing)
    return model


def weights_of(translator: RecurrentTranslator) -> dict[str, Tensor]:
    """The translator's weights by JoeyNMT's names."""
    held = {name: tensor.clone() for name, tensor in translator.state_dict().items()}
    names = {
        "src_embed.lut.weight": held["embedding.weight"],
        "trg_embed.lut.weight": held["decoder.embedding.weight"],
        "decoder.bridge_layer.weight": held["decoder.bridge.0.weight"],
        "decoder.bridge_layer.bias": held["decoder.bridge.0.bias"],
        "decoder.att_vector_layer.weight": held["decoder.readout.weight"],
        "decoder.att_vector_layer.bias": torch.zeros(len(held["decoder.readout.weight"])),
        "decoder.output_layer.weight": held["decoder.output"],
    }
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        names[f"decoder.rnn.{name}_l0"] = held[f"decoder.recurrence.each.0.{name}"]
        for direction in ("l0", "l0_reverse"):
            names[f"encoder.rnn.{name}_{direction}"] = held[f"encoder.each.0.{name}_{direction}"]
    score = "decoder.source.attention.score"
    if translator.settings.attention == "additive":
        names["decoder.attention.query_layer.weight"] = held[f"{score}.query_weight"]
        names["decoder.attention.key_layer.weight"] = held[f"{score}.key_weight"]
        names["decoder.attention.energy_layer.weight"] = held[f"{score}.vector"].unsqueeze(0)
    else:
        names["decoder.attention.key_layer.weight"] = held[f"{score}.weight"]
    return names


def batch_of(batch: TextBatch) -> Batch:
    """The same sentences as JoeyNMT holds them, longest source first."""
    targets = torch.cat([batch.target_in[:, :1], batch.target_out], dim=1)
    made = Batch(
        src=batch.source,
        src_length=batch.source_lengths,
        src_prompt_mask=None,
        trg=targets,
        trg_prompt_mask=None,
        indices=batch.index,
        device=torch.device("cpu"),
        pad_index=PADDING,
        eos_index=END,
    )
    made.sort_by_src_length()
    return made


def loss(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """The summed loss and how many words were right."""
    total, _, _, correct = model(return_type="loss", **vars(batch))
    return total, correct
