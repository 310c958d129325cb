"""The settings of every kind of translator; `kind` says which. No torch here."""

from regard.models.settings import RecurrentSettings

TranslatorSettings = RecurrentSettings
